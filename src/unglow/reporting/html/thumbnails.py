"""Small pictures of the results, as JPEG: what to look at first, without opening a file.

Overviews are read from the coarse levels of the stores, figures are made smaller. A picture that
cannot be made is left out: a report is no place to fail.
"""

from __future__ import annotations

import base64
import contextlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import cv2
import numpy as np

from unglow.core.errors import UnglowError
from unglow.core.levels import place_of
from unglow.io.zarr import open_store
from unglow.io.zarr.overviews import at_same_pixels, fitting_level, overview
from unglow.photometry.difference import open_image

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

THUMB_PX = 180
LARGE_PX = 1000
_QUALITY = 72
# Up to so many pairs, large pictures have so many px.
_SIZES = ((12, LARGE_PX), (40, 640), (120, 320))
# So many pairs have pictures at most; those that are not ok go first.
_MOST_PAIRS = 120
# Of smaller pictures than this, only the first figure is read; of the others there are links.
_ALL_FIGURES_PX = 640
# Quantiles, %, between which overviews are stretched.
_SHARE = (0.5, 99.7)
_GAMMA = 0.6
_NO_DATA = (74, 66, 60)
POST, PRE, ALIGNED, DIFFERENCE = "post", "pre as it came", "aligned pre", "difference"
# Figures with the names that a page gives them.
_FIGURES = (
    ("registration", "registration"),
    ("gain", "ratio_histogram"),
    ("candidates", "candidates"),
    ("gallery", "gallery"),
)
# Blue, green, red, as OpenCV has them.
_BLUE, _ORANGE = (np.array(c, np.float32) for c in ((255, 182, 56), (31, 138, 255)))


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture of a pair.

    Attributes
    ----------
    name
        What it shows, in a word or two.
    small, large
        JPEG, base64; empty where there are too many pairs for them.
    file
        The figure that it was made from, below the results directory; empty if there is none.
    """

    name: str
    small: str
    large: str
    file: str = ""


def large_px(pairs: int) -> int:
    """Return how many px the longest side of a large picture may have, 0 for none."""
    return next((px for most, px in _SIZES if pairs <= most), 0)


def pictures_of(results: Path, rows: Sequence[Mapping[str, Any]]) -> list[list[Picture]]:
    """Return the pictures of each row, an empty list where there are none or too many pairs.

    Parameters
    ----------
    results
        The results directory.
    rows
        As in the summary.
    """
    largest = large_px(len(rows))
    order = sorted(range(len(rows)), key=lambda n: rows[n].get("status") == "ok")
    shown = set(order[:_MOST_PAIRS])
    with ThreadPoolExecutor(2) as pool:  # decoding and coding leave the interpreter to others
        waiting = [
            [pool.submit(task, results, dict(row), largest) for task in _tasks(row) if n in shown]
            for n, row in enumerate(rows)
        ]
        return [[p for done in group for p in done.result()] for group in waiting]


def _tasks(row: Mapping[str, Any]) -> list[Callable[[Path, dict[str, Any], int], list[Picture]]]:
    """Return what is to be drawn of a pair; the figures of a failed one only say that it failed."""
    figures = [] if row.get("status") == "failed" else [partial(_figure, *f) for f in _FIGURES]
    return [_overviews, *figures]


def _overviews(results: Path, row: dict[str, Any], largest: int) -> list[Picture]:
    images = place_of(results, row, "ingestion")
    name = f"{row.get('method') or 'linear'}.ome.zarr"
    stores = _Stores(
        post=images / "post.ome.zarr",
        pre=images / "pre.ome.zarr",
        aligned=place_of(results, row, "registration") / "aligned_pre.ome.zarr",
        difference=place_of(results, row, "subtraction") / "difference" / name,
    )
    return [
        _picture(name, _diverging(image) if name == DIFFERENCE else _grey(image), largest)
        for name, image in _images(stores, largest or 2 * THUMB_PX)
    ]


def _figure(
    name: str, stem: str, results: Path, row: dict[str, Any], largest: int
) -> list[Picture]:
    for place in (place_of(results, row), place_of(results, row, "registration")):
        path = place / "figures" / f"{stem}.png"
        if not path.is_file():
            continue
        file = path.relative_to(results).as_posix()
        if largest < _ALL_FIGURES_PX and (name, stem) != _FIGURES[0]:
            return [Picture(name, "", "", file)]
        figure = cv2.imread(str(path))
        if figure is not None:
            return [_picture(name, np.asarray(figure, np.uint8), largest, file)]
    return []


class _Stores(NamedTuple):
    post: Path
    pre: Path
    aligned: Path
    difference: Path


def _images(stores: _Stores, largest: int) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Yield overviews in the frame of post, with their names; not those that cannot be read."""
    with contextlib.suppress(UnglowError, OSError):
        post = open_store(stores.post)
        level = fitting_level(post, 3 * largest // 2)
        shape = post.level_shape(level)
        yield POST, overview(post, level).image
        with contextlib.suppress(UnglowError, OSError):
            yield PRE, at_same_pixels(open_store(stores.pre), shape, level)
        for name, path in ((ALIGNED, stores.aligned), (DIFFERENCE, stores.difference)):
            with contextlib.suppress(UnglowError, OSError):
                yield name, overview(open_image(path), level).image


def _grey(image: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Stretch an image between two of its quantiles; no data is bluish."""
    finite = np.isfinite(image)
    low, high = _quantiles(image, _SHARE)
    level = np.clip((image - low) * (255.0 / max(high - low, 1e-6)), 0, 255)
    grey = np.where(finite, level, 0).astype(np.uint8)
    return _without_data(np.repeat(grey[..., None], 3, axis=2), finite)


def _diverging(image: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Draw 0 as black, positive values as orange, negative ones as blue, small ones brighter."""
    finite = np.isfinite(image)
    (limit,) = _quantiles(np.abs(image), _SHARE[1:])
    share = np.where(finite, np.clip(image / max(limit, 1e-6), -1, 1), 0)[..., None]
    bright = np.abs(share) ** _GAMMA
    colour = np.where(share > 0, bright * _ORANGE, bright * _BLUE)
    return _without_data(colour.astype(np.uint8), finite)


def _quantiles(image: NDArray[np.float32], percent: Sequence[float]) -> list[float]:
    """Return quantiles of a part of the px that is large enough for a picture."""
    few = image[:: max(1, image.shape[0] // 256), :: max(1, image.shape[1] // 256)]
    finite = few[np.isfinite(few)]
    return np.percentile(finite, percent).tolist() if finite.size else [p / 100 for p in percent]


def _without_data(drawn: NDArray[np.uint8], finite: NDArray[np.bool_]) -> NDArray[np.uint8]:
    drawn[~finite] = _NO_DATA
    return drawn


def _picture(name: str, drawn: NDArray[np.uint8], largest: int, file: str = "") -> Picture:
    shown = _smaller(drawn, largest or THUMB_PX)
    return Picture(name, _jpeg(_smaller(shown, THUMB_PX)), _jpeg(shown) if largest else "", file)


def _smaller(drawn: NDArray[np.uint8], longest: int) -> NDArray[np.uint8]:
    rows, cols = drawn.shape[:2]
    factor = longest / max(rows, cols)
    if factor > 0.9:
        return drawn
    size = (max(1, round(cols * factor)), max(1, round(rows * factor)))
    return np.asarray(cv2.resize(drawn, size, interpolation=cv2.INTER_AREA), np.uint8)


def _jpeg(drawn: NDArray[np.uint8]) -> str:
    _, coded = cv2.imencode(".jpg", drawn, [cv2.IMWRITE_JPEG_QUALITY, _QUALITY])
    return base64.b64encode(coded.tobytes()).decode("ascii")
