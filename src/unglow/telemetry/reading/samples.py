"""Samples of a process tree, as arrays: what the rows of an attempt's file hold."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.telemetry.jsonl import LONGEST_S, MOST, number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

NUMBERS = (
    *("t", "rss", "pss", "cpu", "read", "written"),
    *("threads", "processes", "peak", "available"),
    *("file", "shmem", "swap", "runnable"),
)
"""Columns of samples that are numbers."""
ROUNDED_MB = 0.05
"""Samples are rounded more than peaks: what differs less is the same, MB."""
MOST_SAMPLES = 4096
"""An attempt of more than twice as many samples (14 minutes) is thinned out as it is read."""


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

    t: NDArray[np.float64]
    rss: NDArray[np.float64]
    pss: NDArray[np.float64]
    cpu: NDArray[np.float64]
    read: NDArray[np.float64]
    written: NDArray[np.float64]
    threads: NDArray[np.float64]
    processes: NDArray[np.float64]
    peak: NDArray[np.float64]
    available: NDArray[np.float64]
    file: NDArray[np.float64]
    shmem: NDArray[np.float64]
    swap: NDArray[np.float64]
    runnable: NDArray[np.float64]
    state: NDArray[np.str_]

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
        none = (math.nan,) * len(rows)
        numbers = {name: np.array(found.get(name, none), dtype=np.float64) for name in NUMBERS}
        for values in numbers.values():
            values[~(np.abs(values) <= MOST)] = np.nan
        state = np.array([str(s or "") for s in found.get("state", ("",) * len(rows))], dtype="<U2")
        at = (numbers["t"] >= 0) & (numbers["t"] <= LONGEST_S)
        return cls(state=state[at], **{name: values[at] for name, values in numbers.items()})

    @classmethod
    def none(cls) -> Samples:
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
        return np.maximum(self.rss - self.file - self.shmem, 0.0)

    @property
    def _alone(self) -> NDArray[np.bool_]:
        return np.asarray(~(self.processes > 1))

    def join(self, more: Samples) -> Samples:
        """Return these samples and those that follow them."""
        if not len(self):
            return more
        names = (*NUMBERS, "state")
        return Samples(
            **{name: np.concatenate([getattr(self, name), getattr(more, name)]) for name in names}
        )

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
        kept = {name: getattr(self, name)[largest] for name in (*NUMBERS, "state")}
        kept["pss"] = np.fmax.reduceat(self.pss, firsts)
        kept["runnable"] = np.fmax.reduceat(self.runnable, firsts)
        kept["available"] = np.fmin.reduceat(self.available, firsts)
        last = {name: getattr(self, name)[-1:] for name in kept}
        found = Samples(**kept)
        return found if largest[-1] == len(self) - 1 else found.join(Samples(**last))


def _fits(columns: Sequence[str], row: Sequence[Any]) -> bool:
    pairs = zip(columns, row, strict=True)
    return all(v is None or number(v) is not None for name, v in pairs if name in NUMBERS)
