"""Where an export goes, and its provenance: parameters and fingerprints, never a time or a path.

Nothing is overwritten, and a directory appears only when it is complete.
"""

from __future__ import annotations

import json
import secrets
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from unglow.core.errors import ConfigError, UnglowError
from unglow.core.files import remedy
from unglow.core.levels import LEVELS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
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


def provenance(store: Image, names: Mapping[str, str]) -> dict[str, str]:
    """Return what was written along with a store, one text for each name, sorted.

    Nested names are joined with dots (``inputs.post``). Numbers and lists are JSON. How the store
    is laid out on disk is omitted. ``names`` are those of its pair (`names_of`).
    """
    attributes = {k: v for k, v in store.attributes.items() if k not in _OF_THE_STORE}
    return dict(sorted([*names.items(), *_flat(attributes, "")]))


def names_of(wildcards: Mapping[str, str]) -> dict[str, str]:
    """Return ``sample``, ``dye`` and, in a sweep, ``variant`` of a job."""
    sample, dye, *variant = (str(wildcards[level]) for level in LEVELS if wildcards.get(level))
    return _named(sample, dye, variant)


def names_at(store: Path) -> dict[str, str]:
    """Return the names of the pair in whose results a store is; none for one that is elsewhere."""
    place = store.absolute().parent
    place = place.parent if place.name == "difference" else place
    for results in place.parents:
        if (results / "telemetry").is_dir() or (results / "summary.tsv").is_file():
            sample, *rest = place.relative_to(results).parts
            return _named(sample, rest[0], rest[1:]) if rest else {}
    return {}


def _named(sample: str, dye: str, variant: Sequence[str]) -> dict[str, str]:
    names = {"sample": sample, "dye": dye}
    return {**names, "variant": "/".join(variant)} if variant else names


def _flat(values: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            yield from _flat(value, f"{name}.")
        elif isinstance(value, str):
            yield name, value
        else:
            yield name, json.dumps(value)


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
