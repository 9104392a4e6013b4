"""The table of stages: what each rule leaves, when its jobs run, and what they ask for.

Rules name their outputs and threads themselves; a test compares them with this table.
"""

from __future__ import annotations

from typing import NamedTuple

from unglow.core.digests import FOLDER, SUFFIX
from unglow.reporting import multiqc
from unglow.reporting.figures.table import FIGURES
from unglow.workflow.paths import store

SMALL_MB, FIGURES_MB = 1, 5
"""Upper bounds of what some small files, and some figures, take on disk, MB."""


class Time(NamedTuple):
    """What a job takes, as a first guess: measured on an idle machine with two cores and an SSD.

    Attributes
    ----------
    fixed
        However small the images are, s.
    per_mpx
        For each million px, s of one thread.
    shared
        The part of that (0 to 1) which threads share among themselves.
    """

    fixed: float
    per_mpx: float = 0.0
    shared: float = 0.0

    def per_mpx_with(self, threads: int) -> float:
        """Return the seconds for each million px with so many threads."""
        return self.per_mpx * (1 - self.shared + self.shared / threads)


class Stage(NamedTuple):
    """A rule.

    Attributes
    ----------
    level
        Where its files are: one of `PLACES` or of `OF_SLIDE`, or ``run``.
    step
        The jobs of a pair run in this order; those of one step may run side by side.
    threads
        Threads that the rule asks for.
    time
        What a job takes; its million px are those of `job_resources.work_mpx`.
    disk
        Upper bound of what a job leaves on disk: MB, or what it is as large as: one ``store`` (of
        the wildcard ``role``, or derived), those of ``both images``, a list of ``candidates``, or
        what a stage of a ``slide`` leaves.
    files
        What a job leaves, except for digests.
    after
        The rules whose jobs of the same pair and variant have to be done before.
    """

    level: str
    step: int
    threads: int
    time: Time
    disk: int | str
    files: tuple[str, ...]
    after: tuple[str, ...] = ()


_INGEST = ("plan.json", store("post"), store("pre"))
_REGISTER = ("transform.json", "displacement.npz", "blocks.csv")
_ALIGN = (store("aligned_pre"), "statistics.npz", "bins.npz")
_DIFFERENCE = (
    store("difference/{method}"),
    "difference/{method}.histogram.npz",
    "difference/{method}.background.npz",
    "difference/{method}.blocks.npz",
)
_DETECT = (
    "candidates.csv",
    "candidates.geojson",
    "artefacts.geojson",
    "detection.json",
    "search.npz",
)
_SLIDE_SCALE = ("slide.json", "scale.json", "gain_maps.npz", "statistics.npz")


def _files(rule: str) -> tuple[str, ...]:
    return tuple(row.file for row in FIGURES[rule])


_SLIDE_FIGURES = (f"{FOLDER}/slide_figures{SUFFIX}",)  # each marker has one
_SLIDE_SUBTRACT = ("markers_corrected.csv", "subtraction.json", "residues.npz", "overviews.npz")

STAGES = {
    # rule: level, step, threads, time, disk, files, after
    "ingest": Stage("ingested", 1, 2, Time(0.3, 0.014, 0.6), "both images", _INGEST),
    "export_raw": Stage(
        "ingested", 4, 1, Time(0.3, 0.03), "store", ("exports/{role}.{form}",), ("ingest",)
    ),
    "register": Stage("registered", 2, 2, Time(2.0, 0.012, 0.6), SMALL_MB, _REGISTER, ("ingest",)),
    "align": Stage("registered", 3, 2, Time(0.4, 0.065, 0.9), "store", _ALIGN, ("register",)),
    "export_aligned_pre": Stage(
        "registered", 4, 1, Time(0.3, 0.03), "store", ("exports/aligned_pre.{form}",), ("align",)
    ),
    "figures_registration": Stage(
        "registered", 4, 1, Time(1.6), FIGURES_MB, _files("figures_registration"), ("align",)
    ),
    "scale": Stage(
        "subtracted", 4, 1, Time(1.6, 0.01), SMALL_MB, ("scale.json", "gain_map.npz"), ("align",)
    ),
    "difference": Stage("subtracted", 4, 2, Time(0.3, 0.05, 0.8), "store", _DIFFERENCE, ("scale",)),
    "export_difference": Stage(
        "subtracted",
        4,
        1,
        Time(0.3, 0.03),
        "store",
        ("exports/difference_{method}.{form}",),
        ("scale", "difference"),
    ),
    "detect": Stage("detected", 4, 2, Time(0.7, 0.1, 0.7), "candidates", _DETECT, ("difference",)),
    "snr": Stage("detected", 4, 2, Time(0.4, 0.15, 0.7), "store", (store("snr"),), ("difference",)),
    "export_snr": Stage(
        "detected", 4, 1, Time(0.3, 0.03), "store", ("exports/snr.{form}",), ("snr",)
    ),
    "figures": Stage("detected", 4, 1, Time(2.4), 2 * FIGURES_MB, _files("figures"), ("detect",)),
    "comparison": Stage(
        "pair", 4, 1, Time(1.3), 4 * FIGURES_MB, ("comparison.tsv", "comparison.png"), ("detect",)
    ),
    "slide_register": Stage("move", 2, 2, Time(2.0, 0.012, 0.6), SMALL_MB, _REGISTER),
    "slide_scale": Stage(
        "slide", 3, 2, Time(2.0, 0.03, 0.8), "slide scale", _SLIDE_SCALE, ("slide_register",)
    ),
    "slide_subtract": Stage(
        "slide", 4, 2, Time(2.0, 0.05, 0.8), "slide", _SLIDE_SUBTRACT, ("slide_scale",)
    ),
    "slide_figures": Stage(
        "slide", 4, 1, Time(2.4), "slide figures", _SLIDE_FIGURES, ("slide_subtract",)
    ),
    "summary": Stage("run", 5, 1, Time(0.15), SMALL_MB, ("summary.tsv", *multiqc.FILES)),
    "verdict": Stage("run", 6, 1, Time(0.15), SMALL_MB, ("verdict.txt",)),
}
"""By the name of the rule, in the order in which the jobs of a pair are listed."""
STREAMING = tuple(rule for rule in STAGES if rule.startswith(("ingest", "export_")))
"""Rules that mostly read or write large files from end to end (the resource ``disk_streams``)."""
