"""Print where the time of a run goes: of each process, and of each step in it.

    python benchmarks/run_profile.py --repeats 5
    python benchmarks/run_profile.py --sizes 1024 --pairs 50
    python benchmarks/run_profile.py --sizes 30000x25000

Every Python process of a real run notes when its steps begin (`marks/sitecustomize.py`): Snakemake,
and for each job the process that watches and the one that works.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from marks.sitecustomize import PLACE
from phantoms import Case, link_pairs, phantom, size_of
from running import PROJECT, WORK, command, say, snakemake_words
from tables import table

from unglow.core.machine import processors

#: Columns of the table of jobs: what is spent before the first useful line, then the rest.
START = ("interpreter", "Snakemake's imports", "frame", "libraries")
WATCHING, END = "watching", "end"
#: Steps of Snakemake's own process, in their order.
SNAKEMAKE = ("interpreter", "Snakemake's imports", "workflow", "DAG", "jobs", "hooks and end")
#: Steps of work that take less CPU, s, are not listed.
LEAST_S = 0.02
LEGEND = """\
CPU and wall in s, of all jobs of a rule together; with --repeats the medians, so that sums differ.
interpreter  up to the first import of Snakemake.
Snakemake's imports  in a job the preamble that Snakemake puts before a script.
frame        imports of unglow.jobs.context, telemetry and lock, up to the fork.
libraries    in the forked process: imports of the script, until it limits its memory.
start        all of these: what a job costs before its first useful line.
watching     the process that watches: samples, and the record.
work, end    in the forked process: everything until the list of digests, and what follows.
rest         of the run: shells, and what Python does after its last line."""


@dataclass(frozen=True, slots=True)
class Spent:
    """CPU and wall time of a step, s."""

    cpu_s: float
    wall_s: float


Steps = dict[tuple[str, str], Spent]
"""By process (``Snakemake``, a rule, ...) and step."""


def read_marks(place: Path) -> Steps:
    """Return what the processes of one run have spent, equal steps together."""
    spent: dict[tuple[str, str], list[Spent]] = defaultdict(list)
    for path in place.glob("*.json"):
        about = json.loads(path.read_text(encoding="utf-8"))
        name = process_name(about["program"])
        marks = about["marks"]
        for (step, wall, cpu), (_, wall_after, cpu_after) in itertools.pairwise(marks):
            spent[name, step].append(Spent(cpu_after - cpu, wall_after - wall))
    return {
        key: Spent(sum(one.cpu_s for one in found), sum(one.wall_s for one in found))
        for key, found in spent.items()
    }


def process_name(program: str) -> str:
    """Return the script of a job, by the name of Snakemake's copy, or the program."""
    path = Path(program)
    return path.stem.rpartition(".")[2] if path.suffix == ".py" else path.name


def profile(raw: Path, pairs: int, work: Path, words: list[str]) -> tuple[Spent, Steps]:
    """Run the workflow once; return what it takes in all, and its steps."""
    with tempfile.TemporaryDirectory(prefix="profile-", dir=work) as name:
        noted = Path(name, "marks")
        noted.mkdir()
        link_pairs(Path(name), raw, [f"S{n + 1}" for n in range(pairs)])
        environment = {PLACE: str(noted), "PYTHONPATH": str(PROJECT / "benchmarks" / "marks")}
        wall, cpu = command(*words, directory=Path(name), environment=environment)
        return Spent(cpu, wall), read_marks(noted)


def medians(runs: list[Steps]) -> Steps:
    """Return the median of each step over runs; one that a run has not is 0 there."""
    none = Spent(0.0, 0.0)
    return {
        key: Spent(
            median(run.get(key, none).cpu_s for run in runs),
            median(run.get(key, none).wall_s for run in runs),
        )
        for key in {key: None for run in runs for key in run}
    }


