"""Adapter: draw how well pre lies on post."""

from pathlib import Path

from unglow.job import Job

with Job.of(snakemake) as job:
    from unglow import blocktable, transform
    from unglow.gallery import draw_registration
    from unglow.store import open_store

    job.fence()
    post, pre, aligned = (
        open_store(Path(snakemake.input[name]).parent) for name in ("post", "pre", "aligned")
    )
    draw_registration(
        post,
        pre,
        aligned,
        transform.load(Path(snakemake.input.transform)),
        blocktable.read_blocks(Path(snakemake.input.blocks)),
        job.targets,
        job.pair_title,
    )
