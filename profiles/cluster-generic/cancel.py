#!/usr/bin/env python3
"""Cancel jobs. Snakemake waits 2 s for it; the command goes on by itself after that."""

import subprocess
import sys
from pathlib import Path

# where `python3` is not that of unglow: its sources beside the profile
sys.path.append(str(Path(__file__).resolve().parents[2] / "src"))

from unglow.jobs.schedulers.choice import chosen

subprocess.Popen([chosen().cancel_command, *sys.argv[1:]], start_new_session=True)
