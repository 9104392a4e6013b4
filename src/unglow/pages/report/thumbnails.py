"""Small pictures of the results for a page, as JPEG: what to look at first, without opening a file.

Overviews are read from the coarse levels of the stores, figures are made smaller. They become
smaller and fewer the more pairs a page has; figures that are not packed are links. An error in one
picture becomes a sentence on its card.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import cv2
import numpy as np

from unglow.core import digests
from unglow.core.archive import make_damage_error
from unglow.core.errors import UnglowError, describe
from unglow.core.files import read_file, write_text
from unglow.core.levels import LEVELS, RESULT_OF, name_of, names_of, place_of
from unglow.core.printable import escape_controls
from unglow.core.records import RecordError, read_record
from unglow.figures.difference_picture import NoiseColours, draw_cycles, hatch, spoilt_px
from unglow.images.artefacts import ARTEFACTS, read_places
from unglow.images.detection_results import SHOWN, read_candidates
from unglow.images.zarr import open_store
from unglow.images.zarr.reader import find_fitting_level, overview, read_same_pixels
from unglow.photometry.difference import open_image
from unglow.results.figure_table import FIGURES
from unglow.results.slide_files import (
    OVERVIEWS,
    SLIDE_FIGURE,
    SUBTRACTION,
    SlideRecord,
    Subtraction,
    name_figure_files,
    overview_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]


log = logging.getLogger(__name__)
# Raised when the same results give other pictures.
_CACHE_VERSION = 6
_QUALITY = 76
_SMALL_PX = 110
# Rings around candidates: their least radius, in sigmas too, colours (BGR) of halo and ring, and
# most of them.
_RING_PX, _RING_SIGMAS, _MOST_RINGS = 6, 2.0, 1000
_RING_COLOURS = (30, 20, 10), (230, 210, 80)
# Quantiles, %, between which overviews are stretched.
_SHARE = (0.5, 99.7)
_NO_DATA = (74, 66, 60)
POST, PRE, ALIGNED, DIFFERENCE = "post", "unaligned pre", "aligned pre", "difference"
BEFORE, AFTER, ALL_MARKERS = "before", "after", "all markers"
# Figures that are packed, with the names that a page gives them; all others are links.
_PACKED = {
    "gallery": "gallery",
    "registration": "registration",
    "candidates": "candidates",
    "gain": "joint_histogram",
}
_LINKED = {
    f"full {row.label}" if row.name == "difference" else row.label: row.name
    for rule in ("figures", "figures_registration")
    for row in FIGURES[rule]
    if row.name not in _PACKED.values()
}


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture of a pair.

    Attributes
    ----------
    name
        What it shows, in a word or two.
    image
        JPEG, base64; empty where there are too many pairs for it.
    small
        JPEG for a row of a table, base64, in which the smallest spots are seen; empty but for the
        main picture.
    file
        The figure that shows this in full, seen from the page; empty if there is none.
    problem
        Why there is no picture, in a sentence; empty if there is one.
    """

    name: str
    image: str = ""
    small: str = ""
    file: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large the pictures of a pair are on a page, longest side in px; 0 for a link or none."""

    difference: int
    overviews: int
    figures: int

    @classmethod
    def choose(cls, pairs: int) -> Self:
        """Return the sizes for a number of pairs: 500 pairs stay below 25 MB, 3000 below 50."""
        if pairs <= 12:
            return cls(1000, 640, 1000)
        if pairs <= 30:
            return cls(640, 500, 640)
        if pairs <= 120:
            return cls(400, 400, 0)
        return cls(320 if pairs <= 500 else 160, 0, 0)


def pack_pictures(
    results: Path,
    rows: Sequence[Mapping[str, Any]],
    start: Path | None = None,
    sizes: Sizes | None = None,
    cache: Path | None = None,
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
    sizes
        If None, those for the number of rows.
    cache
        A file of pictures that earlier calls drew, which is read and written; None for no cache.
    """
    chosen = sizes or Sizes.choose(len(rows))
    known = {} if cache is None else _read_cache(cache)
    keys = [_cache_key(results, row, chosen, start or results) for row in rows]

    def pictures(row: Mapping[str, Any], key: str) -> list[Picture]:
        if key in known:
            return known[key]
        if row.get("status") == "skipped":  # what is there was made before
            return []
        overviews = _overviews_of(results, row, chosen)
        figures = _small_figures(results, row, chosen, start or results)
        return [*_contain(row, "overviews", overviews), *_contain(row, "figures", figures)]

    with ThreadPoolExecutor(2) as pool:  # decoding and coding leave the interpreter to others
        found = list(pool.map(pictures, rows, keys))
    if cache is not None:
        drawn = dict(zip(keys, found, strict=True))
        _write_cache(cache, {k: shown for k, shown in drawn.items() if k}, known)
    return found


