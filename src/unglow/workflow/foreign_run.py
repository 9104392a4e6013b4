"""Records runs of other workflows, which ``snakemake --logger unglow`` shows as it does unglow's.

Snakemake gives no logger the workflow; it is found where it is executed, when its jobs are known.
The record goes to `FOREIGN` in the working directory, which Snakemake keeps for itself: whoever
publishes results leaves it out already.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from unglow.core.rounding import duration
from unglow.core.workflow_files import FOREIGN
from unglow.jobs.outside.recorder import OutsideRecorder
from unglow.telemetry.attempt_files import RUNS, start_run
from unglow.telemetry.recording.run import RunRecorder
from unglow.workflow.snakemake_internals import describe_run, planned_jobs, workflow_at_work

if TYPE_CHECKING:
    from pathlib import Path


class ForeignRun:
    """Records the run that this thread executes, until it is closed.

    Parameters
    ----------
    is_quiet
        Whether Snakemake does not say that jobs have finished.

    Attributes
    ----------
    place
        The directory of the record, as `unglow report` takes it.
    """

    def __init__(self, *, is_quiet: bool) -> None:
        workflow = workflow_at_work()
        self.place = FOREIGN.absolute()
        self._run = RunRecorder(
            self.place / "telemetry" / RUNS,
            start_run(),
            lambda: describe_run(workflow, str(FOREIGN)) | {"config": dict(workflow.config)},
            lambda: planned_jobs(workflow, self._run.is_recorded),
        )
        self._outside = OutsideRecorder(self._run, is_quiet=is_quiet)
        logger = logging.getLogger("snakemake.logging")
        logger.addHandler(self._outside)  # which is closed first
        logger.addHandler(self._run)

    def stop_watching(self) -> None:
        """End what is recorded of jobs, before anybody looks for the last time."""
        self._outside.close()

    def close(self) -> Path | None:
        """End the record; return the report of it, or None if it cannot be written."""
        from unglow.reporting.html.report import write_report  # noqa: PLC0415 (loads numpy)

        ending = self._run.find_outcome()
        self._run.close()
        if not (self.place / "telemetry" / RUNS / f"{self._run.run_id}.jsonl").is_file():
            return None
        return write_report(self.place, ending=ending)

    def describe_end(self) -> str:
        """Return how many of its jobs are done, and how long that took."""
        from unglow.reporting.runs import Runs  # noqa: PLC0415 (loads numpy)

        last = Runs.read(self.place).last
        if last is None:
            return ""
        failed = sum(rule.failed for rule in last.rules)
        words = f", {failed} failed" if failed else ""
        return f"{last.done} of {last.of} jobs done in {duration(last.seconds)}{words}."
