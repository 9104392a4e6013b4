"""`python benchmarks/registration COMMAND`; `--help` lists them."""

from __future__ import annotations

import sys
from pathlib import Path

from unglow.core.own_memory import pin_threads

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # modules shared by all benchmarks
    pin_threads()  # as jobs do, here and in children: waiting for one another takes CPU seconds too
    from subcommands import run_command

    sys.exit(run_command("registration", ("accuracy", "robustness", "real")))
