#!/usr/bin/env python3
"""Print whether a job is running, has ended well (success) or has failed."""

import sys
from pathlib import Path

# where `python3` is not that of unglow: its sources next to the profile, or the package around it
sys.path.extend(str(Path(__file__).resolve().parents[n] / s) for n, s in ((2, "src"), (4, "")))

from unglow.jobs.schedulers import choose_scheduler

print(choose_scheduler().state(sys.argv[1]))
