"""Small pictures of the results, as JPEG: what to look at first, without opening a file.

Overviews are read from the coarse levels of the stores, figures are made smaller. They are packed
into a page, or lie beside it: then figures are shown where they are, and an overview that is newer
than its results is not drawn again. An error in one picture becomes a sentence on its card.
"""

from __future__ import annotations

import base64
import logging
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np

from unglow.core.archive import damaged
from unglow.core.errors import describe
from unglow.core.files import read_file, replacing
from unglow.core.levels import LEVELS, RESULT_OF, name_of, place_of
from unglow.core.printable import harmless
from unglow.io.zarr import open_store
from unglow.io.zarr.overviews import at_same_pixels, fitting_level, overview
from unglow.multiplexed.results import (
    SLIDE_FIGURE,
    SlideRecord,
    Subtraction,
    figure_names,
    overview_of,
)
from unglow.photometry.difference import open_image

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

log = logging.getLogger(__name__)
THUMB_PX = 180
LARGE_PX = 1000
_QUALITY = 72
# Up to so many pairs, large pictures have so many px.
_SIZES = ((12, LARGE_PX), (40, 640), (120, 320))
# Of smaller pictures than this, only the first figure is read; of the others there are links.
_ALL_FIGURES_PX = 640
# The file of a store that is written last.
_ROOT = "zarr.json"
# Quantiles, %, between which overviews are stretched.
_SHARE = (0.5, 99.7)
_GAMMA = 0.6
_NO_DATA = (74, 66, 60)
POST, PRE, ALIGNED, DIFFERENCE = "post", "pre as it came", "aligned pre", "difference"
BEFORE, AFTER, ALL_MARKERS = "before", "after", "all markers"
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
        JPEG, base64; empty where there are too many pairs for them, or it lies beside the page.
    file
        The figure that it was made from, seen from the page; empty if there is none.
    beside
        Where the picture is, seen from the page; empty if it is packed.
    problem
        Why there is no picture, in a sentence; empty if there is one.
    """

    name: str
    small: str = ""
    large: str = ""
    file: str = ""
    beside: str = ""
    problem: str = ""


def large_px(pairs: int) -> int:
    """Return how many px the longest side of a large picture may have, 0 for none."""
    return next((px for most, px in _SIZES if pairs <= most), 0)


def packed_pictures(
    results: Path, rows: Sequence[Mapping[str, Any]], start: Path | None = None
) -> list[list[Picture]]:
    """Return the pictures of each row as they are packed into a page.

    Parameters
    ----------
    results
        The results directory.
    rows
        As in the summary.
    start
        The directory of the page; the results directory if None.
    """
    start = start or results
    largest = large_px(len(rows))
    with ThreadPoolExecutor(2) as pool:  # decoding and coding leave the interpreter to others
        waiting = [
            [
                pool.submit(
                    _contain, row, "overviews", partial(_overviews_of, results, row, largest)
                ),
                pool.submit(
                    _contain, row, "figures", partial(_small_figures, results, row, largest, start)
                ),
            ]
            for row in rows
        ]
        return [[p for done in group for p in done.result()] for group in waiting]


def pictures_beside(
    results: Path, rows: Sequence[Mapping[str, Any]], page: Path
) -> list[list[Picture]]:
    """Write the overviews of each row beside a page; return all pictures as the page names them.

    Parameters
    ----------
    results
        The results directory.
    rows
        As in the summary.
    page
        The file of the page; pictures of ``report.html`` are in ``report_files``.
    """
    place, start = page.with_name(f"{page.stem}_files"), page.parent

    def overviews(row: Mapping[str, Any]) -> Iterator[Picture]:
        for drawing in () if _of_slide(row) else _drawings(results, row, LARGE_PX):
            path = place_of(place, row) / f"{drawing.name}.jpg"
            yield from _contain(row, drawing.name, partial(_written, drawing, path, start))

    def figures(row: Mapping[str, Any]) -> Iterator[Picture]:
        for name, path in _figures(results, row):
            yield Picture(name, beside=_seen_from(start, path))

    def both(row: Mapping[str, Any]) -> list[Picture]:
        parts = {"overviews": overviews, "figures": figures}
        return [p for what, make in parts.items() for p in _contain(row, what, partial(make, row))]

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(both, rows))


def _contain(
    row: Mapping[str, Any], what: str, draw: Callable[[], Iterable[Picture]]
) -> list[Picture]:
    """Return what is drawn; if that fails, a sentence in its place."""
    try:
        return [*draw()]
    except Exception as error:  # noqa: BLE001 (a report with a gap is better than none)
        sentence = f"No {what}: {describe(error)}"
        log.warning("report, %s: %s", harmless(name_of(row)), sentence)
        return [Picture(what, problem=sentence)]


def _seen_from(start: Path, path: Path) -> str:
    return Path(os.path.relpath(path, start)).as_posix()


def _overviews_of(results: Path, row: Mapping[str, Any], largest: int) -> Iterator[Picture]:
    if _of_slide(row):
        for name, image in _of_marker(results, row):
            yield _picture(name, image, largest)
        return
    for drawing in _drawings(results, row, largest or 2 * THUMB_PX):
        yield from _contain(row, drawing.name, partial(_packed, drawing, largest))


def _packed(drawing: _Drawing, largest: int) -> list[Picture]:
    image = drawing.draw()
    return [] if image is None else [_picture(drawing.name, image, largest)]


def _written(drawing: _Drawing, path: Path, start: Path) -> list[Picture]:
    """Write an overview unless there is one that is newer than its sources."""
    newest = max(source.stat().st_mtime for source in drawing.sources)
    if not path.is_file() or path.stat().st_mtime < newest:
        image = drawing.draw()
        if image is None:
            return []
        with replacing(path) as temporary:
            temporary.write_bytes(_jpeg(_smaller(image, LARGE_PX)))
    return [Picture(drawing.name, beside=_seen_from(start, path))]


def _small_figures(
    results: Path, row: Mapping[str, Any], largest: int, start: Path
) -> Iterator[Picture]:
    for name, path in _figures(results, row):
        yield from _contain(row, name, partial(_figure, name, path, largest, start))


def _figures(results: Path, row: Mapping[str, Any]) -> list[tuple[str, Path]]:
    """Return names and files of the figures; those of a failed pair only say that it failed."""
    if row.get("status") in ("failed", "skipped"):
        return []
    if _of_slide(row):
        return _figures_of_slide(results / str(row["sample"]), row)
    places = [place_of(results, row, level) / "figures" for level in (LEVELS[-1], "registration")]
    files = {name: [place / f"{stem}.png" for place in places] for name, stem in _FIGURES}
    found = {name: next(filter(Path.is_file, paths), None) for name, paths in files.items()}
    return [(name, path) for name, path in found.items() if path is not None]


def _of_slide(row: Mapping[str, Any]) -> bool:
    """Whether a row is a slide, which has no dye, or one of its markers."""
    return not row.get("dye") or bool(row.get("background_channel"))


def _figures_of_slide(place: Path, row: Mapping[str, Any]) -> list[tuple[str, Path]]:
    """Return the figure of a marker, or that of all markers of a slide."""
    name, file, record = ALL_MARKERS, SLIDE_FIGURE, place / "slide.json"
    if row.get("dye"):
        markers = SlideRecord.load(record).slide.subtracted if record.is_file() else ()
        name, file = "figure", figure_names(markers).get(str(row["dye"]), "")
    path = place / "figures" / file
    return [(name, path)] if path.is_file() else []


def _of_marker(results: Path, row: Mapping[str, Any]) -> Iterator[tuple[str, NDArray[np.uint8]]]:
    """Yield the overviews of a marker, drawn alike in grey, with their names."""
    place, marker = results / str(row["sample"]), row.get("dye")
    files = [place / "subtraction.json", place / "overviews.npz"]
    if not marker or not all(map(Path.is_file, files)):
        return
    order = [*Subtraction.load(files[0]).markers]
    if marker in order:
        found, _ = overview_of(files[1], order.index(marker))
        both = np.concatenate([found.before, found.after])
        yield BEFORE, _grey(found.before, both)
        yield str(row["background_channel"]), _grey(found.background)
        yield AFTER, _grey(found.after, both)


def _figure(name: str, path: Path, largest: int, start: Path) -> list[Picture]:
    file = _seen_from(start, path)
    if largest < _ALL_FIGURES_PX and name != _FIGURES[0][0]:
        return [Picture(name, file=file)]
    content = np.frombuffer(read_file(path), np.uint8)
    figure = cv2.imdecode(content, cv2.IMREAD_COLOR) if content.size else None
    if figure is None:
        raise damaged(path)
    return [_picture(name, np.asarray(figure, np.uint8), largest, file)]


@dataclass(frozen=True, slots=True)
class _Drawing:
    """An overview to be drawn: its name, files that decide when, and what draws it.

    ``draw`` returns None where there is nothing to draw.
    """

    name: str
    sources: tuple[Path, ...]
    draw: Callable[[], NDArray[np.uint8] | None]


def _drawings(results: Path, row: Mapping[str, Any], largest: int) -> Iterator[_Drawing]:
    """Yield the overviews of a pair, in the frame of post, as far as there are results for them."""
    images, registered, subtracted = (
        place_of(results, row, level) for level in ("ingestion", "registration", "subtraction")
    )
    stores = {
        POST: images / "post.ome.zarr",
        PRE: images / "pre.ome.zarr",
        ALIGNED: registered / "aligned_pre.ome.zarr",
        DIFFERENCE: subtracted / "difference" / f"{row.get('method') or 'linear'}.ome.zarr",
    }

    @cache
    def frame() -> tuple[tuple[int, int], int]:
        post = open_store(stores[POST])
        level = fitting_level(post, 3 * largest // 2)
        return post.level_shape(level), level

    def draw(name: str) -> NDArray[np.uint8] | None:
        image = open_image(stores[name])
        if image.empty is not None:
            return None
        shape, level = frame()
        if name == PRE:
            return _grey(at_same_pixels(image, shape, level))
        pixels = overview(image, level).image
        return _diverging(pixels) if name == DIFFERENCE else _grey(pixels)

    roots = {name: path / _ROOT for name, path in stores.items()}
    computed = subtracted / RESULT_OF["subtraction"], roots[ALIGNED]
    for name, root in roots.items() if roots[POST].is_file() else ():
        sources = computed if name == DIFFERENCE and not root.is_file() else (root,)
        if all(map(Path.is_file, sources)):
            yield _Drawing(name, sources, partial(draw, name))


def _grey(
    image: NDArray[np.float32], reference: NDArray[np.float32] | None = None
) -> NDArray[np.uint8]:
    """Stretch an image between two quantiles, of a reference or its own; no data is bluish."""
    finite = np.isfinite(image)
    low, high = _quantiles(image if reference is None else reference, _SHARE)
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
    sizes = (_smaller(shown, THUMB_PX), shown) if largest else (shown,)
    small, *large = (base64.b64encode(_jpeg(image)).decode("ascii") for image in sizes)
    return Picture(name, small, "".join(large), file)


def _smaller(drawn: NDArray[np.uint8], longest: int) -> NDArray[np.uint8]:
    rows, cols = drawn.shape[:2]
    factor = longest / max(rows, cols)
    if factor > 0.9:
        return drawn
    size = (max(1, round(cols * factor)), max(1, round(rows * factor)))
    return np.asarray(cv2.resize(drawn, size, interpolation=cv2.INTER_AREA), np.uint8)


def _jpeg(drawn: NDArray[np.uint8]) -> bytes:
    _, coded = cv2.imencode(".jpg", drawn, [cv2.IMWRITE_JPEG_QUALITY, _QUALITY])
    return coded.tobytes()
