"""Print what so many pairs cost Snakemake itself: to plan them, and for each job that it runs.

    python benchmarks/many_pairs.py --pairs 100 1000 3000 --seconds 60

All pairs are links to one small phantom. The dry run reads every header and plans every job. Then
the workflow runs with scripts that only make their files, for so many seconds, and is ended.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
from phantoms import link_pairs
from running import BIN, PROJECT, WORK, command, measure, say, tools
from tables import number, table

from unglow.workflow.batch import Batch

if TYPE_CHECKING:
    from collections.abc import Sequence

EMPTY = """\
from pathlib import Path

for path in map(Path, snakemake.output):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
"""
LEGEND = """\
node       s of CPU that a job on a cluster spends to find the pairs and read their headers again.
dry run    s of wall and CPU, and MB of the process.
first      s until the first job has ended.
a job      ms of wall time and of Snakemake's own CPU for each job that ended after the first."""


def make_pairs(place: Path, count: int) -> None:
    """Make raw/ with links to the two images of one phantom of 512 px."""
    one = place / "one"
    one.mkdir()
    command(BIN / "unglow", "phantom", "--size", "512x512", directory=one)
    link_pairs(place, one, [f"S{serial:05d}" for serial in range(count)])


def empty_workflow(place: Path) -> Path:
    """Copy the workflow, with scripts that only make their files; return its Snakefile."""
    copy = place / "workflow"
    copy.mkdir()
    for name in ("Snakefile", "rules", "scripts", "config", "profiles", "report", "envs"):
        source = PROJECT / name
        (shutil.copytree if source.is_dir() else shutil.copy2)(source, copy / name)
    for script in (copy / "scripts").glob("*.py"):
        script.write_text(EMPTY, encoding="utf-8")
    return copy / "Snakefile"


def of_node(place: Path) -> float:
    """Return the CPU time of reading the batch, its headers remembered, s."""
    started = time.process_time()
    Batch.load({}, place)
    return time.process_time() - started


def snakemake(snakefile: Path, *more: str) -> list[str]:
    """Return the words that run a workflow, whatever preflight expects of files that stay empty."""
    words = [str(BIN / "snakemake"), "-s", str(snakefile), "--cores", "2", "-q", "all"]
    return [*words, "--config", "force_run=True", *more]


def dry_run(place: Path) -> tuple[float, float, float]:
    """Return the wall and CPU time of a dry run, s, and its peak memory, MB.

    Raises
    ------
    SystemExit
        If it fails.
    """
    taken = measure(*snakemake(PROJECT / "Snakefile", "-n"), directory=place)
    if taken.status != 0:
        sys.exit(f"the dry run failed: {taken.text}")
    return taken.wall_s, taken.cpu_s, taken.peak_mb


def ended(place: Path) -> int:
    """Return how many jobs have ended, by what Snakemake notes of each."""
    return sum(len(names) for *_, names in os.walk(place / "results" / "benchmarks"))


def run(place: Path, seconds: float) -> tuple[float, float, float]:
    """Run the empty workflow until so many seconds after the first job, and end it.

    Return s until the first job has ended, and ms of wall time and of the CPU of Snakemake's own
    process for each job after it.

    Raises
    ------
    SystemExit
        If it ends before the time, or if no second job has ended by then.
    """
    words = snakemake(empty_workflow(place))
    started = time.perf_counter()
    with (place / "output").open("w") as output:
        process = psutil.Popen(
            words, cwd=place, env=tools(), stdout=output, stderr=subprocess.STDOUT
        )
    marks: list[tuple[float, float, int]] = []
    for pause in (0.0, seconds):
        time.sleep(pause)
        while process.poll() is None and not (jobs := ended(place)):
            time.sleep(0.2)
        if process.poll() is not None:
            said = (place / "output").read_text()
            sys.exit(f"ended with {process.returncode} before the time: {said}")
        times = process.cpu_times()
        marks.append((time.perf_counter() - started, times.user + times.system, jobs))
    process.kill()  # asked to end, Snakemake may wait for itself for ever
    process.wait()
    (first, cpu, before), (last, cpu_last, after) = marks
    jobs = after - before
    if not jobs:
        sys.exit(f"no second job ended in {seconds:g} s: give more with --seconds")
    return first, 1000 * (last - first) / jobs, 1000 * (cpu_last - cpu) / jobs


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pairs", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--seconds", type=float, default=60, help="of running; default: 60")
    chosen = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    rows: list[Sequence[str]] = []
    for count in chosen.pairs:
        with tempfile.TemporaryDirectory(dir=WORK) as name:
            place = Path(name)
            make_pairs(place, count)
            wall, cpu, peak = dry_run(place)
            first, job, own = run(place, chosen.seconds)
            node = of_node(place)  # the run has remembered the headers
        figures = (node, wall, cpu, peak, first, job, own)
        rows.append((str(count), *map(number, figures)))
    header = ("pairs", "node", "dry run", "CPU", "MB", "first", "a job", "own CPU")
    say(table(header, rows))
    say(LEGEND)


if __name__ == "__main__":
    main()
