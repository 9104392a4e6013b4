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
    from unglow.workflow.stages.detect_inputs import DetectInputs

    job.limit_memory()
    inputs = DetectInputs.open(snakemake.input)
    settings = DetectSettings.of(snakemake.params.settings)
    layout = inputs.aligned.layout
    drawn = sum(Path(path).stat().st_size for path in snakemake.input.regions)
    demand = memory_model.detect(layout, drawn)
    version = snakemake.params.version
    key = key_of(snakemake.input, settings, version)
    _, band = joined(Path(snakemake.output[0]))
    if band is not None:
        workers = job.workers(memory_model.of_band(demand, layout, band.of))
        result = detect_band(inputs, settings, band, key, workers=workers)
        result.save(Path(snakemake.output[0]))
        job.count(pixels=band.pixels(layout))
    else:
        counts = tuple(SearchCounts.load(Path(path)) for path in snakemake.input.controls)
        bands = [Path(path) for path in snakemake.input.bands]
        rows = detect(
            inputs,
            settings,
            job.targets,
            version=version,
            controls=Controls(tuple(snakemake.params.controls), counts) if counts else None,
            is_control=snakemake.params.is_control,
            workers=job.workers(memory_model.join_detect(layout, drawn) if bands else demand),
            band_results=BandResults(bands, key) if bands else None,
        )
        job.count(pixels=inputs.post.shape[0] * inputs.post.shape[1], rows=rows)
