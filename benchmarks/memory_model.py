"""Compare the memory that was predicted for each job with what it took, over a matrix of runs.

Sizes x pixel types x file layouts x budgets x threads, on the real snakemake command. The layout of
a raw file matters to ingest only, so one layout runs the whole way. README.md next to this
file says how to read the tables. The exit status is 1 if any prediction is wrong. Behind the word
``slides`` come the options of `slide_memory.py`, which does the same for multiplexed slides.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import slide_memory
from control_groups import ControlGroups, NoGroupsError, joined
from job_memory import JobMemory, MemoryRuns, Setting, digest_of
from phantoms import (
    DTYPES,
    LAYOUTS,
    MAKER,
    ZARR_LAYOUTS,
    Case,
    forget_canvases,
    phantom,
    size_of,
)
from running import THREADED, WORK, snakemake_words

from unglow import __version__
from unglow.core.machine import processors
from unglow.workflow.batch import Batch
from unglow.workflow.oversized import list_missing

if TYPE_CHECKING:
    from collections.abc import Sequence

QUICK_SIZES, FULL_SIZES = ["1024", "4096"], ["1024", "4096", "8192", "16384", "30000x25000"]
QUICK_BUDGETS, FULL_BUDGETS = [400, 2000], [400, 1000, 2000]


class Matrix(MemoryRuns):
    """Runs all that is asked for, each job in a control group of ``groups`` if there are any."""

    def __init__(self, options: argparse.Namespace, groups: ControlGroups | None) -> None:
        super().__init__(options)
        self.groups = groups

    def measure(self) -> None:
        """Go through the matrix; what was made is deleted as soon as nothing needs it."""
        some, cache = self.options, self.work / "phantoms"
        settings = [Setting(mb, n) for n, mb in itertools.product(some.threads, some.budgets)]
        for size in some.sizes:
            for dtype, layout in itertools.product(some.dtypes, some.layouts):
                case = Case(*size_of(size), layout, dtype)
                if case.possible:
                    self.run_settings(case, phantom(case, cache, processors()), settings)
            forget_canvases(cache)

    def until(self, case: Case) -> str | None:
        """Return the last rule to run for a case; None for all."""
        last: str | None = self.options.until
        return last if case.layout == self.options.layouts[0] else "ingest"

    def declarations(self, case: Case, setting: Setting, work: Path) -> list[tuple[Any, ...]]:
        """Return rule, title, threads and declared MB of each job of a run."""
        batch = Batch.load({"memory_per_job": setting.budget}, work)
        jobs = [
            job
            for key in batch.keys
            for job in list_missing(batch, key, work / "results")
            if self.until(case) != "ingest" or job.rule == "ingest"
        ]
        threads = [setting.threads if job.rule in THREADED else 1 for job in jobs]
        return [
            (job.rule, job.title, n, job.asks_mb(setting.budget, n))
            for job, n in zip(jobs, threads, strict=True)
        ]

    def run(self, case: Case, setting: Setting, work: Path) -> None:
        """Run a case with a setting, with one scale method and with exports."""
        config = {
            "memory_per_job": setting.budget,
            "exports": "{tiff: [difference], fits: [difference]}",
            "scale": "{methods: [moffat]}",
        }
        cores, until = max(setting.threads, processors()), self.until(case)
        words = snakemake_words(cores, config, threads=setting.threads, until=until)
        environment = self.groups.environment(self.options.cgroup) if self.groups else {}
        records = self.records(f"{case.name}: {setting}", words, work, environment)
        if self.groups:
            records = joined(records, self.groups.collect())
        self.jobs += [JobMemory.of(case, setting, record) for record in records]
        transform = work / "results" / "phantom" / "SYTO9" / "transform.json"
        found = json.loads(transform.read_text())["status"] if transform.is_file() else "ok"
        if found != "ok":
            self.troubles.append(f"{case.name}: registration is {found}, so little was measured")

    def digests(self, _: Setting, work: Path) -> dict[str, str]:
        """Return digests of all but shards; a store's root metadata has one of those."""
        pair = work / "results" / "phantom" / "SYTO9"
        suffixes = (".json", ".csv", ".npz", ".png")
        files = [path for path in pair.rglob("*") if path.suffix in suffixes and path.is_file()]
        return {str(path.relative_to(pair)): digest_of(path) for path in files}


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--full", action="store_true", help="the whole matrix: hours, and 20 GB of disk")
    add("--sizes", nargs="+", metavar="ROWSxCOLS", help=f"such as {' '.join(FULL_SIZES)}")
    add("--dtypes", nargs="+", default=list(DTYPES), choices=DTYPES)
    add(
        "--layouts",
        nargs="+",
        default=list(LAYOUTS),
        choices=[*LAYOUTS, *ZARR_LAYOUTS],
        help="the first one runs the whole way, the others to ingest",
    )
    add("--budgets", type=int, nargs="+", metavar="MB", help="memory_per_job")
    add("--threads", type=int, nargs="+", default=[1, 2], metavar="N", help="of each job")
    add("--until", metavar="RULE", help="the last rule")
    add(
        "--cgroup",
        type=float,
        metavar="FACTOR",
        help="run each job in a memory control group of FACTOR x declared",
    )
    add("--work", type=Path, default=WORK, help="directory for pairs and runs")
    add("--json", type=Path, metavar="FILE", help="write all figures there too")
    options = parser.parse_args(words)
    options.sizes = options.sizes or (FULL_SIZES if options.full else QUICK_SIZES)
    options.budgets = options.budgets or (FULL_BUDGETS if options.full else QUICK_BUDGETS)
    for size in options.sizes:
        try:
            size_of(size)
        except ValueError:
            parser.error(f"--sizes: {size!r} is not ROWSxCOLS, such as 30000x25000")
    return options


def main() -> int:
    """Run what is asked for; return the exit status."""
    if sys.argv[1:2] == ["slides"]:
        return slide_memory.main(sys.argv[2:])
    options = arguments()
    print(f"unglow {__version__}, pairs of kind {MAKER}, {processors()} cores", flush=True)
    if options.cgroup is None:
        return Matrix(options, None).report()
    try:
        with ControlGroups() as groups:
            return Matrix(options, groups).report()
    except NoGroupsError as reason:
        print(reason, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
