"""Adapter: write the corrected slide, every marker without its background."""

from pathlib import Path

from unglow.jobs.context import Job

with Job.of(snakemake) as job:
    from unglow.workflow.slides import KnownSlide
    from unglow.workflow.stages.slide_subtract import Choice, subtract

    job.limit_memory()
    known = KnownSlide.from_dict(snakemake.params.slide, snakemake.params.own_cells)
    subtract(
        known,
        known.read_maps(snakemake.input.transforms),
        {name: Path(snakemake.input[name]) for name in ("slide", "scale", "gain_maps")},
        job.targets,
        Choice(snakemake.params.dtype, snakemake.params.rounding),
        workers=job.choose_workers(),
        channels_at_a_time=snakemake.params.at_a_time,
    )
    job.count(pixels=known.shape[0] * known.shape[1] * len(known.slide.kept))
