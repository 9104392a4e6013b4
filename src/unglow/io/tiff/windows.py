"""Windows to read an image in: parts of full-width bands, and a sample spread over all of it."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

from unglow.core.windows import Window, strips

if TYPE_CHECKING:
    from unglow.io.tiff.header import TiffHeader

PART_ROWS = 128
"""Rows that one worker reads at a time, where strips are no higher."""

_R2 = (0.7548776662466927, 0.5698402909980532)
"""Fractional parts of multiples of these fill a square evenly (the R2 sequence: powers of 1/p, p
the real root of p**3 = p + 1)."""


def reads_in_order(header: TiffHeader, height: int) -> bool:
    """Say whether strips have to be read from the top down, by one thread.

    That is so if they are decoded as a stream, or decoded whole and kept for more than one band of
    ``height`` rows.
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


def survey_windows(header: TiffHeader, count: int = 16, size: int = 256) -> list[Window]:
    """Return windows that `survey_blocks` reads, from top to bottom; the same ones every time.

    Tiles are sampled by ``count`` squares of ``size`` px, each within as few tiles as possible;
    strips by ``count`` full-width bands of about as many pixels. An image that is smaller than the
    sample is covered once.
    """
    rows, cols = header.shape
    if rows * cols <= count * size * size:
        step = rows if header.preferred == "windows" else max(1, min(rows, header.unit[0]))
        step = max(step, math.ceil(rows / count))
        return list(strips(Window.of(header.shape), step))
    if header.preferred == "windows":
        windows = {_square(header, k, size) for k in range(count)}
    else:
        high = max(1, min(rows, size * size // cols, header.unit[0]))
        windows = set()
        for k in range(count):
            y = int((k + 0.5) / count * (rows - high))
            unit = header.unit[0]
            # Stay inside one strip where it is high enough.
            y = min(y, y // unit * unit + max(0, unit - high), rows - high)
            windows.add(Window(y, y + high, 0, cols))
    return sorted(windows)


def _square(header: TiffHeader, k: int, size: int) -> Window:
    """Return the k-th square, moved into one tile if it fits there."""
    start = []
    for n, unit, ratio in zip(header.shape, header.unit, _R2, strict=True):
        at = int((0.5 + (k + 1) * ratio) % 1.0 * max(1, n - size + 1))
        at = at // unit * unit if unit < size else min(at, at // unit * unit + unit - size)
        start.append(max(0, min(at, n - size)))
    y, x = start
    return Window(y, min(y + size, header.shape[0]), x, min(x + size, header.shape[1]))
