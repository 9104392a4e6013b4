"""Compare the memory that was predicted for the jobs of slides with what they took.

    python benchmarks/memory_model.py slides --sizes 700 4096 --channels 8 40 --budgets 300

Sizes x channels x pixel types x layouts x budgets x what is written, on the real snakemake command.
Settings that declare the same for every job are run once, and none may change a byte.
"""

from __future__ import annotations

import argparse
import itertools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from job_memory import JobMemory, MemoryRuns, digest_of
from phantoms import size_of
from running import WORK, say, snakemake_words
from slides import DTYPES, LAYOUTS, SAMPLE, SlideCase, make_slide

from unglow.core.machine import processors
from unglow.workflow.batch import Batch
from unglow.workflow.job_resources import choose_threads
from unglow.workflow.oversized import list_missing

if TYPE_CHECKING:
    from collections.abc import Sequence

LAST = "slide_figures"
#: What a slide leaves that no output depends on, and that no budget may change.
SAME = (
    "scale.json",
    "details/statistics.npz",
    "details/gain_maps.npz",
    "details/residues.npz",
    "details/overviews.npz",
)


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

    def measure(self) -> None:
        """Go through the matrix; a slide is deleted as soon as nothing needs it."""
        some = self.options
        written = itertools.product(some.budgets, some.output_dtypes, some.outputs)
        settings = [SlideSetting(*one) for one in written]
        every = itertools.product(some.sizes, some.channels, some.dtypes, some.layouts)
        for size, channels, dtype, layout in every:
            case = SlideCase(*size_of(size), channels, layout, dtype)
            raw = make_slide(case, self.work / "phantoms", processors())
            self.run_settings(case, raw, settings)

    def declarations(
        self, _: SlideCase, setting: SlideSetting, work: Path
    ) -> list[tuple[Any, ...]]:
        """Return what is written, rule, title and declared MB of each job of a run."""
        batch = Batch.load(setting.config, work)
        written, threads = (setting.dtype, setting.output), choose_threads(batch)
        return [
            (*written, job.rule, job.title, job.asks_mb(setting.budget, threads[job.rule]))
            for job in list_missing(batch, (SAMPLE, ""), work / "results")
        ]

    def run(self, case: SlideCase, setting: SlideSetting, work: Path) -> None:
        """Run a slide with a setting."""
        words = snakemake_words(processors(), setting.config, until=LAST)
        records = self.records(f"{case.name}: {setting}", words, work, {})
        made = [JobMemory.of(case, setting, record) for record in records]
        for job in made:
            say(f"  {job.rule} {job.declared_mb:.0f} / {job.peak_mb:.0f} = {job.ratio:.2f}")
        self.jobs += made
        scale = work / "results" / SAMPLE / "scale.json"
        markers = json.loads(scale.read_text())["markers"] if scale.is_file() else {}
        failed = [name for name, one in markers.items() if one["status"] == "failed"]
        if failed:
            self.troubles.append(f"{case.name}: {failed} failed, so little was measured")

    def digests(self, setting: SlideSetting, work: Path) -> dict[str, str]:
        """Return digests of what no output changes, and of what the first type has too."""
        files = SAME if setting.dtype == self.options.output_dtypes[0] else SAME[:3]
        place = work / "results" / SAMPLE
        return {file: digest_of(place / file) if (place / file).is_file() else "" for file in files}


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
    add("--json", type=Path, metavar="FILE", help="write all figures there too")
    return parser.parse_args(words)


def main(words: Sequence[str]) -> int:
    """Measure the matrix, print the tables; return the exit status."""
    return SlideMatrix(arguments(words)).report()
