"""Where an export goes, and its provenance: parameters and fingerprints, never a time or a path.

Nothing is overwritten, and a directory appears only when it is whole.
"""

from __future__ import annotations

import json
import secrets
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from unglow.core.errors import ConfigError, UnglowError
from unglow.core.files import remedy

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

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


EXPORT_BAND = 16_000_000
"""At most so much of an image is held while it is exported, bytes."""


def refuse_existing(target: Path) -> None:
    """Refuse to write where there is something.

    Raises
    ------
    ConfigError
        ``target`` exists.
    """
    if target.exists():
        raise ConfigError(f"{target} exists already; remove it or export to another path")


@contextmanager
def whole_directory(target: Path) -> Iterator[Path]:
    """Give the path of a hidden sibling to make; it becomes ``target`` when the block ends well.

    Raises
    ------
    UnglowError
        It could not be written.
    """
    partial = target.with_name(f".{target.name}.{secrets.token_hex(6)}.partial")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield partial
        partial.rename(target)
    except OSError as error:
        raise UnglowError(
            f"{target} could not be written ({error.strerror or error}): "
            f"{remedy(error, target)}, then run again."
        ) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
