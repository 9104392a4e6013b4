"""Compare the memory that was predicted for the jobs of slides with what they took.

    python benchmarks/memory_model.py slides --sizes 700 4096 --channels 8 40 --budgets 300

Sizes x channels x pixel types x layouts x budgets x what is written, on the real snakemake command.
Settings that declare the same for every job are run once, and none may change a byte.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from job_memory import JobMemory, MemoryRuns, rules_table, wrong_text
from phantoms import size_of
from running import WORK, say, snakemake_words
from slides import DTYPES, LAYOUTS, SAMPLE, SlideCase, make_slide

from unglow.core.machine import processors
from unglow.workflow.batch import Batch
from unglow.workflow.pending_jobs import pending_jobs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LAST = "slide_figures"
#: What a slide leaves that no output depends on, and that no budget may change.
SAME = ("scale.json", "statistics.npz", "gain_maps.npz", "residues.npz", "overviews.npz")


@dataclass(frozen=True, slots=True)
class SlideSetting:
    """What the memory of the jobs of a slide may depend on apart from its images."""

    budget: int
    dtype: str
    output: str

    def __str__(self) -> str:
        return f"{self.budget} MB, {self.dtype} {self.output}"

    @property
    def config(self) -> dict[str, object]:
        """Of a run."""
        chosen = {"dtype": self.dtype, "output": self.output}
        return {"memory_per_job": self.budget, "multiplexed": chosen}


class SlideMatrix(MemoryRuns):
    """Runs all slides that are asked for."""

    def cases(self) -> Iterator[SlideCase]:
        """Yield all slides."""
        some = self.options
        every = itertools.product(some.sizes, some.channels, some.dtypes, some.layouts)
        for size, channels, dtype, layout in every:
            yield SlideCase(*size_of(size), channels, layout, dtype)

    def measure(self) -> None:
        """Go through the matrix; a slide is deleted as soon as nothing needs it."""
        for case in self.cases():
            raw = make_slide(case, self.work / "phantoms", processors())
            try:
                self._settings(case, raw)
            finally:
                if not self.options.keep:
                    shutil.rmtree(raw, ignore_errors=True)

    def _settings(self, case: SlideCase, raw: Path) -> None:
        declared: dict[tuple[Any, ...], SlideSetting] = {}
        bytes_of: dict[str, bytes] = {}
        some = self.options
        for one in itertools.product(some.budgets, some.output_dtypes, some.outputs):
            setting = SlideSetting(*one)
            with tempfile.TemporaryDirectory(prefix=f"run-{case.name}-", dir=self.work) as name:
                work = Path(name)
                (work / "raw").symlink_to(raw, target_is_directory=True)
                key = (*declarations(work, setting), setting.dtype, setting.output)
                if key in declared:
                    budget = declared[key].budget
                    say(f"{case.name}: {setting} declares what a budget of {budget} MB does")
                    continue
                declared[key] = setting
                say(f"{case.name}: {setting}")
                self._run(case, setting, work)
                place = work / "results" / SAMPLE
                for file in (f for f in SAME[: 3 if one[1] != some.output_dtypes[0] else None]):
                    found = (place / file).read_bytes() if (place / file).is_file() else b""
                    if bytes_of.setdefault(file, found) != found:
                        self.troubles.append(f"{case.name}: {setting} gave other bytes in {file}")

    def _run(self, case: SlideCase, setting: SlideSetting, work: Path) -> None:
        words = snakemake_words(processors(), setting.config, until=LAST)
        records = self.records(f"{case.name}: {setting}", words, work, {})
        made = [JobMemory.of(case, setting, record) for record in records]
        for job in made:
            say(f"  {job.rule} {job.declared_mb:.0f} / {job.peak_mb:.0f} = {job.ratio:.2f}")
        self.jobs += made
        scale = work / "results" / SAMPLE / "scale.json"
        if scale.is_file():
            markers = json.loads(scale.read_text())["markers"]
            failed = [name for name, one in markers.items() if one["status"] == "failed"]
            if failed:
                self.troubles.append(f"{case.name}: {failed} failed, so little was measured")


def declarations(work: Path, setting: SlideSetting) -> tuple[Any, ...]:
    """Return what decides the memory of each job of a run: rule, title, declared MB, workers."""
    batch = Batch.load(setting.config, work)
    return tuple(
        (job.rule, job.title, job.demand.peak_mb(setting.budget, job.threads))
        for job in pending_jobs(batch, work / "results")
    )


def arguments(words: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="memory_model.py slides", description=__doc__)
    add = parser.add_argument
    add("--sizes", nargs="+", default=["700", "4096"], metavar="ROWSxCOLS")
    add("--channels", type=int, nargs="+", default=[8], metavar="N", help="4 or more")
    add("--dtypes", nargs="+", default=["uint16"], choices=DTYPES)
    add("--layouts", nargs="+", default=list(LAYOUTS), choices=LAYOUTS)
    add("--budgets", type=int, nargs="+", default=[300], metavar="MB", help="memory_per_job")
    add("--output-dtypes", nargs="+", default=["input"], choices=("input", "float32"))
    add("--outputs", nargs="+", default=["tiff"], choices=("tiff", "zarr", "both"))
    add("--work", type=Path, default=WORK, help="directory for slides and runs")
    add("--keep", action="store_true", help="keep the slides")
    add("--json", type=Path, metavar="FILE", help="write all figures there too")
    return parser.parse_args(words)


def main(words: Sequence[str]) -> int:
    """Measure the matrix, print the tables; return the exit status."""
    options = arguments(words)
    options.work.mkdir(parents=True, exist_ok=True)
    matrix = SlideMatrix(options)
    try:
        matrix.measure()
    finally:
        matrix.save()
        tables = [rules_table(matrix.jobs), wrong_text(matrix.jobs)] if matrix.jobs else []
        print("\n\n".join([*tables, *matrix.troubles]) or "nothing was measured")
    return 0 if matrix.fine else 1
