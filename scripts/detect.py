"""Adapter: look for candidates on the difference of the default method."""

from pathlib import Path

from unglow.job import Job

with Job.of(snakemake) as job:
    from unglow import memory, transform
    from unglow.detection import DetectSettings, detect
    from unglow.photometry import Scale
    from unglow.store import configure_threads, open_store

    job.fence()
    configure_threads(job.threads)
    stores = {
        name: open_store(Path(snakemake.input[name]).parent)
        for name in ("post", "pre", "aligned", "difference")
    }
    rows = detect(
        stores,
        Scale.load(Path(snakemake.input.scale)),
        transform.load(Path(snakemake.input.transform)),
        DetectSettings.of(snakemake.params.settings),
        {name: Path(path) for name, path in snakemake.output.items()},
        workers=job.workers(memory.detect(stores["aligned"].layout)),
    )
    job.count(pixels=stores["post"].shape[0] * stores["post"].shape[1], rows=rows)
