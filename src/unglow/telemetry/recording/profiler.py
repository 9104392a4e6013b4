"""Profiles of a job: the stacks of its threads, by py-spy from outside, or by a thread within.

py-spy sees what a job does while compiled code holds the interpreter's lock, which a thread of the
job cannot. It is a child of the watchdog, not of the job, so neither its memory nor its time counts
as the job's, and the job ends as it would without. Where it may not look into processes, the thread
takes the stacks, by default a hundred times a second.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from unglow.core.errors import UnglowError
from unglow.telemetry.jsonl import moment, parse_line
from unglow.telemetry.speedscope import Frame, Profile, write_profile

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from types import FrameType

    from unglow.telemetry.speedscope import Stack


# Time, s, that py-spy may take for trying itself, and, twice, for ending once the job has ended:
# it sees that within a second.
_CHECK_S, _END_S = 5.0, 0.9
# Number of starts, if it fails while the job is running.
_MOST_STARTS = 3
# It is restarted after this time, s, so that the file shows what a running job does; it
# misses some 0.3 s each time.
_SLICE_S = 15
_PR_SET_PDEATHSIG, _PR_SET_PTRACER = 1, 0x59616D61  # linux/prctl.h


def program() -> tuple[str, str]:
    """Look for py-spy, and try it on this very process.

    Returns
    -------
    The program, and why it cannot be used: empty if it can.
    """
    if not hasattr(os, "memfd_create"):
        return "", "not Linux"
    places = (Path(sys.executable).parent, *map(Path, os.get_exec_path()))
    spy = next((at / "py-spy" for at in places if os.access(at / "py-spy", os.X_OK)), None)
    if spy is None:
        return "", "py-spy is not installed (the extra `profile` of unglow)"
    return str(spy), _refusal(str(spy))


def _refusal(spy: str) -> str:
    """Return why py-spy may not look into processes of this user, itself their parent."""
    import subprocess  # only for profiled jobs

    permit(os.getpid())
    words = [spy, "dump", "--pid", str(os.getpid())]
    try:
        done = subprocess.run(words, capture_output=True, timeout=_CHECK_S, check=False)  # noqa: S603
    except (OSError, subprocess.SubprocessError) as error:
        return f"py-spy: {error}"
    finally:
        permit(0)
    message = done.stderr.decode(errors="replace").strip().split("\n")[0].partition(":")[0]
    return "" if done.returncode == 0 else f"py-spy: {message or done.returncode}"


def permit(pid: int) -> None:
    """Let a process and those that it starts look into this one, where Yama would forbid it.

    Parameters
    ----------
    pid
        The process; 0 for none any more.
    """
    _prctl(_PR_SET_PTRACER, pid)


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None)


def _prctl(option: int, value: int) -> None:
    with contextlib.suppress(OSError, AttributeError):  # not Linux
        _libc().prctl(option, ctypes.c_ulong(value), 0, 0, 0)


class Profiled(NamedTuple):
    """Process of a job, start of its attempt (monotonic time, s), and time between looks."""

    pid: int
    clock: float
    interval_s: float


def _try_to_write(
    path: Path, exporter: str, profile: Profile, warn: Callable[[str], None] = lambda _: None
) -> None:
    try:
        write_profile(path, exporter, profile)
    except UnglowError as error:  # telemetry is not a reason to lose a result
        warn(str(error))


class PySpy:
    """Takes the stacks of a job, from the first `look` to `finish`; for its watchdog.

    Parameters
    ----------
    path
        The file that is written.
    spy, job
        The program, from `program`, and what to look at; it has to `permit` it.
    warn
        Called once with a sentence, if there is no profile.
    """

    def __init__(self, path: Path, spy: str, job: Profiled, warn: Callable[[str], None]) -> None:
        self._path, self._spy, self._job, self._warn = path, spy, job, warn
        self._process: subprocess.Popen[bytes] | None = None
        self._stacks, self._starts = -1, 0
        self._began = 0.0
        self._profile = Profile()

    def keep_running(self) -> None:
        """Start py-spy, again if it has ended; call it some times a second."""
        if self._process is not None and self._process.poll() is None:
            return
        self._resume_job()
        if self._process is not None and self._process.returncode == 0:
            self._starts -= 1
            self._add_stacks()
            _try_to_write(self._path, "py-spy", self._profile)
        if self._starts < _MOST_STARTS:
            self._start()

    def finish(self) -> None:
        """End, with everything written; call it when the job has ended, before it is waited for."""
        import subprocess  # only for profiled jobs

        if self._process is None:
            return
        for number in (signal.SIGINT, signal.SIGKILL):
            try:
                self._process.wait(_END_S)
                break
            except subprocess.TimeoutExpired:
                self._process.send_signal(number)
        code = self._process.wait()
        self._resume_job()
        self._add_stacks()
        os.close(self._stacks)
        if code != 0 and not self._profile.times:
            self._warn("the job was not profiled: py-spy could not look into it")
            return
        _try_to_write(self._path, "py-spy", self._profile, self._warn)

    def _add_stacks(self) -> None:
        """Add what py-spy has written, which is nothing if it was killed."""
        trace = os.pread(self._stacks, os.fstat(self._stacks).st_size, 0)
        add_trace(self._profile, trace, self._began - self._job.clock)

    def _start(self) -> None:
        import subprocess  # only for profiled jobs

        if self._stacks >= 0:
            os.close(self._stacks)
        self._starts += 1
        self._began = time.monotonic()
        self._stacks = os.memfd_create("unglow-stacks")  # whatever is killed, no file is left
        words = [self._spy, "record", "--format", "chrometrace", "--function", "--full-filenames"]
        words += [
            "--idle",
            "--rate",
            f"{1 / self._job.interval_s:.0f}",
            "--duration",
            str(_SLICE_S),
        ]
        words += ["--pid", str(self._job.pid), "--output", f"/proc/self/fd/{self._stacks}"]
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            _libc()  # before the fork: another thread might hold the lock of the loader
            self._process = subprocess.Popen(  # noqa: S603 (found by `program`)
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[self._stacks],
                process_group=0,  # Ctrl-C is for the job alone
                preexec_fn=die_with_parent,  # noqa: PLW1509 (nothing but a system call)
            )

    def _resume_job(self) -> None:
        """Let the job continue: a py-spy that was killed may have left it stopped."""
        if self._process is not None and self._process.returncode != 0:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._job.pid, signal.SIGCONT)


def add_trace(profile: Profile, trace: bytes, start: float) -> None:
    """Add the stacks of a trace in the format of Chrome: calls that start (B) and end (E).

    Parameters
    ----------
    profile
        They are added to it.
    trace
        What py-spy has written; nothing is added if it is torn.
    start
        When py-spy started, s since the start of the attempt.
    """
    events = parse_line(trace)
    frames: dict[Frame, Frame] = {}  # each is held once
    threads: dict[object, tuple[float, Stack]] = {}  # since when, and the calls
    with contextlib.suppress(TypeError, KeyError, ValueError):
        for event in events:
            t, thread = moment(event["ts"]) / 1e6, event["tid"]
            since, stack = threads.get(thread, (t, ()))
            if stack and t > since:
                profile.add(stack, start + t, t - since)
            if event["ph"] == "B":
                about = event["args"]
                frame = Frame(event["name"], about["filename"] or "", int(about["line"] or 0))
                threads[thread] = t, (*stack, frames.setdefault(frame, frame))
            else:
                threads[thread] = t, stack[:-1]


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


VARIABLE = "UNGLOW_PROFILE"
"""Environment variable with the rules to profile, separated by commas, or ``all``."""
INTERVAL = "UNGLOW_PROFILE_INTERVAL_MS"
"""Environment variable with the time between two looks at the stacks, ms."""
_INTERVAL_MS = 10.0
# A sample stands for the time since the one before, but not for more than this, s, or two
# intervals: while compiled code holds the interpreter's lock nobody knows what else was going on.
_LONGEST_S = 0.2
# Time between two writes of the file, s: what remains of a job that is killed.
_WRITE_S = 10.0


def is_wanted(rule: str) -> bool:
    """Whether the jobs of a rule are to be profiled."""
    rules = os.environ.get(VARIABLE, "").split(",")
    return rule in rules or "all" in rules


def interval_s() -> float:
    """Return the time between two looks at the stacks, s: 0.001 to 1."""
    try:
        interval = float(os.environ.get(INTERVAL, _INTERVAL_MS))
    except ValueError:
        interval = _INTERVAL_MS
    return min(max(interval, 1.0), 1000.0) / 1000


class StackSampler:
    """Takes the stacks of all threads of this process, from `start` to `stop`.

    Parameters
    ----------
    path
        The file that is written.
    clock
        Monotonic time of the start of the attempt, s.
    warn
        Called once with a sentence, if it cannot be written.
    """

    def __init__(self, path: Path, clock: float, warn: Callable[[str], None]) -> None:
        self._path, self._clock, self._warn = path, clock, warn
        self._interval_s = interval_s()
        self._profile = Profile()
        self._frames: dict[Frame, Frame] = {}  # each is held once
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="unglow-stacks", daemon=True)

    def start(self) -> None:
        """Start; this costs about 1 % of a processor at 100 looks a second."""
        self._thread.start()

    def stop(self) -> None:
        """End, with everything written."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        last = written = time.monotonic()
        longest = max(_LONGEST_S, 2 * self._interval_s)
        while not self._over.wait(max(0.0, last + self._interval_s - time.monotonic())):
            now = time.monotonic()
            self._add_stacks(now - self._clock, min(now - last, longest))
            last = now
            if now - written >= _WRITE_S:
                _try_to_write(self._path, "unglow", self._profile)
                written = time.monotonic()
        _try_to_write(self._path, "unglow", self._profile, self._warn)

    def _add_stacks(self, t: float, seconds: float) -> None:
        frames = sys._current_frames()  # noqa: SLF001 (documented; there is no other way)
        # this very call, which with a variable that holds it would keep all that others hold alive
        del frames[threading.get_ident()]
        for innermost in frames.values():
            self._profile.add(self._stack(innermost), t, seconds)

    def _stack(self, at: FrameType | None) -> Stack:
        """Return the calls of a thread, without anything that would keep its code alive."""
        calls = []
        while at is not None:
            code = at.f_code
            frame = Frame(code.co_qualname, code.co_filename, code.co_firstlineno)
            calls.append(self._frames.setdefault(frame, frame))
            at = at.f_back
        return tuple(reversed(calls))
