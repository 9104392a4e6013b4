"""Adapter: lay the variants of one pair side by side."""

from pathlib import Path

from unglow.job import Job

with Job.of(snakemake) as job:
    from unglow.difference import open_difference
    from unglow.figures import save_png
    from unglow.files import write_text
    from unglow.gallery import draw_comparison
    from unglow.summary import comparison, entries_from, table

    job.fence()
    results = Path(snakemake.output.table).parents[2]
    entries = entries_from(snakemake.params.entries)
    stores = {
        (e.registration, e.subtraction, method): open_difference((results / e.scale).parent, method)
        for e in entries
        for method in e.histograms
    }
    rows = comparison(entries, results)
    save_png(draw_comparison(rows, stores, job.pair_title), Path(snakemake.output.figure))
    write_text(Path(snakemake.output.table), table(rows))
