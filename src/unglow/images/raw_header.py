"""Header of a raw image, TIFF or OME-Zarr, and the file that represents it.

An OME-Zarr image may be a folder: its metadata file represents it.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

Layout: TypeAlias = Literal["tiles", "strips", "single strip"]
Plane: TypeAlias = dict[str, int | str | None]
"""Choice of one image of a file: ``series`` (int), ``z`` and ``t`` (int, ``max`` or ``mean``);
None where nothing is chosen."""


@dataclass(frozen=True, slots=True)
class ChannelInfo:
    """One channel of an image: a sample of a pixel, or a page of a channel axis."""

    name: str
    alpha: bool = False


@dataclass(frozen=True, slots=True)
class TiffHeader:
    """The layout of one image in a TIFF file, from its headers alone.

    It goes through JSON unchanged (`unglow.core.records`), so that it can be cached on disk.

    Attributes
    ----------
    path
        The file as it was named.
    shape
        (rows, columns) of level 0 in px.
    dtype
        NumPy name of one sample as `TiffReader.read` returns it: colours of a palette decoded,
        packed bits unpacked, a mean over planes as float32 (float64 from wider sources).
    channels
        What `TiffReader.read` can be asked for, in that order.
    layout, unit
        How pixels are stored, and (rows, columns) of one tile or strip.
    compression, predictor
        Name of the codec as tifffile knows it, and the TIFF predictor (1 is none).
    planar
        The samples of a pixel are stored apart (PlanarConfiguration 2).
    separate
        Every channel is stored apart (planar samples or a page per channel), so that reading one
        of them leaves the others untouched.
    big_endian, bigtiff
        Byte order, and whether offsets have 64 bits.
    pixel_size_um
        (x, y) in micrometres, where a header gives a believable one.
    file_bytes
        Size of the file.
    segments
        Number of tiles or strips of one stored page.
    decode_bytes
        Bytes that one `TiffReader.read` needs in addition to its result, per thread: the largest
        tile or strip, decoded and encoded, or one band where rows can be read singly.
    kept_bytes, parts
        What of that an open `TiffReader` keeps between calls, and how often: for every channel that
        is stored apart and, where strips are streamed, every plane of a projection.
    raw
        Plain rows of samples without a codec: rows are read singly, in any order.
    streams
        The strips are too large to decode at once, and their codec allows pieces: rows are decoded
        once if they are asked for from top to bottom by one thread; going back starts again.
    axes
        Lengths of the axes other than rows, columns and channels that are longer than 1.
    plane
        What was chosen; ``series`` is a number.
    problems, notes
        Sentences for the survey: what needs attention, and what was done without asking.
    """

    path: str
    shape: tuple[int, int]
    dtype: str
    channels: tuple[ChannelInfo, ...]
    layout: Layout
    unit: tuple[int, int]
    compression: str
    predictor: int
    planar: bool
    separate: bool
    big_endian: bool
    bigtiff: bool
    pixel_size_um: tuple[float, float] | None
    file_bytes: int
    segments: int
    decode_bytes: int
    kept_bytes: int
    parts: int
    raw: bool
    streams: bool
    axes: dict[str, int]
    plane: Plane
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """File name without its directory."""
        return Path(self.path).name

    @property
    def projected(self) -> int:
        """Number of planes that are projected."""
        way = {axis: self.plane.get("t" if axis == "T" else "z") for axis in self.axes}
        return math.prod(n for axis, n in self.axes.items() if way[axis] in ("max", "mean"))

    @property
    def others_bytes(self) -> int:
        """Bytes that an open reader keeps for the parts that it is not reading just now."""
        return self.kept_bytes * (self.parts - 1)

    @property
    def sample_bytes(self) -> int:
        """Bytes of one sample as read."""
        return np.dtype(self.dtype).itemsize

    @property
    def preferred(self) -> Literal["rows", "windows"]:
        """``rows``: read full-width bands from top to bottom; ``windows``: any window (tiles)."""
        return "windows" if self.layout == "tiles" and self.unit[1] < self.shape[1] else "rows"


ENDINGS = (".zarr", ".ozx", ".zarr.zip")
"""Of OME-Zarr images: a folder, or a file that holds one."""
DOCUMENTS = ("zarr.json", ".zattrs")
"""The metadata of an image, of format 3 and 2: a file that represents it."""


def is_ome_zarr(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is named as an OME-Zarr image is."""
    return os.fspath(path).casefold().endswith(ENDINGS)


def find_key_file(path: Path) -> Path:
    """Return the file that represents a raw image: of an OME-Zarr image its metadata, else itself.

    It is what Snakemake looks at, since a folder says nothing of changes in it.
    """
    if not is_ome_zarr(path) or path.is_file():
        return path
    return next((path / name for name in DOCUMENTS if (path / name).is_file()), path / DOCUMENTS[0])


def find_image(path: Path) -> Path:
    """Return the raw image that a file represents."""
    return path.parent if path.name in DOCUMENTS and is_ome_zarr(path.parent) else path
