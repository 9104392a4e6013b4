"""Adapter: look for candidates on the difference of the default method."""

from pathlib import Path

from unglow.job import Job

with Job.of(snakemake) as job:
    from unglow import kernels

    kernels.load(*kernels.SEARCHING)  # first: while the other libraries are not there
    from unglow import memory, transform
    from unglow.detection import Controls, DetectSettings, detect
    from unglow.photometry import Scale
    from unglow.store import configure_threads, open_store
    from unglow.tally import Tally

    job.fence()
    configure_threads(job.threads)
    scale = Scale.load(Path(snakemake.input.scale), Path(snakemake.input.gain_map))
    places = {name: Path(snakemake.input[name]).parent for name in ("post", "pre", "aligned")}
    differences = {Path(p).parent.name: Path(p).parent for p in snakemake.input.differences}
    places["difference"] = differences[f"{scale.default}.ome.zarr"]
    stores = {name: open_store(place) for name, place in places.items()}
    tallies = tuple(Tally.load(Path(path)) for path in snakemake.input.controls)
    rows = detect(
        stores,
        scale,
        transform.load(Path(snakemake.input.transform)),
        DetectSettings.of(snakemake.params.settings),
        {name: Path(path) for name, path in snakemake.output.items()},
        controls=Controls(tuple(snakemake.params.controls), tallies) if tallies else None,
        is_control=snakemake.params.is_control,
        workers=job.workers(memory.detect(stores["aligned"].layout)),
    )
    job.count(pixels=stores["post"].shape[0] * stores["post"].shape[1], rows=rows)
