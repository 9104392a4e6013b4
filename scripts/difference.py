"""Adapter: subtract, and count what every method leaves."""

from pathlib import Path

from unglow.jobs.context import Job

with Job.from_script(snakemake) as job:
    from unglow.images.zarr import open_store, plan_layout
    from unglow.photometry.difference import Matched
    from unglow.photometry.gain.scale import Scale
    from unglow.photometry.joint_histogram import JointStatistics
    from unglow.stages.difference import DifferenceStore

    job.limit_memory()
    post, aligned = (
        open_store(Path(p).parent) for p in (snakemake.input.post, snakemake.input.aligned)
    )
    layout = plan_layout(post.shape, "float32")
    scale = Scale.load(Path(snakemake.input.scale), Path(snakemake.input.gain_map))
    method = snakemake.wildcards.get("method")
    # the default is counted with all others, so that one file has the counts of all
    others = [] if method else [name for name in scale.methods if name != scale.default]
    store = DifferenceStore(
        Matched(post, aligned, scale.blur),
        scale,
        JointStatistics.load(Path(snakemake.input.statistics)),
        (method or scale.default, *others),
        layout,
        Path(snakemake.output.difference).parent,
    )
    workers = job.choose_workers()
    same = [Path(path).parent for path in snakemake.input.same]  # one at most
    if not any(store.make_same(other, workers=workers) for other in same):
        store.make(workers=workers)
    job.count(pixels=layout.shape[0] * layout.shape[1])
    if method is None:
        store.save_residues(Path(snakemake.output.histogram), Path(snakemake.output.background))
        store.blocks.save(snakemake.output.blocks, {"lines": store.lines})
