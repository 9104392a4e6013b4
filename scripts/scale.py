"""Adapter: estimate gain and offset by every method that is on."""

from pathlib import Path

from unglow.job import Job

with Job.of(snakemake) as job:
    import scipy.linalg  # noqa: F401 (before the fence: see Job.fence)

    from unglow import transform
    from unglow.photometry import (
        BinSamples,
        Evidence,
        JointStatistics,
        Scale,
        ScaleSettings,
        estimate,
        gain_map,
    )

    job.fence()
    found = transform.load(Path(snakemake.input.transform))
    settings = ScaleSettings.of(snakemake.params.settings)
    if found.status == "failed":
        scale = Scale.failed(" ".join(found.reasons), settings)
    else:
        evidence = Evidence(
            JointStatistics.load(Path(snakemake.input.statistics)),
            BinSamples.load(Path(snakemake.input.bins)),
            found,
        )
        scale = estimate(evidence, settings)
    scale.save(Path(snakemake.output.scale))
    linear = scale.methods.get("linear")
    gain_map.save(Path(snakemake.output.gain_map), linear.gain_map if linear else None)
