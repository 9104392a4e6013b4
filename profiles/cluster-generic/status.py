#!/usr/bin/env python3
"""Print whether a job is running, has ended well (success) or has failed."""

import sys
from pathlib import Path

# where `python3` is not that of unglow: its sources beside the profile
sys.path.append(str(Path(__file__).resolve().parents[2] / "src"))

from unglow.jobs.schedulers.choice import chosen

print(chosen().state(sys.argv[1]))