def _cache_key(results: Path, row: Mapping[str, Any], sizes: Sizes, start: Path) -> str:
    """Return a digest of what the pictures of a row depend on; empty if its results have none.

    That is the digests of its results, and size and time of each file, which may be damaged since.
    """
    places = dict.fromkeys(place_of(results, row, level) for level in LEVELS)
    try:
        lists = [
            digests.Listed.read(path)
            for place in places
            for path in sorted((place / digests.FOLDER).glob(f"*{digests.SUFFIX}"))
        ]
        published = [(one.digests, [_size_and_time(path) for path in one.files]) for one in lists]
    except (OSError, ValueError):
        return ""
    about = (_CACHE_VERSION, names_of(row), row.get("status"), row.get("method"), sizes)
    key = repr((*about, _make_relative(start, results), published))
    return hashlib.sha256(key.encode()).hexdigest() if lists else ""


def _size_and_time(path: Path) -> tuple[int, int]:
    found = path.stat() if path.exists() else None
    return (found.st_size, found.st_mtime_ns) if found else (-1, 0)


def _read_cache(path: Path) -> dict[str, list[Picture]]:
    try:
        return read_record(path, dict[str, list[Picture]])
    except (OSError, RecordError):
        return {}


def _write_cache(
    path: Path, drawn: Mapping[str, list[Picture]], known: Mapping[str, list[Picture]]
) -> None:
    """Keep pictures for the next report; those with a problem are drawn again."""
    kept = {key: row for key, row in drawn.items() if not any(one.problem for one in row)}
    if kept.keys() != known.keys():
        with suppress(UnglowError):  # the pictures are drawn again
            write_text(
                path, json.dumps({key: [asdict(p) for p in row] for key, row in kept.items()})
            )


def _contain(row: Mapping[str, Any], what: str, drawn: Iterable[Picture]) -> list[Picture]:
    """Return what is drawn; if that fails, a sentence in its place."""
    try:
        return [*drawn]
    except Exception as error:  # noqa: BLE001 (a report with a gap is better than none)
        sentence = f"No {what}: {describe(error)}"
        log.warning("report, %s: %s", escape_controls(name_of(row)), sentence)
        return [Picture(what, problem=sentence)]


def _make_relative(start: Path, path: Path) -> str:
    return Path(os.path.relpath(path, start)).as_posix()


def _overviews_of(results: Path, row: Mapping[str, Any], sizes: Sizes) -> Iterator[Picture]:
    if _is_slide(row):
        for name, image in _draw_marker(results, row):
            longest = sizes.difference if name == AFTER else sizes.overviews
            if longest:
                picture = _picture(name, image, longest)
                yield (
                    replace(picture, small=_encode_jpeg(image, _SMALL_PX))
                    if name == AFTER
                    else picture
                )
        if not row.get("dye") and sizes.overviews:
            for name, image in draw_cycles(results / str(row["sample"]), sizes.overviews):
                yield _picture(name, image, sizes.overviews)
        return
    shown = _Overviews(results, row)
    if shown.is_there(DIFFERENCE):
        yield from _contain(row, DIFFERENCE, shown.difference(sizes.difference))
    for name in (POST, ALIGNED, PRE) if sizes.overviews else ():
        if shown.is_there(name):
            yield from _contain(row, name, shown.grey(name, sizes.overviews))


def _small_figures(
    results: Path, row: Mapping[str, Any], sizes: Sizes, start: Path
) -> Iterator[Picture]:
    figures, old = _figures(results, row)
    if old:
        place = _make_relative(results.parent, old[0].parent)
        problem = f"Figures in {place} are older than the results and are not shown: run again."
        yield Picture("figures", problem=problem)
    for name, path in figures:
        longest = 0 if name in _LINKED else sizes.figures
        yield from _contain(row, name, _figure(name, path, longest, start))


def _figures(results: Path, row: Mapping[str, Any]) -> tuple[list[tuple[str, Path]], list[Path]]:
    """Return names and files of the figures, and files of those older than what they show."""
    if row.get("status") == "failed":  # they only say so
        return [], []
    if _is_slide(row):
        place = results / str(row["sample"])
        there, steps = _figures_of_slide(place, row), [place / SUBTRACTION]
    else:
        levels = (LEVELS[-1], "registration")
        places = [place_of(results, row, level) / "figures" for level in levels]
        files = {
            name: [place / f"{stem}.png" for place in places]
            for name, stem in (_PACKED | _LINKED).items()
        }
        found = {name: next(filter(Path.is_file, paths), None) for name, paths in files.items()}
        there = [(name, path) for name, path in found.items() if path is not None]
        steps = _list_steps(results, row)
    early = {row.name for row in FIGURES["figures_registration"]}
    old = [p for _, p in there if _is_older(p, steps[: 4 if p.stem in early else None])]
    return [(name, path) for name, path in there if path not in old], old


