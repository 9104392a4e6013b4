"""Adapter: draw every marker of a slide before and after."""

from pathlib import Path

from unglow.jobs.context import Job

with Job.from_script(snakemake) as job:
    from unglow.slides.figures import draw_slide

    job.limit_memory()
    paths = {name: Path(path) for name, path in snakemake.input.items() if isinstance(path, str)}
    draw_slide(paths, job.targets["figures"], job.pair_title)
