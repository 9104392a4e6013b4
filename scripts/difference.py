"""Adapter: subtract with the gain of one method."""

from pathlib import Path

from unglow.job import Job

with Job.of(snakemake) as job:
    from unglow import memory
    from unglow.photometry import JointStatistics, Scale
    from unglow.store import open_store, plan_layout
    from unglow.subtract import subtract

    job.fence()
    method = snakemake.wildcards.method
    post, aligned = (
        open_store(Path(p).parent) for p in (snakemake.input.post, snakemake.input.aligned)
    )
    layout = plan_layout(post.shape, "float32")
    scale = Scale.load(Path(snakemake.input.scale), Path(snakemake.input.gain_map))
    histogram, background = subtract(
        post,
        aligned,
        method,
        scale.methods[method],
        JointStatistics.load(Path(snakemake.input.statistics)),
        layout,
        Path(snakemake.output.difference).parent,
        blur=scale.blur,
        workers=job.workers(memory.difference(layout)),
    )
    histogram.save(Path(snakemake.output.histogram))
    background.save(Path(snakemake.output.background))
    job.count(pixels=post.shape[0] * post.shape[1])
