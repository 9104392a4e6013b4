"""py-spy, attached to a job by its watchdog: the stacks of its threads, seen from outside.

It sees what a job does while compiled code holds the interpreter's lock, which a thread of the job
(`unglow.telemetry.recording.stack_sampler`) cannot. py-spy is a child of the watchdog, not of the
job, so neither its memory nor its time counts as the job's, and the job ends as it would without.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import re
import signal
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from unglow.core.errors import UnglowError
from unglow.telemetry.speedscope import HZ, Frame, write_profile

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    from unglow.telemetry.speedscope import Stack

# Time, s, that py-spy may take for trying itself, and, twice, for ending once the job has ended:
# it sees that within a second.
_CHECK_S, _END_S = 5.0, 0.9
# It is started so often, if it fails while the job goes on.
_MOST_STARTS = 3
# It is ended and started anew after so long, s, so that the file shows what a running job does; it
# misses some 0.3 s each time.
_SLICE_S = 15.0
_PR_SET_PDEATHSIG, _PR_SET_PTRACER = 1, 0x59616D61  # linux/prctl.h
_FRAME = re.compile(r"(.*?) \((.*?)(?::(\d+))?\)")  # name (file:line)


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
    import subprocess  # noqa: PLC0415 (only for profiled jobs)

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


def _prctl(option: int, value: int) -> None:
    with contextlib.suppress(OSError, AttributeError):  # not Linux
        ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), 0, 0, 0)


class PySpy:
    """Takes the stacks of a job, from the first `look` to `finish`; for its watchdog.

    Parameters
    ----------
    path
        The file that is written.
    spy, pid
        The program, from `program`, and the job's process, which has to `permit` it.
    warn
        Called once with a sentence, if there is no profile.
    """

    def __init__(self, path: Path, spy: str, pid: int, warn: Callable[[str], None]) -> None:
        self._path, self._spy, self._pid, self._warn = path, spy, pid, warn
        self._process: subprocess.Popen[bytes] | None = None
        self._stacks, self._starts = -1, 0
        self._began = 0.0
        self._seconds: defaultdict[Stack, float] = defaultdict(float)

    def look(self) -> None:
        """Start py-spy, again if it has ended; call it some times a second."""
        if self._process is not None and self._process.poll() is None:
            if time.monotonic() - self._began > _SLICE_S:
                self._began = math.inf
                self._process.send_signal(signal.SIGINT)
            return
        self._resume_job()
        if self._process is not None and self._process.returncode == 0:
            self._starts -= 1
            self._take()
            with contextlib.suppress(UnglowError):  # the disk is full, perhaps not for ever
                write_profile(self._path, "py-spy", self._seconds)
        if self._starts < _MOST_STARTS:
            self._start()

    def finish(self) -> None:
        """End, with everything written; call it when the job has ended, before it is waited for."""
        import subprocess  # noqa: PLC0415 (only for profiled jobs)

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
        self._take()
        os.close(self._stacks)
        if code != 0 and not self._seconds:
            self._warn("the job was not profiled: py-spy could not look into it")
            return
        try:
            write_profile(self._path, "py-spy", self._seconds)
        except UnglowError as error:  # telemetry is no reason to lose a result
            self._warn(str(error))

    def _take(self) -> None:
        """Add what py-spy has written, whole or up to where it was killed."""
        stacks = os.pread(self._stacks, os.fstat(self._stacks).st_size, 0).decode(errors="replace")
        for stack, seconds in seconds_of(stacks).items():
            self._seconds[stack] += seconds

    def _start(self) -> None:
        import subprocess  # noqa: PLC0415 (only for profiled jobs)

        if self._stacks >= 0:
            os.close(self._stacks)
        self._starts += 1
        self._began = time.monotonic()
        self._stacks = os.memfd_create("unglow-stacks")  # whatever is killed, no file is left
        words = [self._spy, "record", "--format", "raw", "--function", "--full-filenames"]
        words += ["--idle", "--rate", str(HZ), "--pid", str(self._pid)]
        words += ["--output", f"/proc/self/fd/{self._stacks}"]
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            self._process = subprocess.Popen(  # noqa: S603 (found by `program`)
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[self._stacks],
                process_group=0,  # Ctrl-C is for the job alone
                preexec_fn=_die_with_parent,  # noqa: PLW1509 (the watchdog has one thread)
            )

    def _resume_job(self) -> None:
        """Have the job go on: a py-spy that was killed may have left it stopped."""
        if self._process is not None and self._process.returncode != 0:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGCONT)


def seconds_of(stacks: str) -> dict[Stack, float]:
    """Return how long each stack was seen, s, from lines ``name (file:line);... samples``."""
    seconds: defaultdict[Stack, float] = defaultdict(float)
    for line in stacks.splitlines():
        calls, _, samples = line.rpartition(" ")
        if not samples.isdecimal():
            continue
        matches = (_FRAME.fullmatch(call) for call in calls.split(";"))
        stack = tuple(Frame(m[1], m[2], int(m[3] or 0)) for m in matches if m)
        seconds[stack] += int(samples) / HZ
    return seconds


def _die_with_parent() -> None:
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
