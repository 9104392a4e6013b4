"""Adapter: lay the variants of one pair side by side."""

from pathlib import Path

from unglow.job import Job

with Job.of(snakemake) as job:
    from unglow.figures import save_png
    from unglow.files import write_text
    from unglow.gallery import draw_comparison
    from unglow.photometry import Scale
    from unglow.store import open_store
    from unglow.summary import entries_from, table

    job.fence()
    results = Path(snakemake.output.table).parents[2]
    entries = entries_from(snakemake.params.entries)
    stores = {}
    for entry in entries:
        default = Scale.load(results / entry.scale).default
        histogram = results / entry.histograms[default]
        store = histogram.with_name(f"{default}.ome.zarr")
        stores[entry.registration, entry.subtraction] = open_store(store)
    figure, rows = draw_comparison(entries, stores, results, job.pair_title)
    save_png(figure, Path(snakemake.output.figure))
    write_text(Path(snakemake.output.table), table(rows))
