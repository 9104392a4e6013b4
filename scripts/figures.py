"""Adapter: draw the gains of a pair, what is left after subtraction, and the candidates."""

from pathlib import Path

from unglow.jobs.context import Job

with Job.of(snakemake) as job:
    from unglow import transform
    from unglow.io.candidates_csv import SHOWN, read_candidates, read_report
    from unglow.io.search_counts import SearchCounts
    from unglow.io.zarr import open_store
    from unglow.photometry.gain.scale import Scale
    from unglow.photometry.joint_histogram import JointStatistics
    from unglow.spoilt.saved_places import read_places
    from unglow.workflow.stages.figures import (
        Differences,
        draw_candidates,
        draw_differences,
        draw_scale,
    )

    job.limit_memory()
    paths = {name: Path(path) for name, path in snakemake.input.items()}
    scale = Scale.load(paths["scale"], paths["gain_map"])
    draw_scale(JointStatistics.load(paths["statistics"]), scale, job.targets, job.pair_title)
    images = open_store(paths["post"].parent), open_store(paths["aligned"].parent)
    found = transform.load(paths["transform"])
    files = paths["difference"].parent, paths["histogram"]
    differences = Differences.of(images, scale, found, files)
    spoilt = read_places(paths["artefacts"])
    draw_differences(differences, job.targets, job.pair_title, spoilt)
    draw_candidates(
        differences,
        read_candidates(paths["table"], SHOWN),
        read_report(paths["detection"]),
        SearchCounts.load(paths["search_counts"]),
        job.targets,
        job.pair_title,
        spoilt,
    )
