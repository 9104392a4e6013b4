"""Adapter: draw what is left after subtraction by one method."""

from pathlib import Path

from unglow.job import Job

with Job.of(snakemake) as job:
    from unglow.gallery import draw_difference
    from unglow.photometry import DifferenceHistogram
    from unglow.store import open_store

    job.fence()
    post, aligned, difference = (
        open_store(Path(snakemake.input[name]).parent) for name in ("post", "aligned", "difference")
    )
    draw_difference(
        post,
        aligned,
        difference,
        DifferenceHistogram.load(Path(snakemake.input.histogram)),
        snakemake.wildcards.method,
        job.targets,
        job.pair_title,
    )
