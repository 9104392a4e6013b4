"""Registration of two stores, one of which may be marked empty because its image was refused.

Writers leave out tiles and chunks outside of the section on purpose, which is no fault. So only
what lies on the section counts, and each image shows where it is in the gaps of the other one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core import shapes
from unglow.core.reasons import explain
from unglow.core.rounding import percent
from unglow.core.windows import Window, coarse_level
from unglow.images.stored_values import LEAST_SHARE, MOST_SHARE, MissingTiles, mask_not_stored
from unglow.images.zarr.layout import CHUNK
from unglow.images.zarr.reader import ChunkCache
from unglow.registration.register import UserHints, register
from unglow.registration.shared_map import SharedMap, make_cycle_map, take_over
from unglow.registration.user_hints import check_hints
from unglow.registration.verdict import check_headers, judge, reject, scale_of_sizes
from unglow.transform import apply_matrix, load, to_level0
from unglow.transform.landmarks import read_landmarks
from unglow.transform.matrix import read_initial

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from unglow.core.arrays import Bools, Floats
    from unglow.images.zarr import Store
    from unglow.registration.settings import RegisterSettings
    from unglow.registration.verdict import Registration
    from unglow.transform import Transform


KEPT_MB = 12.0
"""Decoded chunks that are kept of each store, MB."""
# Squared sums of a block of larger values do not fit 32-bit floating point; and an image needs so
# many steps of it between its smallest and largest value.
_LARGEST, _LEAST_STEPS = 1e13, 256
# A refusal mentions px without a value if there are more than this share of them.
_MISSING = 0.01
_AROUND = 2
"""Where nothing is stored, an image is taken to be as bright as so near to it, px of a small image:
writers leave some glass around the section."""
_SIDE = 512
"""Side of the small images that the section is found on, px."""
_RIM = 3
"""The outline is closed and blurred by about this many px of a small image."""


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
    if any(MissingTiles.from_attributes(store.attributes) for store in stores.values()):
        lacking, too_much = judge_gaps(post, pre, found.transform)
        if too_much:
            return reject(post.shape, pre.shape, lacking, found.blocks)
        reasons += lacking
    return replace(found, transform=judge(found.transform, reasons))


def _find_unusable(name: str, store: Store) -> Iterator[str]:
    """Yield a sentence if nothing is stored, or the values do not fit 32-bit floating point."""
    lacking = MissingTiles.from_attributes(store.attributes)
    if lacking is not None and 0 < lacking.count == lacking.units:
        yield explain("no_pixels", file=lacking.file, units=f"{lacking.units} {lacking.unit}")
        return
    figures = store.attributes.get("statistics", {"pixels": None})
    if figures["pixels"] is None:
        return
    low, high = figures["min"], figures["max"]
    if low == high and figures["missing"]:  # None where no px has a value
        share = 100 * figures["missing"] / math.prod(store.shape)
        yield explain("one_value", name=name, percent=share)
        return
    if figures["pixels"] == 0:
        return
    largest = max(abs(low), abs(high))
    steps = (high - low) / float(np.spacing(np.float32(min(largest, _LARGEST))))
    if largest > _LARGEST:
        yield explain("too_large", name=name, largest=largest, limit=_LARGEST)
    elif 0 < steps < _LEAST_STEPS:
        yield explain("too_fine", name=name, low=low, high=high, steps=steps)


def _find_missing(name: str, store: Store) -> Iterator[str]:
    """Yield a sentence if many px of an image have no value, and one if many are not stored."""
    lacking = MissingTiles.from_attributes(store.attributes)
    if lacking is not None and lacking.share > _MISSING:
        yield explain("not_stored", file=lacking.file, what=lacking.description)
    figures = store.attributes.get("statistics", {"missing": 0})
    share = figures["missing"] / math.prod(store.shape)
    if share > _MISSING:
        yield explain("no_values", name=name, percent=100 * share)


def _cache_chunks(store: Store) -> ChunkCache:
    """Return a store that keeps `KEPT_MB` of decoded chunks."""
    chunk_bytes = CHUNK**2 * store.layout.itemsize
    return ChunkCache(store, max(1, int(KEPT_MB * 1e6) // chunk_bytes))


@dataclass(frozen=True, eq=False)
class _Seen:
    """Where an image of a pair shows the section, and where it stores nothing.

    Attributes
    ----------
    shape
        (rows, columns) of level 0, px.
    level
        Pyramid level of the masks.
    section, missing
        (rows, cols) bool.
    """

    shape: tuple[int, int]
    level: int
    section: Bools
    missing: Bools

    @classmethod
    def measure(cls, store: Store) -> _Seen:
        from unglow.detection.section_mask import section_mask

        level = min(coarse_level((store.shape,), _SIDE), store.levels - 1)
        window = Window.from_shape(store.level_shape(level))
        image = mask_not_stored(store, store.attributes).read(window, level).astype(np.float32)
        missing = _centres(store, level) | np.isnan(image)
        around = image[shapes.grow(missing, _AROUND) & ~missing]
        # glass, where writers leave out what is around the section; else as even as glass
        image[missing] = np.median(around) if around.size else 0
        section = shapes.shrink(section_mask(image), _RIM)
        return cls(store.shape, level, section, _centres(store, level))

    def look_up(self, mask: Bools, points: Floats) -> Bools:
        """Look a mask up at points (N, 2) (x, y), level-0 px; False outside of the image."""
        col, row = np.floor(np.nan_to_num(points.T + 0.5, nan=-1.0)).astype(np.int64)
        inside = (col >= 0) & (row >= 0) & (row < self.shape[0]) & (col < self.shape[1])
        rows, cols = mask.shape
        row = np.clip(row >> self.level, 0, rows - 1)
        col = np.clip(col >> self.level, 0, cols - 1)
        return np.asarray(inside & mask[row, col])


def _centres(store: Store, level: int) -> Bools:
    """Return which px of a level have centres where nothing is stored."""
    out = np.zeros(store.level_shape(level), np.bool_)
    lacking = MissingTiles.from_attributes(store.attributes)
    half = 2**level // 2
    for w in () if lacking is None else lacking.rectangles:
        y0, y1, x0, x1 = ((n + half) >> level for n in (w.y0, w.y1, w.x0, w.x1))
        out[y0:y1, x0:x1] = True
    return out


def judge_gaps(post: Store, pre: Store, found: Transform) -> tuple[list[str], bool]:
    """Say what share of the section each image of a registered pair does not store.

    Returns
    -------
    A sentence for each image of which that is more than a thousandth; and whether it is too much
    (`MOST_SHARE`) for the pair to be used.
    """
    seen = _Seen.measure(post), _Seen.measure(pre)
    rows, cols = np.indices(seen[0].section.shape)
    small = np.column_stack([cols.ravel(), rows.ravel()]).astype(np.float64)
    points = apply_matrix(to_level0(seen[0].level), small)
    mapped = found.map(points)
    missing = seen[0].missing.ravel(), seen[1].look_up(seen[1].missing, mapped)
    shown = seen[0].section.ravel(), seen[1].look_up(seen[1].section, mapped)
    # the outline of an image with large gaps may take glass for section: the other one knows
    section = np.where(missing[0] | missing[1], shown[0] | shown[1], shown[0] & shown[1])
    total = max(1, int(np.count_nonzero(section)))
    shares = [float(np.count_nonzero(section & one)) / total for one in missing]
    either = float(np.count_nonzero(section & (missing[0] | missing[1]))) / total
    too_much = either > MOST_SHARE
    sentences = [
        _describe_gaps(store, share, too_much=too_much)
        for store, share in zip((post, pre), shares, strict=True)
        if share > LEAST_SHARE
    ]
    return sentences, too_much


def _describe_gaps(store: Store, share: float, *, too_much: bool) -> str:
    """Say how much of the section an image does not store."""
    lacking = MissingTiles.from_attributes(store.attributes)
    if lacking is None:  # its share is 0
        return ""
    about = {"file": lacking.file, "what": lacking.description}
    if lacking.values and not too_much:
        at = lacking.place if store.attributes["role"] == "post" else None
        return explain("not_imaged", share=percent(share), at=at, **about)
    on_section = f"{percent(share)} of the section is there"
    return explain("large_gaps" if too_much else "gaps", share=on_section, **about)
