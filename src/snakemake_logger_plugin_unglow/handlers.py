"""What a call of Snakemake shows, and what records a run of another workflow.

Shown are a screen, lines, a plan, or Snakemake's own text. Runs of other workflows are those whose
Snakefile has not attached itself to the plugin. Snakemake gives no logger the workflow; it is found
where it is executed, when its jobs are known. The record goes to `OWN` in the working directory.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import TYPE_CHECKING, Any

from unglow.core.printable import PREFLIGHT, warn
from unglow.core.rounding import duration
from unglow.core.workflow_files import OWN
from unglow.jobs.snakemake_command import only_looks, snakemake_words
from unglow.monitor.terminal.run_output import Mode, RunOutput
from unglow.workflow.job_graph import list_planned
from unglow.workflow.snakemake_internals import (
    describe_run,
    hides_finished_jobs,
    quiet_kinds,
    workflow_at_work,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path
    from typing import TextIO

    from unglow.monitor.outside.recorder import OutsideRecorder
    from unglow.telemetry.recording.run import RunRecorder


def foreign_for(settings: Any, output: RunOutput | None) -> Foreign | None:
    """Return what records another workflow, attached to Snakemake's logger; None for dry runs."""
    if settings.dryrun or only_looks(sys.argv):
        return None
    foreign = Foreign(output, quiet_kinds(settings))
    # before the queue in which records wait for the plugin itself
    logging.getLogger("snakemake.logging").addHandler(foreign)
    return foreign


class Foreign(logging.Handler):
    """Waits, in the thread of the run, for the first word about its jobs, then records the run."""

    def __init__(self, output: RunOutput | None, quiet: frozenset[str]) -> None:
        super().__init__(logging.INFO)
        self._output, self._quiet = output, quiet
        self._has_seen_jobs = False
        self._run: RunRecorder | None = None
        self._outside: OutsideRecorder | None = None

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
        """End what is recorded of jobs, before the last look of the display."""
        if self._outside is not None:
            self._outside.close()

    def conclude(self) -> None:
        """After it: write the report, and say where."""
        if self._run is None:
            return
        from unglow.pages.report.report import write_report  # loads numpy

        ending = self._run.find_outcome()
        self._run.close()
        place = self._run.telemetry.parent
        if not (self._run.telemetry / "runs" / f"{self._run.run_id}.jsonl").is_file():
            return
        page = write_report(place, ending=ending)
        if self._output is not None and "all" not in self._quiet:
            warn(_describe_end(place))
            warn(f"Report: {page.relative_to(page.parents[1])} (open it in a browser)")

    def _start(self) -> None:
        """Record the run that this thread executes, unless a Snakefile of unglow does."""
        from unglow.monitor.outside.recorder import OutsideRecorder
        from unglow.telemetry.attempt_files import RUNS, start_run
        from unglow.telemetry.recording.run import RunRecorder

        logger = logging.getLogger("snakemake.logging")
        if any(isinstance(handler, RunRecorder) for handler in logger.handlers):
            return
        workflow = workflow_at_work()
        run = RunRecorder(
            OWN.absolute() / "telemetry" / RUNS,
            start_run(),
            lambda: describe_run(workflow, str(OWN)) | {"config": dict(workflow.config)},
            lambda: list_planned(workflow, run.is_recorded),
        )
        self._run = run
        self._outside = OutsideRecorder(run, is_quiet=hides_finished_jobs(self._quiet))
        logger.addHandler(self._outside)  # which is closed first
        logger.addHandler(run)
        if self._output is not None:
            self._output.attach(results=OWN, pairs=[], problems=[])


def _describe_end(place: Path) -> str:
    """Return how many jobs of the last run are done, and how long that took."""
    from unglow.results.runs import Runs  # loads numpy

    last = Runs.read(place).last
    if last is None:
        return ""
    failed = sum(rule.failed for rule in last.rules)
    words = f", {failed} failed" if failed else ""
    return f"{last.done} of {last.of} jobs done in {duration(last.seconds)}{words}."


SWITCH = "UNGLOW_MONITOR"
"""Environment variable that switches the screen off if it is 0: lines are printed instead."""


def output_for(settings: Any) -> RunOutput | None:
    """Return the output for the settings of Snakemake's logger; None to leave all to Snakemake."""
    is_alone = len(settings.log_handler_settings or ()) <= 1
    if settings.verbose or settings.debug_dag or only_looks(sys.argv) or not is_alone:
        return None
    is_record = os.environ.get(PREFLIGHT) == "json"  # which is printed alone
    stream = sys.stdout if settings.stdout and not is_record else sys.stderr
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
    if environment.get(PREFLIGHT) == "json":
        return Mode.QUIET
    if is_dry:
        return Mode.PLAN
    if "all" in kinds:
        return Mode.SILENT
    if "progress" in kinds:
        return Mode.QUIET
    has_screen = stream.isatty() and environment.get("TERM", "dumb") != "dumb"
    return Mode.SCREEN if has_screen and environment.get(SWITCH) != "0" else Mode.LINES
