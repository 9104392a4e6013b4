"""Layout of a store: pyramid levels, shards and chunks, decided from the image alone."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.contents import check_shape
from unglow.core.windows import Window, grid

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


DTYPES = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "float64")
"""Numpy names of the pixel types that a store holds."""

CHUNK = 512
"""Side of a chunk, px: 0.25 to 2 MB are decoded at a time."""

SHARD = 2048
"""Side of a shard, px: one file, and what a job holds of an image for each block in flight."""

STRIP_ROW_BYTES = 100_000_000
"""A full-width row of shards stays below this for images that are read as strips, bytes: ingest
holds one."""

LONGEST_OVERVIEW = 512
"""The pyramid ends at the first level whose longest side is at most this many px: one chunk."""

FINE_SHARD = 256
"""Shards of the levels that are written along with level 0 are at least this large, px."""

FINEST_STRIP = 64
"""The same for level 1 alone: a small file costs less than reading level 0 a second time."""

_LONGEST = 1 << 31
"""Sides of images are shorter, px."""
_SHAPE = {
    **{key: [int, int] for key in ("shape", "chunks", "shards")},
    "dtype": str,
    "levels": int,
}
"""Of a layout as JSON; see `unglow.core.contents`."""


@dataclass(frozen=True, slots=True)
class StoreLayout:
    """Geometry of a store; all sizes are (rows, columns) in px.

    Levels 1 to `fine_levels` have shards of ``shards >> level``: each level-0 shard alone
    determines its shard of these levels. The coarser levels have shards of their own.

    Parameters
    ----------
    shape
        Level 0.
    dtype
        Numpy name, one of `DTYPES`.
    chunks, shards
        Level 0; a shard is an integer number of chunks.
    levels
        Number of levels, level 0 included; level ``k`` has ``floor(n / 2**k)`` px per side.

    Raises
    ------
    ValueError
        If the sizes do not fit each other.
    """

    shape: tuple[int, int]
    dtype: str
    chunks: tuple[int, int]
    shards: tuple[int, int]
    levels: int

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise ValueError(f"dtype {self.dtype!r} cannot be stored; one of {', '.join(DTYPES)}")
        if min(self.shape) < 1 or min(self.chunks) < 1 or min(self.shards) < 1 or self.levels < 1:
            raise ValueError(f"every size of a layout is at least 1: {self}")
        if max(*self.shape, *self.shards) >= _LONGEST:
            raise ValueError(f"no image is as large as this: {self}")
        if any(s % c for s, c in zip(self.shards, self.chunks, strict=True)):
            raise ValueError(f"shards of {self.shards} are not whole chunks of {self.chunks}")
        if min(self.shape) >> (self.levels - 1) < 1:
            raise ValueError(f"an image of {self.shape} has no {self.levels} levels")

    @property
    def itemsize(self) -> int:
        """Bytes per pixel."""
        return int(np.dtype(self.dtype).itemsize)

    @property
    def fill(self) -> float:
        """Value of px outside the image, which a chunk at its edge has: 0, NaN of floating ones."""
        return 0 if np.dtype(self.dtype).kind in "iu" else math.nan

    @property
    def fine_levels(self) -> int:
        """Number of the last level that is written shard by shard along with level 0."""
        level = 0
        while level + 1 < self.levels:
            below = level + 1
            least = FINEST_STRIP if below == 1 else FINE_SHARD
            if any(s % 2**below or s >> below < least for s in self.shards):
                break
            level = below
        return level

    def level_shape(self, level: int) -> tuple[int, int]:
        """Rows and columns of a level: ``floor(n / 2**level)``."""
        if not 0 <= level < self.levels:
            raise ValueError(f"level {level} is not one of the {self.levels} levels")
        rows, cols = self.shape
        return rows >> level, cols >> level

    def level_shards(self, level: int) -> tuple[int, int]:
        """Shard size of a level."""
        if level <= self.fine_levels:
            rows, cols = self.shards
            return rows >> level, cols >> level
        height, width = self.level_shape(level)
        return _cover(height), _cover(width)

    def level_chunks(self, level: int) -> tuple[int, int]:
        """Chunk size of a level: the level-0 chunk, or what of it divides the level's shard."""
        sides = zip(self.level_shards(level), self.chunks, strict=True)
        rows, cols = (math.gcd(shard, chunk) for shard, chunk in sides)
        return rows, cols

    def windows(self, level: int = 0) -> Iterator[Window]:
        """Yield the shards of a level in row order, cut at the edges of the image."""
        return grid(self.level_shape(level), self.level_shards(level))

    def to_dict(self) -> dict[str, Any]:
        """Return the layout as JSON types."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> StoreLayout:
        """Return the layout that `to_dict` wrote; raises `ValueError` if it is none."""
        check_shape(data, _SHAPE)
        shape, chunks, shards = (
            (data[key][0], data[key][1]) for key in ("shape", "chunks", "shards")
        )
        return cls(shape, data["dtype"], chunks, shards, data["levels"])


def plan_layout(shape: tuple[int, int], dtype: str, *, by_rows: bool = False) -> StoreLayout:
    """Choose the layout of an image.

    Parameters
    ----------
    shape
        Rows and columns, px.
    dtype
        Numpy name, one of `DTYPES`.
    by_rows
        The image arrives in full-width strips: shards get fewer rows, so that a row of them across
        the image (rows x columns x bytes per pixel) stays under `STRIP_ROW_BYTES`.

    Returns
    -------
    Shards of at most 2048 x 2048 px with sides that are powers of two, chunks of at most
    512 x 512 px, and levels down to a longest side of at most 512 px.

    Raises
    ------
    ValueError
        If the shape is empty or the dtype cannot be stored.
    """
    height, width = (int(n) for n in shape)
    name = np.dtype(dtype).name
    rows, cols = _cover(height), _cover(width)
    if by_rows:
        row_bytes = width * int(np.dtype(dtype).itemsize)
        while rows > 1 and min(rows, height) * row_bytes >= STRIP_ROW_BYTES:
            rows //= 2
    levels = 1
    while max(height, width) >> (levels - 1) > LONGEST_OVERVIEW and min(height, width) >> levels:
        levels += 1
    return StoreLayout(
        shape=(height, width),
        dtype=name,
        chunks=(min(rows, CHUNK), min(cols, CHUNK)),
        shards=(rows, cols),
        levels=levels,
    )


def _cover(side: int) -> int:
    """Return the smallest power of two that covers ``side`` px, at most `SHARD`.

    A shard larger than the image costs nothing: chunks outside the image are never written. Powers
    of two halve without a remainder at every level.
    """
    return min(SHARD, 1 << max(0, side - 1).bit_length())
