"""`python benchmarks/real COMMAND`; `--help` lists them."""

from __future__ import annotations

import sys
from pathlib import Path

from unglow.core.own_memory import pin_threads

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # modules shared by all benchmarks
    pin_threads()
    from subcommands import run_command

    from unglow.core.machine import processors

    sys.exit(run_command("real", ("verdicts",), jobs=processors(), keep=True))
