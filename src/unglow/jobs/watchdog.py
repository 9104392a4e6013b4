"""Watching a job from a process of its own: time limit, stall, true peak, how it ended.

The watchdog forks before anything heavy is imported, so it costs a few MB that are shared anyway.
It still speaks when the job cannot: stuck in compiled code that holds the interpreter lock, ended
by a fault in a library, or killed by the kernel because of a lack of memory.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import json
import logging
import os
import select
import signal
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn

from unglow.core import machine, process
from unglow.core.process import Stat, read, thread_ids
from unglow.telemetry.recording.attempt import INTERVAL_S
from unglow.telemetry.recording.profiler import die_with_parent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from unglow.telemetry.recording.attempt import Sample
    from unglow.telemetry.recording.sampler import Sampler


STALL_S = 60.0
"""A job that does nothing for this long, s, is named as stalled."""
GRACE_S = 5.0
"""How long a job may take, s, to tidy up when its time is over."""

# CPU, s, that an idle event loop may use in `STALL_S`.
_IDLE_CPU_S = 0.1
# More between two looks, s, is time that the machine has slept.
_AWAKE_S = 2.0
# Processes that end together with the job do so in this time, s.
_DYING_S = 0.2
_DUMP = signal.SIGUSR1

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Stall:
    """How long a job and its children have done nothing, from samples of what they have done."""

    after_s: float = STALL_S
    quiet_s: float = 0.0
    longest_s: float = 0.0
    _cpu_s: float = 0.0
    _moved: int = 0

    @property
    def idle_s(self) -> float:
        """How long it has done nothing, s; 0 if it does not stall now."""
        return self.quiet_s if self.quiet_s >= self.after_s else 0.0

    def sample(self, seconds: float, cpu_s: float, moved: int) -> Literal["stalled", "over"] | None:
        """Take a sample ``seconds`` after the last; return whether a stall has started or is over.

        So far they were on processors for ``cpu_s``, and have ``moved`` bytes through read and
        write calls.
        """
        before = self.quiet_s
        if moved != self._moved or abs(cpu_s - self._cpu_s) > _IDLE_CPU_S:
            self._cpu_s, self._moved, self.quiet_s = cpu_s, moved, 0.0
            return "over" if before >= self.after_s else None
        self.quiet_s += seconds
        if self.quiet_s >= self.after_s:
            self.longest_s = max(self.longest_s, self.quiet_s)
        return "stalled" if before < self.after_s <= self.quiet_s else None


class Reason(NamedTuple):
    """Why a job has done nothing: in a few words (empty if unknown), in a sentence, what helps.

    Sentences are for the middle of another one: no capital, no full stop.
    """

    reason: str
    message: str
    helps: str


# By the state of a thread as the kernel names it, the most significant first.
_REASONS = {
    "T": Reason(
        "stopped by a signal",
        "it was stopped by a signal (Ctrl-Z, SIGSTOP, a debugger)",
        "`kill -CONT {pid}` lets it go on, or `fg` where Ctrl-Z was pressed",
    ),
    "D": Reason(
        "disk",
        "it waits for a disk, a network file system or memory",
        "see if the server or disk answers (`df`, `dmesg`, `iostat`) and if memory is short "
        "(`free`): the job continues once it does",
    ),
    "": Reason(
        "",
        "it waits for another process or thread, for a file system or for a processor",
        "see if the machine is overloaded (`uptime`) and if a server does not answer (`df`); if "
        "nothing comes of it, that is a fault of the program: please report it",
    ),
}


def stall_reason(pids: Iterable[int], pid: int) -> Reason:
    """Return why processes do nothing now; ``pid`` is the first of them."""
    stats = (Stat.parse(read(p, "task", thread, "stat")) for p in pids for thread in thread_ids(p))
    states = {stat.state.upper() for stat in stats if stat is not None}
    found = next(reason for state, reason in _REASONS.items() if state in states or not state)
    return found._replace(helps=found.helps.format(pid=pid))


class Idleness:
    """Looks for stalls of a job, says when one begins and ends, and keeps why."""

    def __init__(self, pid: int, on_stall: Callable[[float, Reason, bool], None]) -> None:
        self._pid, self._on_stall = pid, on_stall
        self.stall = Stall(STALL_S)
        self.waited: Reason | None = None

    def sample(self, seconds: float, taken: Sample, pids: Sequence[int]) -> None:
        """Take a sample ``seconds`` after the last, of these processes."""
        idle_s = self.stall.quiet_s
        turn = self.stall.sample(seconds, taken.cpu_s, taken.read + taken.written)
        if turn == "stalled":
            self.waited = stall_reason(pids, self._pid)
            self._on_stall(self.stall.quiet_s, self.waited, False)  # noqa: FBT003
        elif turn == "over" and self.waited is not None:
            self._on_stall(idle_s, self.waited, True)  # noqa: FBT003


@dataclass(frozen=True, slots=True)
class Ending:
    """How a watched process ended.

    Attributes
    ----------
    report
        What it said itself; empty if it could not.
    signal
        Number of the signal that ended it, 0 if none did.
    code
        Its exit status.
    peak_mb, cpu_s
        Largest resident set, MB, and time on processors, s, as the kernel counted them.
    moved
        Bytes, as far as they were seen from outside; named as by `unglow.core.process.bytes_moved`.
    others
        Memory of each process of the job that has outlived it, MB.
    stalled_s
        Longest time that it did nothing, s; 0 if it never stalled.
    idle_s, waited
        How long it had done nothing when it was ended, s, and why as far as that is known; 0 if it
        had not stalled then.
    timed_out
        It was ended because its time was over.
    by_kernel
        The kernel killed processes because of a lack of memory meanwhile.
    abandoned
        It was ended because nobody waits for it any more.
    """

    report: Mapping[str, Any]
    signal: int
    code: int
    peak_mb: float
    cpu_s: float
    moved: Mapping[str, int]
    others: Sequence[float]
    stalled_s: float
    idle_s: float
    timed_out: bool
    by_kernel: bool
    abandoned: bool = False
    waited: Reason | None = None


def fork() -> tuple[int, int]:
    """Split into a watchdog and the job that it watches.

    Returns
    -------
    In the watchdog the job's process id and a descriptor to read its report from; in the job 0 and
    a descriptor to write it to. The job dies with its watchdog.
    """
    reading, writing = os.pipe()
    watchdog = os.getpid()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    os.close(reading)
    die_with_parent()
    if os.getppid() != watchdog:
        os._exit(1)
    return 0, writing


def redirect_output(log_file: int | None) -> None:
    """In the job: send what libraries print to the log, and all stacks as well when asked to.

    Parameters
    ----------
    log_file
        Descriptor of the log, or None to leave things where they go.
    """
    if log_file is not None:
        os.dup2(log_file, 1)
        os.dup2(log_file, 2)
    faulthandler.enable(file=2, all_threads=True)
    faulthandler.register(_DUMP, file=2, all_threads=True)


_left: list[int] = []


def leave(status: int) -> NoReturn:
    """End this process with an exit status, after its threads and what it registered for its end.

    What Python does then, taking apart all that was imported, has no effect and costs 0.03 CPU-s in
    a watchdog, 0.07 in a job, 0.2 in one that draws, and 0.4 in Snakemake.
    """
    _left.append(status)
    sys.exit(status)


@atexit.register  # functions that were registered later are called before it
def _end_at_once() -> None:
    if not _left:
        return
    logging.shutdown()  # which is registered earlier
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # a full disk, or closed
            stream.flush()
    os._exit(_left[-1])


def watch(
    pid: int,
    reading: int,
    *,
    limit_s: float | None,
    on_stall: Callable[[float, Reason, bool], None],
    on_sample: Callable[[Sample], object] = lambda _: None,
    on_end: Callable[[], object] = lambda: None,
    interval_s: float = INTERVAL_S,
    abandoned: Callable[[], bool] = lambda: False,
) -> Ending:
    """In the watchdog: wait until the job has ended, and end it if its time is over.

    Time during which watchdog and job were both stopped, or the machine asleep, does not count.

    Parameters
    ----------
    pid, reading
        From `fork`.
    limit_s
        Time that the job may take, s; None for no limit.
    on_stall
        Called with the time, s, and why, once the job has done nothing for `STALL_S`; and again
        when it continues, with True.
    on_sample
        Called with what the job takes each time that it was looked at.
    on_end
        Called once it has ended or been killed, before it is waited for.
    interval_s
        Time between two looks, s.
    abandoned
        Whether nobody waits for the job any more, so that it is to be ended.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to the job as well
    signal.signal(signal.SIGTERM, lambda number, _: os.kill(pid, number))
    from unglow.telemetry.recording.sampler import Sampler  # psutil: not in the job

    group = machine.find_kills_file(pid)
    killed_before = count_kernel_kills(group)
    sampler, idleness = Sampler(pid, interval_s=interval_s), Idleness(pid, on_stall)
    spent, timed_out, alone = 0.0, False, False
    said = bytearray()
    last = due = time.monotonic()
    while True:
        taken = sampler.sample()
        on_sample(taken)
        now = time.monotonic()
        step, last = min(now - last, _AWAKE_S), now
        spent += step
        idleness.sample(step, taken, sampler.pids)
        timed_out = limit_s is not None and spent >= limit_s
        alone = not timed_out and abandoned()
        if timed_out or alone:
            _end(pid, reading, said)
            break
        due = max(due + sampler.interval_s, now)
        if _listen(reading, said, due - now):
            break
    on_end()
    _, status, usage = os.wait4(pid, 0)
    return Ending(
        report=_parse_report(said),
        signal=os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0,
        code=os.waitstatus_to_exitcode(status),
        peak_mb=max(taken.peak_mb, usage.ru_maxrss * 1024 / 1e6),
        cpu_s=usage.ru_utime + usage.ru_stime,
        moved={
            "bytes_read": taken.read,
            "bytes_written": taken.written,
            "disk_read": taken.disk_read,
            "disk_written": taken.disk_written,
        },
        others=_find_survivors(sampler),
        stalled_s=idleness.stall.longest_s,
        idle_s=idleness.stall.idle_s,
        timed_out=timed_out,
        by_kernel=count_kernel_kills(group) > killed_before,
        abandoned=alone,
        waited=idleness.waited,
    )


