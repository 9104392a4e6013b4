"""The table of stages: what each rule publishes, for commands without Snakemake, and asks for.

Rules name their files themselves; a test compares them with this list. Patterns of paths hold
Snakemake's ``<results>`` and wildcards.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from unglow.core.digests import FOLDER, SUFFIX
from unglow.core.levels import PAIR, VARIANT
from unglow.core.measured import SECONDS
from unglow.results import multiqc
from unglow.results.figure_table import FIGURES

if TYPE_CHECKING:
    from unglow.results.figure_table import FigureRow

PLACES = ("pair", "ingested", "registered", "subtracted", "detected")
"""Where files are of what depends on no swept parameter, and on those of each level as well."""
OF_SLIDE = {
    "slide": "{sample}/",
    "move": "{sample}/registration/{cycle}/",
    "part": "{sample}/parts/{part}/",
}
"""Where files are of a slide, of the map between two of its cycles (``{cycle}`` is ``1-2``), and of
a part of a large one, until they are joined."""
FORMS = {"tiff": "ome.tif", "fits": "fits"}
"""Keys of ``exports`` in the configuration to how the files end."""
SMALL_MB, FIGURES_MB = 1, 5
"""Upper bounds of what some small files, and some figures, take on disk, MB."""
NEVER_MEASURED = 1.0, 0.05
"""Seconds of a job, and for each million px, of a rule that was never measured."""
CORRECTED = {"tiff": "corrected.ome.tif", "zarr": "corrected.ome.zarr/zarr.json"}
"""The corrected image of a slide, by the form that it is written in."""


@dataclass(frozen=True, slots=True)
class Outputs:
    """Path patterns of one run.

    ``swept`` are the levels of variants that there are; ``all_figures`` is whether the extra
    figures are drawn.
    """

    swept: tuple[str, ...] = ()
    all_figures: bool = False

    def levels(self, level: str) -> tuple[str, ...]:
        """Return the wildcards of a directory of `PLACES`: pair, and what of it is swept."""
        above = VARIANT[: PLACES.index(level)]
        return (*PAIR, *(name for name in above if name in self.swept))

    @cache  # noqa: B019 (there is one for each configuration, and each job asks)
    def directory(self, level: str) -> str:
        """Return the pattern of a directory below the results (or logs), with a slash at its end.

        Levels are those of `PLACES` or `OF_SLIDE`, or ``run``.
        """
        if level in OF_SLIDE:
            return OF_SLIDE[level]
        return "" if level == "run" else "".join(f"{{{name}}}/" for name in self.levels(level))

    @property
    def pathvars(self) -> dict[str, str]:
        """Snakemake's path variables: where the files of each of `PLACES` are."""
        return {level: self.directory(level)[:-1] for level in PLACES}

    def file(self, level: str, name: str) -> str:
        """Return the pattern of a result of a level."""
        return f"<results>/{self.directory(level)}{name}"


class Time(NamedTuple):
    """What a job takes, as a first guess (`unglow.core.measured`).

    Attributes
    ----------
    fixed
        However small the images are, s.
    per_mpx
        For each million px, s of one thread.
    shared
        The part of that (0 to 1) which threads share among themselves; measured by hand on an idle
        machine with two cores, since no other shows it.
    """

    fixed: float
    per_mpx: float = 0.0
    shared: float = 0.0

    def per_mpx_with(self, threads: int) -> float:
        """Return the seconds for each million px with N threads."""
        return self.per_mpx * (1 - self.shared + self.shared / threads)


class Stage(NamedTuple):
    """A rule.

    Attributes
    ----------
    level
        Where its files are: one of `PLACES` or of `OF_SLIDE`, or ``run``.
    threads
        Threads that the rule asks for.
    time
        What a job takes; its million px are those of `job_resources.work_mpx`.
    disk
        Upper bound of what a job leaves on disk: MB, or what it is as large as: one ``store`` (of
        the wildcard ``role``, or derived), those of ``both images``, a list of ``candidates``, or
        what a stage of a ``slide`` leaves.
    files
        What a job publishes, below its level, except for digests.
    streams
        Whether it mostly reads or writes large files from end to end.
    """

    level: str
    threads: int
    time: Time
    disk: int | str
    files: tuple[str, ...]
    streams: bool = False


_SAME = {
    "figures_registration": "figures",
    "difference_method": "difference",
    "slide_part": "slide_subtract",
    "verdict": "summary",
}


def measured_as(rule: str) -> str:
    """Return the key of a rule in `unglow.core.measured`: rules that do the same share one."""
    if rule.startswith("export"):
        return "export"
    return _SAME.get(rule, rule)


def _time(rule: str, shared: float = 0.0) -> Time:
    return Time(*SECONDS.get(measured_as(rule), NEVER_MEASURED), shared)


def _figures(rule: str) -> tuple[str, ...]:
    return tuple(row.file for row in FIGURES[rule])


def _export(level: str, image: str) -> Stage:
    """Return the row of a rule that writes an image in another format."""
    return Stage(level, 1, _time("export"), "store", (f"exports/{image}.{{form}}",), streams=True)


