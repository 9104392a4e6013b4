"""Adapter: stream one raw image into its store; all of it, a band, or joining bands."""

from pathlib import Path

from unglow.job import Job

with Job.of(snakemake) as job:
    from unglow import memory
    from unglow.ingest import ingest, ingest_band
    from unglow.outputs import joined
    from unglow.plan import Plan

    job.fence()
    pieces = [Path(path) for path in snakemake.input.get("bands", ())]
    role = snakemake.wildcards.role
    plan = Plan.load(Path(snakemake.input.plan), {role: Path(snakemake.input.raw)})
    layout = plan.layouts[role]
    said = Path(snakemake.output[0])
    target, band = joined(said)
    demand = memory.ingest(plan.headers[role], layout)
    if band is not None:
        workers = job.workers(memory.of_band(demand, layout, band.of))
        ingest_band(plan, role, target, band, workers=workers).save(said)
        job.count(pixels=band.pixels(layout))
    else:
        workers = job.workers(memory.join_ingest(layout) if pieces else demand)
        statistics = ingest(plan, role, target, workers=workers, pieces=pieces)
        job.count(pixels=statistics.get("pixels", 0))
