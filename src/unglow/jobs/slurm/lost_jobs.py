"""Jobs of a batch system that ended without a word: what became of them, told in their place.

A job whose node is lost, or which was killed together with its watchdog, does not say how it ended.
The process that runs the workflow asks the batch system and notes it in the next file of the job,
so that the next attempt differs by cause: more memory, more time, or the same once more.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unglow.jobs import retries
from unglow.jobs.outcomes import LACKED_MEMORY
from unglow.jobs.slurm import client
from unglow.telemetry.attempt_files import Ends, attempt_file, attempt_numbers, read_ends

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# What a declaration grows by if nothing is known but that it was too small.
_MORE = 1.5
_TAIL_BYTES = 4096


@dataclass(slots=True)
class Submitted:
    """An attempt at a job that was handed to a batch system.

    Attributes
    ----------
    rule, attempt
        What it is.
    resources
        What was asked for it: ``mem_mb`` with its launcher, ``runtime`` in minutes.
    record
        Its record.
    before
        The highest number that an attempt had taken when it was handed over.
    """

    rule: str
    attempt: int
    resources: Mapping[str, Any]
    record: Path | None
    before: int = 0

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Submitted:
        """Take up a job as Snakemake tells of it when it is handed over."""
        logs = [Path(str(path)) for path in told["log"] or ()]
        record = next((path for path in logs if path.suffix == ".jsonl"), None)
        resources = dict(told["resources"].items())
        number = int(resources.get("attempt", 1))
        return cls(told["rule_name"], number, resources, record, _highest_number(record))

    def begun(self) -> Ends | None:
        """Return both ends of the file of this attempt; None if it has not begun."""
        number = _highest_number(self.record)
        if self.record is None or number <= self.before:
            return None
        with contextlib.suppress(OSError):
            return read_ends(attempt_file(retries.attempts_directory(self.record), number))
        return None


@dataclass(frozen=True, slots=True)
class Loss:
    """How an attempt ended that could not say so.

    Attributes
    ----------
    attempt
        Its number.
    outcome, message
        In a word and in a sentence.
    """

    attempt: int
    outcome: str
    message: str


@dataclass(frozen=True, slots=True)
class _Group:
    """Jobs that failed as one.

    Attributes
    ----------
    external, logs
        What the batch system calls it, and what it wrote.
    begun
        Whether any of them had.
    stands_in
        The job that is told of in the name of all if none that had begun says what went wrong: the
        first, or, where all that had begun ended well, the first that had not. None if one says it.
    """

    external: str | None
    logs: Sequence[str]
    begun: bool
    stands_in: int | None


@dataclass(slots=True)
class Losses:
    """Follows what is handed to a batch system.

    Parameters
    ----------
    launcher_mb
        Memory of a job that is not its own, MB.
    """

    launcher_mb: int
    _known: dict[int, Submitted] = field(default_factory=dict)
    _groups: dict[int, _Group] = field(default_factory=dict)

    def submitted(self, told: Mapping[str, Any]) -> None:
        """Remember a job that is handed over."""
        self._known[told["jobid"]] = Submitted.of(told)

    def group_failed(self, told: Mapping[str, Any]) -> None:
        """Remember what is known of a failed group, of whose jobs each is told to have failed."""
        members = tuple(info["jobid"] for info in told["job_error_info"])
        known = {jobid: self._known[jobid].begun() for jobid in members if jobid in self._known}
        begun = [ends for ends in known.values() if ends is not None]
        well = all(ends.end is not None and ends.end.get("outcome") == "ok" for ends in begun)
        waiting = [jobid for jobid, ends in known.items() if ends is None]
        stands_in = waiting[0] if well and waiting else None
        external, logs = told.get("external_jobid"), told.get("aux_logs") or ()
        group = _Group(external, logs, begun=bool(begun), stands_in=stands_in)
        self._groups.update(dict.fromkeys(members, group))

    def failed(self, told: Mapping[str, Any]) -> tuple[bool, Loss | None]:
        """Judge a job that is told to have failed, and note its loss for the next attempt.

        Returns
        -------
        Whether it was tried at all, and what became of it if it has not said so itself.
        """
        jobid = told["jobid"]
        job = self._known.get(jobid)
        alone = _Group(None, told.get("log") or (), begun=False, stands_in=jobid)
        group = self._groups.pop(jobid, alone)
        if job is None:
            return True, None
        external = group.external or (told.get("aux") or {}).get("external_jobid")
        ends = job.begun()
        if ends is not None and ends.end is not None:
            return ends.end.get("outcome") != "ok", None
        if ends is None and group.begun and jobid != group.stands_in:  # others came first
            return False, None
        log = "\n".join(_tail(Path(str(one))) for one in group.logs if str(one).endswith(".log"))
        outcome = client.fate(external, log)
        if outcome is None and ends is None:  # it may have ended as it was told to
            return True, None
        outcome = outcome or client.KILLED
        loss = Loss(job.attempt, outcome, client.sentence(outcome, external))
        self._note(job, ends, loss)
        tells = ends is not None or jobid == group.stands_in
        return tells, loss if tells else None

    def _note(self, job: Submitted, ends: Ends | None, loss: Loss) -> None:
        if job.record is None:
            return
        declared = float(job.resources.get("mem_mb", self.launcher_mb)) - self.launcher_mb
        entry: dict[str, Any] = {
            "rule": job.rule,
            "outcome": loss.outcome,
            "attempt": job.attempt,
            "declared_mb": declared,
            "limit_s": None if ends is None else ends.head.get("limit_s"),
            "message": loss.message,
        }
        if loss.outcome in LACKED_MEMORY:
            # its launcher may have been what was killed: more for both
            entry["needed_mb"] = math.ceil((declared + self.launcher_mb) * _MORE - self.launcher_mb)
        retries.note_loss(job.record, entry)


def _highest_number(record: Path | None) -> int:
    """Return the highest number that an attempt at a job has taken; 0 for none."""
    with contextlib.suppress(OSError):
        if record is not None:
            return max(attempt_numbers(retries.attempts_directory(record)), default=0)
    return 0


def _tail(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_bytes()[-_TAIL_BYTES:].decode(errors="replace")
    return ""
