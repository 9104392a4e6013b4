"""Adapter: look for candidates on the difference of the default method."""

from pathlib import Path

from unglow.job import Job

with Job.of(snakemake) as job:
    from unglow import kernels

    kernels.load(*kernels.SEARCHING)  # first: while the other libraries are not there
    from unglow import memory
    from unglow.detection import Controls, DetectSettings, detect, open_inputs
    from unglow.store import configure_threads
    from unglow.tally import Tally

    job.fence()
    configure_threads(job.threads)
    stores, scale, transform = open_inputs(snakemake.input)
    tallies = tuple(Tally.load(Path(path)) for path in snakemake.input.controls)
    rows = detect(
        stores,
        scale,
        transform,
        DetectSettings.of(snakemake.params.settings),
        {name: Path(path) for name, path in snakemake.output.items()},
        controls=Controls(tuple(snakemake.params.controls), tallies) if tallies else None,
        is_control=snakemake.params.is_control,
        workers=job.workers(memory.detect(stores["aligned"].layout)),
    )
    job.count(pixels=stores["post"].shape[0] * stores["post"].shape[1], rows=rows)
