"""Adapter: warp pre onto post and gather statistics of both."""

from pathlib import Path

from unglow.job import Job

with Job.of(snakemake) as job:
    from unglow import kernels

    kernels.load("catmull_rom", *kernels.COUNTING)  # first: while the other libraries are not there
    from unglow import memory, transform
    from unglow.align import align
    from unglow.store import open_store, plan_layout

    job.fence()
    post, pre = (open_store(Path(p).parent) for p in (snakemake.input.post, snakemake.input.pre))
    found = transform.load(Path(snakemake.input.transform))
    layout = plan_layout(post.shape, "float32")
    demand = memory.align(layout, pre.layout)
    statistics, bins = align(
        post,
        pre,
        found,
        layout,
        Path(snakemake.output.aligned).parent,
        workers=job.workers(demand),
    )
    statistics.save(Path(snakemake.output.statistics))
    bins.save(Path(snakemake.output.bins))
    job.count(pixels=post.shape[0] * post.shape[1])
