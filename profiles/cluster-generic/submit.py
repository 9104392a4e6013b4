#!/usr/bin/env python3
"""Submit a job script of Snakemake, print the job's id, and note it for ``unglow resume``."""

import sys
from pathlib import Path

from schedulers import LOGS, SUBMITTED, answer, chosen, request_of

directory = Path.cwd()
scheduler = chosen()
job = request_of(sys.argv[1], directory)
(directory / LOGS).mkdir(parents=True, exist_ok=True)
status, text = answer(*scheduler.submission(job))
number = "" if status else scheduler.job_id(text)
if not number:
    sys.exit(f"{scheduler.name} did not take {job.name}: {text.strip()}")
with (directory / SUBMITTED).open("a", encoding="utf-8") as noted:
    noted.write(f"{scheduler.name}\t{number}\t{job.name}\t{directory}\n")
print(number)
