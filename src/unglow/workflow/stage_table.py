"""The table of stages: what each rule leaves, when its jobs run, and what they ask for.

Rules name their outputs and threads themselves; a test compares them with this table.
"""

from __future__ import annotations

from typing import NamedTuple

from unglow.workflow.paths import FIGURES, REGISTRATION_FIGURES, store

SMALL_MB, FIGURES_MB = 1, 5
"""Upper bounds of what some small files, and some figures, take on disk, MB."""
SPLIT = ("align", "difference", "detect")
"""Stages that are made in bands where a pair is large, each by the rule ``<stage>_band``."""


class Stage(NamedTuple):
    """A rule.

    Attributes
    ----------
    level
        Where its files are: one of `PLACES`, or ``run``.
    step
        The jobs of a pair run in this order; those of one step may run side by side.
    threads
        Threads that the rule asks for.
    seconds
        Time of a job on two cores, s per million px of the larger image; 0 if it is a few seconds
        however large the images are.
    disk
        Upper bound of what a job leaves on disk: MB, or what it is as large as: one ``store`` (of
        the wildcard ``role``, or derived), those of ``both images``, or a list of ``candidates``.
    files
        What a job leaves, except for digests.
    """

    level: str
    step: int
    threads: int
    seconds: float
    disk: int | str
    files: tuple[str, ...]


_INGEST = ("plan.json", store("post"), store("pre"))
_REGISTER = ("transform.json", "displacement.npz", "blocks.csv")
_ALIGN = (store("aligned_pre"), "statistics.npz", "bins.npz")
_DIFFERENCE = (
    store("difference/{method}"),
    "difference/{method}.histogram.npz",
    "difference/{method}.background.npz",
)
_DETECT = ("candidates.csv", "candidates.geojson", "detection.json", "search.npz")

STAGES = {
    # rule: level, step, threads, seconds, disk, files
    "ingest_band": Stage("ingested", 0, 1, 0.05, "store", (store("{role}"),)),
    "ingest": Stage("ingested", 1, 2, 0.1, "both images", _INGEST),
    "export_raw": Stage("ingested", 4, 1, 0.15, "store", ("exports/{role}.{form}",)),
    "register": Stage("registered", 2, 2, 0.05, SMALL_MB, _REGISTER),
    "align": Stage("registered", 3, 2, 0.1, "store", _ALIGN),
    "export_aligned_pre": Stage("registered", 4, 1, 0.15, "store", ("exports/aligned_pre.{form}",)),
    "figures_registration": Stage("registered", 4, 1, 0, FIGURES_MB, REGISTRATION_FIGURES),
    "scale": Stage("subtracted", 4, 1, 0, SMALL_MB, ("scale.json", "gain_map.npz")),
    "difference": Stage("subtracted", 4, 2, 0.05, "store", _DIFFERENCE),
    "export_difference": Stage(
        "subtracted", 4, 1, 0.15, "store", ("exports/difference_{method}.{form}",)
    ),
    "detect": Stage("detected", 4, 2, 0.5, "candidates", _DETECT),
    "snr": Stage("detected", 4, 2, 0.3, "store", (store("snr"),)),
    "export_snr": Stage("detected", 4, 1, 0.15, "store", ("exports/snr.{form}",)),
    "figures": Stage("detected", 4, 1, 0, 2 * FIGURES_MB, FIGURES),
    "comparison": Stage("pair", 4, 1, 0, 4 * FIGURES_MB, ("comparison.tsv", "comparison.png")),
    "summary": Stage("run", 5, 1, 0, SMALL_MB, ("summary.tsv",)),
    "verdict": Stage("run", 6, 1, 0, SMALL_MB, ("verdict.txt",)),
}
"""By the name of the rule, in the order in which the jobs of a pair are listed."""
RULES = tuple(
    name for rule in STAGES for name in ((f"{rule}_band", rule) if rule in SPLIT else (rule,))
)
"""All rules, those of bands before what joins them."""


def stage_of(rule: str) -> Stage:
    """Return the row of a rule: its own, or for a band that of the stage."""
    return STAGES.get(rule) or STAGES[rule.removesuffix("_band")]
