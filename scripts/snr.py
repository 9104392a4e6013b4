"""Adapter: write the signal-to-noise ratio of the difference of the default method."""

from pathlib import Path

from unglow.jobs.context import Job

with Job.of(snakemake) as job:
    from unglow.detection.settings import DetectSettings
    from unglow.io.zarr import plan_layout
    from unglow.workflow import memory_model
    from unglow.workflow.stages.detect_inputs import open_inputs
    from unglow.workflow.stages.snr import write_snr

    job.limit_memory()
    stores, scale, transform = open_inputs(snakemake.input)
    layout = plan_layout(stores["post"].shape, "float32")
    write_snr(
        stores,
        scale,
        transform,
        DetectSettings.of(snakemake.params.settings),
        layout,
        Path(snakemake.output.snr).parent,
        workers=job.workers(memory_model.snr(layout)),
    )
    job.count(pixels=layout.shape[0] * layout.shape[1])
