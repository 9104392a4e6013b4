"""What memory each job of a batch needs: which images a stage works on, and whether it is split."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from unglow import memory
from unglow.pairs import ROLES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unglow.batch import Batch
    from unglow.demand import AnyDemand, Demand

BY_HEADER = ("ingest", "register", "align", "difference", "detect", "snr")
"""Stages whose memory depends on the images; the others read small files only."""
# Stages that very large pairs are split in, and what the job needs that joins the bands.
_JOINING = {
    "align": memory.join_align,
    "difference": memory.join_difference,
    "detect": memory.join_detect,
}


def demand_of(batch: Batch, stage: str, wildcards: Mapping[str, str]) -> AnyDemand:
    """Return the demand of a job.

    Parameters
    ----------
    batch
        The pairs, their headers and settings.
    stage
        Name of its rule; ``export`` for the rules that export.
    wildcards
        Of the job.
    """
    whole_stage = stage.removesuffix("_band")
    if whole_stage not in (*BY_HEADER, "export"):
        return memory.small(stage)
    key = wildcards["sample"], wildcards["dye"]
    if stage == "export":
        method = wildcards.get("method")
        computed = method is not None and method not in batch.written(wildcards)
        layout = batch.layout(*key, wildcards.get("role", "derived"))
        return memory.export(layout, computed=computed)
    if whole_stage == "ingest":
        return _of_images(batch, wildcards)
    if whole_stage not in _JOINING or batch.band_count(whole_stage, wildcards) == 1:
        return _unsplit(batch, stage, wildcards)
    layout = batch.layout(*key, "derived")
    if stage == whole_stage:
        return _JOINING[stage](layout)
    count = batch.band_count(whole_stage, wildcards)
    return memory.of_band(_unsplit(batch, whole_stage, wildcards), layout, count)


def _of_images(batch: Batch, wildcards: Mapping[str, str]) -> AnyDemand:
    """Return the demand of ingesting both images of a pair, or a band of one of them."""
    key = wildcards["sample"], wildcards["dye"]
    headers = batch.headers[key]
    if "role" not in wildcards:
        post, pre = ({**wildcards, "role": role} for role in ROLES)
        layouts = batch.layout(*key, "post"), batch.layout(*key, "pre")
        split = batch.band_count("ingest", post) > 1, batch.band_count("ingest", pre) > 1
        return memory.ingest_both(headers, layouts, split)
    layout = batch.layout(*key, wildcards["role"])
    whole = memory.ingest(batch.header(wildcards), layout)
    part = memory.of_band(whole, layout, batch.band_count("ingest", wildcards))
    return replace(part, least=max(part.least, memory.plan(headers).peak_mb(0, 1)))


def _unsplit(batch: Batch, stage: str, wildcards: Mapping[str, str]) -> Demand:
    """Return the demand of a job that does all of a stage."""
    key = wildcards["sample"], wildcards["dye"]
    headers = batch.headers[key]
    if stage == "register":
        settings = batch.variant_settings(wildcards)["register"]
        return memory.register(
            tuple(h.shape for h in headers),
            settings["coarse_px"],
            settings["block_px"],
            field=settings["field"] == "auto",
        )
    layout = batch.layout(*key, "derived")
    if stage == "align":
        return memory.align(layout, batch.layout(*key, "pre"))
    derived = {"difference": memory.difference, "detect": memory.detect, "snr": memory.snr}
    return derived[stage](layout)
