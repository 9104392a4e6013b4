"""Adapter: measure gain and offset of every marker of a slide, which is read in place."""

from pathlib import Path

from unglow.jobs.context import Job

with Job.from_script(snakemake) as job:
    from unglow.core.settings import from_json
    from unglow.images.slide_plan import KnownSlide
    from unglow.photometry.gain.scale import ScaleSettings
    from unglow.slides.slide import read_maps
    from unglow.slides.slide_scale import measure

    job.limit_memory()
    known = KnownSlide.from_dict(snakemake.params.slide)
    files = zip(known.slide.moves, map(Path, snakemake.input.spoilt), strict=True)
    frame, moved = known.slide.frame_cycle, known.slide.moved_cycles
    measure(
        known,
        read_maps(known.slide, snakemake.input.transforms),
        from_json(ScaleSettings, snakemake.params.settings),
        job.targets,
        suspect_px=snakemake.params.suspect_px,
        several=snakemake.params.several,
        scores={b: path for (a, b), path in files if a == frame and b in moved},
        max_spoilt=snakemake.params.max_spoilt,
        workers=job.choose_workers(),
        markers_at_a_time=snakemake.params.at_a_time,
    )
    job.count(pixels=known.shape[0] * known.shape[1] * len(known.slide.markers))