def _listen(reading: int, said: bytearray, timeout_s: float) -> bool:
    """Collect what the job says for a while; return True as soon as it has ended."""
    end = time.monotonic() + timeout_s
    while True:
        left = end - time.monotonic()
        if left <= 0:
            return False
        ready, _, _ = select.select([reading], [], [], left)
        if not ready:
            return False
        heard = os.read(reading, 1 << 16)
        if not heard:
            return True
        said += heard


def _end(pid: int, reading: int, said: bytearray) -> None:
    """Have the job write down its stacks, let it tidy up, and kill it if it does not end."""
    for number, patience_s in ((_DUMP, 0.5), (signal.SIGINT, GRACE_S)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        if _listen(reading, said, patience_s):
            return
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _find_survivors(sampler: Sampler) -> list[float]:
    """Return the memory of each process that continues without the job, MB."""
    if sampler.others():
        time.sleep(_DYING_S)
    return sampler.others()


def _parse_report(said: bytearray) -> dict[str, Any]:
    try:
        report: dict[str, Any] = json.loads(said)
    except ValueError:  # it ended before it had spoken
        return {}
    return report


def count_kernel_kills(group: Path | None) -> int:
    """Return how many processes the kernel has killed because of a lack of memory.

    These are those of a control group (`machine.find_kills_file`), or of the entire machine where
    there is none.
    """
    return process.machine_oom_kills() if group is None else machine.count_kills(group) or 0
