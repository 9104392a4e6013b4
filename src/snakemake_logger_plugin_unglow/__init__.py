"""``snakemake --logger unglow``: what Snakemake prints, in the words of unglow (docs/running.md).

Every Snakemake of the environment imports this module, unglow's or not, so it loads nothing; what
a run shows is in `unglow.monitor.terminal.run_output`.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from snakemake_interface_logger_plugins.base import LogHandlerBase

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Iterator

    from snakemake_logger_plugin_unglow.handlers import Foreign
    from unglow.monitor.terminal.run_output import RunOutput

__all__ = ["LogHandler"]


@contextlib.contextmanager
def _report_to(fail: Callable[[Exception], None]) -> Iterator[None]:
    """Let no exception out of a block; a function is called with it."""
    try:
        yield
    except Exception as error:  # noqa: BLE001
        fail(error)


class LogHandler(LogHandlerBase):
    """Shows a run of unglow; Snakemake's own text where that was asked for, or nothing else helps.

    Snakemake calls `emit` in a thread of its own, which an exception would end: none gets out.
    """

    _output: RunOutput | None = None
    _foreign: Foreign | None = None
    _uses_own_text = False

    def __post_init__(self) -> None:
        """Choose what is shown."""
        with _report_to(self._fail):  # Snakemake prints its own text then
            from snakemake_logger_plugin_unglow.handlers import output_for

            self._output = output_for(self.common_settings)
        with _report_to(self._fail_to_record):
            from snakemake_logger_plugin_unglow.handlers import foreign_for

            self._foreign = foreign_for(self.common_settings, self._output)

    def attach(self, **facts: Any) -> None:
        """Take facts about the batch from the Snakefile (`RunOutput.attach`)."""
        with _report_to(self._fail):
            if self._output is not None:
                self._output.attach(**facts)

    def emit(self, record: logging.LogRecord) -> None:
        """Show what is to be seen of a record."""
        if self._output is None:
            return
        with _report_to(self._fail):
            if not self._uses_own_text and self._output.understands(record):
                self._output.show_record(record)
                return
        self._print(record)

    def close(self) -> None:
        """Show how the run ended, and give the terminal back."""
        output, self._output = self._output, None
        foreign, self._foreign = self._foreign, None
        if foreign is not None:
            with _report_to(self._fail_to_record):
                foreign.stop_watching()
        if output is not None:
            with _report_to(self._fail):
                output.close()
        if foreign is not None:
            with _report_to(self._fail_to_record):
                foreign.conclude()
        super().close()

    def _print(self, record: logging.LogRecord) -> None:
        """Print a record as Snakemake does."""
        from unglow.core.printable import warn

        self._uses_own_text = True
        try:
            text = self.format(record)
        except Exception:  # noqa: BLE001
            text = str(record.msg)
        if text:
            warn(text)

    def _fail(self, error: Exception) -> None:
        from unglow.core.printable import warn

        if not self._uses_own_text:
            warn(f"unglow: the display failed ({error!r}); Snakemake's own text follows.")
        self._uses_own_text = True

    @staticmethod
    def _fail_to_record(error: Exception) -> None:
        from unglow.core.printable import warn

        warn(f"unglow: the record of this run is not complete ({error!r}).")

    @property
    def writes_to_stream(self) -> bool:
        """Whether Snakemake prints nothing itself."""
        return self._output is not None

    @property
    def writes_to_file(self) -> bool:
        """Whether it is a log file: no, Snakemake writes its own."""
        return False

    @property
    def has_filter(self) -> bool:
        """Whether it wants all records, whatever Snakemake is to be quiet about."""
        return True

    @property
    def has_formatter(self) -> bool:
        """Whether it has a formatter of its own: no, for `_print`."""
        return False

    @property
    def needs_rulegraph(self) -> bool:
        """Whether it wants the graph of the rules."""
        return False
