"""Adapter: plan a pair and stream its raw images into stores."""

from pathlib import Path

from unglow.jobs.context import Job

with Job.from_script(snakemake) as job:
    from unglow.images.pair_plan import ROLES
    from unglow.stages.ingest import ingest_both
    from unglow.stages.plan import add_light, plan_pair

    job.limit_memory()
    raw = {role: Path(snakemake.input[role]) for role in ROLES}
    headers = {role: snakemake.params[f"{role}_header"] for role in ROLES}
    channel, dye = snakemake.params.channel, snakemake.wildcards.dye
    plan = plan_pair(raw["post"], raw["pre"], headers, channel=channel, dye=dye)
    paths = {role: Path(snakemake.output[role]).parent for role in ROLES}
    job.count(pixels=ingest_both(plan, paths, workers=job.choose_workers()))
    add_light(plan, paths).save(Path(snakemake.output.plan))
