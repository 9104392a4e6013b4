"""`python benchmarks/registration COMMAND`: accuracy, robustness, real or cost."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # modules shared by all benchmarks
    from registration.command import main

    sys.exit(main())
