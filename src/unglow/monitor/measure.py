"""``with unglow.measure("name"):`` what any Python takes: memory with children, CPU, bytes, stacks.

A process of its own looks at the one that runs the block, 20 times a second, and writes the same
file as for an attempt at a job. Just before the block the kernel is asked to forget the largest
resident set so far (``/proc/self/clear_refs``, Linux 4.0), so that of one process no peak is missed
however short it is. Children are as right as samples are.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from unglow.core.errors import InputError, UnglowError
from unglow.core.files import name_unwritten
from unglow.core.printable import warn
from unglow.core.workflow_files import OWN
from unglow.monitor.outside.watched import directory_of
from unglow.telemetry.attempt_files import attempt_file, take_number
from unglow.telemetry.recording import SPANS_VARIABLE, span
from unglow.telemetry.recording.attempt import Attempt, Sample
from unglow.telemetry.recording.profiler import StackSampler
from unglow.telemetry.recording.sampler import Sampler
from unglow.telemetry.speedscope import SUFFIX as PROFILE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from matplotlib.axes import Axes

    from unglow.telemetry.reading.records import Attempt as Recorded

INTERVAL_S = 0.05
_MEASURED = "measured"
# Beyond what is resident, a peak that was forgotten is at most this many MB.
_FORGOTTEN_MB = 1.0


@dataclass(frozen=True, slots=True)
class Taken:
    """What a block took.

    Attributes
    ----------
    seconds, cpu_s
        Time, and time on processors with that of children, s.
    peak_mb, start_mb
        Memory at most, with that of children, and when it started, MB.
    read, written
        Bytes through read and write calls, children included.
    is_at_least
        Whether the peak may have been higher between two samples.
    """

    seconds: float
    cpu_s: float
    peak_mb: float
    start_mb: float
    read: int
    written: int
    is_at_least: bool

    def __str__(self) -> str:
        least = "at least " if self.is_at_least else ""
        return (
            f"{self.seconds:.2f} s, {self.cpu_s:.2f} CPU-s, {least}{self.peak_mb:.0f} MB "
            f"({self.start_mb:.0f} MB before), read {self.read / 1e6:.1f} MB, "
            f"written {self.written / 1e6:.1f} MB"
        )


@dataclass
class measure:  # noqa: N801 (it is used as a function)
    """Measures blocks of Python, each time that it is entered, and records them.

    Entering and leaving takes about 0.2 s, which do not count. In a job that is recorded, the
    record is that of the run, and the block is a step of the job as with `span`.

    Parameters
    ----------
    name
        Of the block, a word or two; blocks of one name are compared by `plot`.
    directory
        The record is in ``.unglow`` below it; ``unglow report DIRECTORY`` shows it.
    stacks
        Whether to take the stacks of all threads, for the flame graph; about 1 % of a processor.

    Attributes
    ----------
    taken
        What each block took that was measured so far (`Taken`).
    """

    name: str
    directory: Path | str = "."
    stacks: bool = True
    taken: list[Taken] = field(default_factory=list, init=False)
    _open: list[contextlib.ExitStack] = field(default_factory=list, init=False, repr=False)

    @property
    def telemetry(self) -> Path:
        """The directory of the record."""
        spans = os.environ.get(SPANS_VARIABLE)
        return Path(spans).parents[1] if spans else Path(self.directory, OWN, "telemetry")

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            stack.enter_context(span(self.name))
            try:
                watcher = _Watcher(self.telemetry, self.name)
            except (UnglowError, OSError, subprocess.SubprocessError) as error:
                warn(f"{self.name} is not measured: {error}")
            else:
                watcher.start()
                if self.stacks:  # by the clock of the record; written when the block is over
                    sampler = StackSampler(watcher.file.with_suffix(PROFILE), watcher.clock, warn)
                    sampler.start()
                    stack.callback(sampler.stop)
                stack.push(lambda kind, *_: self._leave(watcher, failed=kind is not None))
            self._open.append(stack.pop_all())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open.pop().__exit__(kind, error, trace)

    def _leave(self, watcher: _Watcher, *, failed: bool) -> None:
        taken = watcher.stop(failed=failed)
        if taken is None:
            warn(f"{self.name} is not measured: its watching process has ended.")
        else:
            self.taken.append(taken)

    def __str__(self) -> str:
        return "\n".join(f"{self.name}: {one}" for one in self.taken)

    def plot(self, *, align: bool = False, axes: Axes | None = None) -> Axes:
        """Draw the memory of every block of this name that the record holds over time.

        Parameters
        ----------
        align
            Whether all start at 0 s, so that they lie over each other.
        axes
            Where to draw; None for new ones.

        Raises
        ------
        InputError
            The record has no block of this name.
        """
        from matplotlib import pyplot as plt  # only to draw

        blocks = self._read()
        if not blocks:
            raise InputError(f"{self.telemetry} has no measured block '{self.name}'; run it first.")
        if axes is None:
            _, axes = plt.subplots()
        for number, one in enumerate(blocks, 1):
            start = 0.0 if align else one.wall - blocks[0].wall
            axes.plot(start + one.samples.t, one.samples.resident, label=f"{self.name} {number}")
        axes.set(xlabel="time, s", ylabel="memory, MB", ylim=(0, None))
        axes.legend()
        return axes

    def _read(self) -> list[Recorded]:
        from unglow.telemetry.reading.follower import Follower  # only to draw

        follower = Follower(self.telemetry.parent)
        follower.poll()
        found = [a for a in follower.attempts if a.fields.get("recorded") == _MEASURED]
        return sorted((a for a in found if a.rule == self.name), key=lambda a: a.wall)


class _Watcher:
    """The process that samples this one, and the messages between them."""

    def __init__(self, telemetry: Path, name: str) -> None:
        directory = directory_of(telemetry, name, {})
        with name_unwritten(directory):
            self.file = attempt_file(directory, take_number(directory))
        self.clock = 0.0
        self._process = subprocess.Popen(  # noqa: S603 (itself)
            [sys.executable, "-Pm", __name__, str(os.getpid()), str(self.file), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is for the block
        )
        self._answer()

    def start(self) -> None:
        """Start to measure."""
        forgets = False
        with contextlib.suppress(OSError):  # not Linux, or an old one
            if not os.environ.get(SPANS_VARIABLE):  # a job's own peak is not forgotten
                Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
                forgets = True
        self.clock = time.monotonic()
        self._say({"clock": self.clock, "forgets": forgets})
        self._answer()

    def stop(self, *, failed: bool) -> Taken | None:
        """End, and return what was measured; None if the process has ended before."""
        outcome = "error" if failed else "ok"
        self._say({"outcome": outcome, "clock": time.monotonic()})
        answer = self._answer()
        self._process.communicate()
        return Taken(**answer) if answer else None

    def _say(self, words: Mapping[str, Any]) -> None:
        with contextlib.suppress(BrokenPipeError):
            assert self._process.stdin is not None  # noqa: S101 (a pipe, as asked for)
            self._process.stdin.write(json.dumps(words) + "\n")
            self._process.stdin.flush()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None  # noqa: S101 (a pipe, as asked for)
        line = self._process.stdout.readline()
        answer: dict[str, Any] = json.loads(line) if line else {}
        return answer


def watch(pid: int, file: Path, name: str) -> None:
    """In the watching process: measure another one, from its first message to its second."""
    _report({"ready": True})
    begin = json.loads(sys.stdin.readline() or "{}")
    if not begin:
        return
    job: dict[str, Any] = {"rule": name, "wildcards": {}, "attempt": 1, "recorded": _MEASURED}
    job |= {"declared_mb": None, "threads": 1, "limit_s": None, "log": ""}
    attempt = Attempt(file, begin["clock"], job)
    attempt.forked(pid)
    sampler = Sampler(pid, INTERVAL_S, without=os.getpid())
    before = sampler.sample()
    start_mb = _together(before)
    at_least = not begin["forgets"] or before.peak_mb > start_mb + _FORGOTTEN_MB
    _report({"started": True})
    peak, taken = start_mb, before
    ended: dict[str, Any] = {}
    while not ended:
        ready, _, _ = select.select([sys.stdin], [], [], sampler.interval_s)
        if ready:
            ended = json.loads(sys.stdin.readline() or '{"outcome": "killed"}')
        taken = _since(before, sampler.sample())
        of_one = taken.peak_mb if taken.peak_mb > before.peak_mb else 0.0
        peak = max(peak, _together(taken), of_one)
        attempt.sample(replace(taken, peak_mb=peak))
    figures: dict[str, Any] = {"cpu_s": round(taken.cpu_s, 3), "peak_mb": round(peak, 2)}
    attempt.end(ended["outcome"], read=taken.read, written=taken.written, **figures)
    seconds = ended.get("clock", time.monotonic()) - begin["clock"]
    moved = taken.read, taken.written
    _report(asdict(Taken(seconds, taken.cpu_s, peak, start_mb, *moved, is_at_least=at_least)))


def _together(sample: Sample) -> float:
    """Return the memory of all processes, MB, what they share counted once; 0 where unknown."""
    return sample.rss_mb if sample.processes == 1 else sample.pss_mb or 0.0


def _since(before: Sample, now: Sample) -> Sample:
    """Return a sample without what had been done before."""
    sums = {key: getattr(now, key) - getattr(before, key) for key in ("cpu_s", "read", "written")}
    return replace(now, **sums)


def _report(words: Mapping[str, Any]) -> None:
    os.write(1, (json.dumps(words) + "\n").encode())


if __name__ == "__main__":
    watch(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
