"""How an image of full-width strips is read: in bands, and these in parts for the workers."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from unglow.core.windows import Window

if TYPE_CHECKING:
    from unglow.io.tiff.header import TiffHeader

# Rows that one worker reads at a time, where strips are no higher.
PART_ROWS = 128


def reads_in_order(header: TiffHeader, height: int) -> bool:
    """Say whether strips have to be read from the top down, by one thread.

    Those that are decoded as a stream, and those that are decoded whole and kept for more than one
    band of ``height`` rows.
    """
    return header.streams or (not header.raw and header.unit[0] > height)


def part_rows(header: TiffHeader, height: int) -> int:
    """Return the rows that a worker reads at a time of a band of ``height`` rows, at most."""
    unit = 1 if header.raw or reads_in_order(header, height) else header.unit[0]
    return min(height, max(1, PART_ROWS // unit) * unit)


def band_parts(header: TiffHeader, y0: int, y1: int, height: int) -> list[Window]:
    """Cut rows y0 to y1 into what one worker reads at a time: whole strips, where they are small.

    Parameters
    ----------
    header
        Of an image that is read in full-width bands.
    y0, y1
        First row of the band, and the one behind its last.
    height
        Rows of a band; the last one of an image may have fewer.
    """
    step = part_rows(header, height)
    tops = [y0, *range(y0 // step * step + step, y1, step)]
    return [
        Window(top, bottom, 0, header.shape[1]) for top, bottom in itertools.pairwise([*tops, y1])
    ]
