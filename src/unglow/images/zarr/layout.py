"""Layout of a store: pyramid levels, shards and chunks, decided from the image alone, and metadata.

Metadata are names inside the store, its digest, and the documents of its root and levels.
Sources: https://ngff.openmicroscopy.org/0.5/ and
https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.errors import StoreError
from unglow.core.files import read_json
from unglow.core.windows import Window, grid

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from unglow.core.arrays import Array


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


DOCUMENT = "zarr.json"
AXES = ("y", "x")

COMPRESSOR = {"cname": "zstd", "clevel": 1, "shuffle": "bitshuffle", "blocksize": 2**19}
"""Blosc's: the fastest of the settings measured within 4 % of the best ratio, integers and floats
equally. With byte shuffle and automatic blocks uint16 fluorescence took twice as long and 5 % more
space."""
_LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
_CHECKSUM = {"name": "crc32c"}


def shard_key(level: int, row: int, col: int) -> str:
    """Path of a shard file inside the store."""
    return f"{level}/c/{row}/{col}"


def describe_broken(root: Path, name: str, reason: str, kind: str = "shard") -> str:
    """Return the message for a shard, or another file of a store, that cannot be used."""
    return f"{root}: {kind} {name} {reason}; {remedy(root)}"


def remedy(root: Path) -> str:
    """Return what to do about a damaged store, for messages."""
    return f"delete {root / DOCUMENT} and rerun the workflow to make the store again"


def store_digest(shards: Mapping[str, str]) -> str:
    """SHA-256 over all shards, whatever the order they were written in.

    ``shards`` are keys with the SHA-256 of their files, hexadecimal. Returns ``sha256:`` and the
    hash of the lines ``<key> <sha256>``, sorted by key.
    """
    lines = "".join(f"{key} {shards[key]}\n" for key in sorted(shards))
    return "sha256:" + hashlib.sha256(lines.encode()).hexdigest()


def make_root_document(
    layout: StoreLayout,
    *,
    name: str,
    pixel_size_um: tuple[float, float] | None,
    window: Mapping[str, float],
    attributes: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the document of the root group, in an order that does not depend on the caller's.

    Parameters
    ----------
    layout
        Its levels become the datasets ``0``, ``1``, ...
    name
        Shown by viewers.
    pixel_size_um
        (x, y) in micrometres, or None: the scale is then in px and the axes carry no unit.
    window
        ``min``, ``max``, ``start``, ``end`` of the display, grey levels.
    attributes
        Becomes the ``unglow`` attribute.

    Returns
    -------
    JSON types; the attributes ``ome`` (OME-Zarr 0.5) and ``unglow`` have sorted keys.

    Raises
    ------
    ValueError
        If a number is not finite (JSON has no such numbers).
    """
    size_x, size_y = pixel_size_um or (1.0, 1.0)
    unit = {"unit": "micrometer"} if pixel_size_um else {}
    datasets = []
    for level in range(layout.levels):
        factor, shift = 2**level, (2**level - 1) / 2
        scale = {"type": "scale", "scale": [factor * size_y, factor * size_x]}
        translation = {"type": "translation", "translation": [shift * size_y, shift * size_x]}
        datasets.append(
            {"path": str(level), "coordinateTransformations": [scale, translation]},
        )
    multiscale = {
        "name": name,
        "type": "mean",
        "axes": [{"name": axis, "type": "space", **unit} for axis in AXES],
        "datasets": datasets,
    }
    channel = {"label": name, "color": "FFFFFF", "active": True, "window": dict(window)}
    ome = {"version": "0.5", "multiscales": [multiscale], "omero": {"channels": [channel]}}
    text = json.dumps({"ome": ome, "unglow": dict(attributes)}, sort_keys=True, allow_nan=False)
    return {"attributes": json.loads(text), "zarr_format": 3, "node_type": "group"}


def display_window(overview: Array | None, dtype: str) -> dict[str, float]:
    """Choose the display range of an image from its coarsest level.

    Parameters
    ----------
    overview
        (rows, cols), NaN where there is no data; None for a store without pixels.
    dtype
        Numpy name of the stored pixels.

    Returns
    -------
    ``start`` and ``end``: 0.1 and 99.9 percentiles of the finite pixels. ``min`` and ``max``: the
    range of an integer dtype, or of the finite pixels of a floating one.
    """
    integer = np.issubdtype(np.dtype(dtype), np.integer)
    finite = np.zeros(0) if overview is None else overview[np.isfinite(overview)].astype(np.float64)
    if finite.size:
        low, start, end, high = (float(v) for v in np.percentile(finite, (0, 0.1, 99.9, 100)))
    else:
        low, start, end, high = 0.0, 0.0, 1.0, 1.0
    if integer:
        low, high = float(np.iinfo(dtype).min), float(np.iinfo(dtype).max)
    if end <= start:  # a flat image: viewers divide by the width of the window
        start, end = (start, start + 1) if start < high or not integer else (start - 1, start)
    high = max(high, end)
    return {"min": low, "max": high, "start": start, "end": end}


def make_level_document(layout: StoreLayout, level: int) -> dict[str, Any]:
    """Return the document of a level."""
    inside = {
        "chunk_shape": list(layout.level_chunks(level)),
        "codecs": _codecs(layout),
        "index_codecs": [_LITTLE, _CHECKSUM],
        "index_location": "end",
    }
    sharding = {"name": "sharding_indexed", "configuration": inside}
    return _array(layout, level, layout.level_shards(level), [sharding])


def make_unsharded_document(layout: StoreLayout, level: int) -> dict[str, Any]:
    """Return the document of a level whose chunks are files of their own, all of one size."""
    return _array(layout, level, layout.chunks, _codecs(layout))


def _codecs(layout: StoreLayout) -> list[dict[str, Any]]:
    """Return what turns a chunk into bytes."""
    # single bytes have no order
    order = {"name": "bytes"} if layout.itemsize == 1 else _LITTLE
    blosc = {"name": "blosc", "configuration": {"typesize": layout.itemsize, **COMPRESSOR}}
    return [order, blosc, _CHECKSUM]


def _array(
    layout: StoreLayout, level: int, files: tuple[int, int], codecs: list[dict[str, Any]]
) -> dict[str, Any]:
    return {
        "shape": list(layout.level_shape(level)),
        "data_type": layout.dtype,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(files)}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": "NaN" if math.isnan(layout.fill) else layout.fill,
        "codecs": codecs,
        "attributes": {},
        "dimension_names": list(AXES),
        "zarr_format": 3,
        "node_type": "array",
        "storage_transformers": [],
    }


def write_document(folder: Path, document: Mapping[str, Any]) -> None:
    """Write the document of a directory, which is made if need be."""
    folder.mkdir(exist_ok=True)
    (folder / DOCUMENT).write_text(json.dumps(document, indent=2), encoding="utf-8")


def check_level(root: Path, layout: StoreLayout, level: int) -> None:
    """See that the document of a level says what its shards are read as.

    StoreError if it is missing, damaged or not what the layout says.
    """
    name = f"{level}/{DOCUMENT}"
    try:
        document = read_json(root / name)
    except (OSError, ValueError) as error:
        raise StoreError(describe_broken(root, name, "cannot be read", "file")) from error
    expected = make_level_document(layout, level)
    # attributes are for whoever looks at a store
    if not isinstance(document, dict) or any(
        document.get(key) != expected[key] for key in expected if key != "attributes"
    ):
        reason = f"does not fit the layout in the root's {DOCUMENT}"
        raise StoreError(describe_broken(root, name, reason, "file"))
