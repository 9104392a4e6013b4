"""Resources that each job of a batch asks for: memory, disk and time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from unglow.core.levels import LEVELS
from unglow.images.pair_plan import ROLES
from unglow.images.tiff import remedy
from unglow.images.tiff.codecs import is_slow
from unglow.workflow import stage_memory
from unglow.workflow.planned_jobs import same_difference_as, same_ratio_as, written_methods
from unglow.workflow.stage_memory import small
from unglow.workflow.stage_table import SMALL_MB, STAGES, measured_as

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from unglow.memory import AnyDemand, Demand
    from unglow.workflow.batch import Batch

    Wildcards = Mapping[str, str]


# So many pairs, none larger than so many px, are a batch of many small ones.
_MANY, _SMALL_PX = 4, 1 << 25


def choose_threads(batch: Batch) -> dict[str, int]:
    """Return the threads of each rule: one for the pairs of a batch of many small ones.

    Their jobs keep all cores busy next to each other; threads of one job would wait for each other.
    """
    pixels = [batch.pixels({"sample": sample, "dye": dye}) for sample, dye in batch.headers]
    many = len(pixels) >= _MANY and max(pixels) <= _SMALL_PX
    return {
        rule: 1 if many and not rule.startswith("slide_") else stage.threads
        for rule, stage in STAGES.items()
    }


# Time limit of jobs on small files, minutes: they take seconds.
_SHORT_MIN = 5
# Time limits are this many times what one thread of an idle 2-core machine needs, and two minutes.
_GENEROUS = 100
# Time to decode a sample, in the time that a px takes until it is stored; and with slow codecs.
_DECODING, _SLOW_DECODING = 0.1, 3.5
# Exporting a difference that is not written takes as long as this many that are.
_COMPUTING = 2.0


_TITLE = (*LEVELS, "role", "method", "cycle", "part")


def describe_job(
    batch: Batch, rule: str, wildcards: Wildcards, launcher_mb: int, *, missing: bool
) -> dict[str, Any]:
    """Return what is known of a job before it runs, as `unglow.workflow.schedule.Job` has it.

    Where none of its outputs is ``missing`` it takes no more disk.
    """
    stage = STAGES[rule]
    return {
        "rule": rule,
        "title": " ".join(wildcards[n] for n in _TITLE if wildcards.get(n)) or "the run",
        "demand": demand_of(batch, rule, wildcards),
        "launcher_mb": 0 if stage.level == "run" else launcher_mb,  # in the main process
        "disk_mb": disk_mb(batch, rule, wildcards) if missing else 0,
        "mpx": work_mpx(batch, rule, wildcards),
        "disk_streams": int(stage.streams),
        "advice": advise_on_image(batch, wildcards) if rule == "ingest" else "",
    }


def advise_on_image(batch: Batch, wildcards: Wildcards) -> str:
    """Say how another way of saving a raw image would save memory; '' if none does."""
    headers = [batch.header({**wildcards, "role": role}) for role in ROLES]
    header = max(headers, key=lambda h: h.decode_bytes + h.others_bytes)
    return remedy(header) or ""


def mem_mb(batch: Batch, rule: str, wildcards: Wildcards, threads: int) -> int:
    """Return the predicted peak of a job, MB, within the budget."""
    return demand_of(batch, rule, wildcards).peak_mb(batch.settings.memory_per_job, threads)


def disk_mb(batch: Batch, rule: str, wildcards: Wildcards) -> int:
    """Return an upper bound of what a job leaves on disk, MB."""
    kind = STAGES[rule].disk
    if isinstance(kind, int):
        return kind
    if kind.startswith("slide"):
        return batch.slide_rules.disk_mb(batch.slides[wildcards["sample"]], batch.settings, rule)
    same = {"difference": same_difference_as, "snr": same_ratio_as}.get(measured_as(rule))
    if same is not None and same(batch, wildcards) is not None:
        return SMALL_MB  # links to the shards of another one
    if kind == "both images":
        stores = (stage_memory.store_disk_mb(batch.layout(wildcards, role)) for role in ROLES)
        return sum(stores) + SMALL_MB
    if kind == "candidates":
        return stage_memory.candidates_disk_mb(batch.layout(wildcards, "derived"))
    layout = batch.layout(wildcards, wildcards.get("role", "derived"))
    return stage_memory.store_disk_mb(layout)


def runtime_min(batch: Batch, rule: str, wildcards: Wildcards) -> int:
    """Return a generous time limit of a job, minutes; the configuration may set another."""
    time = STAGES[rule].time
    if not time.per_mpx:
        return _SHORT_MIN
    if rule.startswith("slide_"):
        mpx = batch.slide_rules.work_mpx(batch.slides[wildcards["sample"]], rule)
    else:
        mpx = batch.pixels(wildcards) / 1e6
    if rule == "ingest":  # both images
        mpx *= 2
    seconds = time.fixed + mpx * time.per_mpx
    return math.ceil(2 + _GENEROUS * seconds / 60)


def work_mpx(batch: Batch, rule: str, wildcards: Wildcards) -> float:
    """Return what the time of a job grows with, million px: those of post, or of raw images.

    Of raw images, as many as there would be in an image that is stored as it is and takes as long.
    """
    if not STAGES[rule].time.per_mpx:
        return 0.0
    if rule.startswith("slide_"):
        return batch.slide_rules.work_mpx(batch.slides[wildcards["sample"]], rule)
    if rule == "ingest":
        return sum(_mpx_of_image(batch, {**wildcards, "role": role}) for role in ROLES)
    rows, cols = batch.headers[wildcards["sample"], wildcards["dye"]][0].shape
    mpx = rows * cols / 1e6
    if rule == "export_difference" and _is_computed(batch, wildcards):
        return mpx * _COMPUTING
    return mpx


def _mpx_of_image(batch: Batch, wildcards: Wildcards) -> float:
    """Return the work on a raw image, million px of a plain one."""
    header = batch.header(wildcards)
    mpx = header.shape[0] * header.shape[1] / 1e6
    samples = 1 if header.separate else len(header.channels)
    decoding = _SLOW_DECODING if is_slow(header.compression) else _DECODING
    return mpx * (1 + samples * decoding)


def demand_of(batch: Batch, rule: str, wildcards: Wildcards, mb: float | None = None) -> AnyDemand:
    """Return the memory demand of a job.

    Of jobs of slides it depends on the memory that they are given, ``mb``: by default the budget.
    """
    if rule.startswith("slide_"):
        budget = batch.settings.memory_per_job if mb is None else mb
        known = batch.slides[wildcards["sample"]]
        return batch.slide_rules.demand_of(known, batch.settings, rule, budget)
    if rule.startswith("export"):
        layout = batch.layout(wildcards, wildcards.get("role", "derived"))
        return stage_memory.export(layout, computed=_is_computed(batch, wildcards))
    name = measured_as(rule)
    return _OF_IMAGES[name](batch, wildcards) if name in _OF_IMAGES else small(name)


def _demand_of_register(batch: Batch, wildcards: Wildcards) -> Demand:
    settings = batch.variant_settings(wildcards).register
    shapes = tuple(h.shape for h in batch.headers[wildcards["sample"], wildcards["dye"]])
    sizes = settings.coarse_px, settings.block_px
    return stage_memory.register(shapes, *sizes, field=settings.field == "auto")


def _drawn_bytes(batch: Batch, wildcards: Wildcards) -> int:
    """Return the size of the file of regions of a pair; 0 if there is none."""
    regions = batch.pair(wildcards).regions
    try:
        return 0 if regions is None else regions.stat().st_size
    except OSError:  # it has gone since it was read, and its job will say so
        return 0


_OF_IMAGES: dict[str, Callable[[Batch, Wildcards], AnyDemand]] = {
    "ingest": lambda batch, names: stage_memory.ingest_both(
        batch.headers[names["sample"], names["dye"]],
        (batch.layout(names, "post"), batch.layout(names, "pre")),
    ),
    "register": _demand_of_register,
    "align": lambda batch, names: stage_memory.align(
        batch.layout(names, "derived"), batch.layout(names, "pre")
    ),
    "difference": lambda batch, names: stage_memory.difference(batch.layout(names, "derived")),
    "detect": lambda batch, names: stage_memory.detect(
        batch.layout(names, "derived"), _drawn_bytes(batch, names)
    ),
    "snr": lambda batch, names: stage_memory.snr(batch.layout(names, "derived")),
}
"""Demands of the stages that work on stores, by rule; the others read small files only."""


def _is_computed(batch: Batch, wildcards: Wildcards) -> bool:
    """Return whether an export is of a difference that is not written."""
    method = wildcards.get("method")
    return method is not None and method not in written_methods(batch, wildcards)
