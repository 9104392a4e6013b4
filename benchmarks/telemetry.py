"""The peak that telemetry reports against the one that was observed, and what telemetry costs.

Jobs of real runs, and jobs that hold much memory for a tenth of a second, are watched by a process
of the benchmark's own: it asks the kernel for their largest resident set a thousand times a second,
and has them stopped once more when they are about to end (ptrace, where that is allowed).
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phantoms import link_pairs
from running import WORK, run, say, snakemake_words
from tables import number, table

from unglow.telemetry.attempt_files import attempt_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from multiprocessing.synchronize import Event

RIGHT = 0.01
"""The reported peak differs from the observed one by no more than this share."""
MOST_CORE = 0.015
"""Aim: of a processor while a job runs."""
_LOOK_S, _FIND_S = 0.001, 0.02
_KIB = 1024 / 1e6
_LIBC = ctypes.CDLL(None)
_LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
# Of <linux/ptrace.h> and <linux/wait.h>.
_SEIZE, _CONTINUE, _TRACE_EXIT, _EXIT_STOP, _ANY_CHILD = 0x4206, 7, 0x40, 6, 0x40000000
# What a job of the benchmark's own does, after 0.3 s: MB, held for s, and how it ends.
_SPIKES = [(mb, held, end) for mb in (50, 200, 800) for held in (0.1, 0.01) for end in ("", "kill")]
_JOB = """
import os, subprocess, sys, time
from types import SimpleNamespace
from unglow.jobs.context import Job
class Log(list): pass
log = Log(["{name}.log"]); log.telemetry = "{name}.jsonl"
snakemake = SimpleNamespace(
    rule="{name}", threads=2, wildcards={{}}, log=log,
    resources=SimpleNamespace(mem_mb=4000, runtime=5, attempt=1))
with Job.of(snakemake) as job:
    {body}
"""
_SPIKE = """time.sleep(0.3)
    held = bytearray(b"1") * {mb}_000_000
    time.sleep({held})
    del held
    time.sleep(0.3)
    {end}"""
_CHILD = """subprocess.run(
        [sys.executable, "-c", "import time; x = b'1' * 300_000_000; time.sleep(0.1)"], check=True)
    time.sleep(0.2)"""
_KILL = "os.kill(os.getpid(), 9)"


@dataclass(frozen=True, slots=True)
class Peak:
    """What one attempt says of its peak and what was observed, MB."""

    rule: str
    outcome: str
    said_mb: float
    observed_mb: float

    @property
    def ratio(self) -> float:
        """Said over observed."""
        return self.said_mb / self.observed_mb


@dataclass(frozen=True, slots=True)
class Load:
    """Processor time of a watchdog next to a job that sleeps, as a share."""

    threads: int
    mb: int
    core: float
    samples_per_s: float


def main(words: Sequence[str] | None = None) -> int:
    """Run all parts; return 1 where an aim is missed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--pairs", type=int, default=3, help="pairs of the real run (default: 3)")
    parser.add_argument("--size", default="1024x1024", help="of their images, px")
    parser.add_argument("--seconds", type=float, default=20.0, help="for the cost of watching")
    parser.add_argument("--work", type=Path, default=WORK, help="where everything is made")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there as well")
    args = parser.parse_args(words)
    args.work.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=args.work, prefix="telemetry-") as name:
        place = Path(name)
        peaks = [*real_peaks(place, args.pairs, args.size), *spike_peaks(place)]
        loads = [load(place, n, mb, args.seconds) for n, mb in ((1, 10), (8, 300), (8, 3000))]
    if args.json is not None:
        figures = {"peaks": [asdict(p) for p in peaks], "loads": [asdict(c) for c in loads]}
        args.json.write_text(json.dumps(figures, indent=1))
    return report(peaks, loads)


