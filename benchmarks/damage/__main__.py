"""`python benchmarks/damage COMMAND`; `--help` lists them."""

from __future__ import annotations

import sys
from pathlib import Path

from unglow.core.machine import processors
from unglow.core.own_memory import pin_threads

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # modules shared by all benchmarks
    pin_threads()
    from subcommands import run_command

    commands = ("places", "calibration", "cells")
    sys.exit(run_command("damage", commands, jobs=processors(), keep=True))
