"""`python benchmarks/evidence`: measure, and write docs/evidence.md."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # modules shared by all benchmarks
    from evidence.command import main

    sys.exit(main())