def real_peaks(place: Path, pairs: int, size: str) -> list[Peak]:
    """Run the workflow on phantoms and compare every job."""
    directory = place / "run"
    directory.mkdir()
    run("unglow", "phantom", "--size", size, directory=directory)
    link_pairs(directory, directory / "raw" / "phantom", [f"pair{n}" for n in range(1, pairs)])
    say(f"running the workflow on {pairs} pairs of {size} px")
    with observed() as seen:
        status, text = run(*snakemake_words(2, {}), directory=directory)
    if status != 0:
        sys.exit(text[-2000:])
    return compared(directory / "results" / "telemetry", seen)


def spike_peaks(place: Path) -> list[Peak]:
    """Run jobs that hold memory for a moment, in themselves or in a child, and compare them."""
    say("running jobs with spikes")
    directory = place / "spikes"
    directory.mkdir()
    with observed() as seen:
        for mb, held, end in _SPIKES:
            name = f"{mb} MB for {held * 1000:.0f} ms{', killed' if end else ''}"
            body = _SPIKE.format(mb=mb, held=held, end=_KILL if end else "")
            _start(directory, name, body).wait()
        _start(directory, "300 MB in a child", _CHILD).wait()
    return compared(directory, seen)


def compared(telemetry: Path, seen: dict[int, tuple[int, float]]) -> list[Peak]:
    """Compare what attempts say with what was observed of their processes and all below."""
    found = []
    for path in attempt_files(telemetry):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        (pid,) = (e["pid"] for e in lines if isinstance(e, dict) and e["kind"] == "process")
        tree = {pid}
        while more := {child for child, (parent, _) in seen.items() if parent in tree} - tree:
            tree |= more
        observed_mb = max((seen[one][1] for one in tree if one in seen), default=float("nan"))
        end = lines[-1]
        found.append(Peak(lines[0]["rule"], end["outcome"], end["peak_mb"], observed_mb))
    return found


@contextlib.contextmanager
def observed() -> Iterator[dict[int, tuple[int, float]]]:
    """Watch everything that this process starts; filled at the end: pid to parent, peak (MB)."""
    seen: dict[int, tuple[int, float]] = {}
    context = multiprocessing.get_context("fork")
    ready, stop = context.Event(), context.Event()
    receiver, sender = context.Pipe(duplex=False)
    watcher = context.Process(target=_watch, args=(os.getpid(), ready, stop, sender))
    watcher.start()
    ready.wait()
    try:
        yield seen
    finally:
        stop.set()
        seen |= receiver.recv()
        watcher.join()


def _watch(root: int, ready: Event, stop: Event, sender: Any) -> None:
    """In the observer: ask for the largest resident set of all processes below one, over and over.

    Nothing of unglow takes part.
    """
    seen: dict[int, tuple[int, float]] = {}
    alive: set[int] = set()
    due = 0.0
    ready.set()
    while not stop.is_set():
        if time.monotonic() >= due:
            due = time.monotonic() + _FIND_S
            for pid, parent in _below(root):
                if pid != os.getpid() and pid not in seen:
                    seen[pid] = parent, 0.0
                    alive.add(pid)
                    if _is_job(pid):
                        _LIBC.ptrace(_SEIZE, pid, None, _TRACE_EXIT)
        for pid in tuple(alive):
            peak = _peak_mb(pid)
            if peak is None:
                alive.discard(pid)
            else:
                # The last answer, not the largest: until a child runs its own program, the kernel
                # reports the peak of its parent's.
                seen[pid] = seen[pid][0], peak
        for pid in _stopped():
            seen[pid] = seen[pid][0], _peak_mb(pid) or seen[pid][1]
            _LIBC.ptrace(_CONTINUE, pid, None, None)
        time.sleep(_LOOK_S)
    sender.send(seen)


def _stopped() -> Iterator[int]:
    """Yield traced processes that are about to end; let those go on that a signal has stopped."""
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG | _ANY_CHILD)
            if pid == 0:
                return
            if os.WIFSTOPPED(status) and status >> 16 == _EXIT_STOP:
                yield pid
            elif os.WIFSTOPPED(status):
                number = os.WSTOPSIG(status) if status >> 16 == 0 else 0
                _LIBC.ptrace(_CONTINUE, pid, None, number)


def _is_job(pid: int) -> bool:
    """Whether a process is a script of Snakemake or a job of the benchmark's own."""
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        return len(words) > 1 and (b".snakemake/scripts" in words[-2] or b"Job.of" in words[-2])
    return False


