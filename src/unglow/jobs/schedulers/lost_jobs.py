"""Jobs of a scheduler that ended without a word: what became of them, noted in their place.

A job whose node is lost, or which was killed together with its watchdog, leaves no note for the
next attempt. The process that runs the workflow asks the scheduler and leaves the note itself, so
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
from unglow.jobs.outcomes import LACKED_MEMORY
from unglow.jobs.resume.unfinished import Trace, trace_of
from unglow.jobs.schedulers.slurm import state_of

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
# What a declaration grows by if nothing is known but that it was too small.
_MORE = 1.5
# The end of a log in which the patterns are looked for, bytes.
_TAIL_BYTES = 4096
# How long a command of Slurm may take while Snakemake waits for it, s.
_PATIENCE_S = 10.0


@dataclass(slots=True)
class SubmittedAttempt:
    """An attempt at a job that was handed to a scheduler, and what was asked for it.

    ``record`` is its telemetry file, ``earlier`` has the names of the files of attempts that were
    there before it.
    """

    rule: str
    attempt: int
    resources: Mapping[str, Any]
    record: Path | None
    earlier: frozenset[str] = frozenset()

    @classmethod
    def of(cls, info: Mapping[str, Any]) -> SubmittedAttempt:
        """Take up a job from what Snakemake logs when it is handed over."""
        logs = [Path(str(path)) for path in info["log"] or ()]
        record = next((path for path in logs if path.suffix == ".jsonl"), None)
        resources = dict(info["resources"].items())
        number = int(resources.get("attempt", 1))
        return cls(info["rule_name"], number, resources, record, frozenset(_names(record)))

    def trace(self) -> Trace | None:
        """Return the file of this attempt; None if it has not begun."""
        new = sorted(set(_names(self.record)) - self.earlier)
        if self.record is None or not new:
            return None
        path = self.record.with_suffix("") / new[-1]
        return trace_of(path) or Trace(path, {})


@dataclass(frozen=True, slots=True)
class LostJob:
    """How an attempt ended that could not say so: its number, outcome, and a sentence."""

    attempt: int
    outcome: str
    message: str


@dataclass(frozen=True, slots=True)
class _Group:
    """Jobs that failed as one: its id, what the scheduler wrote, whether any of them had begun.

    ``stands_in`` is the job that is reported in the name of all if none that had begun says what
    went wrong: the first that had not. None if one says it.
    """

    external: str | None
    logs: Sequence[str]
    begun: bool
    stands_in: int | None


@dataclass(slots=True)
class LostJobs:
    """Follows what is handed to a scheduler; ``launcher_mb`` of a job's memory is not its own."""

    launcher_mb: int
    _attempts: dict[int, SubmittedAttempt] = field(default_factory=dict)
    _groups: dict[int, _Group] = field(default_factory=dict)

    def submitted(self, info: Mapping[str, Any]) -> None:
        """Remember a job that is handed over."""
        self._attempts[info["jobid"]] = SubmittedAttempt.of(info)

    def group_failed(self, info: Mapping[str, Any]) -> None:
        """Remember what is known of a failed group, whose jobs are all reported as failed."""
        members = tuple(member["jobid"] for member in info["job_error_info"])
        traces = {id_: self._attempts[id_].trace() for id_ in members if id_ in self._attempts}
        all_well = all(trace.outcome == "ok" for trace in traces.values() if trace is not None)
        waiting = [jobid for jobid, trace in traces.items() if trace is None]
        stands_in = waiting[0] if all_well and waiting else None
        external, logs = info.get("external_jobid"), info.get("aux_logs") or ()
        group = _Group(external, logs, begun=len(waiting) < len(traces), stands_in=stands_in)
        self._groups.update(dict.fromkeys(members, group))

    def failed(self, info: Mapping[str, Any]) -> tuple[bool, LostJob | None]:
        """Judge a job that is reported as failed, and note its loss for the next attempt.

        Returns whether it was tried at all, and what became of it if it has not said so itself.
        """
        jobid = info["jobid"]
        attempt = self._attempts.get(jobid)
        alone = _Group(None, info.get("log") or (), begun=False, stands_in=jobid)
        group = self._groups.pop(jobid, alone)
        if attempt is None:
            return True, None
        external = group.external or (info.get("aux") or {}).get("external_jobid")
        trace = attempt.trace()
        if trace is not None and trace.ended:
            return trace.outcome != "ok", None
        if trace is None and group.begun and jobid != group.stands_in:  # others came first
            return False, None
        outcome = _outcome_by_scheduler(external, group.logs)
        if outcome is None and trace is None:  # it may have ended as it was told to
            return True, None
        outcome = outcome or _KILLED
        number = "" if external is None else f" (job {external} of the batch system)"
        lost = LostJob(attempt.attempt, outcome, f"{_SENTENCES[outcome]}{number}.")
        self._note(attempt, trace, lost)
        is_reported = trace is not None or jobid == group.stands_in
        return is_reported, lost if is_reported else None

    def _note(self, attempt: SubmittedAttempt, trace: Trace | None, lost: LostJob) -> None:
        if attempt.record is None:
            return
        notes = retries.notes_path(attempt.record)
        records, log = retries.read_notes(notes)
        records = [one for one in records if one["attempt"] < attempt.attempt]
        asked_mb = float(attempt.resources.get("mem_mb", self.launcher_mb))
        entry: dict[str, Any] = {
            "rule": attempt.rule,
            "outcome": lost.outcome,
            "attempt": attempt.attempt,
            "declared_mb": asked_mb - self.launcher_mb,
            "limit_s": None if trace is None else trace.fields.get("limit_s"),
            "message": lost.message,
        }
        if lost.outcome in LACKED_MEMORY:
            # Snakemake may have been what was killed: more for both
            entry["needed_mb"] = math.ceil(asked_mb * _MORE - self.launcher_mb)
        with contextlib.suppress(OSError):
            notes.parent.mkdir(parents=True, exist_ok=True)
            retries.write_notes(notes, [*records, entry], log)


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


def _names(record: Path | None) -> list[str]:
    """Return the names of the files of a job's attempts."""
    if record is None:
        return []
    with contextlib.suppress(OSError):
        return [path.name for path in record.with_suffix("").iterdir() if path.suffix == ".jsonl"]
    return []