def snakemake_table(whole: Spent, steps: Steps) -> str:
    """Return the table of Snakemake's own process and of the whole run."""
    own = {step: spent for (name, step), spent in steps.items() if name == "snakemake"}
    rows = [(step, own[step]) for step in SNAKEMAKE if step in own]
    cells = [(f"Snakemake: {step}", f"{s.cpu_s:.2f}", f"{s.wall_s:.2f}") for step, s in rows]
    jobs = sum(s.cpu_s for (name, _), s in steps.items() if name != "snakemake")
    rest = whole.cpu_s - jobs - sum(s.cpu_s for s in own.values())
    cells += [
        ("jobs", f"{jobs:.2f}", ""),
        ("rest", f"{rest:.2f}", ""),
        ("run", f"{whole.cpu_s:.2f}", f"{whole.wall_s:.2f}"),
    ]
    return table(("process: step", "CPU", "wall"), cells)


def jobs_table(steps: Steps) -> str:
    """Return the table of the jobs by rule: CPU of each part, and wall of all."""
    rules = sorted({name for name, _ in steps} - {"snakemake"})
    parts = (*START, WATCHING, END)
    sums = [0.0] * (len(parts) + 3)
    rows = []
    for rule in rules:
        own = {step: spent for (name, step), spent in steps.items() if name == rule}
        cpu = [own[part].cpu_s if part in own else 0.0 for part in parts]
        start, whole = sum(cpu[: len(START)]), sum(s.cpu_s for s in own.values())
        values = [*cpu[: len(START)], start, cpu[-2], whole - sum(cpu), cpu[-1], whole]
        sums = [a + b for a, b in zip(sums, values, strict=True)]
        wall = sum(s.wall_s for step, s in own.items() if step != WATCHING)
        rows.append([rule, *(f"{value:.2f}" for value in values), f"{wall:.2f}"])
    rows.append(["sum", *(f"{value:.2f}" for value in sums), ""])
    return table(("rule", *START, "start", WATCHING, "work", END, "CPU", "wall"), rows)


def work_table(steps: Steps) -> str:
    """Return the table of the steps of work, the dearest of each rule first."""
    known = {*START, WATCHING, END}
    found = [
        (name, step, spent)
        for (name, step), spent in steps.items()
        if name != "snakemake" and step not in known and spent.cpu_s >= LEAST_S
    ]
    found.sort(key=lambda one: (one[0], -one[2].cpu_s))
    rows = [(name, step, f"{s.cpu_s:.2f}", f"{s.wall_s:.2f}") for name, step, s in found]
    return table(("rule", "step of its work", "CPU", "wall"), rows, left=2)


def main() -> int:
    """Print the tables of each size."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--sizes", nargs="+", default=[(2048, 2048)], type=size_of, metavar="ROWSxCOLS")
    add("--pairs", type=int, default=1, help="pairs of each size, all equal (default: 1)")
    add("--repeats", type=int, default=1, help="runs; medians are shown")
    add("--cores", type=int, default=processors(), help="cores (default: all)")
    add("--work", type=Path, default=WORK, help="directory for pairs and runs")
    options = parser.parse_args()
    work = options.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    words = snakemake_words(options.cores, {})[:-1]
    for rows, cols in options.sizes:
        case = Case(rows, cols, "tiles", "uint8")
        raw = phantom(case, work / "phantoms", options.cores)
        runs = []
        for serial in range(options.repeats):
            say(f"{case.size} px, {options.pairs} pairs: run {serial + 1} of {options.repeats}")
            runs.append(profile(raw, options.pairs, work, words))
        wholes = [whole for whole, _ in runs]
        whole = Spent(median(w.cpu_s for w in wholes), median(w.wall_s for w in wholes))
        steps = medians([steps for _, steps in runs])
        load = f"load {os.getloadavg()[0]:.1f}"
        print(f"\n{case.size} px, pairs: {options.pairs}, {options.cores} cores, {load}")
        print(f"{snakemake_table(whole, steps)}\n\n{jobs_table(steps)}\n\n{work_table(steps)}")
    print(f"\n{LEGEND}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
