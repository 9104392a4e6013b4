"""Metadata of a store: names inside it, its digest, and the documents of its root and levels.

Sources: https://ngff.openmicroscopy.org/0.5/ and
https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html
"""

from __future__ import annotations

import hashlib
import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.errors import StoreError
from unglow.core.files import read_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from unglow.io.zarr.layout import StoreLayout

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


def broken(root: Path, name: str, reason: str, kind: str = "shard") -> str:
    """Return the message for a shard, or another file of a store, that cannot be used."""
    return f"{root}: {kind} {name} {reason}; {remedy(root)}"


def remedy(root: Path) -> str:
    """Return what to do about a damaged store, for messages."""
    return f"delete {root / DOCUMENT} and rerun the workflow to make the store again"


def store_digest(shards: Mapping[str, str]) -> str:
    """SHA-256 over all shards, whatever the order they were written in.

    Parameters
    ----------
    shards
        Shard key to the SHA-256 of its file, hexadecimal.

    Returns
    -------
    ``sha256:`` and the hash of the lines ``<key> <sha256>``, sorted by key.
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
        datasets.append(
            {
                "path": str(level),
                "coordinateTransformations": [
                    {"type": "scale", "scale": [factor * size_y, factor * size_x]},
                    {"type": "translation", "translation": [shift * size_y, shift * size_x]},
                ],
            }
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


def display_window(overview: NDArray[Any] | None, dtype: str) -> dict[str, float]:
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

    Raises
    ------
    StoreError
        If it is missing, damaged or not what the layout says.
    """
    name = f"{level}/{DOCUMENT}"
    try:
        document = read_json(root / name)
    except (OSError, ValueError) as error:
        raise StoreError(broken(root, name, "cannot be read", "file")) from error
    expected = make_level_document(layout, level)
    # attributes are for whoever looks at a store
    if not isinstance(document, dict) or any(
        document.get(key) != expected[key] for key in expected if key != "attributes"
    ):
        reason = f"does not fit the layout in the root's {DOCUMENT}"
        raise StoreError(broken(root, name, reason, "file"))
