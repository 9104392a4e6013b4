"""Adapter: draw candidates on the difference, their purity, and stamps of some of them."""

from pathlib import Path

from unglow.job import Job

with Job.of(snakemake) as job:
    from unglow.candidates import SHOWN, read_candidates, read_report
    from unglow.gallery import draw_candidates
    from unglow.photometry import DifferenceHistogram
    from unglow.store import open_store
    from unglow.tally import Tally

    job.fence()
    found = read_report(Path(snakemake.input.report))
    differences = {Path(p).parent.name: Path(p).parent for p in snakemake.input.differences}
    histograms = {Path(p).name: Path(p) for p in snakemake.input.histograms}
    draw_candidates(
        open_store(Path(snakemake.input.post).parent),
        open_store(differences[f"{found['method']}.ome.zarr"]),
        DifferenceHistogram.load(histograms[f"{found['method']}.histogram.npz"]),
        read_candidates(Path(snakemake.input.table), SHOWN),
        found,
        Tally.load(Path(snakemake.input.tally)),
        job.targets,
        job.pair_title,
    )
