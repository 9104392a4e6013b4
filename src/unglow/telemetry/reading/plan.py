"""The plan of a run, its progress, and how it and its attempts ended.

A job is done when its own record says so: Snakemake with ``--quiet`` does not. One without a record
(of a rule that is not unglow's) is done as soon as a job starts that waits for it.

A process that is gone was killed. Whether it is gone can only be seen on its own machine, and only
until that is restarted; of others, by the record of their run, or by their silence.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from unglow.core import process
from unglow.telemetry.jsonl import number
from unglow.telemetry.reading.records import ENDED_WELL, RUNNING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from unglow.telemetry.reading.records import Attempt, Job, RunRecord


DONE, FAILED, SUBMITTED, READY, WAITING = "done", "failed", "submitted", "ready", "waiting"
BLOCKED = "blocked"
"""States of a job, with `RUNNING`: submitted to a batch system; ready, but not started;
waiting for other jobs; blocked by one that has failed."""
_STATES = (DONE, RUNNING, FAILED, SUBMITTED, READY, WAITING, BLOCKED)
# Number of rules that are named as those that others wait for.
_NAMED = 2


@dataclass(frozen=True, slots=True)
class RuleProgress:
    """Jobs of one rule by their states, which add up to ``of``.

    Attributes
    ----------
    rule, of
        Its name, and all jobs of it that the run set out to do.
    waits_for
        The rules that most of its waiting jobs wait for; empty where the record holds no plan.
    """

    rule: str
    of: int
    done: int
    running: int
    failed: int
    submitted: int = 0
    ready: int = 0
    waiting: int = 0
    blocked: int = 0
    waits_for: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """All that is not done, in words."""
        counts = [
            (self.running, "running"),
            (self.failed, "failed"),
            (self.submitted, "submitted"),
            (self.ready, "ready"),
            (self.waiting, f"waiting for {', '.join(self.waits_for)}".removesuffix(" for ")),
            (self.blocked, "cannot start"),
        ]
        return ", ".join(f"{n} {word}" for n, word in counts if n)


def states(run: RunRecord, outcome: str, attempts: Iterable[Attempt]) -> dict[int, str]:
    """Return the state of each job of a run, by its number: those of its plan, and any others."""
    if outcome == ENDED_WELL:
        return dict.fromkeys([*(j.jobid for j in run.plan), *(j.jobid for j in run.jobs)], DONE)
    over = outcome != RUNNING
    last = {a.key: a for a in attempts}
    known = {job.jobid: _judge_reported(job, last.get(job.key), over=over) for job in run.jobs}
    # elsewhere, jobs of a group are handed over together
    started = {job.jobid for job in run.jobs if job.local}
    needed = {n for job in run.plan if job.jobid in started for n in job.after}
    known |= dict.fromkeys(needed & known.keys(), DONE)
    for job in run.plan:
        if job.jobid not in known:
            own = last.get(job.key)
            ended_well = own is not None and own.outcome == ENDED_WELL
            before = {known.get(n, DONE) for n in job.after}
            known[job.jobid] = DONE if ended_well else _judge_unreported(before)
    return known


def _judge_reported(job: Job, last: Attempt | None, *, over: bool) -> str:
    """Return the state of a job that Snakemake has reported, given the last attempt at it."""
    failures = len(job.list_times("failed"))
    # an attempt may end well, and Snakemake miss a file of it
    ended_well = last and last.outcome == ENDED_WELL and last.number > failures
    if ended_well or job.state == "finished":
        return DONE
    if job.state == "failed":
        return FAILED
    if over:
        return READY
    is_running = last is not None and last.outcome == RUNNING
    return RUNNING if is_running or job.state == "started" else SUBMITTED


def _judge_unreported(before: set[str]) -> str:
    """Return the state of a job that was not reported, from those of the jobs that it waits for."""
    if before & {FAILED, BLOCKED}:
        return BLOCKED
    return WAITING if before - {DONE} else READY


def group_by_rule(run: RunRecord, outcome: str, known: Mapping[int, str]) -> list[RuleProgress]:
    """Return the progress of each rule, in the order in which Snakemake named them.

    ``known`` are the states of its jobs (`states`).
    """
    rules = {job.jobid: job.rule for job in run.plan} | {job.jobid: job.rule for job in run.jobs}
    awaited: dict[str, Counter[str]] = {}
    place = {job.jobid: n for n, job in enumerate(run.plan)}
    for job in run.plan:
        if known[job.jobid] == WAITING:  # for the one of them that comes last
            left = (n for n in job.after if known.get(n, DONE) != DONE)
            last = max(left, key=lambda n: place.get(n, -1))
            awaited.setdefault(job.rule, Counter())[rules[last]] += 1
    counts: dict[str, Counter[str]] = {rule: Counter() for rule in run.totals}
    for jobid, state in known.items():
        counts.setdefault(rules[jobid], Counter())[state] += 1
    for rule, count in counts.items():  # of older records, some jobs are known by their number
        state = DONE if outcome == ENDED_WELL else WAITING
        count[state] += max(0, run.totals.get(rule, 0) - count.total())
    return [_progress(rule, count, awaited.get(rule, Counter())) for rule, count in counts.items()]


def _progress(rule: str, count: Counter[str], awaited: Counter[str]) -> RuleProgress:
    waits_for = tuple(name for name, _ in awaited.most_common(_NAMED))
    states = {state: count[state] for state in _STATES}
    return RuleProgress(rule, of=count.total(), waits_for=waits_for, **states)


SILENCE_S = 120.0
"""Silence, s, after which an attempt on another machine is lost once its run is over."""
KILLED, LOST = "killed", "node_lost"


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine this runs on, and its knowledge about processes.

    Attributes
    ----------
    host, boot
        Its name, and the name of the time since it was started.
    now
        Unix time, s.
    ending
        How the run ends that asks, if one does: its file says so only after that.
    """

    host: str = field(default_factory=process.host)
    boot: str = field(default_factory=process.boot_id)
    now: float = field(default_factory=time.time)
    ending: str | None = None
    _seen: dict[str, bool | None] = field(default_factory=dict, compare=False, repr=False)

    def runs_here(self, run: RunRecord) -> bool:
        """Whether it is this very process that runs it."""
        return run.fields.get("pid") == os.getpid() and self.lives(run.fields) is True

    def lives(self, fields: Mapping[str, Any]) -> bool | None:
        """Whether the process that wrote a first line lives; None if it cannot be seen from here.

        Parameters
        ----------
        fields
            With ``host``, ``boot``, ``pid`` and ``started``.
        """
        if (known := self._seen.get(_process_of(fields))) is not None:
            return known
        if fields.get("host") != self.host:
            return None
        pid, boot = fields.get("pid"), fields.get("boot")
        if boot != self.boot or not isinstance(pid, int):
            return False
        return process.is_running(pid, fields.get("started"))

    def finds_gone(self, records: Iterable[Mapping[str, Any]]) -> bool:
        """Look for the processes of first lines; return whether one is newly seen to be gone.

        Until the next look `lives` answers what was seen: only what is read after a process has
        gone is all that it wrote.
        """
        alive = {_process_of(fields): fields for fields in records}
        alive = {key: fields for key, fields in alive.items() if self._seen.get(key) is not False}
        for key, fields in alive.items():
            self._seen[key] = None
            self._seen[key] = self.lives(fields)
        return any(self._seen[key] is False for key in alive)


