"""Adapter: warp pre onto post and gather statistics of both; all, a band, or joining bands."""

from pathlib import Path

from unglow.jobs.context import Job

with Job.of(snakemake) as job:
    pieces = [Path(path) for path in snakemake.input.get("bands", ())]
    from unglow import transform
    from unglow.io.zarr import open_store, plan_layout
    from unglow.workflow import memory_model
    from unglow.workflow.paths import joined
    from unglow.workflow.stages.align import align, align_band

    job.limit_memory()
    post, pre = (open_store(Path(p).parent) for p in (snakemake.input.post, snakemake.input.pre))
    found = transform.load(Path(snakemake.input.transform))
    layout = plan_layout(post.shape, "float32")
    said = Path(snakemake.output[0])
    target, band = joined(said)
    demand = memory_model.align(layout, pre.layout)
    if band is not None:
        workers = job.workers(memory_model.of_band(demand, layout, band.of))
        align_band(post, pre, found, layout, target, band, workers=workers).save(said)
        job.count(pixels=band.pixels(layout))
    else:
        workers = job.workers(memory_model.join_align(layout) if pieces else demand)
        statistics, bins = align(post, pre, found, layout, target, workers=workers, pieces=pieces)
        statistics.save(Path(snakemake.output.statistics))
        bins.save(Path(snakemake.output.bins))
        job.count(pixels=post.shape[0] * post.shape[1])
