#!/usr/bin/env python3
"""Submit a job script of Snakemake, print the job's id, and note it for ``unglow resume``."""

import sys
from pathlib import Path

# where `python3` is not that of unglow: its sources beside the profile
sys.path.append(str(Path(__file__).resolve().parents[2] / "src"))

from unglow.jobs.schedulers.submission import submit

print(submit(sys.argv[1]))
