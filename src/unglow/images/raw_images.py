"""Raw images, whatever they are stored in: TIFF files, and OME-Zarr images of other programs."""

from __future__ import annotations

import itertools
import math
import os
from typing import TYPE_CHECKING

import numpy as np

from unglow.core.errors import InputError
from unglow.core.windows import Window, strips
from unglow.images import ome_zarr, tiff
from unglow.images.raw_header import is_ome_zarr
from unglow.images.stored_values import MissingTiles

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from unglow.core.arrays import Array
    from unglow.images.ome_zarr import OmeZarrReader
    from unglow.images.tiff import TiffHeader, TiffReader

MOST_PER_BYTE = 100_000
"""Bytes of pixels that a byte of a file can represent: Zstandard reaches 33 000 where all are 0."""
PART_ROWS = 128
"""Rows that one worker reads at a time, where strips are no higher."""

_R2 = (0.7548776662466927, 0.5698402909980532)
"""Fractional parts of multiples of these fill a square evenly (the R2 sequence: powers of 1/p, p
the real root of p**3 = p + 1)."""


def reads_in_order(header: TiffHeader, height: int) -> bool:
    """Say whether strips have to be read from the top down, by one thread.

    That is so if they are decoded as a stream, or decoded complete and kept for more than one band
    of ``height`` rows.
    """
    return header.streams or (not header.raw and header.unit[0] > height)


def part_rows(header: TiffHeader, height: int) -> int:
    """Return the rows that a worker reads at a time of a band of ``height`` rows, at most."""
    unit = 1 if header.raw or reads_in_order(header, height) else header.unit[0]
    return min(height, max(1, PART_ROWS // unit) * unit)


def band_parts(header: TiffHeader, y0: int, y1: int, height: int) -> list[Window]:
    """Cut rows y0 to y1 into parts that one worker reads at a time: entire strips, if small.

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
        return list(strips(Window.from_shape(header.shape), step))
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


def read_header(
    path: str | os.PathLike[str],
    *,
    series: int | None = None,
    z: int | str | None = None,
    t: int | str | None = None,
) -> TiffHeader:
    """Read the header of a raw image, no pixels; see `unglow.images.tiff.read_header`."""
    if is_ome_zarr(path):
        header = ome_zarr.read_header(os.fspath(path), {"series": series, "z": z, "t": t})
    else:
        header = tiff.read_header(path, series=series, z=z, t=t)
    _check_size(header)
    return header


def _check_size(header: TiffHeader) -> None:
    """Raise `InputError` if an image has far more px than its files can hold.

    It is their size that counts, and not what they take on the disk: an image may be sparse.
    """
    planes = math.prod(header.axes.values()) * len(header.channels)
    pixel_bytes = math.prod(header.shape) * planes * header.sample_bytes
    if pixel_bytes > MOST_PER_BYTE * max(1, header.file_bytes):
        raise InputError(
            f"'{header.path}' says that it has {pixel_bytes / 1e9:.3g} GB of pixels, but its files "
            f"have {header.file_bytes} bytes, too few for any codec: copy it again from its source."
        )


def read_exposures(header: TiffHeader) -> list[float | None]:
    """Return the exposure times of an image's channels, ms; None where they are not known.

    Raises
    ------
    InputError
        The image cannot be read any more.
    """
    if is_ome_zarr(header.path):
        return [None] * len(header.channels)
    return tiff.read_exposures(header)


def open_reader(header: TiffHeader) -> TiffReader | OmeZarrReader:
    """Open the image of a header for reading; use it in a ``with`` statement.

    Raises
    ------
    InputError
        The image is no longer what the header says.
    """
    if is_ome_zarr(header.path):
        return ome_zarr.OmeZarrReader(header)
    return tiff.open_reader(header)


def not_stored(reader: TiffReader | OmeZarrReader, channels: Sequence[int]) -> MissingTiles | None:
    """Return what an open image does not store of one channel or another; None if nothing.

    Raises
    ------
    InputError
        Its tables cannot be read.
    """
    missing = np.asarray(reader.find_missing(channels).any(axis=0))
    header = reader.header
    return MissingTiles.from_grid(
        missing, header.unit, header.shape, header.name, unit_name(header)
    )


def unit_name(header: TiffHeader) -> str:
    """Return what an image is stored in: tiles, strips or chunks."""
    if header.layout != "tiles":
        return "strips"
    return "chunks" if is_ome_zarr(header.path) else "tiles"


def survey_blocks(header: TiffHeader, count: int = 16, size: int = 256) -> Iterator[Array]:
    """Yield blocks of all channels, spread over the image: the same ones every time.

    A single compressed strip has to be decoded to its last sampled row, whatever is taken of it;
    memory stays at one block and ``header.decode_bytes``.

    Yields
    ------
    (channels, rows, cols) in ``header.dtype``; see `survey_windows` for where.

    Raises
    ------
    InputError
        The file is damaged, or has changed since its header was read.
    """
    with open_reader(header) as reader:
        for window in survey_windows(header, count, size):
            yield reader.read(window)