def _below(root: int) -> Iterator[tuple[int, int]]:
    """Yield the processes below one, each with its parent."""
    pending = [root]
    for parent in pending:
        with contextlib.suppress(OSError):
            for thread in Path(f"/proc/{parent}/task").iterdir():
                for child in (thread / "children").read_text().split():
                    pending.append(int(child))
                    yield int(child), parent


def _peak_mb(pid: int) -> float | None:
    """Return VmHWM, MB; None for a process that has ended."""
    with contextlib.suppress(OSError):
        for row in Path(f"/proc/{pid}/status").read_text().splitlines():
            if row.startswith("VmHWM:"):
                return int(row.split()[1]) * _KIB
    return None


def load(place: Path, threads: int, mb: int, seconds: float) -> Load:
    """Measure what a watchdog takes next to a job that holds memory and sleeps."""
    say(f"watching {threads} threads with {mb} MB for {seconds:.0f} s")
    directory = place / f"load-{threads}-{mb}"
    directory.mkdir()
    sleep = f"""import threading
    held = bytearray(b"1") * {mb}_000_000
    for _ in range({threads - 1}):
        threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
    time.sleep(600)"""
    process = _start(directory, "load", sleep)
    time.sleep(5)  # until the memory is there
    spent, samples, began = _cpu_s(process.pid), _samples(directory), time.monotonic()
    time.sleep(seconds)
    took = time.monotonic() - began
    core = (_cpu_s(process.pid) - spent) / took
    rate = (_samples(directory) - samples) / took
    process.send_signal(signal.SIGKILL)
    process.wait()
    return Load(threads, mb, core, rate)


def _samples(directory: Path) -> int:
    """Return how many samples there are by now."""
    (path,) = attempt_files(directory)
    return sum(line.startswith("[") for line in path.read_text().splitlines())


def _cpu_s(pid: int) -> float:
    """Return what a process itself has taken of processors, s, in nanoseconds of the scheduler."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def _start(directory: Path, name: str, body: str) -> subprocess.Popen[bytes]:
    """Start a job of the benchmark's own."""
    code = _JOB.format(name=name, body=body)
    return subprocess.Popen([sys.executable, "-c", code], cwd=directory, stderr=subprocess.DEVNULL)


def report(peaks: list[Peak], loads: list[Load]) -> int:
    """Print all tables; return 1 where an aim is missed."""
    rows = []
    for rule in dict.fromkeys(p.rule for p in peaks):
        some = [p for p in peaks if p.rule == rule]
        ratios = [p.ratio for p in some]
        bad = any(not abs(r - 1) <= RIGHT for r in ratios)
        outcomes = ", ".join(sorted({p.outcome for p in some}))
        peak = max(p.observed_mb for p in some)
        ends = [f"{min(ratios):.4f}", f"{max(ratios):.4f}" + ("!" if bad else " ")]
        rows.append([rule, outcomes, str(len(some)), number(peak), *ends])
    header = ["job", "outcome", "jobs", "observed MB", "said/observed, lowest", "highest "]
    print(table(header, rows, left=2))
    wrong = sum(not abs(p.ratio - 1) <= RIGHT for p in peaks)
    worst = max(abs(p.ratio - 1) for p in peaks)
    print(
        f"\n{len(peaks)} jobs, {wrong} said a peak that is off by more than {100 * RIGHT:.0f} %; "
        f"the worst is off by {100 * worst:.2f} %\n"
    )
    header = ["threads", "MB", "samples/s", "% of a core", "aim"]
    rows = [
        [
            *(str(c.threads), str(c.mb), f"{c.samples_per_s:.2f}", f"{100 * c.core:.3f}"),
            f"{100 * MOST_CORE:.0f}" + ("!" if c.core > MOST_CORE else " "),
        ]
        for c in loads
    ]
    print(table(header, rows, left=0))
    return int(bool(wrong) or any(c.core > MOST_CORE for c in loads))


if __name__ == "__main__":
    sys.exit(main())
