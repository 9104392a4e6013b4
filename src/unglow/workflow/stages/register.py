"""Registration of two stores, one of which may be marked empty because its image was refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.io.zarr.chunk_cache import ChunkCache
from unglow.io.zarr.layout import CHUNK
from unglow.registration.block_table import BLOCK_DTYPE
from unglow.registration.quality import magnified
from unglow.registration.register import Given, RegisterSettings, Registration, register
from unglow.registration.shared_map import Source, reuse
from unglow.registration.user_hints import checked
from unglow.transform import Transform, load
from unglow.transform.initial_matrix import read_initial
from unglow.transform.landmarks import read_landmarks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unglow.io.zarr import Store

KEPT_MB = 12.0
"""Decoded chunks that are kept of each store, MB."""


def given_for(post: Store, pre: Store, files: Mapping[str, Any]) -> Given | None:
    """Read what a person says about the map of a pair; None if nothing.

    Parameters
    ----------
    post, pre
        The images.
    files
        ``landmarks``: list of one or two files; ``initial``: list of one file; or neither.

    Raises
    ------
    InputError
        A file cannot be used.
    """
    landmarks, initial = ([Path(p) for p in files.get(k, ())] for k in ("landmarks", "initial"))
    if not landmarks and not initial:
        return None
    return Given(
        read_landmarks(landmarks, post, pre) if landmarks else None,
        read_initial(initial[0], post, pre) if initial else None,
    )


def source_for(dye: str | None, files: Mapping[str, Any]) -> Source | None:
    """Read the map that a pair takes over; None if it registers itself.

    Parameters
    ----------
    dye
        Whose map it is.
    files
        ``source``: ``transform.json`` first.

    Raises
    ------
    InputError
        The map cannot be read.
    """
    return None if dye is None else Source(dye, load(files["source"][0]))


def register_stores(
    post: Store,
    pre: Store,
    settings: RegisterSettings,
    *,
    workers: int,
    given: Given | None = None,
    source: Source | None = None,
) -> Registration:
    """Register two stores, or take over the map of ``source``.

    The reason of an empty store becomes the reason of the refusal.
    """
    reasons = tuple(dict.fromkeys(s.empty for s in (post, pre) if s.empty is not None))
    if reasons:
        refused = Transform("failed", post.shape, pre.shape, reasons)
        return Registration(refused, np.zeros(0, BLOCK_DTYPE))
    images = _cached(post), _cached(pre)
    if source is None:
        found = register(*images, settings, workers=workers, given=given)
    else:
        found = reuse(*images, source, settings, workers=workers)
        if given is not None and not found.transform.failed:
            found = replace(found, transform=checked(found.transform, given, settings))
    told = magnified(post.pixel_size_um, pre.pixel_size_um, settings)
    if told is None or not found.transform.failed:
        return found
    return replace(
        found, transform=replace(found.transform, reasons=(*found.transform.reasons, told))
    )


def _cached(store: Store) -> ChunkCache:
    """Return a store that keeps `KEPT_MB` of decoded chunks."""
    chunk_bytes = CHUNK**2 * store.layout.itemsize
    return ChunkCache(store, max(1, int(KEPT_MB * 1e6) // chunk_bytes))
