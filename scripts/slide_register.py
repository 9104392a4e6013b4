"""Adapter: find the map between two cycles of a slide, in place."""

from pathlib import Path

from unglow.jobs.context import Job

with Job.of(snakemake) as job:
    from unglow.registration.block_table import write_blocks
    from unglow.registration.settings import RegisterSettings
    from unglow.transform import displacement
    from unglow.workflow.slides import KnownSlide
    from unglow.workflow.stages.slide_register import demand, register_cycles

    job.limit_memory()
    known = KnownSlide.from_dict(snakemake.params.slide)
    settings = RegisterSettings(**snakemake.params.settings)
    move = tuple(map(int, snakemake.wildcards.cycle.split("-")))
    found = register_cycles(known, move, settings, workers=job.workers(demand(known, settings)))
    write_blocks(Path(snakemake.output.blocks), found.blocks)
    displacement.save(Path(snakemake.output.displacement), found.transform.displacement)
    found.transform.save(Path(snakemake.output.transform))
    job.count(pixels=known.shape[0] * known.shape[1])
