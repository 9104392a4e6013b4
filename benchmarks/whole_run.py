"""Time the whole workflow on phantom pairs of several sizes, next to plain reading and writing.

For every pair: what each rule took (from the run's own telemetry), what the whole command took,
and the floor below which nothing can be: reading the raw files once and writing as many bytes as
the results hold. README.md next to this file says how to read the tables.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import tempfile
import time
from collections import defaultdict
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from phantoms import DTYPES, LAYOUTS, Case, Pair, forget_canvases, look_at, phantom, size_of
from running import WORK, command, covered, drift_text, read_telemetry, say, snakemake_words
from tables import RIGHT_RATIO, number, ratio_text, table

from unglow import __version__
from unglow.core.machine import processors

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MB = 1e6
PIECE = 1 << 23
MOST_WRITTEN = 4_000_000_000
BUSY = 0.5
# From here on, what a run costs anyway is small next to what its pixels cost.
LARGE_PIXELS = 4096 * 4096
RIGHT_EXPONENT = 1.05
LEGEND = f"""\
wall, CPU    s, summed over the jobs of a rule, which may run side by side; the time in which
             Python itself starts is in CPU and not in wall.
MB read, written  all that went through read and write calls, loaded libraries included.
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
    read_mb: float
    written_mb: float
    mb_per_s: float
    peak_mb: float
    declared_mb: float
    ratio: float


@dataclass(frozen=True, slots=True)
class Floor:
    """Seconds that plain sequential reading and writing (with fsync) of the same volumes take."""

    read_s: float
    write_s: float

    @property
    def total_s(self) -> float:
        """Both, one after the other."""
        return self.read_s + self.write_s


@dataclass(frozen=True, slots=True)
class Measurement:
    """One run of the workflow on one pair.

    Attributes
    ----------
    wall_s, cpu_s
        Of the command, all of its processes included.
    busy_s
        Time in which at least one job was at work.
    jobs_cpu_s
        CPU time of the jobs alone.
    again_s
        Wall time of the same command once more, when there is nothing left to do.
    results_mb
        All files below ``results``.
    drift
        How the machine's available memory changed, in words.
    all_wall_s
        Wall times of all repeats, in their order; the others are of the median one.
    """

    case: Case
    pair: Pair
    wall_s: float
    cpu_s: float
    busy_s: float
    jobs_cpu_s: float
    again_s: float
    results_mb: float
    floor: Floor
    rules: tuple[RuleFigures, ...]
    drift: str = ""
    all_wall_s: tuple[float, ...] = ()


# ------------------------------------------------------------------------------- from telemetry


def by_rule(records: Iterable[Mapping[str, Any]], decoded_mb: float) -> tuple[RuleFigures, ...]:
    """Sum up the jobs of each rule, rules in the order in which they first began."""
    groups: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for record in records:
        groups[record["rule"]].append(record)
    return tuple(_figures(rule, jobs, decoded_mb) for rule, jobs in groups.items())


def _figures(rule: str, jobs: Sequence[Mapping[str, Any]], decoded_mb: float) -> RuleFigures:
    def total(name: str) -> float:
        return math.fsum(job.get(name, 0.0) for job in jobs)

    tightest = min(jobs, key=lambda job: job["declared_mb"] / job["peak_mb"])
    wall = total("seconds")
    return RuleFigures(
        rule=rule,
        jobs=len(jobs),
        wall_s=wall,
        cpu_s=total("cpu_seconds"),
        read_mb=total("bytes_read") / MB,
        written_mb=total("bytes_written") / MB,
        mb_per_s=decoded_mb / wall if wall > 0 else math.inf,
        peak_mb=tightest["peak_mb"],
        declared_mb=tightest["declared_mb"],
        ratio=tightest["declared_mb"] / tightest["peak_mb"],
    )


def exponent(pixels: Sequence[float], seconds: Sequence[float]) -> float:
    """Return k of seconds ~ pixels^k by least squares in log-log; NaN for fewer than two sizes."""
    if len(set(pixels)) < 2:
        return math.nan
    return float(np.polyfit(np.log(pixels), np.log(seconds), 1)[0])


