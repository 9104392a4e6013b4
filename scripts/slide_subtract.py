"""Adapter: write the corrected slide, every marker without its background."""

from pathlib import Path

from unglow.jobs.context import Job

with Job.of(snakemake) as job:
    from unglow.workflow import slide_memory
    from unglow.workflow.slides import KnownSlide
    from unglow.workflow.stages.slide_subtract import Choice, subtract

    job.limit_memory()
    known = KnownSlide.from_dict(snakemake.params.slide, snakemake.params.own_cells)
    dtype, stores = snakemake.params.dtype, "zarr" in job.targets
    at_a_time = slide_memory.channels_at_a_time(known, job.mem_mb, dtype, stores=stores)
    subtract(
        known,
        known.read_maps(snakemake.input.transforms),
        {name: Path(snakemake.input[name]) for name in ("slide", "scale", "gain_maps")},
        job.targets,
        Choice(dtype, snakemake.params.rounding),
        workers=job.workers(slide_memory.subtract(known, at_a_time, dtype, stores=stores)),
        channels_at_a_time=at_a_time,
    )
    job.count(pixels=known.shape[0] * known.shape[1] * len(known.slide.kept))
