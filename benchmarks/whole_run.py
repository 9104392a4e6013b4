"""Time the whole workflow on phantom pairs of several sizes, next to plain reading and writing.

For every pair: what each rule took (from the run's own telemetry), what the whole command took,
and the floor below which nothing can be: reading the raw files once and writing as many bytes as
the results hold. README.md next to this file says how to read the tables.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from phantoms import DTYPES, LAYOUTS, Case, Pair, forget_canvases, look_at, phantom, size_of
from running import (
    BIN,
    WORK,
    command,
    complete,
    covered,
    read_telemetry,
    say,
    snakemake_words,
)
from tables import RIGHT_RATIO, number, ratio_text, save_json, table

from unglow import __version__
from unglow.core.machine import processors

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MB = 1e6
PIECE = 1 << 23
MOST_WRITTEN = 4_000_000_000
# From here on, what a run costs anyway is small next to what its pixels cost.
LARGE_PIXELS = 4096 * 4096
RIGHT_EXPONENT = 1.05
AFTER = ("verify", "compare results results", "export --tiff out.ome.tif {store}")
"""Commands of unglow that read all pixels of the results."""
LEGEND = f"""\
wall, CPU    s, summed over the jobs of a rule, which may run side by side; the time in which
             Python itself starts is in CPU and not in wall.
