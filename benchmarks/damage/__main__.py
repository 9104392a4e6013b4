"""`python benchmarks/damage COMMAND`; `command` has their names."""

from __future__ import annotations

import sys
from pathlib import Path

from unglow.core.own_memory import pin_threads

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # modules shared by all benchmarks
    pin_threads()
    from damage.command import main

    sys.exit(main())
