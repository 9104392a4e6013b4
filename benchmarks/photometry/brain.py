"""Mouse brain by two-photon microscopy: signal and autofluorescence of one acquisition.

Both channels were recorded at once, so that the true map between them is the identity. Another tool
(cellfinder) says where it expects cells, in three dimensions and in more planes than are here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import tifffile

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    Image = NDArray[Any]
    Floats = NDArray[np.float64]

FOLDER = "signal_autofluorescence"
_PLACE = re.compile(r"<Marker[XYZ]>(\d+)</Marker[XYZ]>")


def plane(data: Path, z: int) -> tuple[Image, Image]:
    """Return signal and autofluorescence of a plane, (rows, columns) uint16 each."""
    folder = data / FOLDER
    return (
        tifffile.imread(folder / "crop_signal" / f"ch000{z}.tif"),
        tifffile.imread(folder / "crop_autofluorescence" / f"ch100{z}.tif"),
    )


def expected_cells(data: Path) -> Floats:
    """Return the cells that the other tool expects, (N, 3): x, y (px) and z (plane)."""
    text = (data / FOLDER / "crop_cells_expected.xml").read_text(encoding="utf-8")
    return np.array(_PLACE.findall(text), dtype=np.float64).reshape(-1, 3)
