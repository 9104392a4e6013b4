"""Adapter: find the map between two cycles of a slide, which is read in place."""

from pathlib import Path

from unglow.jobs.context import Job

with Job.of(snakemake) as job:
    from unglow.registration.block_table import write_blocks
    from unglow.registration.settings import RegisterSettings
    from unglow.transform import displacement
    from unglow.workflow import slide_memory
    from unglow.workflow.slides import KnownSlide
    from unglow.workflow.stages.slide_register import register_move

    job.limit_memory()
    known = KnownSlide.from_dict(snakemake.params.slide)
    settings = RegisterSettings(**snakemake.params.settings)
    move = tuple(map(int, snakemake.wildcards.cycle.split("-")))
    workers = job.workers(slide_memory.register(known, settings))
    found = register_move(known, move, settings, workers=workers)
    write_blocks(Path(snakemake.output.blocks), found.blocks)
    # Snakemake wants the file of the field whether or not there is one
    displacement.save(Path(snakemake.output.displacement), found.transform.displacement)
    found.transform.save(Path(snakemake.output.transform))
    job.count(pixels=known.shape[0] * known.shape[1])
