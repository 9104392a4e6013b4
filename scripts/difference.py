"""Adapter: subtract, and count what every method leaves; all of it, a band, or joining bands."""

from pathlib import Path

from unglow.jobs.context import Job

with Job.of(snakemake) as job:
    from unglow.io.zarr import open_store, plan_layout
    from unglow.photometry.difference import Matched
    from unglow.photometry.gain.scale import Scale
    from unglow.photometry.joint_histogram import JointStatistics
    from unglow.workflow import memory_model
    from unglow.workflow.paths import joined
    from unglow.workflow.stages.difference import (
        Subtraction,
        save_residues,
        subtract,
        subtract_band,
    )

    job.limit_memory()
    pieces = [Path(path) for path in snakemake.input.get("bands", ())]
    post, aligned = (
        open_store(Path(p).parent) for p in (snakemake.input.post, snakemake.input.aligned)
    )
    layout = plan_layout(post.shape, "float32")
    scale = Scale.load(Path(snakemake.input.scale), Path(snakemake.input.gain_map))
    given = Subtraction(
        Matched(post, aligned, scale.blur),
        scale,
        JointStatistics.load(Path(snakemake.input.statistics)),
        (snakemake.wildcards.method, *snakemake.params.counted),
    )
    said = Path(snakemake.output[0])
    target, band = joined(said)
    demand = memory_model.difference(layout)
    if band is not None:
        workers = job.workers(memory_model.of_band(demand, layout, band.of))
        subtract_band(given, layout, target, band, workers=workers).save(said)
        job.count(pixels=band.pixels(layout))
    else:
        workers = job.workers(memory_model.join_difference(layout) if pieces else demand)
        residues = subtract(given, layout, target, workers=workers, pieces=pieces)
        output = snakemake.output
        save_residues(residues, given.written, Path(output.histogram), Path(output.background))
        job.count(pixels=post.shape[0] * post.shape[1])
