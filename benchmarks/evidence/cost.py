"""Whole runs: what a pair costs by its size."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from running import PROJECT, command
from tables import number

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

HEADER = ("pair", "Mpx", "wall s", "CPU s", "largest job MB", "declared MB", "s/Mpx", "wall/floor")


def measure(sizes: Sequence[str], work: Path) -> list[list[str]]:
    """Return the rows of the table, one for each size, from `whole_run.py`."""
    found = work / "whole_run.json"
    words = ("--sizes", *sizes, "--json", found, "--work", work)
    command(sys.executable, PROJECT / "benchmarks" / "whole_run.py", *words, directory=PROJECT)
    return [write_row(run) for run in json.loads(found.read_text())["runs"]]


def write_row(run: dict[str, Any]) -> list[str]:
    """Return the cells of a run: of the whole command, and of the job that held most."""
    case, largest = run["case"], max(run["rules"], key=lambda rule: rule["peak_mb"])
    megapixels = run["pair"]["pixels"] / 1e6
    floor = run["floor"]["read_s"] + run["floor"]["write_s"]
    return [
        f"{case['rows']} x {case['cols']} px, {case['dtype']}",
        f"{megapixels:.1f}",
        number(run["wall_s"]),
        number(run["cpu_s"]),
        number(largest["peak_mb"]),
        number(largest["declared_mb"]),
        f"{run['wall_s'] / megapixels:.3f}",
        number(run["wall_s"] / floor),
    ]
