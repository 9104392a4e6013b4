"""Adapter: estimate the gain by every method that is on."""

from pathlib import Path

from unglow.job import Job

with Job.of(snakemake) as job:
    import scipy.linalg  # noqa: F401 (before the fence: see Job.fence)

    from unglow import transform
    from unglow.photometry import JointStatistics, Scale, ScaleSettings, estimate

    job.fence()
    found = transform.load(Path(snakemake.input.transform))
    settings = ScaleSettings.of(snakemake.params.settings)
    if found.status == "failed":
        scale = Scale.failed(" ".join(found.reasons), settings)
    else:
        scale = estimate(JointStatistics.load(Path(snakemake.input.statistics)), settings)
    scale.save(Path(snakemake.output[0]))
