"""Adapter: stream one raw image into its store."""

from pathlib import Path

from unglow.job import Job

with Job.of(snakemake) as job:
    from unglow import memory
    from unglow.ingest import ingest
    from unglow.plan import Plan

    job.fence()
    role = snakemake.wildcards.role
    plan = Plan.load(Path(snakemake.input.plan), {role: Path(snakemake.input.raw)})
    demand = memory.ingest(plan.headers[role], plan.layouts[role])
    statistics = ingest(
        plan,
        role,
        Path(snakemake.output[0]).parent,
        workers=job.workers(demand),
    )
    job.count(pixels=statistics.get("pixels", 0))