MB/s         MB of decoded pixels of both raw images (all channels) per s of the rule's wall time.
peak, declared  MB of the job that was predicted most tightly: VmHWM, and mem_mb of the rule.
ratio        declared / peak: ! if above what was declared, + if below 1/{RIGHT_RATIO[1]} of it.
MB is 1e6 bytes."""


@dataclass(frozen=True, slots=True)
class RuleFigures:
    """What all jobs of a rule took; `LEGEND` says what the figures are."""

    rule: str
    jobs: int
    wall_s: float
    cpu_s: float
    peak_mb: float
    declared_mb: float


@dataclass(frozen=True, slots=True)
class Measurement:
    """One run of the workflow on one pair.

    Attributes
    ----------
    wall_s, cpu_s
        Of the command, all of its processes included.
    busy_s
        Time in which at least one job was at work.
    floor_s
        Plain sequential reading and writing (with fsync) of the same volumes.
    after
        Name, time (s) and largest process (MB) of each of the commands `AFTER`.
    """

    case: Case
    pair: Pair
    wall_s: float
    cpu_s: float
    busy_s: float
    floor_s: float
    rules: tuple[RuleFigures, ...]
    after: tuple[tuple[str, float, float], ...]


def by_rule(records: Sequence[Mapping[str, Any]]) -> tuple[RuleFigures, ...]:
    """Sum up the jobs of each rule, rules in the order in which they first began."""
    found = []
    for rule in dict.fromkeys(record["rule"] for record in records):
        jobs = [record for record in records if record["rule"] == rule]
        wall, cpu = (math.fsum(job[name] for job in jobs) for name in ("seconds", "cpu_seconds"))
        tightest = min(jobs, key=lambda job: job["declared_mb"] / job["peak_mb"])
        memory = tightest["peak_mb"], tightest["declared_mb"]
        found.append(RuleFigures(rule, len(jobs), wall, cpu, *memory))
    return tuple(found)


def run_text(m: Measurement) -> str:
    """Return everything about one run."""
    rows = [
        [
            r.rule,
            str(r.jobs),
            *map(number, (r.wall_s, r.cpu_s, m.pair.decoded_mb / max(r.wall_s, 1e-9))),
            *map(number, (r.peak_mb, r.declared_mb)),
            ratio_text(r.declared_mb / r.peak_mb),
        ]
        for r in m.rules
    ]
    own_cpu = m.cpu_s - math.fsum(r.cpu_s for r in m.rules)
    header = ["rule", "jobs", "wall s", "CPU s", "MB/s", "peak MB", "declared", "ratio "]
    after = ", ".join(f"{name} {wall:.1f} s and {mb:.0f} MB" for name, wall, mb in m.after)
    return (
        f"{m.case.name}: {number(m.pair.decoded_mb)} MB decoded, {number(m.pair.file_mb)} MB of "
        f"files\n{table(header, rows)}\nSnakemake's own: {m.wall_s - m.busy_s:.2f} s without a job "
        f"at work, {own_cpu:.2f} s of CPU outside jobs\nThen: {after}"
    )


def sizes_text(measurements: Sequence[Measurement]) -> tuple[str, bool]:
    """Return the table over sizes, and whether wall time grows no more than it should."""
    header = ["pair", "Mpx", "wall s", "CPU s", "no job s", "s/Mpx", "floor s", "whole/floor"]
    rows = []
    for m in measurements:
        megapixels = m.pair.pixels / 1e6
        own = m.wall_s - m.busy_s
        values = (m.wall_s, m.cpu_s, own, m.wall_s / megapixels, m.floor_s, m.wall_s / m.floor_s)
        rows.append([m.case.name, f"{megapixels:.1f}", *map(number, values)])
    lines, is_right = [table(header, rows)], True
    kinds = itertools.groupby(measurements, key=lambda m: (m.case.layout, m.case.dtype))
    for kind, group in kinds:
        large = [m for m in group if m.case.rows * m.case.cols >= LARGE_PIXELS]
        if len(large) > 1:
            pixels, seconds = ([m.pair.pixels for m in large], [m.wall_s for m in large])
            grown = float(np.polyfit(np.log(pixels), np.log(seconds), 1)[0])
            is_right &= grown <= RIGHT_EXPONENT
            lines.append(f"{kind}: wall time ~ pixels^{grown:.2f} (aim: {RIGHT_EXPONENT})")
    return "\n".join(lines), is_right


def measure(case: Case, work: Path, words: Sequence[str]) -> Measurement:
    """Run the workflow on a pair in a fresh directory below ``work``, which goes afterwards."""
    raw = phantom(case, work / "phantoms", processors())
    forget_canvases(work / "phantoms")
    with tempfile.TemporaryDirectory(prefix=f"run-{case.name}-", dir=work) as name:
        directory = Path(name)
        (directory / "raw").symlink_to(raw.resolve(), target_is_directory=True)
        wall, cpu = command(*words, directory=directory)
        results = directory / "results"
        records = read_telemetry(results / "telemetry")
        held = sum(path.stat().st_size for path in results.rglob("*") if path.is_file())
        busy = covered((r["start"], r["end"]) for r in records)
        floor = measure_floor(sorted(raw.rglob("*.tif")), held, directory / "floor.bin")
        (store,) = results.glob("*/*/difference.ome.zarr")
        after = tuple(run_after(words, store, directory) for words in AFTER)
        taken = wall, cpu, busy, floor
        return Measurement(case, look_at(raw), *taken, by_rule(records), after)


def run_after(words: str, store: Path, directory: Path) -> tuple[str, float, float]:
    """Run one of `AFTER`; return its name, time (s) and largest process (MB)."""
    name, *more = words.split()
    given = (word.format(store=store) for word in more)
    taken = complete(BIN / "unglow", name, *given, directory=directory)
    return name, taken.wall_s, taken.peak_mb


def measure_floor(sources: Iterable[Path], volume: int, target: Path) -> float:
    """Time reading ``sources`` once and writing ``volume`` bytes to ``target``, deleted after, s.

    Of more than `MOST_WRITTEN` bytes only so many are written, and the time is scaled.
    """
    written = min(volume, MOST_WRITTEN)
    buffer = bytearray(PIECE)
    started = time.perf_counter()
    for source in sources:
        with source.open("rb", buffering=0) as stream:
            while stream.readinto(buffer):
                pass
    read = time.perf_counter() - started
    # Not zeros: a file system that compresses would write next to nothing.
    noise = np.random.default_rng(0).bytes(PIECE)
    started = time.perf_counter()
    with target.open("wb", buffering=0) as stream:
        for start in range(0, written, PIECE):
            stream.write(noise[: min(PIECE, written - start)])
        os.fsync(stream.fileno())
    write = (time.perf_counter() - started) * (volume / written if written else 1)
    target.unlink()
    return read + write


def read_options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    sizes = ["1024", "2048", "4096", "8192"]
    add("--sizes", nargs="+", default=sizes, metavar="ROWSxCOLS", help="or one number")
    add("--layout", nargs="+", default=["tiles"], choices=LAYOUTS)
    add("--dtype", nargs="+", default=["uint8"], choices=DTYPES)
    add("--budget", type=int, default=2000, help="memory_per_job, MB (default: 2000)")
    add("--cores", type=int, default=processors(), help="cores (default: all)")
    add("--repeats", type=int, default=1, help="runs per pair; the median one is shown")
    add("--work", type=Path, default=WORK, help="directory for pairs and runs")
    add("--json", type=Path, metavar="FILE", help="write all figures there too")
    return parser.parse_args()


def main() -> int:
    """Measure all cases and print the tables; return 1 where the aim is missed."""
    options = read_options()
    work = options.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    sizes = sorted(map(size_of, options.sizes), key=math.prod)
    words = snakemake_words(options.cores, {"memory_per_job": options.budget})
    print(
        f"unglow {__version__}, {options.cores} cores, memory_per_job {options.budget} MB, "
        f"others keep {os.getloadavg()[0]:.1f} processors busy"
    )
    measurements: list[Measurement] = []
    for layout, dtype in itertools.product(options.layout, options.dtype):
        say("warming up (libraries come into the caches)")
        measure(Case(1024, 1024, layout, dtype), work, words)
        for rows, cols in sizes:
            case = Case(rows, cols, layout, dtype)
            say(f"measuring {case.name}")
            runs = [measure(case, work, words) for _ in range(options.repeats)]
            runs.sort(key=lambda run: run.wall_s)
            measurements.append(runs[(len(runs) - 1) // 2])
            print(f"\n{run_text(measurements[-1])}", flush=True)
    text, is_right = sizes_text(measurements)
    print(f"\n{text}\n\n{LEGEND}")
    save_json(options.json, {"version": __version__, "runs": measurements})
    return int(not is_right)


if __name__ == "__main__":
    sys.exit(main())
