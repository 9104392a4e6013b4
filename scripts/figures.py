"""Adapter: draw the figures of a pair that the rule asks for."""

from pathlib import Path

from unglow.jobs.context import Job

with Job.from_script(snakemake) as job:
    from unglow.figures.drawing import draw_figures
    from unglow.figures.figure_inputs import FigureInputs

    job.limit_memory()
    pair = FigureInputs({name: Path(path) for name, path in snakemake.input.items()})
    draw_figures(pair, job.targets, job.pair_title)
