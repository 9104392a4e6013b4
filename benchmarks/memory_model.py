"""Compare the memory that was predicted for each job with what it took, over a matrix of runs.

Sizes x pixel types x file layouts x budgets x threads, on the real snakemake command. The layout of
a raw file matters to ingest only, so one layout runs the whole way. README.md next to this
file says how to read the tables. The exit status is 1 if any prediction is wrong. Behind the word
``slides`` come the options of `slide_memory.py`, which does the same for multiplexed slides.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import slide_memory
from control_groups import ControlGroups, NoGroupsError, joined
from job_memory import JobMemory, MemoryRuns, Setting, groups_text, rules_table, wrong_text
from phantoms import DTYPES, LAYOUTS, MAKER, Case, forget_canvases, phantom, size_of
from running import THREADED, WORK, say, snakemake_words

from unglow.core.machine import memory_available_mb, processors
from unglow.core.version import __version__
from unglow.workflow.batch import Batch
from unglow.workflow.pending_jobs import RuleSettings, pending_jobs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

QUICK_SIZES, FULL_SIZES = ["1024", "4096"], ["1024", "4096", "8192", "16384", "30000x25000"]
QUICK_BUDGETS, FULL_BUDGETS = [400, 2000], [400, 1000, 2000]
#: Of the memory that is available, a single job may be predicted to take this much.
_SHARE = 0.6


class Matrix(MemoryRuns):
    """Runs all that is asked for, each job in a control group of ``groups`` if there are any."""

    def __init__(self, options: argparse.Namespace, groups: ControlGroups | None) -> None:
        super().__init__(options)
        self.groups = groups

    def cases(self) -> Iterator[Case]:
        """Yield all pairs, those of one size behind each other."""
        for size, dtype, layout in itertools.product(
            self.options.sizes, self.options.dtypes, self.options.layouts
        ):
            case = Case(*size_of(size), layout, dtype)
            if case.possible:
                yield case

    def measure(self) -> None:
        """Go through the matrix; what was made is deleted as soon as nothing needs it."""
        cache = self.work / "phantoms"
        for _, cases in itertools.groupby(self.cases(), key=lambda case: case.size):
            for case in cases:
                raw = phantom(case, cache, processors())
                try:
                    self._settings(case, raw)
                finally:
                    if not self.options.keep:
                        shutil.rmtree(raw, ignore_errors=True)
            if not self.options.keep:
                forget_canvases(cache)

    def until(self, case: Case) -> str | None:
        """Return the last rule to run for a case; None for all."""
        last: str | None = self.options.until
        return last if case.layout == self.options.layouts[0] else "ingest"

    def _settings(self, case: Case, raw: Path) -> None:
        """Run a case with all settings, but those that declare the same for every job only once."""
        known: dict[tuple[Any, ...], Setting] = {}
        bytes_of: dict[str, str] = {}
        pairs = itertools.product(self.options.threads, self.options.budgets)
        for setting in (Setting(budget, threads) for threads, budget in pairs):
            with tempfile.TemporaryDirectory(prefix=f"run-{case.name}-", dir=self.work) as name:
                work = Path(name)
                (work / "raw").symlink_to(raw.resolve(), target_is_directory=True)
                declared = declarations(work, setting, self.until(case))
                if declared in known:
                    same = known[declared].budget
                    say(f"{case.name}: {setting} declares what a budget of {same} MB does")
                    continue
                known[declared] = setting
                most = max(mb for *_, mb in declared)
                if most > _SHARE * memory_available_mb():
                    say(f"{case.name}: {setting} needs {most} MB, which this machine has not")
                    continue
                say(f"{case.name}: {setting}")
                self._run(case, setting, work)
                digests = digests_of(work / "results")
                for path in sorted(bytes_of.keys() & digests.keys()):
                    if bytes_of[path] != digests[path]:
                        self.troubles.append(f"{case.name}: {setting} gave other bytes in {path}")
                bytes_of = digests | bytes_of

    def _run(self, case: Case, setting: Setting, work: Path) -> None:
        exports = "{tiff: [difference], fits: [difference]}"
        config = {"memory_per_job": setting.budget, "exports": exports}
        config["scale"] = "{methods: [moffat]}"
        words = snakemake_words(
            max(setting.threads, processors()),
            config,
            threads=setting.threads,
            until=self.until(case),
        )
        factor = self.options.cgroup
        environment = self.groups.environment(factor) if self.groups else {}
        records = self.records(f"{case.name}: {setting}", words, work, environment)
        if self.groups:
            records = joined(records, self.groups.collect())
        self.jobs += [JobMemory.of(case, setting, record) for record in records]
        transform = work / "results" / "phantom" / "SYTO9" / "transform.json"
        if transform.is_file():
            found = json.loads(transform.read_text())["status"]
            if found != "ok":
                self.troubles.append(
                    f"{case.name}: registration is {found}, so little was measured"
                )


def declarations(work: Path, setting: Setting, until: str | None) -> tuple[Any, ...]:
    """Return what decides the memory of each job of a run: rule, title, threads, declared MB."""
    batch = Batch.load({"memory_per_job": setting.budget}, work)
    threads = dict.fromkeys(THREADED, setting.threads)
    found = [
        (job.rule, job.title, job.threads, job.demand.peak_mb(setting.budget, job.threads))
        for job in pending_jobs(batch, work / "results", RuleSettings(threads, {}))
    ]
    return tuple(f for f in found if until != "ingest" or f[0] == "ingest")


def digests_of(results: Path) -> dict[str, str]:
    """Return digests of a pair's files, but shards; a store's root metadata has one of those."""
    pair = results / "phantom" / "SYTO9"
    return {
        str(path.relative_to(pair)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in pair.rglob("*")
        if path.suffix in (".json", ".csv", ".npz", ".png") and path.is_file()
    }


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
        choices=LAYOUTS,
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
    add("--keep", action="store_true", help="keep the pairs")
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


def measured(options: argparse.Namespace, groups: ControlGroups | None) -> bool:
    """Measure the matrix, print the tables; return whether all is well."""
    matrix = Matrix(options, groups)
    try:
        matrix.measure()
    finally:
        matrix.save()
        parts = [*matrix.troubles]
        if matrix.jobs:
            parts = [rules_table(matrix.jobs), wrong_text(matrix.jobs), *parts]
            parts.append(groups_text(matrix.jobs, options.cgroup or 0))
        print("\n\n".join(filter(None, parts)) or "nothing was measured")
    return matrix.fine


def main() -> int:
    """Run what is asked for; return the exit status."""
    if sys.argv[1:2] == ["slides"]:
        return slide_memory.main(sys.argv[2:])
    options = arguments()
    options.work.mkdir(parents=True, exist_ok=True)
    print(f"unglow {__version__}, pairs of kind {MAKER}, {processors()} cores", flush=True)
    if options.cgroup is None:
        return 0 if measured(options, None) else 1
    try:
        with ControlGroups() as groups:
            return 0 if measured(options, groups) else 1
    except NoGroupsError as reason:
        print(reason, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
