"""Adapter: write a band of rows of a corrected slide, for `slide_subtract` to join."""

from pathlib import Path

from unglow.jobs.context import Job

with Job.from_script(snakemake) as job:
    from unglow.images.slide_plan import KnownSlide
    from unglow.slides.slide import read_maps
    from unglow.slides.slide_subtract import Choice, Part, Work, subtract_part

    job.limit_memory()
    known = KnownSlide.from_dict(snakemake.params.slide)
    band = known.bands[int(snakemake.wildcards.part)]
    inputs = {name: Path(snakemake.input[name]) for name in ("slide", "scale", "gain_maps")}
    maps = read_maps(known.slide, snakemake.input.transforms)
    subtract_part(
        Work.read(known, maps, inputs, Choice(snakemake.params.dtype, snakemake.params.rounding)),
        Part(*(job.targets[name] for name in ("tiles", "counts", "state")), band),
        workers=job.choose_workers(),
        channels_at_a_time=snakemake.params.at_a_time,
    )
    job.count(pixels=len(band) * known.shape[1] * len(known.slide.kept))
