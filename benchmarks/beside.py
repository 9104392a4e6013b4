"""Time unglow and another tool on the same phantom pairs, one after the other, and print ratios.

    python benchmarks/beside.py --sizes 2048 4096 -- COMMAND ...

COMMAND is that of the other tool. In its words {place} stands for a directory with raw/<sample>/
<sample>_pre_<dye>.tif and ..._post_<dye>.tif, {sample} and {dye} for their names, and {out} for an
empty directory of its own; it is run once for each pair. README.md says how exo2micro is called.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from running import BIN, WORK, command, read_telemetry, say, snakemake_words
from tables import number, table

from unglow.core.machine import processors

if TYPE_CHECKING:
    from collections.abc import Sequence

DYE = "SYTO9"
LEGEND = """\
wall, CPU  s, of the whole command with all of its processes, for all pairs.
peak       MB, of the largest job of unglow; the other tool reports its own.
ratio      other / unglow: how many times as much the other one takes."""


def make_pairs(place: Path, size: str, count: int) -> list[str]:
    """Make raw/ with so many pairs; return their samples."""
    words = ("phantom", "--size", f"{size}x{size}", "--dye", DYE, "--pairs", count)
    command(BIN / "unglow", *words, directory=place)
    return sorted(path.name for path in (place / "raw").iterdir() if path.is_dir())


def unglow(place: Path) -> tuple[float, float, float]:
    """Run the workflow; return its wall and CPU time, s, and the peak of its largest job, MB."""
    taken = command(*snakemake_words(processors(), {"memory_per_job": 600}), directory=place)
    records = read_telemetry(place / "results" / "telemetry")
    return *taken, max(record["peak_mb"] for record in records)


def other(words: Sequence[str], place: Path, samples: Sequence[str]) -> tuple[float, float]:
    """Run the other tool once for each pair; return its wall and CPU time in all, s."""
    wall = cpu = 0.0
    for sample in samples:
        with tempfile.TemporaryDirectory(dir=place) as out:
            names = {"place": str(place), "sample": sample, "dye": DYE, "out": out}
            took = command(*(word.format(**names) for word in words), directory=place)
        wall, cpu = wall + took[0], cpu + took[1]
    return wall, cpu


def row(size: str, pairs: int, words: Sequence[str]) -> list[str]:
    """Measure both tools on new pairs of a size."""
    with tempfile.TemporaryDirectory(prefix=f"beside-{size}-", dir=WORK) as name:
        place = Path(name)
        samples = make_pairs(place, size, pairs)
        ours = unglow(place)
        say(f"{size}: unglow {ours[0]:.1f} s, {ours[1]:.1f} s of CPU")
        theirs = other(words, place, samples)
    ratios = (theirs[0] / ours[0], theirs[1] / ours[1])
    return [size, str(pairs), *map(number, (*ours, *theirs, *ratios))]


def main(words: Sequence[str] | None = None) -> int:
    """Read the command line, measure, print."""
    given = list(sys.argv[1:] if words is None else words)
    split = given.index("--") if "--" in given else len(given)
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", nargs="+", default=["2048"], metavar="PX", help="of the sides")
    parser.add_argument("--pairs", type=int, default=1, help="pairs of each size")
    options = parser.parse_args(given[:split])
    if not given[split + 1 :]:
        parser.error("the command of the other tool is missing; it stands behind --")
    WORK.mkdir(parents=True, exist_ok=True)
    header = ("px", "pairs", "wall", "CPU", "peak", "other: wall", "CPU", "ratio: wall", "CPU")
    rows = [row(size, options.pairs, given[split + 1 :]) for size in options.sizes]
    print(table(header, rows), "", LEGEND, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
