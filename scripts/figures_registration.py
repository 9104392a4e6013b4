"""Adapter: draw how well pre matches post."""

from pathlib import Path

from unglow.jobs.context import Job

with Job.of(snakemake) as job:
    from unglow import transform
    from unglow.io.zarr import open_store
    from unglow.registration import block_table
    from unglow.workflow.stages.figures import draw_registration

    job.limit_memory()
    post, pre, aligned = (
        open_store(Path(snakemake.input[name]).parent) for name in ("post", "pre", "aligned")
    )
    draw_registration(
        post,
        pre,
        aligned,
        transform.load(Path(snakemake.input.transform)),
        block_table.read_blocks(Path(snakemake.input.blocks)),
        job.targets,
        job.pair_title,
    )
