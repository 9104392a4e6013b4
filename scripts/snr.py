"""Adapter: write the signal-to-noise ratio of the difference of the default method."""

from pathlib import Path

from unglow.jobs.context import Job

with Job.from_script(snakemake) as job:
    from unglow.core.settings import from_json
    from unglow.detection.settings import DetectSettings
    from unglow.images.zarr import plan_layout
    from unglow.stages.snr import DetectInputs, write_snr

    job.limit_memory()
    inputs = DetectInputs.open(snakemake.input)
    layout = plan_layout(inputs.post.shape, "float32")
    write_snr(
        inputs,
        from_json(DetectSettings, snakemake.params.settings),
        layout,
        Path(snakemake.output.snr).parent,
        version=snakemake.params.version,
        workers=job.choose_workers(),
        same=next((Path(other).parent for other in snakemake.input.get("same", ())), None),
    )
    job.count(pixels=layout.shape[0] * layout.shape[1])
