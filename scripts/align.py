"""Adapter: warp pre onto post and gather statistics of both."""

from pathlib import Path

from unglow.jobs.context import Job

with Job.from_script(snakemake) as job:
    from unglow import transform
    from unglow.images.zarr import open_store, plan_layout
    from unglow.stages.align import AlignedStore

    job.limit_memory()
    post, pre = (open_store(Path(p).parent) for p in (snakemake.input.post, snakemake.input.pre))
    found = transform.load(Path(snakemake.input.transform))
    layout = plan_layout(post.shape, "float32")
    store = AlignedStore(post, pre, found, layout, Path(snakemake.output.aligned).parent)
    store.make(workers=job.choose_workers())
    job.count(pixels=layout.shape[0] * layout.shape[1])
    store.statistics.save(Path(snakemake.output.statistics))
    store.bins.save(Path(snakemake.output.bins))
