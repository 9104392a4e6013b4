"""Adapter: plan a pair and stream its raw images into stores; all, a band, or joining bands."""

from pathlib import Path

from unglow.jobs.context import Job

with Job.of(snakemake) as job:
    from unglow.workflow import memory_model
    from unglow.workflow.paths import joined
    from unglow.workflow.samples import ROLES
    from unglow.workflow.stages.ingest import ingest_band, ingest_both
    from unglow.workflow.stages.plan import plan_pair

    job.limit_memory()
    raw = {role: Path(snakemake.input[role]) for role in ROLES}
    headers = {role: snakemake.params[f"{role}_header"] for role in ROLES}
    channel, dye = snakemake.params.channel, snakemake.wildcards.dye
    plan = plan_pair(raw["post"], raw["pre"], headers, channel=channel, dye=dye)
    said = Path(snakemake.output[0])
    target, band = joined(said)
    if band is not None:
        role = snakemake.wildcards.role
        layout = plan.layouts[role]
        demand = memory_model.ingest(plan.headers[role], layout)
        workers = job.workers(memory_model.of_band(demand, layout, band.of))
        ingest_band(plan, role, target, band, workers=workers).save(said)
        job.count(pixels=band.pixels(layout))
    else:
        pieces = {
            role: [Path(path) for path in snakemake.input.get(f"{role}_bands", ())]
            for role in ROLES
        }
        demand = memory_model.ingest_both(
            tuple(plan.headers[role] for role in ROLES),
            tuple(plan.layouts[role] for role in ROLES),
            tuple(bool(pieces[role]) for role in ROLES),
        )
        workers = job.workers(demand)
        targets = {role: Path(snakemake.output[role]).parent for role in ROLES}
        job.count(pixels=ingest_both(plan, targets, workers=workers, pieces=pieces))
        plan.save(Path(snakemake.output.plan))
