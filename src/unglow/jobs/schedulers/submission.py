"""Submitting a job script of Snakemake."""

from __future__ import annotations

import json
import math
import re
import sys
from pathlib import Path
from typing import Any

from unglow.core.files import read_file
from unglow.jobs.schedulers.choice import chosen
from unglow.jobs.schedulers.scheduler import JobRequest, run

SUBMITTED = Path(".snakemake") / "unglow" / "submitted.tsv"
"""A line for each job that was submitted: scheduler, job id, name, working directory."""
LOGS = Path(".snakemake") / "unglow" / "cluster"
"""What each job said on its node: name and job id."""
# The log is named after it, with the job's id, and a file name may have 255 bytes.
_LONGEST_NAME = 200


def request_of(script: str, directory: Path) -> JobRequest:
    """Read what a job asks for from the second line of its script, where Snakemake puts it."""
    text = read_file(script).decode("utf-8")
    properties = re.search(r"^# properties = (.*)$", text, re.MULTILINE)
    job: dict[str, Any] = json.loads(properties[1]) if properties else {}
    words = [job.get("rule") or job.get("groupid") or Path(script).name]
    words += (job.get("wildcards") or {}).values()
    name = re.sub(r"[^\w.-]+", "_", "-".join(["unglow", *map(str, words)]), flags=re.ASCII)
    resources = job.get("resources") or {}
    return JobRequest(
        name=name[:_LONGEST_NAME],
        threads=max(1, int(job.get("threads") or 1)),
        mem_mb=float(resources.get("mem_mb") or 2000),
        minutes=max(1, math.ceil(float(resources.get("runtime") or 60))),
        script=script,
        logs=str(directory / LOGS),
    )


def submit(script: str) -> str:
    """Submit a job script and note it for ``unglow resume``; returns the job's id.

    If the scheduler does not take it, the program ends with what it says.
    """
    directory = Path.cwd()
    scheduler = chosen()
    job = request_of(script, directory)
    (directory / LOGS).mkdir(parents=True, exist_ok=True)
    status, text = run(*scheduler.submission(job))
    number = "" if status else scheduler.job_id(text)
    if not number:
        sys.exit(f"{scheduler.name} did not take {job.name}: {text.strip()}")
    with (directory / SUBMITTED).open("a", encoding="utf-8") as noted:
        noted.write(f"{scheduler.name}\t{number}\t{job.name}\t{directory}\n")
    return number
