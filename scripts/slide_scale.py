"""Adapter: measure gain and offset of every marker of a slide in one pass over its files."""

from unglow.jobs.context import Job

with Job.of(snakemake) as job:
    from unglow.workflow.slides import KnownSlide
    from unglow.workflow.stages.slide_scale import measure

    job.limit_memory()
    known = KnownSlide.from_dict(snakemake.params.slide)
    measure(job, known, snakemake.params.settings, snakemake.input.transforms)
