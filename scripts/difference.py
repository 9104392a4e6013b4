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
    from unglow.workflow.stages.difference import DifferenceStore
    from unglow.workflow.stages.store_job import make_store

    job.limit_memory()
    post, aligned = (
        open_store(Path(p).parent) for p in (snakemake.input.post, snakemake.input.aligned)
    )
    layout = plan_layout(post.shape, "float32")
    scale = Scale.load(Path(snakemake.input.scale), Path(snakemake.input.gain_map))
    output = Path(snakemake.output[0])
    path, band = joined(output)
    store = DifferenceStore(
        Matched(post, aligned, scale.blur),
        scale,
        JointStatistics.load(Path(snakemake.input.statistics)),
        (snakemake.wildcards.method, *snakemake.params.counted),
        layout,
        path,
    )
    demand = memory_model.difference(layout)
    made = False
    for other in snakemake.input.get("same", ()):  # one at most
        made = store.make_same(Path(other).parent, workers=job.workers(demand))
        job.count(pixels=made * layout.shape[0] * layout.shape[1])
    if made or make_store(
        job,
        store,
        band,
        output,
        demand=demand,
        join_demand=memory_model.join_difference(layout),
        band_results=[Path(path) for path in snakemake.input.get("bands", ())],
    ):
        store.save_residues(Path(snakemake.output.histogram), Path(snakemake.output.background))
