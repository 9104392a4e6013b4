"""What a call of Snakemake shows, and what records a run of another workflow.

Shown are a screen, lines, a plan, or Snakemake's own text. Runs of other workflows are those whose
Snakefile has not attached itself to the plugin.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import TYPE_CHECKING, Any

from unglow.core.printable import warn
from unglow.core.workflow_files import FOREIGN
from unglow.jobs.snakemake_command import only_looks, snakemake_words
from unglow.reporting.terminal.run_output import Mode, RunOutput
from unglow.workflow.snakemake_internals import command_line, hides_finished_jobs, quiet_kinds

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import TextIO

    from unglow.workflow.foreign_run import ForeignRun


def foreign_for(settings: Any, output: RunOutput | None) -> Foreign | None:
    """Return what records another workflow, attached to Snakemake's logger; None for dry runs."""
    options = command_line()
    if settings.dryrun or (options is not None and only_looks(options)):
        return None
    foreign = Foreign(output, quiet_kinds(settings))
    # before the queue in which records wait for the plugin itself
    logging.getLogger("snakemake.logging").addHandler(foreign)
    return foreign


class Foreign(logging.Handler):
    """Waits, in the thread of the run, for the first word about its jobs."""

    def __init__(self, output: RunOutput | None, quiet: frozenset[str]) -> None:
        super().__init__(logging.INFO)
        self._output, self._quiet = output, quiet
        self._has_seen_jobs = False
        self._run: ForeignRun | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Start to record, unless unglow's own Snakefile does."""
        if self._has_seen_jobs or str(getattr(record, "event", None) or "") != "run_info":
            return
        self._has_seen_jobs = True
        try:
            self._start()
        except Exception as error:  # noqa: BLE001 (a record is no reason to end a run)
            warn(f"unglow: this run is not recorded ({error!r}).")

    def stop_watching(self) -> None:
        """Before the last look of the display."""
        if self._run is not None:
            self._run.stop_watching()

    def conclude(self) -> None:
        """After it: write the report, and say where."""
        if self._run is None:
            return
        page = self._run.close()
        if page is not None and self._output is not None and "all" not in self._quiet:
            warn(self._run.describe_end())
            warn(f"Report: {page.relative_to(page.parents[2])} (open it in a browser)")

    def _start(self) -> None:
        if _is_recorded_by_itself():
            return
        from unglow.workflow.foreign_run import ForeignRun  # noqa: PLC0415

        self._run = ForeignRun(is_quiet=hides_finished_jobs(self._quiet))
        if self._output is not None:
            self._output.attach(results=FOREIGN, pairs=[], problems=[])


def _is_recorded_by_itself() -> bool:
    """Whether a Snakefile of unglow has its run recorded."""
    from unglow.telemetry.recording.run import RunRecorder  # noqa: PLC0415

    handlers = logging.getLogger("snakemake.logging").handlers
    return any(isinstance(handler, RunRecorder) for handler in handlers)


SWITCH = "UNGLOW_MONITOR"
"""Environment variable that switches the screen off if it is 0: lines are printed instead."""


def output_for(settings: Any) -> RunOutput | None:
    """Return the output for the settings of Snakemake's logger; None to leave all to Snakemake."""
    options = command_line()
    is_alone = len(settings.log_handler_settings or ()) <= 1
    looks = options is not None and only_looks(options)
    if settings.verbose or settings.debug_dag or looks or not is_alone:
        return None
    stream = sys.stdout if settings.stdout else sys.stderr
    mode = mode_for(stream, os.environ, quiet_kinds(settings), is_dry=settings.dryrun)
    output = RunOutput(stream, mode, snakemake_words(sys.argv), colours=not settings.nocolor)
    output.replace_tracebacks()
    return output


def mode_for(
    stream: TextIO, environment: Mapping[str, str], quiet: Iterable[str], *, is_dry: bool
) -> Mode:
    """Return how a run is shown.

    Parameters
    ----------
    stream
        Where to.
    environment
        Of this process.
    quiet
        What Snakemake was asked to be quiet about.
    is_dry
        Whether it is a dry run.
    """
    kinds = set(quiet)
    if is_dry:
        return Mode.PLAN
    if "all" in kinds:
        return Mode.SILENT
    if "progress" in kinds:
        return Mode.QUIET
    has_screen = stream.isatty() and environment.get("TERM", "dumb") != "dumb"
    return Mode.SCREEN if has_screen and environment.get(SWITCH) != "0" else Mode.LINES
