"""Adapter: warp pre onto post and gather statistics of both; all, a band, or joining bands."""

from pathlib import Path

from unglow.jobs.context import Job

with Job.of(snakemake) as job:
    from unglow import transform
    from unglow.io.zarr import open_store, plan_layout
    from unglow.workflow import memory_model
    from unglow.workflow.paths import joined
    from unglow.workflow.stages.align import AlignedStore
    from unglow.workflow.stages.store_job import make_store

    job.limit_memory()
    post, pre = (open_store(Path(p).parent) for p in (snakemake.input.post, snakemake.input.pre))
    found = transform.load(Path(snakemake.input.transform))
    layout = plan_layout(post.shape, "float32")
    output = Path(snakemake.output[0])
    path, band = joined(output)
    store = AlignedStore(post, pre, found, layout, path)
    if make_store(
        job,
        store,
        band,
        output,
        demand=memory_model.align(layout, pre.layout),
        join_demand=memory_model.join_align(layout),
        band_results=[Path(path) for path in snakemake.input.get("bands", ())],
    ):
        store.statistics.save(Path(snakemake.output.statistics))
        store.bins.save(Path(snakemake.output.bins))
