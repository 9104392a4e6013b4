"""Adapter: say how the pairs ended. Where no hook does so, fail if a pair has no result."""

import os
from pathlib import Path

from unglow.jobs.context import Job

with Job.from_script(snakemake) as job:
    from unglow.core.errors import UnglowError
    from unglow.core.files import write_text
    from unglow.results import read_summary, verdict
    from unglow.results.wording import HOOKS, closing_sentence, has_failures

    job.limit_memory()
    rows = read_summary(Path(snakemake.input[0]))
    text = verdict(rows)
    if has_failures(rows) and not snakemake.params.allow_failed and HOOKS not in os.environ:
        closing = closing_sentence(None, any_failed=True, skipped=0)
        raise UnglowError(*text.strip().splitlines(), closing)
    write_text(Path(snakemake.output[0]), text)
