"""Adapter: write a store as an image of another format."""

from pathlib import Path

from unglow.jobs.context import Job

with Job.from_script(snakemake) as job:
    from unglow.images.zarr import open_store
    from unglow.workflow.stage_table import FORMS

    method = snakemake.wildcards.get("method")
    if method is None:
        store = open_store(Path(snakemake.input.store).parent)
    else:
        from unglow.photometry.difference import open_difference

        store = open_difference(Path(snakemake.input.scale).parent, method)
    from unglow.export.images import names_of

    target, names = Path(snakemake.output.image), names_of(snakemake.wildcards)
    if snakemake.wildcards.form == FORMS["tiff"]:
        from unglow.export.images import write_tiff

        job.limit_memory()
        write_tiff(store, target, names, workers=job.threads)
    else:
        from unglow.export.images import write_fits

        job.limit_memory()
        write_fits(store, target, names)
    job.count(pixels=store.shape[0] * store.shape[1])
