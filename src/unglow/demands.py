"""What memory each job of a batch needs: which images a stage works on, and whether it is split."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unglow import memory

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unglow.batch import Batch
    from unglow.memory import Demand

BY_HEADER = ("plan", "ingest", "register", "align", "difference", "detect", "snr")
"""Stages whose memory depends on the images; the others read small files only."""
# Stages that very large pairs are split in, and what the job needs that joins the bands.
_JOINING = {
    "ingest": memory.join_ingest,
    "align": memory.join_align,
    "difference": memory.join_difference,
    "detect": memory.join_detect,
}


def demand_of(batch: Batch, stage: str, wildcards: Mapping[str, str]) -> Demand:
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
    if stage == "export":
        role = wildcards.get("role", "derived")
        return memory.export(batch.layout(wildcards["sample"], wildcards["dye"], role))
    whole = stage.removesuffix("_band")
    if whole not in _JOINING or batch.band_count(whole, wildcards) == 1:
        return _unsplit(batch, stage, wildcards)
    role = wildcards["role"] if whole == "ingest" else "derived"
    layout = batch.layout(wildcards["sample"], wildcards["dye"], role)
    if stage == whole:
        return _JOINING[stage](layout)
    count = batch.band_count(whole, wildcards)
    return memory.of_band(_unsplit(batch, whole, wildcards), layout, count)


def _unsplit(batch: Batch, stage: str, wildcards: Mapping[str, str]) -> Demand:
    """Return the demand of a job that does all of a stage."""
    if stage not in BY_HEADER:
        return memory.small(stage)
    key = wildcards["sample"], wildcards["dye"]
    headers = batch.headers[key]
    if stage == "plan":
        return memory.plan(headers)
    if stage == "ingest":
        return memory.ingest(batch.header(wildcards), batch.layout(*key, wildcards["role"]))
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
