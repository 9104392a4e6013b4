"""Adapter: subtract the background of every marker of a slide, into one image."""

from unglow.jobs.context import Job

with Job.of(snakemake) as job:
    from unglow.workflow.slides import KnownSlide
    from unglow.workflow.stages.slide_subtract import subtract

    job.limit_memory()
    known = KnownSlide.from_dict(snakemake.params.slide)
    subtract(job, known, snakemake.input, snakemake.params)
