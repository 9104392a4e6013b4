#!/usr/bin/env python3
"""Submit a job script of Snakemake, print the job's id, and note it for ``unglow resume``."""

import sys
from pathlib import Path

# where `python3` is not that of unglow: its sources next to the profile, or the package around it
sys.path.extend(str(Path(__file__).resolve().parents[n] / s) for n, s in ((2, "src"), (4, "")))

from unglow.jobs.schedulers import submit

print(submit(sys.argv[1]))