_REGISTER = ("transform.json", "details/displacement.npz", "details/blocks.csv")

STAGES = {
    # rule: level, threads, time, disk, files
    "ingest": Stage(
        *("ingested", 2, _time("ingest", 0.6), "both images"),
        ("details/plan.json", "post.ome.zarr/zarr.json", "pre.ome.zarr/zarr.json"),
        streams=True,
    ),
    "export_raw": _export("ingested", "{role}"),
    "register": Stage(*("registered", 2, _time("register", 0.6), SMALL_MB), _REGISTER),
    "align": Stage(
        *("registered", 2, _time("align", 0.9), "store"),
        ("aligned_pre.ome.zarr/zarr.json", "details/statistics.npz", "details/bins.npz"),
    ),
    "export_aligned_pre": _export("registered", "aligned_pre"),
    "figures_registration": Stage(
        *("registered", 1, _time("figures_registration"), FIGURES_MB),
        _figures("figures_registration"),
    ),
    "scale": Stage(
        *("subtracted", 1, _time("scale"), SMALL_MB),
        ("scale.json", "details/gain_map.npz"),
    ),
    "difference": Stage(
        *("subtracted", 2, _time("difference", 0.8), "store"),
        (
            "difference.ome.zarr/zarr.json",
            "details/difference.histogram.npz",
            "details/difference.background.npz",
            "details/difference.blocks.npz",
        ),
    ),
    "difference_method": Stage(
        *("subtracted", 2, _time("difference_method", 0.8), "store"),
        ("difference_{method}.ome.zarr/zarr.json",),
    ),
    "export_difference": _export("subtracted", "difference_{method}"),
    "detect": Stage(
        *("detected", 2, _time("detect", 0.7), "candidates"),
        (
            "candidates.csv",
            "candidates.geojson",
            "artefacts.geojson",
            "details/detection.json",
            "details/search.npz",
        ),
    ),
    "snr": Stage(*("detected", 2, _time("snr", 0.7), "store"), ("snr.ome.zarr/zarr.json",)),
    "export_snr": _export("detected", "snr"),
    "figures": Stage(*("detected", 1, _time("figures"), 3 * FIGURES_MB), _figures("figures")),
    "slide_register": Stage(
        *("move", 2, _time("slide_register", 0.8), SMALL_MB),
        (*_REGISTER, "details/spoilt.npz"),
        streams=True,
    ),
    "slide_scale": Stage(
        *("slide", 2, _time("slide_scale", 0.8), "slide scale"),
        (
            "slide.json",
            "scale.json",
            "details/gain_maps.npz",
            "details/statistics.npz",
            "artefacts.geojson",
            "cells_to_trust.geojson",
        ),
        streams=True,
    ),
    "slide_part": Stage(
        *("part", 2, _time("slide_part", 0.8), "slide part"),
        ("tiles", "counts.npz", "state.json"),
        streams=True,
    ),
    "slide_subtract": Stage(
        *("slide", 2, _time("slide_subtract", 0.8), "slide"),
        (
            "markers_corrected.csv",
            "details/subtraction.json",
            "details/residues.npz",
            "details/overviews.npz",
        ),
        streams=True,
    ),
    "slide_figures": Stage(  # a directory with a figure of each marker
        *("slide", 1, _time("slide_figures"), "slide figures"),
        ("details/digests/slide_figures.sha256",),
    ),
    "summary": Stage(
        *("run", 1, _time("summary"), SMALL_MB),
        ("summary.tsv", "README.txt", multiqc.NAME),
    ),
    "verdict": Stage("run", 1, _time("verdict"), SMALL_MB, ("verdict.txt",)),
}
"""By the name of the rule, in the order in which the jobs of a pair are listed."""


# Lists of digests that have not the name of their rule alone.
_LISTS = {
    "difference_method": "difference_{method}",
    "export_raw": "export_{role}.{form}",
    "export_difference": "export_difference_{method}.{form}",
    **{rule: f"{rule}.{{form}}" for rule in ("export_aligned_pre", "export_snr")},
}


def name_digests(rule: str, outputs: Outputs) -> str:
    """Return the pattern of the list of digests of what a job publishes."""
    return outputs.file(STAGES[rule].level, f"{FOLDER}/{_LISTS.get(rule, rule)}{SUFFIX}")


def figures_of(rule: str, outputs: Outputs) -> tuple[FigureRow, ...]:
    """Return the figures that a rule draws.

    Those of the registration are drawn with all others, in one job, unless the variants of a sweep
    share a registration: then they have a rule of their own. Other rules draw none.
    """
    rows = FIGURES.get(rule, ())
    if outputs.directory("registered") == outputs.directory("detected"):
        rows = sum(FIGURES.values(), ()) if rule == "figures" else ()
    return tuple(row for row in rows if outputs.all_figures or not row.is_extra)


def files_of(rule: str, outputs: Outputs) -> tuple[str, ...]:
    """Return what a job publishes, below its level, except for digests."""
    if rule in FIGURES:
        return tuple(row.file for row in figures_of(rule, outputs))
    return STAGES[rule].files
