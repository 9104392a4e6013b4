#!/usr/bin/env python3
"""Cancel jobs. Snakemake waits 2 s for it; the command goes on by itself after that."""

import subprocess
import sys

from schedulers import chosen

subprocess.Popen(chosen().cancel(sys.argv[1:]), start_new_session=True)
