"""Provenance of an exported image: parameters and fingerprints, never a time or a path."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from unglow.photometry.difference import Image

_OF_THE_STORE = ("layout", "stored_bytes")
_ABOUT = {
    "post": "Image after staining, in its own frame, as it was read.",
    "pre": "Image before staining, in its own frame, as it was read.",
    "aligned_pre": "Image before staining, resampled once into the frame of post.",
    "difference": "Image after staining minus the scaled one before it, in the frame of post.",
    "snr": "Signal-to-noise ratio of the difference, filtered to a microbe's width, in the frame "
    "of post.",
}


def about(store: Image) -> str:
    """Return what a store shows, in a sentence or two."""
    if store.empty is not None:
        return f"No pixels: {store.empty}"
    sentence = _ABOUT.get(str(store.attributes.get("role")), store.name)
    return f"{sentence} NaN where there is no data." if store.dtype.kind == "f" else sentence


def provenance(store: Image) -> dict[str, str]:
    """Return what was written along with a store, one text for each name, sorted.

    Nested names are joined with dots (``inputs.post``). Numbers and lists are JSON. How the store
    lies on disk is left out.
    """
    attributes = {k: v for k, v in store.attributes.items() if k not in _OF_THE_STORE}
    return dict(sorted(_flat(attributes, "")))


def _flat(values: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            yield from _flat(value, f"{name}.")
        elif isinstance(value, str):
            yield name, value
        else:
            yield name, json.dumps(value)
