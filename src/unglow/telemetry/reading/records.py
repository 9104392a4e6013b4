"""Records of attempts and runs, as read from their files (docs/telemetry.md).

Units: s, MB (1e6 bytes), bytes; ``wall`` is Unix time, ``clock`` the monotonic clock of the host,
``t`` s since the start of the attempt or run.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from unglow.telemetry.jsonl import mapping, moment, number, unix_time, whole_number

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from unglow.telemetry.reading.samples import Samples

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
ENDED_WELL = "ok"
RUNNING = "running"
JobKey = tuple[str, frozenset[tuple[str, str]]]
"""Rule and wildcards of a job."""


@dataclass(frozen=True, slots=True)
class Step:
    """A part of an attempt that has a name.

    Attributes
    ----------
    begin, end
        s since its start; the end is None while, or if, it did not end.
    depth
        How many steps it is inside of.
    """

    name: str
    begin: float
    end: float | None = None
    depth: int = 0


@dataclass(frozen=True, slots=True)
class Stall:
    """At ``t``, nothing had been done for ``seconds``.

    ``reason`` says why in a few words, ``message`` and ``helps`` in sentences; empty if not known.
    When it is ``over``, the job continued at ``t``.
    """

    t: float
    seconds: float
    reason: str = ""
    message: str = ""
    helps: str = ""
    over: bool = True


@dataclass(frozen=True, slots=True)
class End:
    """How an attempt ended, in its own (or its watchdog's) words.

    Attributes
    ----------
    t, wall
        When.
    outcome
        One word (docs/telemetry.md).
    message, remedy
        A sentence, and a command to copy; empty if there is none.
    peak_mb, cpu_s, read, written, needed_mb
        None where it is not known.
    more
        All other keys, such as ``pixels``.
    """

    t: float
    wall: float
    outcome: str
    message: str = ""
    remedy: str = ""
    signal: int = 0
    code: int = 0
    peak_mb: float | None = None
    cpu_s: float | None = None
    read: float | None = None
    written: float | None = None
    needed_mb: float | None = None
    more: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_line(cls, line: Mapping[str, Any]) -> End:
        """Return what a line says."""
        measured = {name: number(line.get(name)) for name in _MEASURED}
        return cls(
            t=moment(line.get("t")),
            wall=unix_time(line.get("wall")),
            outcome=str(line.get("outcome") or "error"),
            message=str(line.get("message") or ""),
            remedy=str(line.get("remedy") or ""),
            signal=whole_number(line.get("signal")),
            code=whole_number(line.get("code")),
            **measured,
            more={k: v for k, v in line.items() if k not in cls.__dataclass_fields__},
        )


_MEASURED = ("peak_mb", "cpu_s", "read", "written", "needed_mb")


def once_per_object(compute: Callable[Concatenate[T, P], R]) -> Callable[Concatenate[T, P], R]:
    """Keep the last result of a function of an object for as long as the object exists.

    A running attempt is a new object whenever more of it has been read.
    """
    results: WeakKeyDictionary[T, tuple[object, R]] = WeakKeyDictionary()

    @functools.wraps(compute)
    def compute_once(one: T, /, *rest: P.args, **more: P.kwargs) -> R:
        key = (rest, tuple(more.items()))
        known = results.get(one)
        if known is None or known[0] != key:
            known = results[one] = (key, compute(one, *rest, **more))
        return known[1]

    return compute_once


@dataclass(frozen=True, eq=False)
class Attempt:
    """One attempt at one job.

    Attributes
    ----------
    id
        Unique in a results directory: its file, without suffix, below ``telemetry``.
    stage
        Name of the job's log: the rule, and what its jobs for one pair differ in.
    number
        1 the first time that a run of the workflow tries the job.
    run
        Id of its run; empty where Snakemake did not hand it down.
    wall, clock
        When it started; ``clock`` is NaN where that is not known.
    declared_mb, limit_s
        Memory and time that it might take; None if there was no limit.
    fields
        Everything that its first line says.
    done, of, unit
        Progress, if it was reported, and what is counted: ``shard``; empty where not reported.
    end
        None while, or if, it has not said how it ended.
    """

    id: str
    stage: str
    rule: str
    wildcards: Mapping[str, str]
    number: int
    host: str
    wall: float
    clock: float
    declared_mb: float | None
    threads: int
    limit_s: float | None
    log: str
    fields: Mapping[str, Any]
    samples: Samples
    run: str = ""
    steps: tuple[Step, ...] = ()
    stalls: tuple[Stall, ...] = ()
    done: float | None = None
    of: float | None = None
    unit: str = ""
    end: End | None = None

    @functools.cached_property
    def job(self) -> JobKey:
        """Key of its job, which no other job of a run has."""
        return self.rule, frozenset(self.wildcards.items())

    @property
    def title(self) -> str:
        """Stage and what it worked on, in words."""
        in_stage = ("role", "method", "form")
        names = (v for k, v in self.wildcards.items() if k not in in_stage)
        return " ".join((self.stage, *names))

    @property
    def complete_stalls(self) -> list[Stall]:
        """The stalls; one that is not over lasts to the end, or until the job was heard of."""
        return [
            s if s.over else replace(s, t=self.seconds, seconds=s.seconds + self.seconds - s.t)
            for s in self.stalls
        ]

    @property
    def seconds(self) -> float:
        """How long it took, or the time of its last sign of life, s."""
        if self.end is not None:
            return self.end.t
        marks = [*(s.t for s in self.stalls), *(s.end or s.begin for s in self.steps)]
        return float(max([0.0, *self.samples.t[-1:], *marks]))

    @property
    def peak_mb(self) -> float | None:
        """Largest resident set of any single process, MB, as the kernel kept it (``VmHWM``).

        The declared memory of a job is compared with this, and never with a sum over processes.
        """
        return _peak_mb(self)

    @property
    def cpu_s(self) -> float | None:
        """Time on processors, s."""
        return self._last("cpu_s", self.samples.cpu)

    @property
    def read(self) -> float | None:
        """Bytes read."""
        return self._last("read", self.samples.read)

    @property
    def written(self) -> float | None:
        """Bytes written."""
        return self._last("written", self.samples.written)

    def _last(self, name: str, column: NDArray[np.float64]) -> float | None:
        total: float | None = getattr(self.end, name) if self.end is not None else None
        sampled = column[~np.isnan(column)]
        return total if total is not None or not len(sampled) else float(sampled[-1])


@once_per_object
def _peak_mb(attempt: Attempt) -> float | None:
    sampled = attempt.samples.largest
    peaks = [] if np.isnan(sampled).all() else [float(np.nanmax(sampled))]
    at_end = attempt.end.peak_mb if attempt.end is not None else None
    return max([*peaks, *([] if at_end is None else [at_end])], default=None)


@dataclass(frozen=True, slots=True)
class Loss:
    """Report of the batch system on a lost attempt: when, a word, a sentence."""

    t: float
    outcome: str
    message: str


@dataclass(frozen=True)
class Job:
    """A job as Snakemake reports it.

    Attributes
    ----------
    events
        (t, state), the first of them ``queued``.
    losses
        How attempts ended that could not say so themselves, by their number.
    """

    jobid: int
    rule: str
    wildcards: Mapping[str, str]
    reason: str
    threads: int
    resources: Mapping[str, Any]
    local: bool
    input: tuple[str, ...]
    output: tuple[str, ...]
    log: tuple[str, ...]
    events: tuple[tuple[float, str], ...]
    losses: Mapping[int, Loss] = field(default_factory=dict)

    @functools.cached_property
    def key(self) -> JobKey:
        """Key that no other job of a run has."""
        return self.rule, frozenset(self.wildcards.items())

    @property
    def title(self) -> str:
        """Rule and what it works on, in words."""
        return " ".join((self.rule, *self.wildcards.values()))

    @property
    def state(self) -> str:
        """The last that was heard of it."""
        return self.events[-1][1]

    def when(self, *states: str) -> list[float]:
        """Return the times, s since the start of the run, at which it entered these states."""
        return [t for t, state in self.events if state in states]


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Placed:
    """An attempt in its run.

    Attributes
    ----------
    attempt, job
        The attempt, and its job as Snakemake reported it (None if it did not).
    start, end
        s since the start of the run.
    outcome
        How it ended, or ``running``.
    slot
        First of the rows (cores) that it is drawn on; it takes as many as it has threads.
    launched
        When Snakemake had started the job, s since the start of the run; None if not known.
    """

    attempt: Attempt
    job: Job | None
    start: float
    end: float
    outcome: str
    slot: int = 0
    launched: float | None = None


@dataclass(frozen=True)
class Planned:
    """A job that a run set out to do; ``after`` are the numbers of those that it waits for."""

    jobid: int
    rule: str
    wildcards: Mapping[str, str]
    after: tuple[int, ...] = ()

    @functools.cached_property
    def key(self) -> JobKey:
        """Key that no other job of a run has."""
        return self.rule, frozenset(self.wildcards.items())


@dataclass(frozen=True, slots=True)
class Message:
    """A warning or an error of Snakemake."""

    t: float
    level: str
    text: str


@dataclass(frozen=True, slots=True, eq=False)
class RunRecord:
    """File of one run of Snakemake, as far as it was read.

    Attributes
    ----------
    id
        Unique in a results directory: the name of its file.
    fields
        Everything that its first line says: ``command``, ``config``, ``packages`` and so on.
    totals, plan
        Jobs of each rule that it set out to do, and each of them, after those that it waits for;
        older records hold no plan.
    seen
        Time of the last line, s since the start of the run.
    outcome
        None while, or if, it has not said how it ended.
    """

    id: str
    host: str
    wall: float
    clock: float
    fields: Mapping[str, Any]
    totals: Mapping[str, int] = field(default_factory=dict)
    plan: tuple[Planned, ...] = ()
    jobs: tuple[Job, ...] = ()
    messages: tuple[Message, ...] = ()
    seen: float = 0.0
    outcome: str | None = None

    @property
    def cores(self) -> int:
        """Cores for all jobs together; 0 if it is not known."""
        return whole_number(self.fields.get("cores"))

    @property
    def config(self) -> Mapping[str, Any]:
        """All settings; empty where they are not recorded."""
        return mapping(self.fields.get("config"))

    @property
    def budget_mb(self) -> float | None:
        """Memory for all jobs together, MB; None if there is no limit."""
        limits = self.fields.get("resources")
        return number(limits.get("mem_mb")) if isinstance(limits, dict) else None
