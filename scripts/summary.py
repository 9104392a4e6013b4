"""Adapter: one table over all pairs."""

from pathlib import Path

from unglow.jobs.context import Job

with Job.from_script(snakemake) as job:
    from unglow.results.summary import entries_from, write_summary

    job.limit_memory()
    target = Path(snakemake.output[0])
    write_summary(
        entries_from(snakemake.params.entries), snakemake.params.problems, target.parent, target
    )
