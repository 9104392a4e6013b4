"""Adapter: subtract with the gain of one method; all of it, a band, or joining bands."""

from pathlib import Path

from unglow.job import Job

with Job.of(snakemake) as job:
    from unglow import memory
    from unglow.outputs import joined
    from unglow.photometry import JointStatistics, Scale
    from unglow.store import open_store, plan_layout
    from unglow.subtract import subtract, subtract_band

    job.fence()
    pieces = [Path(path) for path in snakemake.input.get("bands", ())]
    method = snakemake.wildcards.method
    post, aligned = (
        open_store(Path(p).parent) for p in (snakemake.input.post, snakemake.input.aligned)
    )
    layout = plan_layout(post.shape, "float32")
    scale = Scale.load(Path(snakemake.input.scale), Path(snakemake.input.gain_map))
    statistics = JointStatistics.load(Path(snakemake.input.statistics))
    said = Path(snakemake.output[0])
    target, band = joined(said)
    given = post, aligned, method, scale.methods[method], statistics, layout, target
    demand = memory.difference(layout)
    if band is not None:
        workers = job.workers(memory.of_band(demand, layout, band.of))
        subtract_band(*given, band, workers=workers, blur=scale.blur).save(said)
        job.count(pixels=band.pixels(layout))
    else:
        workers = job.workers(memory.join_difference(layout) if pieces else demand)
        histogram, background = subtract(*given, workers=workers, blur=scale.blur, pieces=pieces)
        histogram.save(Path(snakemake.output.histogram))
        background.save(Path(snakemake.output.background))
        job.count(pixels=post.shape[0] * post.shape[1])
