"""Adapter: look for candidates on the default difference."""

from pathlib import Path

from unglow.jobs.context import Job

with Job.from_script(snakemake) as job:
    from unglow.core.settings import from_json
    from unglow.detection.rates import Controls
    from unglow.detection.settings import DetectSettings
    from unglow.images.detection_results import SearchCounts
    from unglow.stages.detect import detect
    from unglow.stages.snr import DetectInputs

    job.limit_memory()
    inputs = DetectInputs.open(snakemake.input)
    counts = tuple(SearchCounts.load(Path(path)) for path in snakemake.input.controls)
    rows = detect(
        inputs,
        from_json(DetectSettings, snakemake.params.settings),
        job.targets,
        version=snakemake.params.version,
        controls=Controls(tuple(snakemake.params.controls), counts) if counts else None,
        is_control=snakemake.params.is_control,
        workers=job.choose_workers(),
    )
    job.count(pixels=inputs.post.shape[0] * inputs.post.shape[1], rows=rows)
