"""Adapter: look for candidates on the default difference; all, a band, or joining bands."""

from pathlib import Path

from unglow.jobs.context import Job

with Job.of(snakemake) as job:
    from unglow.detection.false_discovery import Controls
    from unglow.detection.settings import DetectSettings
    from unglow.io.search_counts import SearchCounts
    from unglow.io.zarr.band_results import BandResults
    from unglow.workflow import memory_model
    from unglow.workflow.paths import joined
    from unglow.workflow.stages.detect import detect, detect_band, key_of
    from unglow.workflow.stages.detect_inputs import open_inputs

    job.limit_memory()
    stores, scale, transform = open_inputs(snakemake.input)
    settings = DetectSettings.of(snakemake.params.settings)
    layout = stores["aligned"].layout
    demand = memory_model.detect(layout)
    key = key_of(snakemake.input, settings)
    _, band = joined(Path(snakemake.output[0]))
    if band is not None:
        workers = job.workers(memory_model.of_band(demand, layout, band.of))
        piece = detect_band(stores, scale, transform, settings, band, key, workers=workers)
        piece.save(Path(snakemake.output[0]))
        job.count(pixels=band.pixels(layout))
    else:
        tallies = tuple(SearchCounts.load(Path(path)) for path in snakemake.input.controls)
        files = [Path(path) for path in snakemake.input.bands]
        rows = detect(
            stores,
            scale,
            transform,
            settings,
            {name: Path(path) for name, path in snakemake.output.items()},
            controls=Controls(tuple(snakemake.params.controls), tallies) if tallies else None,
            is_control=snakemake.params.is_control,
            workers=job.workers(memory_model.join_detect(layout) if files else demand),
            pieces=BandResults(files, key) if files else None,
        )
        job.count(pixels=stores["post"].shape[0] * stores["post"].shape[1], rows=rows)