def _process_of(fields: Mapping[str, Any]) -> str:
    return repr([fields.get(key) for key in ("host", "boot", "pid", "started")])


def outcome_of_run(run: RunRecord, machine: Machine) -> str:
    """Return how a run ended, or ``running`` or ``killed``."""
    if run.outcome is not None:
        return run.outcome
    if machine.ending is not None and machine.runs_here(run):
        return machine.ending
    lives = machine.lives(run.fields)
    if lives is None:  # on another machine: as long as it was heard of lately
        lives = machine.now - (run.wall + run.seen) < SILENCE_S
    return RUNNING if lives else KILLED


def outcome_of_attempt(
    attempt: Attempt, run: tuple[RunRecord, str] | None, job: Job | None, machine: Machine
) -> str:
    """Return how an attempt ended, or ``running``, ``killed`` or ``node_lost``.

    Parameters
    ----------
    attempt, job
        The attempt, and its job as Snakemake reported it.
    run
        The run that it belongs to, and its outcome; None if it is not known.
    machine
        Where this is asked.
    """
    if attempt.ending is not None:
        return attempt.ending.outcome
    if job is not None and attempt.number in job.losses:
        return job.losses[attempt.number].outcome
    lives = machine.lives(attempt.fields)
    if lives:
        return RUNNING
    if lives is not None:
        return KILLED if attempt.fields.get("boot") == machine.boot else LOST
    silent = machine.now - (attempt.wall + attempt.seconds) >= SILENCE_S
    if run is None:
        return LOST if silent else RUNNING
    started = attempt.wall - run[0].wall
    failed = job is not None and any(t >= started for t in job.list_times("failed"))
    over = run[1] != RUNNING and (silent or run[0].outcome is not None)
    return LOST if failed or over else RUNNING


def boots(fields: Mapping[str, Any]) -> tuple[str, str]:
    """Return what has to be the same for two monotonic clocks to be one."""
    return str(fields.get("host")), str(fields.get("boot"))


def machine_mb(fields: Mapping[str, Any]) -> float | None:
    """Return the memory of the machine (or the container) of a first line, MB."""
    limits = [number(fields.get(key)) for key in ("machine_mb", "cgroup_mb")]
    return min((mb for mb in limits if mb), default=None)
