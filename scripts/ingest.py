"""Adapter: plan a pair and stream its raw images into stores; all, a band, or joining bands."""

from pathlib import Path

from unglow.jobs.context import Job

with Job.of(snakemake) as job:
    from unglow.workflow import memory_model
    from unglow.workflow.paths import joined
    from unglow.workflow.samples import ROLES
    from unglow.workflow.stages.ingest import SignalStore, ingest_both
    from unglow.workflow.stages.plan import plan_pair, with_light
    from unglow.workflow.stages.store_job import make_band

    job.limit_memory()
    raw = {role: Path(snakemake.input[role]) for role in ROLES}
    headers = {role: snakemake.params[f"{role}_header"] for role in ROLES}
    channel, dye = snakemake.params.channel, snakemake.wildcards.dye
    plan = plan_pair(raw["post"], raw["pre"], headers, channel=channel, dye=dye)
    output = Path(snakemake.output[0])
    path, band = joined(output)
    if band is not None:
        role = snakemake.wildcards.role
        store = SignalStore(plan, role, path)
        demand = memory_model.ingest(plan.headers[role], store.layout)
        make_band(job, store, band, output, demand=demand)
    else:
        band_results = {
            role: [Path(path) for path in snakemake.input.get(f"{role}_bands", ())]
            for role in ROLES
        }
        demand = memory_model.ingest_both(
            tuple(plan.headers[role] for role in ROLES),
            tuple(plan.layouts[role] for role in ROLES),
            tuple(bool(band_results[role]) for role in ROLES),
        )
        workers = job.workers(demand)
        paths = {role: Path(snakemake.output[role]).parent for role in ROLES}
        job.count(pixels=ingest_both(plan, paths, workers=workers, band_results=band_results))
        with_light(plan, paths).save(Path(snakemake.output.plan))
