"""Registration of two stores, one of which may be marked empty because its image was refused."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.io.stored_values import NotStored, mask_not_stored
from unglow.io.zarr.layout import CHUNK
from unglow.io.zarr.reader import ChunkCache
from unglow.registration.register import UserHints, register
from unglow.registration.shared_map import SharedMap, make_cycle_map, take_over
from unglow.registration.user_hints import check_hints
from unglow.registration.verdict import check_headers, judge, reject, scale_of_sizes
from unglow.transform import load
from unglow.transform.landmarks import read_landmarks
from unglow.transform.matrix import read_initial

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from unglow.io.zarr import Store
    from unglow.registration.settings import RegisterSettings
    from unglow.registration.verdict import Registration

KEPT_MB = 12.0
"""Decoded chunks that are kept of each store, MB."""
# Squared sums of a block of larger values do not fit 32-bit floating point; and an image needs so
# many steps of it between its smallest and largest value.
_LARGEST, _LEAST_STEPS = 1e13, 256
# A refusal mentions px without a value if there are more than this share of them.
_MISSING = 0.01


def read_hints(post: Store, pre: Store, files: Mapping[str, Any]) -> UserHints | None:
    """Read what a user says about the map of a pair; None if nothing.

    ``files`` has lists of files: ``landmarks`` (one or two), ``initial`` (one), or neither.

    Raises
    ------
    InputError
        A file cannot be used.
    """
    landmarks, initial = ([Path(p) for p in files.get(k, ())] for k in ("landmarks", "initial"))
    if not landmarks and not initial:
        return None
    return UserHints(
        read_landmarks(landmarks, post, pre) if landmarks else None,
        read_initial(initial[0], post, pre) if initial else None,
    )


def read_shared_map(
    settings: Mapping[str, Any], files: Mapping[str, Any], shape: tuple[int, int]
) -> SharedMap | None:
    """Read the map that a pair takes over; None if it registers itself.

    Parameters
    ----------
    settings
        ``from`` is the dye whose map it is, or ``cycles`` the cycles of a slide (``2-1``); that is
        empty for channels of one cycle, which lie on each other.
    files
        ``source`` has the files of the map, ``transform.json`` first.
    shape
        Rows and columns of the images of a slide.

    Raises
    ------
    InputError
        The map cannot be read.
    """
    if "from" in settings:
        return SharedMap(settings["from"], load(files["source"][0]))
    if "cycles" not in settings:
        return None
    cycles = settings["cycles"]
    return make_cycle_map(cycles, load(files["source"][0]) if cycles else None, shape)


def register_stores(
    post: Store,
    pre: Store,
    settings: RegisterSettings,
    *,
    workers: int,
    hints: UserHints | None = None,
    shared: SharedMap | None = None,
) -> Registration:
    """Register two stores, or take over a shared map.

    The reason of an empty store becomes the reason of the refusal.
    """
    reasons = list(dict.fromkeys(s.empty for s in (post, pre) if s.empty is not None))
    stores = {"post": post, "pre": pre}
    reasons = reasons or [
        text for name, store in stores.items() for text in _find_unusable(name, store)
    ]
    if reasons:
        return reject(post.shape, pre.shape, reasons)
    images = (
        mask_not_stored(_cache_chunks(post), post.attributes),
        mask_not_stored(_cache_chunks(pre), pre.attributes),
    )
    sizes = post.pixel_size_um, pre.pixel_size_um
    if shared is None:
        expected = scale_of_sizes(*sizes)
        found = register(*images, settings, workers=workers, hints=hints, expected_scale=expected)
    else:
        found = take_over(*images, shared, settings, workers=workers)
        if hints is not None and not found.transform.has_failed:
            found = replace(found, transform=check_hints(found.transform, hints, settings))
    if found.transform.has_failed:
        more = [text for name, store in stores.items() for text in _find_missing(name, store)]
        transform = replace(found.transform, reasons=(*found.transform.reasons, *more))
        return replace(found, transform=transform)
    reasons = check_headers(sizes, found.transform, settings)
    if any(NotStored.from_attributes(store.attributes) for store in stores.values()):
        from unglow.workflow.stages import spoilt_section  # noqa: PLC0415 - most pairs have all

        lacking, too_much = spoilt_section.judge(post, pre, found.transform)
        if too_much:
            return reject(post.shape, pre.shape, lacking, found.blocks)
        reasons += lacking
    return replace(found, transform=judge(found.transform, reasons))


def _find_unusable(name: str, store: Store) -> Iterator[str]:
    """Yield a sentence if nothing is stored, or the values do not fit 32-bit floating point."""
    lacking = NotStored.from_attributes(store.attributes)
    if lacking is not None and lacking.count == lacking.units:
        yield (
            f"{lacking.file} holds no pixels: none of its {lacking.units} {lacking.unit} is "
            "stored. Copy it again from its source, or write it again."
        )
        return
    figures = store.attributes.get("statistics", {"pixels": None})
    if figures["pixels"] is None:
        return
    low, high = figures["min"], figures["max"]
    if low == high and figures["missing"]:  # None where no px has a value
        share = 100 * figures["missing"] / math.prod(store.shape)
        yield (
            f"{share:.0f} % of the {name}-stain pixels are NaN, infinite or beyond 3.4e38, and all "
            "others have the same value: divide both images by a constant, or export them again."
        )
        return
    if figures["pixels"] == 0:
        return
    largest = max(abs(low), abs(high))
    steps = (high - low) / float(np.spacing(np.float32(min(largest, _LARGEST))))
    if largest > _LARGEST:
        yield (
            f"Values of the {name}-stain image reach {largest:.2g}, but at most {_LARGEST:.0e} can "
            "be computed with: divide both images by the same constant."
        )
    elif 0 < steps < _LEAST_STEPS:
        yield (
            f"Values of the {name}-stain image are {low:.10g} to {high:.10g}: 32-bit floating "
            f"point has only {steps:.0f} steps there. Subtract the same offset from both images."
        )


def _find_missing(name: str, store: Store) -> Iterator[str]:
    """Yield a sentence if many px of an image have no value, and one if many are not stored."""
    lacking = NotStored.from_attributes(store.attributes)
    if lacking is not None and lacking.share > _MISSING:
        yield (f"{lacking.description}: copy the file again from its source if it was cut off.")
    figures = store.attributes.get("statistics", {"missing": 0})
    share = figures["missing"] / math.prod(store.shape)
    if share > _MISSING:
        yield (
            f"{100 * share:.0f} % of the {name}-stain pixels have no value (NaN or infinite), and "
            "no block with one of them is compared. Fill single ones by their neighbours."
        )


def _cache_chunks(store: Store) -> ChunkCache:
    """Return a store that keeps `KEPT_MB` of decoded chunks."""
    chunk_bytes = CHUNK**2 * store.layout.itemsize
    return ChunkCache(store, max(1, int(KEPT_MB * 1e6) // chunk_bytes))
