"""Compare the memory that was predicted for each job with what it took, over a matrix of runs.

    python benchmarks/memory_model.py pairs --sizes 1024 4096 --budgets 400 2000
    python benchmarks/memory_model.py slides --sizes 700 4096 --channels 8 40 --budgets 300

Sizes x pixel types x file layouts x budgets x threads (of slides: what is written), on the real
snakemake command. The layout of a raw file of a pair matters to ingest only, so one layout runs the
whole way. Settings that declare the same for every job are run once, and none may change a byte.
The exit status is 1 if any prediction is wrong.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import statistics
import sys
import tempfile
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import slides
from phantoms import DTYPES, LAYOUTS, ZARR_LAYOUTS, Case, forget_canvases, phantom, size_of
from running import THREADED, WORK, read_telemetry, run, say, snakemake_words
from slides import SAMPLE, SlideCase, make_slide
from tables import RIGHT_RATIO, number, ratio_text, save_json, table

from unglow import __version__
from unglow.core.machine import memory_available_mb, processors
from unglow.slides.rules import SLIDES
from unglow.workflow.batch import Batch
from unglow.workflow.job_resources import choose_threads, describe_job
from unglow.workflow.planned_jobs import is_missing, jobs_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

FULL_SIZES, FULL_BUDGETS = ["1024", "4096", "8192", "16384", "30000x25000"], [400, 1000, 2000]
#: Below this many MB libraries are most of it, and a ratio above 1.3 is a few MB.
COUNTS_ABOVE_MB = 200.0
#: Room for as many candidates as a list may have, MB, which few pairs need.
SPARE_MB = {"detect": 55.0}
#: Of the memory that is available, a single job may be predicted to take this much.
_SHARE = 0.6
#: Files of a pair that no setting changes: all but shards, whose digests a store's root has.
_OF_PAIR = ("**/*.json", "**/*.csv", "**/*.npz", "**/*.png")
#: Those of a slide; a setting of output has no part in them.
_OF_SLIDE = ("scale.json", "details/statistics.npz", "details/gain_maps.npz")


@dataclass(frozen=True, slots=True)
class Run:
    """One run: case and setting in words, the pair or slide, and what Snakemake is asked for.

    ``same`` are patterns of files below ``place`` that no setting of the case changes.
    """

    case: str
    setting: str
    key: tuple[str, str]
    config: Mapping[str, object]
    same: tuple[str, ...]
    threads: int | None = None
    until: str | None = None

    def declare(self, work: Path) -> tuple[tuple[str, str, int, int], ...]:
        """Return rule, title, threads and declared MB of each job of the run."""
        batch = Batch.load(self.config, work, SLIDES)
        chosen = choose_threads(batch)
        found = []
        for job in jobs_of(batch, *self.key):
            wanted = self.until != "ingest" or job.rule == "ingest"
            if wanted and is_missing(job, work / "results"):
                own = self.threads if job.rule in THREADED else 1
                threads = chosen[job.rule] if self.threads is None else own or 1
                known = describe_job(batch, job.rule, job.wildcards, 0, missing=True)
                mb = known["demand"].peak_mb(int(str(self.config["memory_per_job"])), threads)
                found.append((job.rule, known["title"], threads, mb))
        return tuple(found)

    def digest(self, work: Path) -> dict[Path, str]:
        """Return digests of the files that no setting changes."""
        place = work.joinpath("results", *filter(None, self.key))
        paths = [path for pattern in self.same for path in place.glob(pattern) if path.is_file()]
        return {p.relative_to(place): hashlib.sha256(p.read_bytes()).hexdigest() for p in paths}


@dataclass(frozen=True, slots=True)
class JobMemory:
    """One attempt at one job: what was declared and what it took, MB."""

    name: str
    rule: str
    outcome: str
    declared_mb: float
    peak_mb: float

    @property
    def ratio(self) -> float:
        """Predicted / measured."""
        return self.declared_mb / self.peak_mb

    @property
    def wrong(self) -> str:
        """What is wrong with it; empty if nothing is."""
        low, high = RIGHT_RATIO
        if self.outcome != "ok":
            return f"ended as {self.outcome}"
        if self.ratio < low:
            return "took more than predicted"
        needed = self.declared_mb - SPARE_MB.get(self.rule, 0)
        if needed > high * self.peak_mb and self.peak_mb > COUNTS_ABOVE_MB:
            return "took much less than predicted"
        return ""


def list_pairs(options: argparse.Namespace) -> Iterator[tuple[Path, list[Run]]]:
    """Yield the raw directory of each pair, and its runs."""
    cache = options.work / "phantoms"
    config = {
        "exports": "{tiff: [difference], fits: [difference]}",
        "scale": "{methods: [moffat]}",
    }
    for size in options.sizes:
        for dtype, layout in product(options.dtypes, options.layouts):
            case = Case(*size_of(size), layout, dtype)
            until = options.until if layout == options.layouts[0] else "ingest"
            if case.possible:
                yield (
                    phantom(case, cache, processors()),
                    [
                        Run(
                            case.name,
                            f"{budget} MB, {threads} threads",
                            ("phantom", "SYTO9"),
                            {"memory_per_job": budget, **config},
                            _OF_PAIR,
                            threads,
                            until,
                        )
                        for threads, budget in product(options.threads, options.budgets)
                    ],
                )
        forget_canvases(cache)


def list_slides(options: argparse.Namespace) -> Iterator[tuple[Path, list[Run]]]:
    """Yield the raw directory of each slide, and its runs."""
    sizes = map(size_of, options.sizes)
    written = list(product(options.budgets, ("input", "float32"), options.outputs))
    for size, channels, dtype, layout in product(
        sizes, options.channels, options.dtypes, options.layouts
    ):
        case = SlideCase(*size, channels, layout, dtype)
        yield (
            make_slide(case, options.work / "phantoms", processors()),
            [
                Run(
                    case.name,
                    f"{budget} MB, {as_type} {output}",
                    (SAMPLE, ""),
                    {"memory_per_job": budget, "multiplexed": {"dtype": as_type, "output": output}},
                    _OF_SLIDE,
                    until="slide_figures",
                )
                for budget, as_type, output in written
            ],
        )


def measure(one: Run, work: Path, troubles: list[str]) -> list[JobMemory]:
    """Run the workflow; return what its jobs took, and note what went wrong."""
    cores = max(one.threads or 1, processors())
    words = snakemake_words(cores, one.config, threads=one.threads, until=one.until)
    status, text = run(*words, directory=work)
    name = f"{one.case}, {one.setting}"
    if status != 0:
        end = "\n".join(text.splitlines()[-15:])
        troubles.append(f"{name} ended with status {status}:\n{end}")
    transform = work.joinpath("results", *filter(None, one.key), "transform.json")
    found = json.loads(transform.read_text())["status"] if transform.is_file() else "ok"
    if found != "ok":
        troubles.append(f"{name}: registration is {found}, so little was measured")
    jobs = []
    for job in read_telemetry(work / "results" / "telemetry"):
        of = " ".join(v for k, v in job["wildcards"].items() if k in ("role", "method"))
        taken = (job["outcome"], job["declared_mb"], job["peak_mb"])
        jobs.append(JobMemory(f"{of} {name}".strip(), job["rule"], *taken))
    return jobs


def measure_case(raw: Path, runs: Sequence[Run], troubles: list[str]) -> list[JobMemory]:
    """Run all settings of a case; the raw directory is deleted at the end."""
    known: dict[Any, Run] = {}
    bytes_of: dict[Path, str] = {}
    jobs = []
    for one in runs:
        with tempfile.TemporaryDirectory(prefix=f"run-{one.case}-", dir=raw.parents[1]) as name:
            work = Path(name)
            (work / "raw").symlink_to(raw.resolve(), target_is_directory=True)
            declared = one.declare(work)
            if (like := known.setdefault(declared, one)) is not one:
                say(f"{one.case}: {one.setting} declares what {like.setting} does")
            elif (most := max(row[-1] for row in declared)) > _SHARE * memory_available_mb():
                say(f"{one.case}: {one.setting} needs {most} MB, which this machine has not")
            else:
                say(f"{one.case}: {one.setting}")
                jobs += measure(one, work, troubles)
                for path, digest in one.digest(work).items():
                    if bytes_of.setdefault(path, digest) != digest:
                        troubles.append(f"{one.case}: {one.setting} gave other bytes in {path}")
    shutil.rmtree(raw, ignore_errors=True)
    return jobs


def report(jobs: Sequence[JobMemory], troubles: Sequence[str]) -> int:
    """Print predicted / measured of each rule and the jobs that are wrong; return the status."""
    rows = []
    for rule in dict.fromkeys(job.rule for job in jobs):
        some = [job for job in jobs if job.rule == rule]
        ratios, peaks = ([getattr(j, n) for j in some] for n in ("ratio", "peak_mb"))
        texts = map(ratio_text, (min(ratios), statistics.median(ratios), max(ratios)))
        wrong = sum(bool(job.wrong) for job in some)
        rows.append(
            [rule, str(len(some)), *texts, str(wrong), f"{min(peaks):.0f}-{max(peaks):.0f}"]
        )
    header = ["rule", "jobs", "lowest ", "median ", "highest ", "wrong", "MB measured"]
    print(table(header, rows) if rows else "nothing was measured")
    for job in (job for job in jobs if job.wrong):
        figures = f"{number(job.declared_mb)} / {number(job.peak_mb)} = {ratio_text(job.ratio)}"
        print(f"{job.rule} {job.name}: {job.wrong}, {figures}")
    print("\n".join(troubles))
    return int(not jobs or bool(troubles) or any(job.wrong for job in jobs))


def read_options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    kinds = parser.add_subparsers(dest="kind", required=True)
    pairs, of_slides = kinds.add_parser("pairs"), kinds.add_parser("slides")
    layouts = [*LAYOUTS, *ZARR_LAYOUTS]
    pairs.add_argument("--full", action="store_true", help="hours, and 20 GB of disk")
    pairs.add_argument("--sizes", nargs="+", metavar="ROWSxCOLS", default=["1024", "4096"])
    pairs.add_argument("--dtypes", nargs="+", default=list(DTYPES), choices=DTYPES)
    pairs.add_argument("--layouts", nargs="+", default=list(LAYOUTS), choices=layouts)
    pairs.add_argument("--budgets", type=int, nargs="+", default=[400, 2000], metavar="MB")
    pairs.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="of each job")
    pairs.add_argument("--until", metavar="RULE", help="the last rule")
    of_slides.add_argument("--sizes", nargs="+", metavar="ROWSxCOLS", default=["700", "4096"])
    of_slides.add_argument("--channels", type=int, nargs="+", default=[8], help="4 or more")
    of_slides.add_argument("--dtypes", nargs="+", default=["uint16"], choices=slides.DTYPES)
    choices = list(slides.LAYOUTS)
    of_slides.add_argument("--layouts", nargs="+", default=choices, choices=choices)
    of_slides.add_argument("--budgets", type=int, nargs="+", default=[300], metavar="MB")
    written = ("tiff", "zarr", "both")
    of_slides.add_argument("--outputs", nargs="+", default=["tiff"], choices=written)
    for one in (pairs, of_slides):
        one.add_argument("--work", type=Path, default=WORK, help="directory for images and runs")
        one.add_argument("--json", type=Path, metavar="FILE", help="write all figures there too")
    options = parser.parse_args()
    if options.kind == "pairs" and options.full:
        options.sizes, options.budgets = FULL_SIZES, FULL_BUDGETS
    options.work = options.work.resolve()
    return options


def main() -> int:
    """Run what is asked for; return the exit status."""
    options = read_options()
    options.work.mkdir(parents=True, exist_ok=True)
    print(f"unglow {__version__}, {processors()} cores", flush=True)
    jobs: list[JobMemory] = []
    troubles: list[str] = []
    cases = list_pairs(options) if options.kind == "pairs" else list_slides(options)
    try:
        for raw, runs in cases:
            jobs += measure_case(raw, runs, troubles)
    finally:
        save_json(options.json, {"version": __version__, "jobs": jobs})
        status = report(jobs, troubles)
    return status


if __name__ == "__main__":
    sys.exit(main())
