"""What memory each job of a batch needs: which images a stage works on, and whether it is split."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from unglow.jobs.base_memory import BY_HEADER, small
from unglow.workflow import memory_model
from unglow.workflow.samples import ROLES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unglow.core.demand import AnyDemand, Demand
    from unglow.io.tiff import TiffHeader
    from unglow.io.zarr import StoreLayout
    from unglow.workflow.schema import Settings

# Stages that very large pairs are split in, and what the job needs that joins the bands.
_JOINING = {
    "align": memory_model.join_align,
    "difference": memory_model.join_difference,
    "detect": memory_model.join_detect,
}


class Pairs(Protocol):
    """What the memory of jobs follows from; a `Batch` has it."""

    @property
    def headers(self) -> Mapping[tuple[str, str], tuple[TiffHeader, TiffHeader]]:
        """Headers of (post, pre) by sample and dye."""

    def header(self, wildcards: Mapping[str, str]) -> TiffHeader:
        """Return the header of the image that a job's wildcards name."""

    def layout(self, sample: str, dye: str, role: str) -> StoreLayout:
        """Return the layout of a pair's store."""

    def band_count(self, stage: str, wildcards: Mapping[str, str]) -> int:
        """Return how many bands a stage of a pair is made in."""

    def written(self, wildcards: Mapping[str, str]) -> tuple[str, ...]:
        """Return the methods whose differences are written."""

    def variant_settings(self, wildcards: Mapping[str, str]) -> Settings:
        """Return the configuration of the variant that a job's wildcards name."""


def demand_of(batch: Pairs, stage: str, wildcards: Mapping[str, str]) -> AnyDemand:
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
        return small(stage)
    key = wildcards["sample"], wildcards["dye"]
    if stage == "export":
        method = wildcards.get("method")
        computed = method is not None and method not in batch.written(wildcards)
        layout = batch.layout(*key, wildcards.get("role", "derived"))
        return memory_model.export(layout, computed=computed)
    if whole_stage == "ingest":
        return _of_images(batch, wildcards)
    if whole_stage not in _JOINING or batch.band_count(whole_stage, wildcards) == 1:
        return _unsplit(batch, stage, wildcards)
    layout = batch.layout(*key, "derived")
    if stage == whole_stage:
        return _JOINING[stage](layout)
    count = batch.band_count(whole_stage, wildcards)
    return memory_model.of_band(_unsplit(batch, whole_stage, wildcards), layout, count)


def _of_images(batch: Pairs, wildcards: Mapping[str, str]) -> AnyDemand:
    """Return the demand of ingesting both images of a pair, or a band of one of them."""
    key = wildcards["sample"], wildcards["dye"]
    headers = batch.headers[key]
    if wildcards.get("role") is None:  # Snakemake's wildcards are a list of values to `in`
        post, pre = ({**wildcards, "role": role} for role in ROLES)
        layouts = batch.layout(*key, "post"), batch.layout(*key, "pre")
        split = batch.band_count("ingest", post) > 1, batch.band_count("ingest", pre) > 1
        return memory_model.ingest_both(headers, layouts, split)
    layout = batch.layout(*key, wildcards["role"])
    whole = memory_model.ingest(batch.header(wildcards), layout)
    part = memory_model.of_band(whole, layout, batch.band_count("ingest", wildcards))
    return replace(part, least=max(part.least, memory_model.plan(headers).peak_mb(0, 1)))


def _unsplit(batch: Pairs, stage: str, wildcards: Mapping[str, str]) -> Demand:
    """Return the demand of a job that does all of a stage."""
    key = wildcards["sample"], wildcards["dye"]
    headers = batch.headers[key]
    if stage == "register":
        settings = batch.variant_settings(wildcards)["register"]
        return memory_model.register(
            tuple(h.shape for h in headers),
            settings["coarse_px"],
            settings["block_px"],
            field=settings["field"] == "auto",
        )
    layout = batch.layout(*key, "derived")
    if stage == "align":
        return memory_model.align(layout, batch.layout(*key, "pre"))
    derived = {
        "difference": memory_model.difference,
        "detect": memory_model.detect,
        "snr": memory_model.snr,
    }
    return derived[stage](layout)
