"""Adapter: write the corrected slide, or join its parts."""

from pathlib import Path

from unglow.jobs.context import Job

with Job.from_script(snakemake) as job:
    from unglow.images.slide_plan import KnownSlide
    from unglow.slides.slide import read_maps
    from unglow.slides.slide_subtract import Choice, Part, Work, subtract

    job.limit_memory()
    known = KnownSlide.from_dict(snakemake.params.slide, snakemake.params.own_cells)
    inputs = {name: Path(snakemake.input[name]) for name in ("slide", "scale", "gain_maps")}
    maps = read_maps(known.slide, snakemake.input.transforms)
    parts = [
        Part(*map(Path, snakemake.input.parts[3 * n : 3 * n + 3]), band)
        for n, band in enumerate(known.bands)
    ]
    subtract(
        Work.read(known, maps, inputs, Choice(snakemake.params.dtype, snakemake.params.rounding)),
        job.targets,
        parts,
        workers=job.choose_workers(),
        channels_at_a_time=snakemake.params.at_a_time,
    )
    job.count(pixels=known.shape[0] * known.shape[1] * len(known.slide.kept))