def _list_steps(results: Path, row: Mapping[str, Any]) -> list[Path]:
    """Return files of a pair's results in the order in which they are made from each other."""
    images, registered, subtracted, detected = (
        place_of(results, row, level)
        for level in ("ingestion", "registration", "subtraction", "detection")
    )
    return [
        images / "post.ome.zarr" / "zarr.json",
        images / "pre.ome.zarr" / "zarr.json",
        registered / "transform.json",
        registered / "aligned_pre.ome.zarr" / "zarr.json",
        subtracted / "scale.json",
        subtracted / "difference.ome.zarr" / "zarr.json",
        detected / RESULT_OF["detection"],
    ]


def _is_older(path: Path, others: Iterable[Path]) -> bool:
    """Whether a result was made before one that it depends on; the next run makes it again."""
    made = path.stat().st_mtime_ns
    return any(other.is_file() and other.stat().st_mtime_ns > made for other in others)


def _is_slide(row: Mapping[str, Any]) -> bool:
    """Whether a row is a slide, which has no dye, or one of its markers."""
    return not row.get("dye") or bool(row.get("background_channel"))


def _figures_of_slide(place: Path, row: Mapping[str, Any]) -> list[tuple[str, Path]]:
    """Return the figure of a marker, or that of all markers of a slide."""
    name, file, record = ALL_MARKERS, SLIDE_FIGURE, place / "slide.json"
    if row.get("dye"):
        markers = SlideRecord.load(record).slide.subtracted if record.is_file() else ()
        name, file = "figure", name_figure_files(markers).get(str(row["dye"]), "")
    path = place / "figures" / file
    return [(name, path)] if path.is_file() else []


def _draw_marker(results: Path, row: Mapping[str, Any]) -> Iterator[tuple[str, Bytes]]:
    """Yield the overviews of a marker, all drawn in the same grey, with their names."""
    place, marker = results / str(row["sample"]), row.get("dye")
    files = [place / SUBTRACTION, place / OVERVIEWS]
    if not marker or not all(map(Path.is_file, files)):
        return
    order = [*Subtraction.load(files[0]).markers]
    if marker in order:
        found, _ = overview_of(files[1], order.index(marker))
        both = np.concatenate([found.before, found.after])
        yield BEFORE, _grey(found.before, both)
        yield str(row["background_channel"]), _grey(found.background)
        yield AFTER, _grey(found.after, both)


def _figure(name: str, path: Path, longest: int, start: Path) -> Iterator[Picture]:
    file = _make_relative(start, path)
    if not longest:
        yield Picture(name, file=file)
        return
    content = np.frombuffer(read_file(path), np.uint8)
    figure = cv2.imdecode(content, cv2.IMREAD_COLOR) if content.size else None
    if figure is None:
        raise make_damage_error(path)
    yield _picture(name, np.asarray(figure, np.uint8), longest, file)


