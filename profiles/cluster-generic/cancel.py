#!/usr/bin/env python3
"""Cancel jobs. Snakemake waits 2 s for it; the command goes on by itself after that."""

import subprocess
import sys
from pathlib import Path

# where `python3` is not that of unglow: its sources next to the profile, or the package around it
sys.path.extend(str(Path(__file__).resolve().parents[n] / s) for n, s in ((2, "src"), (4, "")))

from unglow.jobs.schedulers import choose_scheduler

subprocess.Popen([choose_scheduler().cancel_command, *sys.argv[1:]], start_new_session=True)
