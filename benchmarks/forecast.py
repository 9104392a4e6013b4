"""Compare forecasts with runs: sizes, cores, layouts, codecs, numbers of pairs, deformation.

    python benchmarks/forecast.py

Each run is forecast twice: from the first guess that unglow ships with, and from the times of all
the other runs, as on a machine that has done those before. README.md in this directory says how to
read the table.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from phantoms import Case, forget_canvases, link_pairs, phantom
from running import BIN, WORK, command, say, snakemake_words
from tables import table

from unglow.core.machine import cache_directory, processors
from unglow.workflow.forecast import EarlierRun, add_run, file_of_machine, read_runs

RIGHT = 1.5
"""A forecast is right within this factor."""
WANTED = 0.9
BUSY = 0.5


@dataclass(frozen=True, slots=True)
class Planned:
    """A run: pixels of a side, layout and type or codec, cores, pairs, and deformation in px.

    Pairs that are deformed are made by `unglow phantom`, which takes longer.
    """

    side: int
    layout: str
    kind: str
    cores: int
    pairs: int = 1
    deformed: int = 0

    @property
    def name(self) -> str:
        """Its name among the others."""
        bent = f" bent {self.deformed} px" if self.deformed else ""
        return f"{self.pairs} x {self.side} {self.layout} {self.kind}{bent}"


RUNS = (
    Planned(512, "tiles", "uint8", 2),
    Planned(1024, "tiles", "uint8", 1),
    Planned(1024, "strips", "uint8", 2, pairs=4),
    Planned(1536, "strips", "lzw", 2, pairs=2, deformed=8),
    Planned(2048, "tiles", "uint8", 2),
    Planned(2048, "tiles", "uint16", 2, pairs=2),
    Planned(2048, "tiles", "zlib", 1, deformed=6),
    Planned(2048, "jpeg-tiles", "uint8", 1),
    Planned(3072, "zstd-strip", "uint8", 2, pairs=3),
    Planned(4096, "tiles", "uint8", 2),
    Planned(4096, "strips", "uint8", 1),
    Planned(6144, "deflate-strip", "uint8", 2),
    Planned(8192, "tiles", "uint8", 2),
    Planned(8192, "strips", "uint16", 1),
)


@dataclass(frozen=True, slots=True)
class Done:
    """A run that has been made: its time and that on processors, s, and what it has learnt."""

    planned: Planned
    wall_s: float
    cpu_s: float
    earlier: EarlierRun
    directory: Path


def raw_of(planned: Planned, cache: Path) -> Path:
    """Return a directory with the images of one pair of a run, made if it is not in the cache."""
    if not planned.deformed:
        case = Case(planned.side, planned.side, planned.layout, planned.kind)
        raw = phantom(case, cache, processors())
        forget_canvases(cache)
        return raw / "phantom"
    raw = cache / f"bent-{planned.side}-{planned.layout}-{planned.kind}-{planned.deformed}"
    if not raw.is_dir():
        words = (
            *("--raw", raw, "--size", f"{planned.side}x{planned.side}"),
            *("--layout", planned.layout, "--compression", planned.kind),
            *("--deform-px", planned.deformed, "--workers", processors()),
        )
        command(BIN / "unglow", "phantom", *words, directory=cache)
    return raw / "phantom"


def made(planned: Planned, cache: Path, work: Path) -> Done:
    """Make a run in an empty directory, with nothing known of earlier ones."""
    directory = Path(tempfile.mkdtemp(prefix="forecast-", dir=work))
    link_pairs(directory, raw_of(planned, cache), [f"s{n}" for n in range(planned.pairs)])
    own = directory / "cache"
    environment = {
        "XDG_CACHE_HOME": str(own),
        "MPLCONFIGDIR": os.environ.get("MPLCONFIGDIR", str(cache_directory() / "matplotlib")),
    }
    words = snakemake_words(planned.cores, {"memory_per_job": 2000})
    wall, cpu = command(*words, directory=directory, environment=environment)
    shutil.rmtree(directory / "results")
    (earlier,) = read_runs(own / "unglow" / file_of_machine().name)
    say(f"{planned.name}: {wall:.1f} s, {cpu:.1f} CPU-s")
    return Done(planned, wall, cpu, earlier, directory)


def forecast_of(done: Done, others: list[EarlierRun]) -> dict[str, float]:
    """Return the forecast of a run from those of some others, as `unglow preflight` gives it."""
    cache = done.directory / "others"
    shutil.rmtree(cache, ignore_errors=True)
    for other in others:
        add_run(cache / "unglow" / file_of_machine().name, other)
    said = subprocess.run(
        [BIN / "unglow", "preflight", "--json", "--cores", str(done.planned.cores)],
        cwd=done.directory,
        env=os.environ | {"XDG_CACHE_HOME": str(cache)},
        stdout=subprocess.PIPE,
        check=True,
    )
    expected: dict[str, float] = json.loads(said.stdout)["expected"]
    return expected


def format_runs(runs: list[Done]) -> str:
    """Return the table of all runs, and which part of the forecasts was right."""
    rows, right = [], {"first guess": [0, 0, 0], "learnt from the others": [0, 0, 0]}
    for run in runs:
        row = [run.planned.name, str(run.planned.cores), f"{run.wall_s:.1f}"]
        others = [other.earlier for other in runs if other is not run]
        for (what, counts), known in zip(right.items(), ([], others), strict=True):
            found = forecast_of(run, known)
            seconds, low, high = found["seconds"], found["low"], found["high"]
            ratio, cpu_ratio = seconds / run.wall_s, found["cpu_s"] / run.cpu_s
            counts[0] += 1 / RIGHT <= ratio <= RIGHT
            counts[1] += 1 / RIGHT <= cpu_ratio <= RIGHT
            counts[2] += low <= run.wall_s <= high
            row += [f"{seconds:.1f}", f"{low:.0f}-{high:.0f}", f"{ratio:.2f}"]
            row += [f"{run.cpu_s:.1f}"] if what == "first guess" else []
            row += [f"{cpu_ratio:.2f}"]
        rows.append(row)
    header = ["run", "cores", "wall s", "guess", "90 %", "ratio", "CPU s", "ratio"]
    header += ["learnt", "90 %", "ratio", "CPU ratio"]
    lines = [table(header, rows), ""]
    for what, (near, near_cpu, inside) in right.items():
        verdict = "right" if near >= WANTED * len(runs) else "TOO FEW"
        lines.append(
            f"{what}: {near} of {len(runs)} within a factor of {RIGHT} ({verdict}), CPU time "
            f"{near_cpu}, {inside} within the 90 % interval"
        )
    return "\n".join(lines)


def main() -> None:
    """Make all runs and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--most", type=int, default=8192, help="largest side, px (default: 8192)")
    parser.add_argument("--work", type=Path, default=WORK, help="directory for pairs and runs")
    options = parser.parse_args()
    work = options.work.resolve()
    (work / "phantoms").mkdir(parents=True, exist_ok=True)
    load = os.getloadavg()[0]
    if load > BUSY:
        print(f"others keep {load:.1f} processors busy: wall times say little, CPU times some")
    runs = [made(run, work / "phantoms", work) for run in RUNS if run.side <= options.most]
    print(format_runs(runs))
    for run in runs:
        shutil.rmtree(run.directory)


if __name__ == "__main__":
    main()
