"""Memory, disk and work of the jobs of a slide, from its headers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from unglow.core.demand import Demand
from unglow.jobs.base_memory import BASE, SLACK
from unglow.multiplexed.sample import Sample
from unglow.registration.settings import RegisterSettings
from unglow.workflow import slide_memory

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unglow.workflow.batch import Batch
    from unglow.workflow.slides import KnownSlide

    Wildcards = Mapping[str, str]

# A pyramid adds a third, and what compresses worst is a little larger than its px.
_PYRAMID, _WORST = 4 / 3, 1.02
# Small files of a slide, and those of each marker (figures, statistics, overviews), MB.
_SMALL_MB, _MARKER_MB = 2, 3
# What drawing holds of each marker, MB.
_DRAWN_MB = 3.0


def demand(batch: Batch, rule: str, wildcards: Wildcards) -> Demand:
    """Return the memory demand of a job."""
    known, settings = batch.slides[wildcards["sample"]], batch.settings
    budget = settings["memory_per_job"]
    if rule == "slide_register":
        chosen = {k: v for k, v in settings["register"].items() if k not in ("on", "from")}
        return slide_memory.register(known, RegisterSettings(**chosen))
    if rule == "slide_scale":
        return slide_memory.measure(known, slide_memory.markers_at_a_time(known, budget))
    if rule == "slide_subtract":
        dtype = settings["multiplexed"]["dtype"]
        stores = settings["multiplexed"]["output"] != "tiff"
        at_a_time = slide_memory.channels_at_a_time(known, budget, dtype, stores=stores)
        return slide_memory.subtract(known, at_a_time, dtype, stores=stores)
    each_marker = _DRAWN_MB * len(known.slide.markers)
    return Demand(BASE["slide_figures"], 0.0, fixed=SLACK + each_marker)


def disk_mb(batch: Batch, rule: str, wildcards: Wildcards) -> int:
    """Return an upper bound of what a job leaves on disk, MB."""
    known = batch.slides[wildcards["sample"]]
    small = _SMALL_MB + _MARKER_MB * len(known.slide.markers)
    if rule != "slide_subtract":
        return small
    settings = batch.settings["multiplexed"]
    copies = 2 if settings["output"] == "both" else 1
    return math.ceil(small + copies * _image_mb(known, settings["dtype"]))


def _image_mb(known: KnownSlide, dtype: str) -> float:
    name = known.headers[0].dtype if dtype == "input" else dtype
    samples = known.shape[0] * known.shape[1] * len(known.slide.kept)
    return samples * np.dtype(name).itemsize * _PYRAMID * _WORST / 1e6


def work_mpx(batch: Batch, rule: str, wildcards: Wildcards) -> float:
    """Return what the time of a job grows with, million px: those of all channels at work."""
    known = batch.slides[wildcards["sample"]]
    mpx = known.shape[0] * known.shape[1] / 1e6
    if rule == "slide_register":
        return mpx
    if rule == "slide_scale":
        return math.prod(Sample.of(known.shape).extent) / 1e6 * len(known.slide.markers)
    return mpx * len(known.slide.kept)
