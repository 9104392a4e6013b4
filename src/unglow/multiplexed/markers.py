"""The table of a slide's markers, as MCMICRO and Backsub read it: ``markers.csv``."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unglow.core.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

NAME = "markers.csv"
COLUMNS = (
    *("channel_number", "cycle_number", "marker_name"),
    *("background", "exposure", "remove"),
)


@dataclass(frozen=True, slots=True)
class Marker:
    """A row: what is known of one channel; ``line`` is where it stands in the file, from 1."""

    line: int
    name: str
    cycle: int | None = None
    background: str | None = None
    exposure: float | None = None
    removed: bool = False


def read_markers(path: Path) -> list[Marker]:
    """Read the rows of a table, one for each channel in the order of the images.

    Raises
    ------
    InputError
        The file cannot be used; the sentence names line and column.
    """
    text = path.read_text(encoding="utf-8-sig")
    rows = csv.DictReader(io.StringIO(text))
    markers = []
    for row in rows:
        cycle, exposure = row.get("cycle_number"), row.get("exposure")
        markers.append(
            Marker(
                line=rows.line_num,
                name=(row.get("marker_name") or "").strip(),
                cycle=int(cycle) if cycle else None,
                background=(row.get("background") or "").strip() or None,
                exposure=float(exposure) if exposure else None,
                removed=(row.get("remove") or "").strip().lower() == "true",
            )
        )
    if not markers:
        raise InputError(f"{path} has no rows: give one for each channel of the image.")
    return markers
