"""Images of which some tiles, strips or chunks are not stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tifffile

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

TABLES = ("TileOffsets", "TileByteCounts", "StripOffsets", "StripByteCounts")


def drop(path: Path, units: Iterable[int], page: int = 0) -> None:
    """Give tiles or strips of a page of a TIFF file offset and byte count 0."""
    with tifffile.TiffFile(path, mode="r+b") as tif:
        tags = tif.pages[page].tags
        for tag in (tags[name] for name in TABLES if name in tags):
            values = list(tag.value)
            for unit in units:
                values[unit] = 0
            tag.overwrite(tuple(values))