def median_of(runs: Sequence[Measurement]) -> Measurement:
    """Return the run of median wall time (the faster of two), with the wall times of all."""
    ordered = sorted(runs, key=lambda run: run.wall_s)
    return replace(ordered[(len(ordered) - 1) // 2], all_wall_s=tuple(run.wall_s for run in runs))


# ------------------------------------------------------------------------------------- the tables


def rules_table(measurement: Measurement) -> str:
    """Return the table of the rules of one run, with their sum."""
    header = ["rule", "jobs", "wall s", "CPU s", "MB read", "MB written"]
    header += ["MB/s", "peak MB", "declared", "ratio "]
    rows = [
        [
            r.rule,
            str(r.jobs),
            *map(number, (r.wall_s, r.cpu_s, r.read_mb, r.written_mb, r.mb_per_s)),
            *map(number, (r.peak_mb, r.declared_mb)),
            ratio_text(r.ratio),
        ]
        for r in measurement.rules
    ]
    sums = (
        number(math.fsum(getattr(r, name) for r in measurement.rules))
        for name in ("wall_s", "cpu_s", "read_mb", "written_mb")
    )
    count = sum(r.jobs for r in measurement.rules)
    rows.append(["sum", str(count), *sums, "", "", "", ""])
    return table(header, rows)


def run_text(m: Measurement) -> str:
    """Return everything about one run."""
    title = (
        f"{m.case.rows} x {m.case.cols} px, {m.case.dtype}, {m.case.layout}: "
        f"{m.pair.pixels / 1e6:.1f} Mpx in both images, {number(m.pair.decoded_mb)} MB decoded, "
        f"{number(m.pair.file_mb)} MB of files"
    )
    own_wall, own_cpu = m.wall_s - m.busy_s, m.cpu_s - m.jobs_cpu_s
    volumes = f"{number(m.pair.file_mb)} MB and writing {number(m.results_mb)} MB"
    rows = [
        [
            "whole run, the start of Snakemake included",
            f"{m.wall_s:.2f} s wall",
            f"{m.cpu_s:.2f} s CPU",
        ],
        [
            "  Snakemake's own: no job at work; CPU outside jobs",
            f"{own_wall:.2f} s wall",
            f"{own_cpu:.2f} s CPU",
        ],
        ["  the same command when nothing is left to do", f"{m.again_s:.2f} s wall", ""],
        [f"floor: reading {volumes}", f"{m.floor.total_s:.2f} s wall", ""],
        ["whole / floor", number(m.wall_s / m.floor.total_s), ""],
    ]
    if len(m.all_wall_s) > 1:
        repeats = ", ".join(f"{wall:.2f}" for wall in m.all_wall_s)
        rows.append([f"repeats (the median one is shown): {repeats} s", "", ""])
    return "\n".join([title, rules_table(m), "", table(rows[0], rows[1:]), m.drift]).rstrip()


def sizes_text(measurements: Sequence[Measurement]) -> str:
    """Return the table over sizes with the growth of wall time, for each layout and type."""
    header = ["pair", "Mpx", "wall s", "CPU s", "no job s", "s/Mpx", "MB/s", "floor s"]
    header += ["whole/floor", "exponent"]
    parts = []
    for (layout, dtype), group in itertools.groupby(
        measurements, key=lambda m: (m.case.layout, m.case.dtype)
    ):
        runs = sorted(group, key=lambda m: m.pair.pixels)
        rows = []
        for before, m in zip([None, *runs[:-1]], runs, strict=True):
            step = _growth([before, m]) if before else math.nan
            megapixels = m.pair.pixels / 1e6
            rows.append(
                [
                    f"{m.case.size} {dtype} {layout}",
                    f"{megapixels:.1f}",
                    *map(number, (m.wall_s, m.cpu_s, m.wall_s - m.busy_s)),
                    f"{m.wall_s / megapixels:.3f}",
                    number(m.pair.decoded_mb / m.wall_s),
                    f"{m.floor.total_s:.3f}",
                    number(m.wall_s / m.floor.total_s),
                    number(step),
                ]
            )
        text = table(header, rows)
        if len(runs) > 1:
            text += (
                f"\nwall time grows as pixels^{_growth(runs):.2f} over these sizes, "
                f"CPU time as pixels^{_growth(runs, 'cpu_s'):.2f}"
                "\n(exponent: of wall time, from the size before to this one)"
            )
        large = [m for m in runs if m.case.rows * m.case.cols >= LARGE_PIXELS]
        if len(large) > 1:
            grown = _growth(large)
            verdict = "right" if grown <= RIGHT_EXPONENT else "TOO MUCH"
            text += (
                f"\nfrom {large[0].case.size} to {large[-1].case.size} px: pixels^{grown:.2f}, "
                f"at most {RIGHT_EXPONENT} is wanted: {verdict}"
            )
        parts.append(text)
    return "\n\n".join(parts)


def _growth(runs: Sequence[Measurement], name: str = "wall_s") -> float:
    return exponent([m.pair.pixels for m in runs], [getattr(m, name) for m in runs])


# --------------------------------------------------------------------------------- running things


def measure(case: Case, raw: Path, directory: Path, words: Sequence[str]) -> Measurement:
    """Run the workflow in an empty directory on a raw directory that lies elsewhere."""
    (directory / "raw").symlink_to(raw.resolve(), target_is_directory=True)
    wall, cpu = command(*words, directory=directory)
    again, _ = command(*words, directory=directory)
    results = directory / "results"
    records = read_telemetry(results / "telemetry")
    pair = look_at(raw)
    held = sum(path.stat().st_size for path in results.rglob("*") if path.is_file())
    return Measurement(
        case=case,
        pair=pair,
        wall_s=wall,
        cpu_s=cpu,
        busy_s=covered((r["start"], r["end"]) for r in records),
        jobs_cpu_s=math.fsum(r["cpu_seconds"] for r in records),
        again_s=again,
        results_mb=held / MB,
        floor=measure_floor(sorted(raw.rglob("*.tif")), held, directory / "floor.bin"),
        rules=by_rule(records, pair.decoded_mb),
        drift=drift_text(records),
        all_wall_s=(wall,),
    )


def measure_floor(sources: Iterable[Path], volume: int, target: Path) -> Floor:
    """Time reading ``sources`` once and writing ``volume`` bytes to ``target``, deleted after.

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
    return Floor(read, write)


def measure_again(case: Case, work: Path, words: Sequence[str]) -> Measurement:
    """Measure a case in a fresh directory below ``work``, which goes afterwards."""
    raw = phantom(case, work / "phantoms", processors())
    forget_canvases(work / "phantoms")
    with tempfile.TemporaryDirectory(prefix=f"run-{case.name}-", dir=work) as directory:
        return measure(case, raw, Path(directory), words)


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
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
    add("--methods", metavar="NAME,NAME", help="scale methods (default: as shipped)")
    add("--work", type=Path, default=WORK, help="directory for pairs and runs")
    add("--json", type=Path, metavar="FILE", help="write all figures there too")
    options = parser.parse_args(words)
    try:
        options.sizes = sorted(map(size_of, options.sizes), key=math.prod)
    except ValueError as error:
        parser.error(f"--sizes: {error} is not ROWSxCOLS, such as 30000x25000")
    return options


def settings(options: argparse.Namespace) -> dict[str, object]:
    """Return the configuration that the command line asks for."""
    config: dict[str, object] = {"memory_per_job": options.budget}
    if options.methods:
        first = options.methods.split(",")[0]
        config["scale"] = f"{{methods: [{options.methods}], default: {first}}}"
    return config


def main() -> None:
    """Measure all cases and print the tables."""
    options = arguments()
    work = options.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    words = snakemake_words(options.cores, settings(options))
    print(
        f"unglow {__version__}, {options.cores} cores, memory_per_job {options.budget} MB",
        flush=True,
    )
    load = os.getloadavg()[0]
    if load > BUSY:
        print(f"others keep {load:.1f} processors busy: wall times say little, CPU times some")
    measurements: list[Measurement] = []
    for layout, dtype in itertools.product(options.layout, options.dtype):
        cases = [Case(rows, cols, layout, dtype) for rows, cols in options.sizes]
        warm = Case(1024, 1024, layout, dtype)
        say(f"warming up on {warm.name} (libraries come into the caches)")
        measure_again(warm, work, words)
        for case in cases:
            say(f"measuring {case.name}")
            runs = [measure_again(case, work, words) for _ in range(max(1, options.repeats))]
            measurements.append(median_of(runs))
            print(f"\n{run_text(measurements[-1])}", flush=True)
    print(f"\n{sizes_text(measurements)}\n\n{LEGEND}")
    if options.json:
        shared = {"version": __version__, "cores": options.cores, "budget": options.budget}
        record = {**shared, "runs": [asdict(m) for m in measurements]}
        options.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
