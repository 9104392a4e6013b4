"""A job that makes the store of a stage, one band of it, or joins its bands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unglow.workflow import memory_model

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from unglow.core.demand import Demand
    from unglow.io.zarr.bands import Band
    from unglow.io.zarr.stage_store import StageStore
    from unglow.jobs.context import Job


def make_store(
    job: Job,
    store: StageStore,
    band: Band | None,
    output: Path,
    *,
    demand: Demand,
    join_demand: Demand,
    band_results: Sequence[Path],
) -> bool:
    """Make the store of a job, one band of it, or join its bands.

    Parameters
    ----------
    job
        The job; it says how many shards may be in flight.
    store
        What is made.
    band
        Which band the job makes; None for the whole store.
    output
        First output of the job: the result of a band, or a file of the store.
    demand, join_demand
        What the whole store takes, and joining its bands.
    band_results
        Results of all bands, if they are joined.

    Returns
    -------
    Whether the store and its counts are complete: False after one band.
    """
    if band is not None:
        make_band(job, store, band, output, demand=demand)
        return False
    workers = job.workers(join_demand if band_results else demand)
    store.make(workers=workers, band_results=band_results)
    job.count(pixels=store.layout.shape[0] * store.layout.shape[1])
    return True


def make_band(job: Job, store: StageStore, band: Band, output: Path, *, demand: Demand) -> None:
    """Make one band of a store and save its result; parameters as for `make_store`."""
    workers = job.workers(memory_model.of_band(demand, store.layout, band.of))
    store.make_band(band, workers=workers).save(output)
    job.count(pixels=band.pixels(store.layout))
