"""Records of attempts and runs, as read from their files (docs/telemetry.md).

Units: s, MB (1e6 bytes), bytes; ``wall`` is Unix time, ``clock`` the monotonic clock of the host,
``t`` s since the start of the attempt or run.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from unglow.telemetry.jsonl import (
    COLUMNS,
    LONGEST_S,
    MOST,
    mapping,
    number,
    read_as,
    text,
    whole_number,
)
from unglow.telemetry.speedscope import SUFFIX as PROFILE
from unglow.telemetry.speedscope import read_profile

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from unglow.telemetry.speedscope import Stack

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
ENDED_WELL = "ok"
RUNNING = "running"
JobKey = tuple[str, frozenset[tuple[str, str]]]
"""Rule and wildcards of a job."""


NUMBERS = tuple(name for name in COLUMNS if name != "state")
"""Columns of samples that are numbers."""
_ROW = np.dtype([(name, "<U2" if name == "state" else "f8") for name in COLUMNS])
ROUNDED_MB = 0.05
"""Samples are rounded more than peaks: what differs less is the same, MB."""
MOST_SAMPLES = 4096
"""An attempt of more than twice as many samples (68 minutes) is thinned out as it is read."""
# CPU use is the mean over this time, s.
_CPU_OVER_S = 2.0


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Resources that a process tree took, at n times; NaN where not measured.

    Attributes
    ----------
    t
        s since its start, (n,) float64 like all but ``state``.
    rss, pss, peak, available
        MB: resident, proportional share, largest so far, what the machine had left.
    cpu, read, written
        s and bytes since its start.
    threads, processes
        How many there were.
    file, shmem, swap
        Parts of memory, MB: mapped files, shared memory, swapped out (docs/telemetry.md).
    runnable
        Threads that ran or could run; looked up once a second.
    state
        (n,) str: R, S, D and so on, as the kernel says.
    """

    rows: NDArray[np.void]

    def __getattr__(self, name: str) -> NDArray[Any]:
        if name not in COLUMNS:
            raise AttributeError(name)
        return self.rows[name]

    @classmethod
    def from_rows(cls, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Samples:
        """Return the samples of rows of values; rows that do not fit are omitted."""
        fitting = [row for row in rows if len(row) == len(columns)]
        try:
            return cls._from_fitting_rows(columns, fitting)
        except (TypeError, ValueError, OverflowError):
            return cls._from_fitting_rows(columns, [row for row in fitting if _fits(columns, row)])

    @classmethod
    def _from_fitting_rows(cls, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Samples:
        found = dict(zip(columns, zip(*rows, strict=True), strict=True)) if rows else {}
        made = np.full(len(rows), np.nan, _ROW)
        made["state"] = [str(s or "") for s in found.get("state", ("",) * len(rows))]
        for name in found.keys() & {*NUMBERS}:
            values = np.array(found[name], dtype=np.float64)
            made[name] = np.where(np.abs(values) <= MOST, values, np.nan)
        return cls(made[(made["t"] >= 0) & (made["t"] <= LONGEST_S)])

    @classmethod
    def empty(cls) -> Samples:
        """Return no samples."""
        return cls.from_rows((), ())

    def __len__(self) -> int:
        return len(self.t)

    @property
    def shared_once(self) -> NDArray[np.float64]:
        """Memory of all processes with shared pages counted once (PSS), MB, (n,).

        It is measured about once a second. In between, it is taken to be as much below ``rss`` as
        it last was, while there is one process, and NaN while there are several.
        """
        known = ~np.isnan(self.pss)
        last = np.maximum.accumulate(np.where(known & self._alone, np.arange(len(self)), -1))
        shared = np.where(last >= 0, (self.rss - self.pss)[last], 0.0) if len(self) else self.rss
        between = np.where(self._alone, np.maximum(self.rss - shared, 0.0), np.nan)
        return np.where(known, self.pss, between)

    @property
    def largest(self) -> NDArray[np.float64]:
        """Memory of a single process at each time, or since the time before, MB, (n,).

        Its resident set where it is the only one, and the largest so far where that has grown. NaN
        where neither is known.
        """
        known = np.nan_to_num(self.peak)
        grown = np.diff(np.maximum.accumulate(known), prepend=0.0) > 0
        return np.fmax(np.where(self._alone, self.rss, np.nan), np.where(grown, known, np.nan))

    @property
    def resident(self) -> NDArray[np.float64]:
        """Memory that is in use, MB, (n,): ``rss`` of one process, `shared_once` of several."""
        return np.where(self._alone, self.rss, self.shared_once)

    @property
    def private(self) -> NDArray[np.float64]:
        """Resident memory that is neither of files nor shared, MB, (n,)."""
        return np.asarray(np.maximum(self.rss - self.file - self.shmem, 0.0))

    @property
    def cores_busy(self) -> float | None:
        """How many processors were busy lately; None before there are two samples."""
        finite = ~np.isnan(self.cpu)
        t, cpu = self.t[finite], self.cpu[finite]
        if len(t) < 2:
            return None
        first = min(int(np.searchsorted(t, t[-1] - _CPU_OVER_S)), len(t) - 2)
        took = float(t[-1] - t[first])
        return max(0.0, float(cpu[-1] - cpu[first])) / took if took > 0 else None

    @property
    def _alone(self) -> NDArray[np.bool_]:
        return np.asarray(~(self.processes > 1))

    def join(self, more: Samples) -> Samples:
        """Return these samples and those that follow them."""
        return Samples(np.concatenate([self.rows, more.rows])) if len(self) else more

    def thin(self, most: int = MOST_SAMPLES) -> Samples:
        """Return about ``most`` samples, evenly spread, if there are more than twice as many.

        Of each stretch of time the sample with the most resident memory stays, with the largest
        ``pss`` and ``runnable`` and the least ``available`` of the stretch, and so does the last of
        all.
        """
        if len(self) <= 2 * most:
            return self
        by_order = np.linspace(0, most, len(self), endpoint=False)
        even = np.all(np.diff(self.t) >= 0) and self.t[-1] > self.t[0]
        place = (self.t - self.t[0]) / (self.t[-1] - self.t[0]) * most if even else by_order
        stretch = np.minimum(place.astype(np.int64), most - 1)
        firsts = np.flatnonzero(np.diff(stretch, prepend=-1))
        order = np.lexsort((np.nan_to_num(self.rss), stretch))
        largest = order[np.append(firsts[1:], len(self)) - 1]
        kept = self.rows[largest]
        kept["pss"] = np.fmax.reduceat(self.pss, firsts)
        kept["runnable"] = np.fmax.reduceat(self.runnable, firsts)
        kept["available"] = np.fmin.reduceat(self.available, firsts)
        is_last = largest[-1] == len(self) - 1
        return Samples(kept if is_last else np.concatenate([kept, self.rows[-1:]]))


def _fits(columns: Sequence[str], row: Sequence[Any]) -> bool:
    pairs = zip(columns, row, strict=True)
    return all(v is None or number(v) is not None for name, v in pairs if name in NUMBERS)


def last_of(values: NDArray[np.float64]) -> float | None:
    """Return the last value that is known; None without any."""
    finite = values[~np.isnan(values)]
    return float(finite[-1]) if len(finite) else None


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

    t: float = 0.0
    seconds: float = 0.0
    reason: str = ""
    message: str = ""
    helps: str = ""
    over: bool = True


@dataclass(frozen=True, slots=True)
class End:
    """How an attempt ended, in its own (or its watchdog's) words.

    Attributes
    ----------
    t
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

    t: float = 0.0
    outcome: str = "error"
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
        more = {k: v for k, v in line.items() if k not in {*cls.__dataclass_fields__, "wall"}}
        outcome = text(line.get("outcome")) or "error"
        return read_as(cls, line, outcome=outcome, more=more)


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


class _OfJob:
    """What belongs to a job."""

    rule: str
    wildcards: Mapping[str, str]

    @functools.cached_property
    def key(self) -> JobKey:
        """Key that no other job of a run has."""
        return self.rule, frozenset(self.wildcards.items())


@dataclass(frozen=True, eq=False)
class Attempt(_OfJob):
    """One attempt at one job, and where it is in its run.

    Attributes
    ----------
    id
        Unique in a results directory: its file, without suffix, below ``telemetry``.
    stage
        Name of the job's log: the rule, and what its jobs for one pair differ in.
    number
        1 the first time that a run of the workflow tries the job.
    start, end
        s since the start of the run; of one that is running, the end is its last sign of life.
    outcome
        How it ended (docs/telemetry.md), or ``running``.
    wall, clock
        When it started; ``clock`` is NaN where that is not known.
    declared_mb
        Memory that it might take; None if there was no limit.
    fields
        Everything that its first line says.
    samples
        Memory, processors and bytes over time, as arrays.
    run
        Id of its run; empty where Snakemake did not hand it down.
    done, of, unit
        Progress, if it was reported, and what is counted: ``shard``; empty where not reported.
    ending
        What it said of its end; None while, or if, it did not.
    job
        Its job as Snakemake reported it; None if it did not.
    slot
        First of the rows (cores) that it is drawn on; it takes as many as it has threads.
    launched
        When Snakemake had started the job, s since the start of the run; None if not known.
    """

    id: str
    stage: str
    rule: str
    wildcards: Mapping[str, str]
    threads: int
    samples: Samples
    declared_mb: float | None = None
    number: int = 1
    host: str = ""
    wall: float = 0.0
    clock: float = math.nan
    log: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)
    run: str = ""
    file: Path | None = None
    steps: tuple[Step, ...] = ()
    stalls: tuple[Stall, ...] = ()
    done: float | None = None
    of: float | None = None
    unit: str = ""
    ending: End | None = None
    job: Job | None = None
    start: float = 0.0
    end: float = 0.0
    outcome: str = RUNNING
    slot: int = 0
    launched: float | None = None

    @property
    def title(self) -> str:
        """Stage and what it worked on, in words."""
        in_stage = ("role", "method", "form")
        names = (v for k, v in self.wildcards.items() if k not in in_stage)
        return " ".join((self.stage, *names))

    @property
    def message(self) -> str:
        """How it ended, in a sentence; empty if there is none."""
        return self.ending.message if self.ending is not None else ""

    @property
    def remedy(self) -> str:
        """A command to copy; empty if there is none."""
        return self.ending.remedy if self.ending is not None else ""

    @property
    def seconds(self) -> float:
        """How long it took, or the time of its last sign of life, s."""
        if self.ending is not None:
            return self.ending.t
        marks = [*(s.t for s in self.stalls), *(s.end or s.begin for s in self.steps)]
        return float(max([0.0, *self.samples.t[-1:], *marks]))

    @functools.cached_property
    def peak_mb(self) -> float | None:
        """Largest resident set of one process, MB, as the kernel kept it (``VmHWM``).

        Or the proportional sets of several at one moment, if that was more. The declared memory of
        a job is compared with this, and never with a sum of resident sets.
        """
        sampled = self.samples.largest
        peaks = [] if np.isnan(sampled).all() else [float(np.nanmax(sampled))]
        at_end = self.ending.peak_mb if self.ending is not None else None
        return max([*peaks, *([] if at_end is None else [at_end])], default=None)

    @property
    def is_peak_bound(self) -> bool:
        """Whether the peak is what was seen, and may have been higher."""
        return self.ending is not None and self.ending.more.get("at_least") is True

    @property
    def cpu_s(self) -> float | None:
        """Time on processors, s."""
        return self._total("cpu_s", self.samples.cpu)

    @property
    def read(self) -> float | None:
        """Bytes read."""
        return self._total("read", self.samples.read)

    @property
    def written(self) -> float | None:
        """Bytes written."""
        return self._total("written", self.samples.written)

    def _total(self, name: str, column: NDArray[np.float64]) -> float | None:
        total: float | None = getattr(self.ending, name) if self.ending is not None else None
        return last_of(column) if total is None else total

    @property
    def step(self) -> str:
        """The step that it is in; empty if it is in none."""
        return next((s.name for s in reversed(self.steps) if s.end is None), "")

    @property
    def share(self) -> float | None:
        """Part of its work that is done, 0 to 1; None if not known."""
        return min(1.0, self.done / self.of) if self.of and self.done is not None else None

    @property
    def now_mb(self) -> float | None:
        """Memory at its last sample: resident, or of several processes as `shared_mb`."""
        return last_of(self.samples.resident)

    @property
    def shared_mb(self) -> float | None:
        """Memory at its last sample, with pages that several processes share counted once (PSS)."""
        return last_of(self.samples.shared_once)

    @property
    def cores(self) -> float | None:
        """Processors that it kept busy lately; None before there are two samples."""
        return self.samples.cores_busy

    @property
    def profile_file(self) -> str:
        """Path of its profile; empty if it was not profiled."""
        file = self.file and self.file.with_suffix(PROFILE)
        return str(file) if file and file.is_file() else ""

    @property
    def profile(self) -> Mapping[Stack, float]:
        """How long each stack of calls was seen, s; empty if it was not profiled."""
        return read_profile(Path(self.profile_file)).seconds


@dataclass(frozen=True, slots=True)
class Loss:
    """Report of the batch system on a lost attempt: when, a word, a sentence."""

    t: float
    outcome: str
    message: str


@dataclass(frozen=True)
class Job(_OfJob):
    """A job as Snakemake reports it.

    Attributes
    ----------
    events
        (t, state), the first of them ``queued``.
    losses
        How attempts ended that could not say so themselves, by their number.
    """

    jobid: int
    events: tuple[tuple[float, str], ...]
    threads: int
    rule: str = ""
    wildcards: Mapping[str, str] = field(default_factory=dict)
    reason: str = ""
    resources: Mapping[str, Any] = field(default_factory=dict)
    local: bool = True
    log: tuple[str, ...] = ()
    losses: Mapping[int, Loss] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """Rule and what it works on, in words."""
        return " ".join((self.rule, *self.wildcards.values()))

    @property
    def state(self) -> str:
        """The last that was heard of it."""
        return self.events[-1][1]

    def list_times(self, *states: str) -> list[float]:
        """Return the times, s since the start of the run, at which it entered these states."""
        return [t for t, state in self.events if state in states]


@dataclass(frozen=True)
class Planned(_OfJob):
    """A job that a run set out to do.

    Attributes
    ----------
    after
        Numbers of the jobs that it waits for.
    state
        ``waiting``, ``ready``, ``submitted``, ``running``, ``done``, ``failed`` or ``blocked``;
        empty where nobody has asked for it.
    """

    jobid: int
    rule: str
    wildcards: Mapping[str, str]
    after: tuple[int, ...] = ()
    state: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """A warning or an error of Snakemake."""

    t: float = 0.0
    level: str = "error"
    text: str = ""


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
        Jobs of each rule that it set out to do, and each of them, after those that it waits for.
    seen
        Time of the last line, s since the start of the run.
    outcome
        None while, or if, it has not said how it ended.
    """

    id: str
    wall: float
    clock: float
    fields: Mapping[str, Any]
    host: str = ""
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
