"""Adapter: find the map between two cycles of a slide, which is read in place."""

from pathlib import Path

from unglow.jobs.context import Job

with Job.from_script(snakemake) as job:
    from unglow.core.settings import from_json
    from unglow.images.slide_plan import KnownSlide
    from unglow.registration.block_table import write_blocks
    from unglow.registration.settings import RegisterSettings
    from unglow.slides.slide_register import register_move, score_move
    from unglow.transform import displacement

    job.limit_memory()
    known = KnownSlide.from_dict(snakemake.params.slide)
    settings = from_json(RegisterSettings, snakemake.params.settings)
    move = tuple(map(int, snakemake.wildcards.cycle.split("-")))
    workers = job.choose_workers()
    found = register_move(known, move, settings, workers=workers)
    write_blocks(Path(snakemake.output.blocks), found.blocks)
    # Snakemake wants the file of the field whether or not there is one
    displacement.save(Path(snakemake.output.displacement), found.transform.displacement)
    found.transform.save(Path(snakemake.output.transform))
    chosen = found.transform if snakemake.params.spoilt else None
    scores = score_move(known, move, chosen, workers=workers)
    scores.save(Path(snakemake.output.spoilt))
    job.count(pixels=known.shape[0] * known.shape[1])
