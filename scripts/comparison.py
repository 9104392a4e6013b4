"""Adapter: lay the variants of one pair side by side."""

from pathlib import Path

from unglow.jobs.context import Job

with Job.of(snakemake) as job:
    from unglow.core.files import write_text
    from unglow.photometry.difference import open_difference
    from unglow.reporting.figures import save_png
    from unglow.reporting.summary import comparison, entries_from, table
    from unglow.workflow.stages.figures import draw_comparison

    job.limit_memory()
    results = Path(snakemake.output.table).parents[2]
    entries = entries_from(snakemake.params.entries)
    stores = {
        (*e.names.values(), method): open_difference((results / e.scale).parent, method)
        for e in entries
        for method in e.histograms
    }
    rows = comparison(entries, results)
    save_png(draw_comparison(rows, stores, job.pair_title), Path(snakemake.output.figure))
    write_text(Path(snakemake.output.table), table(rows))
