"""Jobs of a scheduler that ended without a word: what became of them, noted in their place.

A job whose node is lost, or which was killed together with its watchdog, does not say how it ended.
The process that runs the workflow asks the scheduler and notes it in the next file of the job, so
that the next attempt differs by cause: more memory, more time, or the same once more.
"""

from __future__ import annotations

import contextlib
import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unglow.core.files import tail
from unglow.jobs import retries
from unglow.jobs.outcomes import LACKED_MEMORY, MORE
from unglow.jobs.schedulers import state_of
from unglow.telemetry.attempt_files import Ends, attempt_file, last_number, read_ends

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_OOM_KILLED, _TIMEOUT, _LOST, _KILLED = "oom_killed", "timeout", "node_lost", "killed"
# States of Slurm that a job ends with, but for those that it can report itself.
_OUTCOMES = {
    "OUT_OF_MEMORY": _OOM_KILLED,
    "TIMEOUT": _TIMEOUT,
    "DEADLINE": _TIMEOUT,
    "NODE_FAIL": _LOST,
    "BOOT_FAIL": _LOST,
    "PREEMPTED": _KILLED,
    "CANCELLED": _KILLED,
}
# What Slurm writes into the log of a job that is not to go on.
_LOG_PATTERNS = (
    (re.compile(r"oom[-_ ]kill|Out Of Memory", re.IGNORECASE), _OOM_KILLED),
    (re.compile(r"DUE TO TIME LIMIT"), _TIMEOUT),
    (re.compile(r"DUE TO NODE FAILURE"), _LOST),
    (re.compile(r"DUE TO PREEMPTION|CANCELLED AT"), _KILLED),
)
_SENTENCES = {
    _OOM_KILLED: "It was killed on its node because it took more memory than it had asked for",
    _TIMEOUT: "It was ended by the batch system because its time was over",
    _LOST: "Its node does not answer any more",
    _KILLED: "It was cancelled or preempted by the batch system",
}
# The end of a log in which the patterns are looked for, bytes.
_TAIL_BYTES = 4096
# How long a command of Slurm may take while Snakemake waits for it, s.
_PATIENCE_S = 10.0


@dataclass(slots=True)
class SubmittedAttempt:
    """An attempt at a job that was handed to a scheduler, and what was asked for it.

    ``record`` is its record, ``earlier`` the highest number that an attempt had taken before it.
    """

    rule: str
    attempt: int
    resources: Mapping[str, Any]
    record: Path | None
    earlier: int = 0

    @classmethod
    def from_job(cls, info: Mapping[str, Any]) -> SubmittedAttempt:
        """Take up a job from what Snakemake logs when it is handed over."""
        logs = [Path(str(path)) for path in info["log"] or ()]
        record = next((path for path in logs if path.suffix == ".jsonl"), None)
        resources = dict(info["resources"].items())
        number = int(resources.get("attempt", 1))
        return cls(info["rule_name"], number, resources, record, _highest_number(record))

    def ends(self) -> Ends | None:
        """Return both ends of the file of this attempt; None if it has not started."""
        number = _highest_number(self.record)
        if self.record is None or number <= self.earlier:
            return None
        with contextlib.suppress(OSError):
            return read_ends(attempt_file(retries.attempts_directory(self.record), number))
        return None


@dataclass(frozen=True, slots=True)
class LostJob:
    """How an attempt ended that could not say so: its number, outcome, and a sentence."""

    attempt: int
    outcome: str
    message: str


@dataclass(frozen=True, slots=True)
class _Group:
    """Jobs that failed as one: its id, what the scheduler wrote, whether any of them had started.

    ``stands_in`` is the job that is reported in the name of all if none that had started says what
    went wrong: the first that had not. None if one says it.
    """

    external: str | None
    logs: Sequence[str]
    has_started: bool
    stands_in: int | None


