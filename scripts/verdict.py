"""Adapter: say how the pairs ended, and fail if one of them failed or was skipped."""

from pathlib import Path

from unglow.jobs.context import Job

with Job.of(snakemake) as job:
    from unglow.core.errors import UnglowError
    from unglow.core.files import write_text
    from unglow.reporting.summary import read_summary, verdict

    job.limit_memory()
    rows = read_summary(Path(snakemake.input[0]))
    text = verdict(rows)
    without_result = [r for r in rows if r["status"] in ("failed", "skipped")]
    if without_result and not snakemake.params.allow_failed:
        raise UnglowError(
            f"{text.strip()}\nAll other results are complete. Mend what is named above and run "
            "again, or set allow_failed: true to end with exit status 0."
        )
    write_text(Path(snakemake.output[0]), text)
