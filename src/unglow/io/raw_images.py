"""Raw images, whatever they are stored in: TIFF files, and OME-Zarr images of other programs."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.errors import InputError
from unglow.io import ome_zarr, tiff
from unglow.io.image_paths import is_ome_zarr
from unglow.io.not_stored import NotStored
from unglow.io.tiff.windows import survey_windows

MOST_PER_BYTE = 100_000
"""Bytes of pixels that a byte of a file can stand for: Zstandard reaches 33 000 where all are 0."""

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from unglow.io.ome_zarr import OmeZarrReader
    from unglow.io.tiff import TiffHeader, TiffReader


def read_header(
    path: str | os.PathLike[str],
    *,
    series: int | None = None,
    z: int | str | None = None,
    t: int | str | None = None,
) -> TiffHeader:
    """Read the header of a raw image, no pixels; see `unglow.io.tiff.read_header`."""
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


def not_stored(reader: TiffReader | OmeZarrReader, channels: Sequence[int]) -> NotStored | None:
    """Return what an open image does not store of one channel or another; None if nothing.

    Raises
    ------
    InputError
        Its tables cannot be read.
    """
    missing = np.asarray(reader.missing_units(channels).any(axis=0))
    header = reader.header
    return NotStored.of(missing, header.unit, header.shape, header.name, unit_name(header))


def unit_name(header: TiffHeader) -> str:
    """Return what an image is stored in: tiles, strips or chunks."""
    if header.layout != "tiles":
        return "strips"
    return "chunks" if is_ome_zarr(header.path) else "tiles"


def survey_blocks(header: TiffHeader, count: int = 16, size: int = 256) -> Iterator[NDArray[Any]]:
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