class _Overviews:
    """The overviews of a pair, in the frame of post, as far as there are results for them."""

    def __init__(self, results: Path, row: Mapping[str, Any]) -> None:
        self._steps = _list_steps(results, row)
        post, pre, _, aligned, _, difference, _ = self._steps
        stores = {POST: post, PRE: pre, ALIGNED: aligned, DIFFERENCE: difference}
        self._stores = {name: path.parent for name, path in stores.items()}
        self._detected = place_of(results, row)

    def is_there(self, name: str) -> bool:
        """Whether there are current results to draw this from; a difference may be computed."""
        post, pre, _, aligned, scale, difference, _ = self._steps
        wanted = {PRE: [post, pre], ALIGNED: [post, aligned], DIFFERENCE: [post, difference]}
        files = wanted.get(name, [post])
        if name == DIFFERENCE and not difference.parent.is_dir():
            files = [post, aligned, scale]
        before = self._steps[: self._steps.index(files[-1])] if name != PRE else []
        return all(map(Path.is_file, files)) and not _is_older(files[-1], before)

    def grey(self, name: str, longest: int) -> Iterator[Picture]:
        """Yield the picture of an image, unless its store is empty."""
        image = open_image(self._stores[name])
        if image.empty is None:
            post = open_store(self._stores[POST])
            is_compared = name == PRE and self.is_there(ALIGNED)  # else it is shown entirely
            level = find_fitting_level(
                image if name == PRE and not is_compared else post, 3 * longest // 2
            )
            pixels = (
                read_same_pixels(image, post.level_shape(level), level)
                if is_compared
                else overview(image, level).image
            )
            yield _picture(name, _grey(pixels), longest)

    def difference(self, longest: int) -> Iterator[Picture]:
        """Yield the picture of the difference: in units of noise, spoilt places and candidates."""
        image = open_image(self._stores[DIFFERENCE])
        if image.empty is not None:
            return
        post = open_store(self._stores[POST])
        view = overview(image, find_fitting_level(post, 3 * longest // 2))
        background = overview(post, view.level).image - view.image
        spoilt = spoilt_px(read_places(self._detected / ARTEFACTS), view.image.shape, view.step)
        clean = np.where(spoilt, np.float32(np.nan), view.image)
        pixels = NoiseColours.from_difference(clean, background).pixels(view.image, background)
        drawn = _mark_missing(pixels[..., ::-1].copy(), np.isfinite(view.image))
        side = -(-max(drawn.shape) // _SMALL_PX)
        spots = cv2.dilate(drawn, np.ones((side, side), np.uint8))[::side, ::side]
        points, sigma = self._candidates()
        rings = np.column_stack([(points + 0.5) / view.step - 0.5, sigma / view.step])
        ringed = _draw_rings(_hatch(drawn, spoilt), rings, longest)
        yield replace(
            _picture(DIFFERENCE, ringed, longest),
            small=_encode_jpeg(
                _hatch(np.asarray(spots, np.uint8), spoilt[::side, ::side]), _SMALL_PX
            ),
        )

    def _candidates(self) -> tuple[NDArray[np.float64], ...]:
        """Return places (N, 2) and widths (sigma, px), the most significant first."""
        table = self._detected / "candidates.csv"
        if not table.is_file():
            return np.empty((0, 2)), np.empty(0)
        listed = read_candidates(table, (*SHOWN, "a"))
        order = np.argsort(-listed.snr, kind="stable")
        order = order[listed.is_counted[order]]
        sigma = np.nan_to_num(listed.numbers.get("a", np.zeros(len(listed))))
        return listed.xy[order], sigma[order]


def _draw_rings(drawn: Bytes, spots: NDArray[np.float64], longest: int) -> Bytes:
    """Return BGR with rings around the first spots (x, y, sigma), seen once it is made smaller.

    Each has a dark halo, so that it is seen on bright and on dark ground.
    """
    factor = max(1.0, max(drawn.shape) / longest)
    out, width = np.ascontiguousarray(drawn), max(1, round(factor))
    first = spots[:_MOST_RINGS]
    radii = np.maximum(_RING_PX * factor, _RING_SIGMAS * first[:, 2])
    rings = np.rint(np.column_stack([first[:, :2], radii])).astype(int).tolist()
    for colour, wide in zip(_RING_COLOURS, (3 * width, width), strict=True):
        for x, y, radius in rings:
            cv2.circle(out, (x, y), radius, colour, wide, cv2.LINE_AA)
    return out


def _hatch(drawn: Bytes, spoilt: NDArray[np.bool_]) -> Bytes:
    if not spoilt.any():
        return drawn
    return hatch(drawn[..., ::-1], spoilt)[..., ::-1]


def _grey(image: NDArray[np.float32], reference: NDArray[np.float32] | None = None) -> Bytes:
    """Stretch an image between two quantiles, of a reference or its own; no data is bluish."""
    finite = np.isfinite(image)
    low, high = _quantiles(image if reference is None else reference, _SHARE)
    level = np.clip((image - low) * (255.0 / max(high - low, 1e-6)), 0, 255)
    grey = np.where(finite, level, 0).astype(np.uint8)
    return _mark_missing(np.repeat(grey[..., None], 3, axis=2), finite)


def _quantiles(image: NDArray[np.float32], percent: Sequence[float]) -> list[float]:
    """Return quantiles of a part of the px that is large enough for a picture."""
    few = image[:: max(1, image.shape[0] // 256), :: max(1, image.shape[1] // 256)]
    finite = few[np.isfinite(few)]
    return np.percentile(finite, percent).tolist() if finite.size else [p / 100 for p in percent]


def _mark_missing(drawn: Bytes, finite: NDArray[np.bool_]) -> Bytes:
    drawn[~finite] = _NO_DATA
    return drawn


def _picture(name: str, drawn: Bytes, longest: int, file: str = "") -> Picture:
    return Picture(name, _encode_jpeg(drawn, longest), file=file)


def _encode_jpeg(drawn: Bytes, longest: int) -> str:
    """Return a picture of at most ``longest`` px as JPEG in base64."""
    small = np.ascontiguousarray(_smaller(drawn, longest))
    _, coded = cv2.imencode(".jpg", small, [cv2.IMWRITE_JPEG_QUALITY, _QUALITY])
    return base64.b64encode(coded.tobytes()).decode("ascii")


def _smaller(drawn: Bytes, longest: int) -> Bytes:
    rows, cols = drawn.shape[:2]
    factor = longest / max(rows, cols)
    if factor > 0.9:
        return drawn
    size = (max(1, round(cols * factor)), max(1, round(rows * factor)))
    return np.asarray(cv2.resize(drawn, size, interpolation=cv2.INTER_AREA), np.uint8)
