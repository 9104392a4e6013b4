"""Adapter: write the signal-to-noise ratio of the difference of the default method."""

from pathlib import Path

from unglow.job import Job

with Job.of(snakemake) as job:
    from unglow import memory
    from unglow.detection import DetectSettings, open_inputs, write_snr
    from unglow.store import plan_layout

    job.fence()
    stores, scale, transform = open_inputs(snakemake.input)
    layout = plan_layout(stores["post"].shape, "float32")
    write_snr(
        stores,
        scale,
        transform,
        DetectSettings.of(snakemake.params.settings),
        layout,
        Path(snakemake.output.snr).parent,
        workers=job.workers(memory.snr(layout)),
    )
    job.count(pixels=layout.shape[0] * layout.shape[1])
