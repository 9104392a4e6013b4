"""Adapter: decide channels and layouts of one pair."""

from pathlib import Path

from unglow.job import Job

with Job.of(snakemake) as job:
    from unglow.plan import plan_pair

    job.fence()
    plan_pair(
        Path(snakemake.input.post),
        Path(snakemake.input.pre),
        {"post": snakemake.params.post, "pre": snakemake.params.pre},
        channel=snakemake.params.channel,
        dye=snakemake.wildcards.dye,
        target=Path(snakemake.output[0]),
    )
