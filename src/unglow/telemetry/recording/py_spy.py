"""The profiler from outside: py-spy, attached to a job by its watchdog.

It sees what a job does while compiled code holds the interpreter's lock, which a thread of the job
(`unglow.telemetry.recording.stack_sampler`) cannot. py-spy is a child of the watchdog, not of the
job, so neither its memory nor its time counts as the job's, and the job ends as it would without.
It records one segment after another: whatever is killed, all segments but the last are written
down.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unglow.core.process import thread_ids
from unglow.telemetry.jsonl import SCHEMA
from unglow.telemetry.recording.py_spy_trace import converted, events
from unglow.telemetry.recording.stack_sampler import HZ

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    from unglow.telemetry.jsonl import LineFile
    from unglow.telemetry.recording.py_spy_trace import Nodes

SEGMENT_S = 10
"""Length of a segment, s."""
# Beyond its segment py-spy may take so long, s, and so long once the job has ended, twice.
_LATE_S, _END_S = 5.0, 0.9
_CHECK_S = 5.0
_MOST_FAILURES = 3
_PR_SET_PDEATHSIG, _PR_SET_PTRACER = 1, 0x59616D61


def program() -> tuple[str, str]:
    """Look for py-spy, and try it on this very process.

    Returns
    -------
    The program, and why it cannot be used: empty if it can.
    """
    if not hasattr(os, "memfd_create"):
        return "", "not Linux"
    places = (Path(sys.executable).parent, *map(Path, os.get_exec_path()))
    found = next((at / "py-spy" for at in places if os.access(at / "py-spy", os.X_OK)), None)
    if found is None:
        return "", "py-spy is not installed"
    return str(found), _refusal(str(found))


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
    said = done.stderr.decode(errors="replace").strip().split("\n")[0]
    return "" if done.returncode == 0 else f"py-spy: {said.partition(':')[0] or done.returncode}"


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


class Outside:
    """Takes the stacks of a job, from the first `look` to `finish`; for its watchdog.

    Parameters
    ----------
    file
        Where to.
    clock
        The monotonic time at which the attempt began, s.
    spy, pid
        The program, from `program`, and the job's process, which has to `permit` it.
    warn
        Called once with a sentence, if it cannot go on.
    """

    def __init__(
        self, file: LineFile, clock: float, spy: str, pid: int, warn: Callable[[str], None]
    ) -> None:
        self._file, self._clock, self._spy, self._pid, self._warn = file, clock, spy, pid, warn
        self._nodes: Nodes = {}
        self._seen: dict[int, float] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._trace, self._begun, self._failures = -1, 0.0, 0
        file.write({"kind": "stacks", "schema": SCHEMA, "hz": HZ, "how": "outside"})

    def look(self) -> None:
        """Begin the first segment, or the next once one is over; call it some times a second."""
        if self._failures >= _MOST_FAILURES:
            return
        now = time.monotonic()
        threads = map(int, thread_ids(self._pid))  # none if it has ended
        self._seen.update(dict.fromkeys(threads, now - self._clock))
        if self._process is not None:
            if self._process.poll() is None:
                if now > self._begun + SEGMENT_S + _LATE_S:
                    self._process.kill()
                return
            self._take()
        if self._failures < _MOST_FAILURES:
            self._begin()
        else:
            self._warn("the job is not profiled any more: py-spy cannot look into it")

    def finish(self) -> None:
        """End, with everything written; call it when the job has ended, before it is waited for."""
        import subprocess  # noqa: PLC0415 (only for profiled jobs)

        ended = time.monotonic() - self._clock
        if self._process is not None:
            for number in (signal.SIGINT, signal.SIGKILL):
                try:
                    self._process.wait(_END_S)  # it sees by itself that the job has gone
                    break
                except subprocess.TimeoutExpired:
                    self._process.send_signal(number)
            self._process.wait()
            self._take(ended)
        self._file.close()

    def _begin(self) -> None:
        import subprocess  # noqa: PLC0415 (only for profiled jobs)

        self._trace = os.memfd_create("unglow-stacks")  # whatever is killed, no file is left
        words = [self._spy, "record", "--format", "chrometrace", "--function", "--idle"]
        words += ["--threads", "--rate", str(HZ), "--duration", str(SEGMENT_S)]
        words += ["--pid", str(self._pid), "--output", f"/proc/self/fd/{self._trace}"]
        try:
            self._process = subprocess.Popen(  # noqa: S603 (found by `program`)
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[self._trace],
                process_group=0,  # Ctrl-C is for the job alone
                preexec_fn=_die_with_parent,  # noqa: PLW1509 (the watchdog has one thread)
            )
        except (OSError, subprocess.SubprocessError):
            self._failures += 1
            os.close(self._trace)
        self._begun = time.monotonic()  # from when py-spy counts as well

    def _take(self, until: float = math.inf) -> None:
        """Write down what a segment that is over has seen."""
        code = None if self._process is None else self._process.returncode
        self._process = None
        size = os.fstat(self._trace).st_size
        trace = os.pread(self._trace, size, 0).decode(errors="replace")
        os.close(self._trace)
        self._failures = 0 if code == 0 else self._failures + 1
        if code != 0:  # killed while it held the job still, it may have left it so
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGCONT)
        origin = self._begun - self._clock
        times: dict[str, Any] = {"origin": origin, "seen": self._seen, "until": until}
        self._file.write_all(converted(events(trace), self._nodes, **times))
        self._seen.clear()


def _die_with_parent() -> None:
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
