"""``snakemake --logger unglow``: what Snakemake prints, in the words of unglow (docs/monitor.md).

Every Snakemake of the environment imports this module, unglow's or not, so it loads nothing; what
a run shows is in `unglow.reporting.terminal.run_output`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from snakemake_interface_logger_plugins.base import LogHandlerBase

if TYPE_CHECKING:
    import logging

    from snakemake_logger_plugin_unglow.handlers import Foreign
    from unglow.reporting.terminal.run_output import RunOutput

__all__ = ["LogHandler"]


class LogHandler(LogHandlerBase):
    """Shows a run of unglow; Snakemake's own text where that was asked for, or nothing else helps.

    Snakemake calls `emit` in a thread of its own, which an exception would end: none gets out.
    """

    _output: RunOutput | None = None
    _foreign: Foreign | None = None
    _uses_own_text = False

    def __post_init__(self) -> None:
        """Choose what is shown."""
        try:
            from snakemake_logger_plugin_unglow.handlers import output_for  # noqa: PLC0415

            self._output = output_for(self.common_settings)
        except Exception as error:  # noqa: BLE001 (Snakemake prints its own text then)
            self._fail(error)
        try:
            from snakemake_logger_plugin_unglow.handlers import foreign_for  # noqa: PLC0415

            self._foreign = foreign_for(self.common_settings, self._output)
        except Exception as error:  # noqa: BLE001
            self._fail_to_record(error)

    def attach(self, **facts: Any) -> None:
        """Take facts about the batch from the Snakefile (`RunOutput.attach`)."""
        try:
            if self._output is not None:
                self._output.attach(**facts)
        except Exception as error:  # noqa: BLE001
            self._fail(error)

    def emit(self, record: logging.LogRecord) -> None:
        """Show what is to be seen of a record."""
        if self._output is None:
            return
        try:
            if not self._uses_own_text and self._output.understands(record):
                self._output.take(record)
                return
        except Exception as error:  # noqa: BLE001
            self._fail(error)
        self._print(record)

    def close(self) -> None:
        """Show how the run ended, and give the terminal back."""
        output, self._output = self._output, None
        foreign, self._foreign = self._foreign, None
        try:
            if foreign is not None:
                foreign.stop_watching()
        except Exception as error:  # noqa: BLE001
            self._fail_to_record(error)
        try:
            if output is not None:
                output.close()
        except Exception as error:  # noqa: BLE001
            self._fail(error)
        try:
            if foreign is not None:
                foreign.conclude()
        except Exception as error:  # noqa: BLE001
            self._fail_to_record(error)
        super().close()

    def _print(self, record: logging.LogRecord) -> None:
        """Print a record as Snakemake does."""
        from unglow.core.printable import warn  # noqa: PLC0415

        self._uses_own_text = True
        try:
            text = self.format(record)
        except Exception:  # noqa: BLE001
            text = str(record.msg)
        if text:
            warn(text)

    def _fail(self, error: Exception) -> None:
        from unglow.core.printable import warn  # noqa: PLC0415

        if not self._uses_own_text:
            warn(f"unglow: the display failed ({error!r}); Snakemake's own text follows.")
        self._uses_own_text = True

    @staticmethod
    def _fail_to_record(error: Exception) -> None:
        from unglow.core.printable import warn  # noqa: PLC0415

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
