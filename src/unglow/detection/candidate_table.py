"""The list of candidates as files: CSV, and GeoJSON that QuPath imports."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.files import replace_file
from unglow.detection import source_photometry
from unglow.detection.source_extraction import DEBLENDED, EXTENDED, UNSPLIT
from unglow.io.candidates_csv import NOT_COUNTED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

FLAGS = {
    "deblended": DEBLENDED,
    "unsplit": UNSPLIT,
    "extended": EXTENDED,
    "incomplete": source_photometry.INCOMPLETE,
    "saturated": source_photometry.SATURATED,
    "misregistered": source_photometry.MISREGISTERED,
    "outside": source_photometry.OUTSIDE,
    "beside_spoilt": source_photometry.BESIDE_SPOILT,
}
"""Bit of each word in the column ``flags``."""
UNCOUNTED = sum(FLAGS[word] for word in NOT_COUNTED)
"""Candidates with one of these flags are listed, and not counted."""
_RATES = ("fdr", "fdr_control", "fdr_control_high95")
_MEASURED = source_photometry.MEASURED
LISTED = np.dtype(
    [*((n, _MEASURED[n]) for n in _MEASURED.names or ()), *((n, "f8") for n in _RATES)]
)
"""A candidate: a source as it was measured, and the false-discovery rate at its signal-to-noise
ratio, by the negative side, by controls and the upper 95 % limit of that; NaN if not known."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name, decimals (None: 5 significant digits), and what GeoJSON calls it."""

    name: str
    decimals: int | None
    label: str


COLUMNS = (
    Column("x", 3, "x px"),
    Column("y", 3, "y px"),
    Column("x_err", 3, "x error px"),
    Column("y_err", 3, "y error px"),
    Column("peak", None, "Peak"),
    Column("flux", None, "Flux"),
    Column("flux_err", None, "Flux error"),
    Column("snr", 2, "Signal to noise"),
    Column("area_px", 0, "Area px"),
    Column("a", 3, "a px"),
    Column("b", 3, "b px"),
    Column("theta", 3, "theta rad"),
    Column("pre", None, "Pre"),
    Column("post", None, "Post"),
    Column("fdr", 4, "False-discovery rate"),
    Column("fdr_control", None, "False-discovery rate by controls"),
    Column("fdr_control_high95", None, "False-discovery rate by controls, upper limit"),
    Column("error_px", 3, "Map error px"),
    Column("edge_px", 1, "Distance to edge px"),
)
NAMES = ("id", *(c.name for c in COLUMNS[:12]), "flags", *(c.name for c in COLUMNS[12:]))
"""The columns of candidates.csv, in their order."""
_FIELDS = {"area_px": "area"}
"""Fields of `LISTED` whose columns have another name."""
_CORNER_PX = 0.5
"""QuPath counts from the corner of the first px, the table from its centre."""
_AT_ONCE = 512
"""Rows whose cells are made together: numpy gives single numbers slowly."""


def words(flags: int) -> str:
    """Return flags as words joined by +; empty for none."""
    return "+".join(name for name, bit in FLAGS.items() if flags & bit)


def rows(listed: NDArray[np.void]) -> Iterator[dict[str, str]]:
    """Yield the cells of the table of candidates, (N,) `LISTED`, numbered from 1."""
    for start in range(0, len(listed), _AT_ONCE):
        part = listed[start : start + _AT_ONCE]
        columns = {"flags": [words(flags) for flags in part["flags"].tolist()]}
        for c in COLUMNS:
            values = part[_FIELDS.get(c.name, c.name)].tolist()
            columns[c.name] = [_cell(float(v), c.decimals) for v in values]
        for number, cells in enumerate(zip(*columns.values(), strict=True), start + 1):
            yield {"id": str(number), **dict(zip(columns, cells, strict=True))}


def write_csv(path: Path, listed: NDArray[np.void]) -> None:
    """Write candidates, (N,) `LISTED`, as candidates.csv, whole or not at all."""
    with replace_file(path) as temporary, temporary.open("w", encoding="utf-8") as stream:
        stream.write(",".join(NAMES) + "\n")
        for cells in rows(listed):
            stream.write(",".join(cells[name] for name in NAMES) + "\n")


def write_geojson(path: Path, listed: NDArray[np.void], properties: Mapping[str, Any]) -> None:
    """Write candidates.geojson (RFC 7946, with px for degrees), whole or not at all.

    QuPath takes each feature as a detection with measurements; its coordinates are 0.5 px more than
    those of the table.

    Parameters
    ----------
    path
        File to write or replace.
    listed
        (N,) `LISTED`.
    properties
        Those of the collection as a whole.
    """
    with replace_file(path) as temporary, temporary.open("w", encoding="utf-8") as stream:
        collection = {"type": "FeatureCollection", "properties": dict(properties)}
        head = json.dumps(collection, allow_nan=False)
        stream.write(f'{head[:-1]}, "features": [')
        for number, cells in enumerate(rows(listed)):
            stream.write((",\n" if number else "\n") + json.dumps(_feature(cells)))
        stream.write("\n]}\n")


def _feature(cells: Mapping[str, str]) -> dict[str, Any]:
    x, y = (round(float(cells[name]) + _CORNER_PX, 3) for name in ("x", "y"))
    measurements = {c.label: float(cells[c.name]) for c in COLUMNS if cells[c.name]}
    counted = not set(cells["flags"].split("+")) & set(NOT_COUNTED)
    return {
        "type": "Feature",
        "geometry": {"type": "Point", "coordinates": [x, y]},
        "properties": {
            "objectType": "detection",
            "name": cells["id"],
            "classification": {"name": "Candidate" if counted else "Candidate (not counted)"},
            "flags": cells["flags"],
            "measurements": measurements,
        },
    }


def _cell(value: float, decimals: int | None) -> str:
    """Return a number as text, nothing for one that is not known."""
    if not math.isfinite(value):
        return ""
    text = f"{value:.5g}" if decimals is None else f"{value:.{decimals}f}"
    return text.lstrip("-") if float(text) == 0 else text
