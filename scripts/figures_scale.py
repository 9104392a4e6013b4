"""Adapter: draw the grey levels of the pair and the gains that follow."""

from pathlib import Path

from unglow.job import Job

with Job.of(snakemake) as job:
    import scipy.linalg  # noqa: F401 (before the fence: see Job.fence)

    from unglow.gallery import draw_scale
    from unglow.photometry import JointStatistics, Scale

    job.fence()
    draw_scale(
        JointStatistics.load(Path(snakemake.input.statistics)),
        Scale.load(Path(snakemake.input.scale)),
        job.targets,
        job.pair_title,
    )
