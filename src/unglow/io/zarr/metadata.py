"""Names inside a store, its digest, and its OME-Zarr 0.5 metadata.

Source: https://ngff.openmicroscopy.org/0.5/
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from unglow.io.zarr.layout import StoreLayout

DOCUMENT = "zarr.json"
AXES = ("y", "x")


def shard_key(level: int, row: int, col: int) -> str:
    """Path of a shard file inside the store."""
    return f"{level}/c/{row}/{col}"


def broken(root: Path, name: str, reason: str, kind: str = "shard") -> str:
    """Return the sentence for a shard, or another file of a store, that cannot be used."""
    return f"{root}: {kind} {name} {reason}; {remedy(root)}"


def remedy(root: Path) -> str:
    """Return what to do about a damaged store, in words."""
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


def group_attributes(
    layout: StoreLayout,
    *,
    name: str,
    pixel_size_um: tuple[float, float] | None,
    window: Mapping[str, float],
    attributes: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the attributes of the root group, in an order that does not depend on the caller's.

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
    ``ome`` (OME-Zarr 0.5) and ``unglow``, as JSON types with sorted keys.

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
    document: dict[str, Any] = json.loads(text)
    return document


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
