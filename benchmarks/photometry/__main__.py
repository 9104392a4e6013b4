"""`python benchmarks/photometry COMMAND`; `--help` lists them."""

from __future__ import annotations

import sys
from pathlib import Path

from unglow.core.own_memory import pin_threads

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # modules shared by all benchmarks
    pin_threads()  # as jobs do, here and in children
    from subcommands import run_command

    sys.exit(run_command("photometry", ("gain", "coverage", "detection")))
