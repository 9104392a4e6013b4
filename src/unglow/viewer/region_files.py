"""Regions that are drawn on a page: the file of a pair, and the one that the workflow reads."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.errors import InputError
from unglow.core.windows import Window, strips
from unglow.review.counts import of_region
from unglow.review.geojson import read_collection
from unglow.review.regions import regions_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from unglow.io.zarr import Store
    from unglow.review.decisions import Review
    from unglow.viewer.raw_files import RawFiles

_PX_AT_ONCE = 1 << 22
# Areas are kept of so many regions.
_AREAS = 256


def with_state(
    collection: Mapping[str, Any],
    why: str,
    raw: RawFiles,
    counts: Mapping[str, Any],
) -> dict[str, Any]:
    """Return a collection with what a page has to know of it, as its member ``unglow``.

    That is ``writable`` and ``why`` not (empty if it is), the ``file`` that the workflow reads or
    would read, ``in_use``, whether it holds the same features, and ``counts`` of each feature by
    its id.
    """
    used = raw.regions_target
    state = {
        "writable": not why,
        "why": why,
        "file": "" if used is None else str(used),
        "in_use": used is not None and _features(used) == collection["features"],
        "counts": dict(counts),
    }
    return {**collection, "unglow": state}


def counts_of(
    collection: Mapping[str, Any],
    drawn: Path,
    review: Review,
    counted: NDArray[np.bool_],
    post: Store,
) -> dict[str, dict[str, Any]]:
    """Return candidates and accepted ones in each region of a collection, by the feature's id.

    ``counted`` (N,) says which of the review's candidates are counted as such. Areas are those of
    the regions within post, whether or not all of it was searched.
    """
    found = {}
    for feature in collection["features"]:
        text = json.dumps(feature, sort_keys=True)
        try:
            area = _area(text, post.shape)
            regions = regions_of(drawn, [feature])
        except InputError:  # the workflow says what is wrong with it
            continue
        for region in (*regions.exclude, *regions.analyse):
            found[feature["id"]] = of_region(region, review, counted, area, post.pixel_size_um)
    return found


@lru_cache(_AREAS)
def _area(feature: str, shape: tuple[int, int]) -> int:
    """Return the px of a region, of JSON, that lie within an image of ``shape``."""
    regions = regions_of(Path(), [json.loads(feature)])
    area = 0
    for region in (*regions.exclude, *regions.analyse):
        box = region.box.common(Window.from_shape(shape))
        for strip in strips(box, max(1, _PX_AT_ONCE // max(1, box.shape[1]))):
            area += int(np.count_nonzero(region.over(strip)))
    return area


def _features(path: Path) -> list[Any] | None:
    try:
        features: list[Any] = read_collection(path)["features"]
    except InputError:
        return None
    return features
