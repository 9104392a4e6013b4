"""One large pair in several bands and in none: the same bytes, and what bands cost and gain.

Further words for Snakemake go behind ``--``, so that the jobs run on a cluster:

    python benchmarks/bands.py --bands 1 4 -- --workflow-profile profiles/slurm --jobs 3
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phantoms import LAYOUTS, Case, phantom, size_of
from running import (
    WORK,
    command,
    covered,
    read_telemetry,
    say,
    snakemake_words,
    with_places,
)
from tables import number, ratio_text, table

from unglow.core.machine import processors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

STAGES = ("ingest", "align", "difference", "detect")
LEGEND = """\
jobs         of all bands of a stage, and those that join them.
CPU          s, of all these jobs, start of Python included; overhead: against the first run.
wall         s in which at least one of these jobs was at work.
peak, declared  MB of the job that was predicted most tightly: VmHWM, and mem_mb of its rule.
ratio        declared / peak: ! if above what was declared, + if below 1/1.3 of it."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What one run took: seconds in all, the records of its jobs, and a digest of its results."""

    bands: int
    wall_s: float
    cpu_s: float
    records: Sequence[Mapping[str, Any]]
    digests: Mapping[str, str]


def measure(raw: Path, bands: int, options: argparse.Namespace) -> Measured:
    """Run the workflow on a pair in an empty directory."""
    say(f"{bands} band(s): running")
    with tempfile.TemporaryDirectory(prefix=f"bands-{bands}-", dir=options.work) as name:
        directory = Path(name)
        (directory / "raw").symlink_to(raw.resolve(), target_is_directory=True)
        config = {"bands": bands, "scale": "{methods: [linear]}"}
        words = snakemake_words(options.cores, config, until=options.until)
        at = words.index("--config")
        words[at:at] = options.snakemake
        wall_s, cpu_s = command(*words, directory=directory)
        records = read_telemetry(directory / "results" / "telemetry")
        return Measured(bands, wall_s, cpu_s, records, digests_of(directory / "results"))


def digests_of(results: Path) -> dict[str, str]:
    """Return the digest of every file of every pair, hidden ones as well, by its path."""
    found = {}
    for pair in results.glob("*/*/plan.json"):
        for path in sorted(pair.parent.rglob("*")):
            if path.is_file() and path.name != ".snakemake_timestamp":
                with path.open("rb") as file:
                    digest = hashlib.file_digest(file, "sha256").hexdigest()
                found[str(path.relative_to(results))] = digest
    return found


def stages_table(runs: Sequence[Measured]) -> str:
    """Return a table with a row for each stage and run."""
    rows = []
    before: dict[str, float] = {}
    for stage in STAGES:
        for run in runs:
            jobs = [r for r in run.records if r["rule"].removesuffix("_band") == stage]
            if not jobs:
                continue
            cpu = sum(r["cpu_seconds"] for r in jobs)
            wall = covered((r["start"], r["end"]) for r in jobs)
            tight = min(jobs, key=lambda r: r["declared_mb"] / r["peak_mb"])
            joined = sum(r["rule"] == stage for r in jobs) if run.bands > 1 else 0
            overhead = cpu / before.setdefault(stage, cpu) - 1
            rows.append(
                [
                    stage,
                    str(run.bands),
                    f"{len(jobs) - joined} + {joined}" if joined else str(len(jobs)),
                    number(cpu),
                    f"{100 * overhead:+.0f} %",
                    number(wall),
                    number(tight["peak_mb"]),
                    number(tight["declared_mb"]),
                    ratio_text(tight["declared_mb"] / tight["peak_mb"]),
                ]
            )
    figures = ["jobs", "CPU s", "overhead", "wall s", "peak MB", "declared", "ratio"]
    return table(["stage", "bands", *figures], rows)


def jobs_table(run: Measured) -> str:
    """Return a table of the jobs of bands and of those that join them, the tightest of each."""
    kinds: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for record in run.records:
        if record["rule"].removesuffix("_band") in STAGES:
            kinds[record["rule"]].append(record)
    rows = []
    for rule, jobs in sorted(kinds.items()):
        tight = min(jobs, key=lambda r: r["declared_mb"] / r["peak_mb"])
        longest = max(r["seconds"] for r in jobs)
        ratio = ratio_text(tight["declared_mb"] / tight["peak_mb"])
        figures = (longest, tight["peak_mb"], tight["declared_mb"])
        rows.append([rule, str(len(jobs)), *map(number, figures), ratio])
    return table(["rule", "jobs", "longest s", "peak MB", "declared", "ratio"], rows)


def differences(runs: Sequence[Measured]) -> list[str]:
    """Return the files that are not the same bytes in all runs."""
    names = {name for run in runs for name in run.digests}
    return sorted(n for n in names if len({run.digests.get(n) for run in runs}) > 1)


def main() -> int:
    """Run the benchmark; return 1 if bands changed a byte."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--size", type=size_of, default=(16384, 16384), help="8192 or 30000x25000")
    parser.add_argument("--layout", choices=LAYOUTS, default="tiles")
    parser.add_argument("--bands", type=int, nargs="+", default=[1, 4], help="default: 1 4")
    parser.add_argument("--cores", type=int, default=processors())
    parser.add_argument("--until", help="the last rule (default: all)")
    parser.add_argument("--work", type=Path, default=WORK, help="where files go meanwhile")
    parser.add_argument("snakemake", nargs="*", help="further words for Snakemake, behind --")
    options = parser.parse_args()
    options.snakemake = with_places(options.snakemake)
    case = Case(*options.size, options.layout, "uint8")
    options.work.mkdir(parents=True, exist_ok=True)
    raw = phantom(case, options.work / "phantoms", processors())
    runs = [measure(raw, bands, options) for bands in options.bands]
    print(f"\n{case.name}, --cores {options.cores} {' '.join(options.snakemake)}\n")
    print(stages_table(runs))
    for run in runs:
        took = f"wall {number(run.wall_s)} s, CPU {number(run.cpu_s)} s"
        print(f"\n{run.bands} band(s), the whole run: {took}\n")
        print(jobs_table(run))
    print(f"\n{LEGEND}")
    changed = differences(runs)
    for name in changed:
        print(f"DIFFERS: {name}")
    print(f"{len(runs[0].digests)} files, {'NOT ' if changed else ''}the same bytes in all runs")
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
