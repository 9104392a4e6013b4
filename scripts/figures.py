"""Adapter: draw the gains of a pair, what is left after subtraction, and the candidates."""

from pathlib import Path

from unglow.job import Job

with Job.of(snakemake) as job:
    from unglow import transform
    from unglow.candidates import SHOWN, read_candidates, read_report
    from unglow.gallery import Differences, draw_candidates, draw_differences, draw_scale
    from unglow.photometry import JointStatistics, Scale
    from unglow.store import open_store
    from unglow.tally import Tally

    job.fence()
    paths = {name: Path(path) for name, path in snakemake.input.items()}
    scale = Scale.load(paths["scale"], paths["gain_map"])
    draw_scale(JointStatistics.load(paths["statistics"]), scale, job.targets, job.pair_title)
    images = open_store(paths["post"].parent), open_store(paths["aligned"].parent)
    found = transform.load(paths["transform"])
    files = paths["difference"].parent, paths["histogram"]
    differences = Differences.of(images, scale, found, files)
    draw_differences(differences, job.targets, job.pair_title)
    draw_candidates(
        differences,
        read_candidates(paths["table"], SHOWN),
        read_report(paths["detection"]),
        Tally.load(paths["tally"]),
        job.targets,
        job.pair_title,
    )
