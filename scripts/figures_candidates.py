"""Adapter: draw candidates on the difference, their purity, and stamps of some of them."""

from pathlib import Path

from unglow.job import Job

with Job.of(snakemake) as job:
    from unglow.candidates import SHOWN, read_candidates, read_report
    from unglow.gallery import draw_candidates
    from unglow.photometry import DifferenceHistogram
    from unglow.store import open_store

    job.fence()
    draw_candidates(
        open_store(Path(snakemake.input.post).parent),
        open_store(Path(snakemake.input.difference).parent),
        DifferenceHistogram.load(Path(snakemake.input.histogram)),
        read_candidates(Path(snakemake.input.table), SHOWN),
        read_report(Path(snakemake.input.report)),
        {name: Path(path) for name, path in snakemake.output.items()},
        job.pair_title,
    )
