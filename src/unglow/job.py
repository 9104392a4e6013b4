"""The context that every script runs in: pinned threads, a log, measured memory, one clear error.

This is the only place of the package that looks at the ``snakemake`` object of a script, and it
does so through the `Script` protocol.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import logging
import os
import sys
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

from unglow.errors import UnglowError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "OPENCV_FOR_THREADS_NUM",
    "BLOSC_NTHREADS",
)
# glibc's <malloc.h>: blocks above the threshold are mapped, so that freeing them gives them back.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8

log = logging.getLogger("unglow")


class Script(Protocol):
    """What a Snakemake script gets as its global ``snakemake``."""

    rule: str
    threads: int
    log: Any
    input: Any
    output: Any
    params: Any
    wildcards: Mapping[str, str]
    resources: Any


@dataclass(slots=True)
class Job:
    """One attempt at one job, used as a context manager around a single call into the package.

    Attributes
    ----------
    rule, wildcards
        What runs, for messages and records.
    threads
        Workers that the job may use.
    mem_mb
        Memory that was declared for it, MB.
    """

    rule: str
    wildcards: dict[str, str]
    threads: int
    mem_mb: float
    log_path: Path | None = None
    record_path: Path | None = None
    counters: dict[str, float] = field(default_factory=dict)
    _started: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, script: Script) -> Job:
        """Describe the job that a script runs as; pins threads, so call it before heavy imports."""
        threads = max(1, int(script.threads))
        _pin_threads()
        record = getattr(script.log, "telemetry", None)
        return cls(
            rule=script.rule,
            wildcards=dict(script.wildcards.items()),
            threads=threads,
            mem_mb=float(getattr(script.resources, "mem_mb", 2000)),
            log_path=Path(script.log[0]) if len(script.log) else None,
            record_path=Path(record) if record else None,
        )

    def __enter__(self) -> Self:
        logging.raiseExceptions = False  # a log that cannot be written must not hide an error
        handler: logging.Handler = logging.StreamHandler()
        if self.log_path is not None:
            with contextlib.suppress(OSError):
                self.log_path.parent.mkdir(parents=True, exist_ok=True)
                handler = logging.FileHandler(
                    self.log_path, mode="w", encoding="utf-8", errors="backslashreplace"
                )
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        log.handlers[:] = [handler]
        log.setLevel(logging.INFO)
        log.info("%s: %d threads, %.0f MB declared", self.title, self.threads, self.mem_mb)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        outcome = (
            "ok" if error is None else ("bad_input" if isinstance(error, UnglowError) else "error")
        )
        self._record(outcome)
        if error is None:
            return
        if isinstance(error, UnglowError):
            log.error("%s", error)
            sys.exit(f"{self.title}: {error}")
        log.error("".join(traceback.format_exception(kind, error, trace)))

    @property
    def title(self) -> str:
        """Rule and wildcards in words, for messages."""
        return f"{self.rule} ({', '.join(self.wildcards.values()) or 'run'})"

    @property
    def pair_title(self) -> str:
        """Sample, dye and variant in words, for figures."""
        names = ("sample", "dye", "registration", "subtraction")
        return " ".join(self.wildcards[n] for n in names if n in self.wildcards)

    def count(self, **amounts: float) -> None:
        """Add to the counters of the record, for example ``pixels`` or ``bytes_read``."""
        for name, amount in amounts.items():
            self.counters[name] = self.counters.get(name, 0) + amount

    def _record(self, outcome: str) -> None:
        """Log what the job took, and append it as one JSON line to its telemetry file."""
        seconds = time.monotonic() - self._started
        times = os.times()
        entry = {
            "rule": self.rule,
            "wildcards": self.wildcards,
            "outcome": outcome,
            "seconds": round(seconds, 3),
            "cpu_seconds": round(times.user + times.system, 3),
            "threads": self.threads,
            "declared_mb": self.mem_mb,
            "peak_mb": round(peak_mb(), 1),
            **_bytes_moved(),
            **self.counters,
        }
        log.info(
            "%s after %.2f s, peak %.0f MB of %.0f declared",
            outcome,
            seconds,
            entry["peak_mb"],
            self.mem_mb,
        )
        if self.record_path is None:
            return
        try:
            self.record_path.parent.mkdir(parents=True, exist_ok=True)
            with self.record_path.open("a") as stream:
                stream.write(json.dumps(entry) + "\n")
        except OSError as error:  # a record is no reason to lose a result, nor to hide its error
            log.warning("%s could not be written (%s)", self.record_path, error.strerror)


def peak_mb() -> float:
    """Return the largest resident set of this process so far, MB (VmHWM; NaN where unknown).

    ``ru_maxrss`` is not used: after fork and exec it starts at the parent's value.
    """
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return float("nan")
    lines = (row for row in status.splitlines() if row.startswith("VmHWM"))
    line = next(lines, None)  # some sandboxes leave it out
    return float("nan") if line is None else int(line.split()[1]) * 1024 / 1e6


def _bytes_moved() -> dict[str, int]:
    """Bytes that went through read and write calls so far, cached or not."""
    try:
        rows = dict(row.split(": ") for row in Path("/proc/self/io").read_text().splitlines())
    except (OSError, ValueError):
        return {}
    return {"bytes_read": int(rows["rchar"]), "bytes_written": int(rows["wchar"])}


def _pin_threads() -> None:
    """Give every numeric library one thread, and return freed blocks to the system.

    The job's own pool is the parallelism; memory and speed then follow from the declaration.
    """
    for name in _THREAD_VARIABLES:
        os.environ[name] = "1"
    try:
        libc = ctypes.CDLL(None)
        # set by hand, glibc no longer adapts either; trimming at once would cost twice the time
        libc.mallopt(_M_MMAP_THRESHOLD, 1 << 23)
        libc.mallopt(_M_TRIM_THRESHOLD, 1 << 25)
        libc.mallopt(_M_ARENA_MAX, 4)
    except (OSError, AttributeError):  # not glibc: memory may stay with the process a little longer
        return
