"""Adapter: draw the figures of a pair that the rule asks for."""

from pathlib import Path

from unglow.jobs.context import Job

with Job.of(snakemake) as job:
    from unglow.reporting.figures.figure_inputs import FigureInputs, draw_figures

    job.limit_memory()
    pair = FigureInputs({name: Path(path) for name, path in snakemake.input.items()})
    draw_figures(pair, job.targets, job.pair_title)