@dataclass(slots=True)
class LostJobs:
    """Follows what is handed to a scheduler; ``launcher_mb`` of a job's memory is not its own."""

    launcher_mb: int
    _attempts: dict[int, SubmittedAttempt] = field(default_factory=dict)
    _groups: dict[int, _Group] = field(default_factory=dict)

    def add_job(self, info: Mapping[str, Any]) -> None:
        """Remember a job that is handed over."""
        self._attempts[info["jobid"]] = SubmittedAttempt.from_job(info)

    def add_failed_group(self, info: Mapping[str, Any]) -> None:
        """Remember what is known of a failed group, whose jobs are all reported as failed."""
        members = tuple(member["jobid"] for member in info["job_error_info"])
        known = {id_: self._attempts[id_].ends() for id_ in members if id_ in self._attempts}
        started = [ends for ends in known.values() if ends is not None]
        all_well = all(ends.end is not None and ends.end.get("outcome") == "ok" for ends in started)
        waiting = [jobid for jobid, ends in known.items() if ends is None]
        stands_in = waiting[0] if all_well and waiting else None
        external, logs = info.get("external_jobid"), info.get("aux_logs") or ()
        group = _Group(external, logs, has_started=bool(started), stands_in=stands_in)
        self._groups.update(dict.fromkeys(members, group))

    def judge_failed(self, info: Mapping[str, Any]) -> tuple[bool, LostJob | None]:
        """Judge a job that is reported as failed, and note its loss for the next attempt.

        Returns whether it was tried at all, and what became of it if it has not said so itself.
        """
        jobid = info["jobid"]
        attempt = self._attempts.get(jobid)
        alone = _Group(None, info.get("log") or (), has_started=False, stands_in=jobid)
        group = self._groups.pop(jobid, alone)
        if attempt is None:
            return True, None
        external = group.external or (info.get("aux") or {}).get("external_jobid")
        ends = attempt.ends()
        if ends is not None and ends.end is not None:
            return ends.end.get("outcome") != "ok", None
        if ends is None and group.has_started and jobid != group.stands_in:  # others came first
            return False, None
        outcome = _outcome_by_scheduler(external, group.logs)
        if outcome is None and ends is None:  # it may have ended because it was asked to
            return True, None
        outcome = outcome or _KILLED
        number = "" if external is None else f" (job {external} of the batch system)"
        lost = LostJob(attempt.attempt, outcome, f"{_SENTENCES[outcome]}{number}.")
        self._note(attempt, ends, lost)
        is_reported = ends is not None or jobid == group.stands_in
        return is_reported, lost if is_reported else None

    def _note(self, attempt: SubmittedAttempt, ends: Ends | None, lost: LostJob) -> None:
        if attempt.record is None:
            return
        asked_mb = float(attempt.resources.get("mem_mb", self.launcher_mb))
        entry: dict[str, Any] = {
            "rule": attempt.rule,
            "outcome": lost.outcome,
            "attempt": attempt.attempt,
            "declared_mb": asked_mb - self.launcher_mb,
            "limit_s": None if ends is None else ends.head.get("limit_s"),
            "message": lost.message,
        }
        if lost.outcome in LACKED_MEMORY:
            # Snakemake may have been what was killed: more for both
            entry["needed_mb"] = math.ceil(asked_mb * MORE - self.launcher_mb)
        retries.note_loss(attempt.record, entry)


def _outcome_by_scheduler(job_id: str | None, logs: Sequence[str]) -> str | None:
    """Return how the scheduler ended a job, by its state or its log; None if neither says so."""
    if job_id is not None and job_id.isdigit():
        state = state_of(job_id, _PATIENCE_S)
        if state in _OUTCOMES:
            return _OUTCOMES[state]
    text = ""
    for log in logs:
        if str(log).endswith(".log"):
            with contextlib.suppress(OSError):
                text += tail(Path(str(log)), _TAIL_BYTES) + "\n"
    return next((outcome for pattern, outcome in _LOG_PATTERNS if pattern.search(text)), None)


def _highest_number(record: Path | None) -> int:
    """Return the highest number that an attempt at a job has taken; 0 for none."""
    with contextlib.suppress(OSError):
        if record is not None:
            return last_number(retries.attempts_directory(record))
    return 0
