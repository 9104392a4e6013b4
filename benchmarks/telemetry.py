"""The peak that telemetry reports against the one that was observed, and what telemetry costs.

Jobs that hold much memory for a moment are watched by a process of the benchmark's own, which asks
the kernel for their largest resident set a thousand times a second.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from running import WORK, say
from tables import number, save_json, table

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
with Job.from_script(snakemake) as job:
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
    parser.add_argument("--seconds", type=float, default=20.0, help="for the cost of watching")
    parser.add_argument("--work", type=Path, default=WORK, help="where everything is made")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there as well")
    args = parser.parse_args(words)
    args.work.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=args.work, prefix="telemetry-") as name:
        place = Path(name)
        peaks = spike_peaks(place)
        loads = [load(place, n, mb, args.seconds) for n, mb in ((1, 10), (8, 300), (8, 3000))]
    save_json(args.json, {"peaks": peaks, "loads": loads})
    return report(peaks, loads)


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
        observed = [seen[one][1] for one in tree if one in seen] or [float("nan")]
        end = lines[-1]
        # of several together, between that of the largest and all
        observed_mb = min(max(*observed, end["peak_mb"]), sum(observed))
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
        for pid in tuple(alive):
            peak = _peak_mb(pid)
            if peak is None:
                alive.discard(pid)
            else:
                # The last answer, not the largest: until a child runs its own program, the kernel
                # reports the peak of its parent's.
                seen[pid] = seen[pid][0], peak
        time.sleep(_LOOK_S)
    sender.send(seen)


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
    """Print both tables; return 1 where an aim is missed."""
    wrong = [not abs(p.ratio - 1) <= RIGHT for p in peaks]
    rows = [
        [p.rule, p.outcome, number(p.observed_mb), f"{p.ratio:.4f}" + " !"[is_wrong]]
        for p, is_wrong in zip(peaks, wrong, strict=True)
    ]
    print(table(["job", "outcome", "observed MB", "said/observed "], rows, left=2))
    print(f"\n{sum(wrong)} of {len(peaks)} said a peak that is off by more than {RIGHT:.0%}\n")
    slow = [c.core > MOST_CORE for c in loads]
    rows = [
        [str(c.threads), str(c.mb), f"{c.samples_per_s:.2f}", f"{100 * c.core:.3f}" + " !"[is_slow]]
        for c, is_slow in zip(loads, slow, strict=True)
    ]
    print(table(["threads", "MB", "samples/s", f"% of a core (at most {MOST_CORE:.1%}) "], rows))
    return int(any((*wrong, *slow)))


if __name__ == "__main__":
    sys.exit(main())
