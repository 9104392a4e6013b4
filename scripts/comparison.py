"""Adapter: lay the variants of one pair side by side."""

from pathlib import Path

from unglow.jobs.context import Job

with Job.of(snakemake) as job:
    from unglow.core.files import write_text
    from unglow.core.levels import names_of, place_of
    from unglow.photometry.difference import open_difference
    from unglow.reporting.figures.style import save_png
    from unglow.reporting.summary import comparison, entries_from, table
    from unglow.workflow.stages.comparison import add_agreement, draw_comparison, read_listed

    job.limit_memory()
    results = Path(snakemake.output.table).parents[2]
    entries = entries_from(snakemake.params.entries)
    stores = {
        (*names_of(e.names), method): open_difference(
            place_of(results, e.names, "subtraction"), method
        )
        for e in entries
        for method in e.histograms
    }
    rows = comparison(entries, results)
    lists = read_listed(rows, results)
    add_agreement(lists)
    save_png(draw_comparison(rows, stores, lists, job.pair_title), Path(snakemake.output.figure))
    write_text(Path(snakemake.output.table), table(rows))
