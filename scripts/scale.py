"""Adapter: estimate gain and offset by every method that is on."""

from pathlib import Path

from unglow.jobs.context import Job

with Job.from_script(snakemake) as job:
    from unglow import transform
    from unglow.core.settings import from_json
    from unglow.images.zarr import open_store
    from unglow.photometry import imaging
    from unglow.photometry.cell_moments import CellMoments
    from unglow.photometry.gain.bright_field import find_roles
    from unglow.photometry.gain.estimate import Evidence
    from unglow.photometry.gain.scale import PairScaleSettings, Scale
    from unglow.photometry.joint_histogram import JointStatistics
    from unglow.photometry.sharpness import estimate_matched

    job.limit_memory()
    registered = transform.load(Path(snakemake.input.transform))
    light = snakemake.params.settings.get("light", "auto")
    methods = {k: v for k, v in snakemake.params.settings.items() if k != "light"}
    settings = from_json(
        PairScaleSettings,
        {**methods, "bright_field": find_roles(Path(snakemake.input.plan), light)},
    )
    if registered.has_failed:
        scale = Scale.make_failed(" ".join(registered.reasons), settings)
    else:
        controls = (Scale.load(Path(path)) for path in snakemake.input.controls)
        evidence = Evidence(
            JointStatistics.load(Path(snakemake.input.statistics)),
            CellMoments.load(Path(snakemake.input.bins)),
            registered.resampling_map,
            controls=tuple(scale.default_result for scale in controls),
        )
        stores = snakemake.input.post, snakemake.input.aligned
        images = open_store(Path(stores[0]).parent), open_store(Path(stores[1]).parent)
        scale = estimate_matched(evidence, images, settings)
    scale.save(Path(snakemake.output.scale))
    imaging.save_gain_map(Path(snakemake.output.gain_map), scale.gain_map)
