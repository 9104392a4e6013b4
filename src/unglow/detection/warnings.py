"""What makes a search doubtful: sentences that name the cause, and where to look."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from unglow.core.reasons import explain
from unglow.detection.source_photometry import UNCLEAR, UNCOUNTED
from unglow.photometry.imaging import ROUNDING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from unglow.core.arrays import Floats, Ints
    from unglow.detection.search import SearchResult
    from unglow.detection.snr import Scene
    from unglow.photometry.imaging import NoiseModel
    from unglow.spoilt.places import Places

_NOISE_ENDS = 7.0
"""Of 20 undamaged pairs none had more than one source on the negated difference above this
signal-to-noise ratio, but for one whose planes differ."""
_MANY = 10
"""This many sources, and `_SWAPPED` times as many dark as bright ones, are not chance."""
_SWAPPED = 3
_BEYOND = 3
"""This many dark sources beyond the noise are more than chance makes."""
_HIDDEN, _ERRORS = 2, 2.0
"""Where this many times as many sources are bright as dark, and their number differs by as many
standard errors, half of them or more are stain."""
_HIGH = 10.0
"""A threshold above this signal-to-noise ratio has more than noise below it: 4 to 6 is usual."""
_NEAR_PX, _NEAR_SHARE = 256.0, 0.05
"""Dark sources are near each other within a circle of this radius, that holds at most this share of
what was searched,"""
_CLUSTER, _OF_ALL = 5, 0.5
"""and clustered if this many, and this part of those beyond the threshold, are."""
_BELOW = 3e-4
"""Share of the section that may be expected below the darkest px of post: 1e-4 on good pairs; at
5e-4 the gain of a real one is 0.2 % off."""
_UNMOVED_PX, _SAME_GAIN = 0.01, 0.01
"""Two exposures of a section do not lie on each other to this, px, as bright to this part."""
_PROCESSED = 2.4
"""Slope and sharpness of blocks may scatter this many times as much as noise and background: 1.6 on
phantoms and brains; 2.8 or more with a gamma of 0.9, or one image sharpened or blurred."""
_COARSE, _COARSE_PRE, _FINER = 0.55, 1.05, 2 / 3
"""Noise of an image where a quarter of the section is darker, in steps between its grey levels,
below which rounding is not noise any more: at 0.4 to 0.52 steps a quarter of the candidates on
phantoms is false, at 0.55 to 0.6 on real images 6 %. That of pre alone, with this part of the noise
of post, does more harm: at 1 step an eighth is false."""
_MOSTLY = 0.5
"""Noise is shot noise if this part of it is."""
_OTHER_WIDTH = 1.5
"""Spots that differ from the width that is searched by this factor are found less well."""
_MOST_DEBRIS = 0.02
"""Share of the section that may be excluded as debris, or have another gain, before somebody has
looked."""
_MOST_UNCLEAR = 0.05
"""Share of the candidates that may lie where stain cannot be distinguished from dirt."""
_LINE_CELL, _LINE_COUNT, _LINE_WIDTH = 10.0, 4, 0.08
"""Candidates are in a line if this many lie in a square of three cells, each this many spots wide,
and scatter across it at most this part of along it. Of candidates by chance 0.6 % do, at most, and
of dense cells none."""
_MOST_IN_LINES, _FEW_IN_LINES = 0.05, 5
"""Share of the candidates that may lie in lines, and how many may: two large cells side by side are
found in four pieces."""
_SAME_IMAGE = "They lie on each other to 0.01 px and are equally bright."


def search_warnings(
    result: SearchResult,
    places: Places,
    scene: Scene,
    steps: tuple[float, float],
    levels: tuple[float, float],
) -> list[str]:
    """Return a reason for each thing that makes the list of candidates doubtful.

    Parameters
    ----------
    result
        Of the search.
    places
        Spoilt places, which the search excluded.
    scene
        What was searched.
    steps
        Distance of the grey levels of post and of pre; 0 where there are none.
    levels
        Levels of post and of pre that a quarter of the section is below.
    """
    if looks_copied(scene):
        return [explain("copy", why=_SAME_IMAGE)]
    return [
        *_warn_of_sources(result),
        *_warn_of_post(places, scene),
        *_warn_of_noise(scene.noise, steps, levels),
    ]


def check_width(width_px: float | None, searched_px: float) -> list[str]:
    """Return a note if spots are not as wide (FWHM, px) as those that were searched."""
    ratio = 1.0 if width_px is None else width_px / searched_px
    is_other = not 1 / _OTHER_WIDTH <= ratio <= _OTHER_WIDTH
    return [explain("spot_width", width=width_px, searched=searched_px)] if is_other else []


def looks_copied(scene: Scene) -> bool:
    """Whether pre and post lie on each other and are equally bright, as a file and its copy."""
    rows, cols = scene.post.shape
    points = np.array([(x, y) for x in (0, cols / 2, cols) for y in (0, rows / 2, rows)])
    moved = np.abs(scene.transform.map(points) - points).max()
    return bool(moved < _UNMOVED_PX and abs(scene.gain - 1) < _SAME_GAIN)


def _warn_of_sources(result: SearchResult) -> Iterator[str]:
    bright, dark = (
        int(above[result.sides.bins(_NOISE_ENDS)]) for above in result.sides.counts_above
    )
    if dark >= _MANY and dark >= _SWAPPED * bright:
        yield explain("swapped", dark=dark, bright=bright, ends=_NOISE_ENDS)
        return
    radius = min(_NEAR_PX, math.sqrt(_NEAR_SHARE * result.searched_px / math.pi))
    place = find_cluster(result.negatives, result.threshold, radius)
    strongest = result.negatives[0].tolist() if len(result.negatives) else (0.0, 0.0, 0.0)
    at, ratio = strongest[:2], strongest[2]
    if result.threshold is None and dark >= _BEYOND:
        more = bright - dark >= _ERRORS * math.sqrt(bright + dark)
        key = "stain_hidden" if more and bright >= _HIDDEN * dark else "none_listed"
        counts = {"bright": bright, "dark": dark, "ends": _NOISE_ENDS}
        yield explain(key, at=at, ratio=ratio, **counts)
    elif result.threshold is not None and result.threshold > _HIGH:
        yield explain("high_threshold", at=at, threshold=result.threshold, ratio=ratio)
    elif place is not None:
        yield explain("dark_cluster", at=place[1:], count=place[0], radius=radius)


def warn_of_dirt(places: Places, unclear: Places, listed: NDArray[np.void]) -> Iterator[str]:
    """Yield a reason if too much is excluded as debris, and one if what is listed may be dirt.

    ``places`` are excluded, ``unclear`` ones are dense stain or dirt; ``listed`` (N,) `LISTED`.
    """
    share = places.shares.get("debris", 0.0)
    if share > _MOST_DEBRIS:
        yield explain("debris", percent=100 * share, most=100 * _MOST_DEBRIS)
    if not unclear.mask.any():
        return
    largest = int(np.bincount(unclear.labels.ravel())[1:].argmax()) + 1
    rows, cols = np.nonzero(unclear.labels == largest)
    x, y = (float(unclear.side * (where.mean() + 0.5)) for where in (cols, rows))
    other = unclear.shares.get("gain off", 0.0)
    if other > _MOST_DEBRIS:
        yield explain("other_gain", at=(x, y), x=x, y=y, percent=100 * other)
        return
    flags = listed["flags"][(listed["flags"] & UNCOUNTED) == 0]
    inside = np.count_nonzero(flags & UNCLEAR) / max(len(flags), 1)
    key = "much_stain_or_dirt" if inside > _MOST_UNCLEAR else "stain_or_dirt"
    yield explain(key, at=(x, y), x=x, y=y, percent=100 * inside, most=100 * _MOST_UNCLEAR)


def warn_of_lines(listed: NDArray[np.void], width_px: float) -> Iterator[str]:
    """Yield a reason if many candidates, (N,) `LISTED`, are pieces of lines.

    ``width_px`` is the FWHM of spots. A fibre or a scratch is found in pieces, which noise makes.
    """
    counted = listed[(listed["flags"] & UNCOUNTED) == 0]
    if not counted.size:
        return
    own, numbers, centres = _find_lines(counted["x"], counted["y"], _LINE_CELL * width_px)
    in_lines = int(np.count_nonzero(numbers[own]))
    share = in_lines / counted.size
    if share > _MOST_IN_LINES and in_lines > _FEW_IN_LINES:
        x, y = centres[:, numbers.argmax()].tolist()
        percents = {"percent": 100 * share, "most": 100 * _MOST_IN_LINES}
        yield explain("in_lines", at=(x, y), x=x, y=y, **percents)


def _find_lines(x: Floats, y: Floats, side: float) -> tuple[Ints, Floats, Floats]:
    """Look for lines in the squares of 3 x 3 cells, each of a side, px, around cells with points.

    Returns
    -------
    The cell of each point; by cell how many points lie in the square, 0 if not in a line, and
    their mean (x, y), (2, cells).
    """
    cols, rows = (np.floor(at / side).astype(np.int64) + 1 for at in (x, y))
    across = int(cols.max()) + 2
    cells, own = np.unique(rows * across + cols, return_inverse=True)
    terms = (np.ones(len(x)), x, y, x * x, x * y, y * y)
    sums = np.stack([np.bincount(own, term) for term in terms])
    total = np.zeros_like(sums)
    for step in (row * across + col for row in (-1, 0, 1) for col in (-1, 0, 1)):
        at = np.minimum(np.searchsorted(cells, cells + step), len(cells) - 1)
        total += np.where(cells[at] == cells + step, sums[:, at], 0)
    count, (mean_x, mean_y, xx, xy, yy) = total[0], total[1:] / total[0]
    xx, xy, yy = xx - mean_x**2, xy - mean_x * mean_y, yy - mean_y**2
    apart = np.hypot(xx - yy, 2 * xy)  # of the variances along and across
    is_line = (count >= _LINE_COUNT) & (xx + yy - apart <= _LINE_WIDTH**2 * (xx + yy + apart))
    return own, np.where(is_line, count, 0), np.stack([mean_x, mean_y])


def find_cluster(
    negatives: Floats, threshold: float | None, radius: float
) -> tuple[int, float, float] | None:
    """Return how many dark sources above a threshold lie around one place, and where; or None.

    ``negatives`` (n, 3) are x, y and signal-to-noise ratio of the most significant ones, ``radius``
    is what counts as around, px.
    """
    if threshold is None:
        return None
    strong = negatives[negatives[:, 2] >= threshold]
    if len(strong) < _CLUSTER:
        return None
    apart = np.hypot(*(strong[:, None, k] - strong[None, :, k] for k in (0, 1)))
    near = (apart <= radius).sum(axis=1)
    most = int(near.argmax())
    if near[most] < max(_CLUSTER, _OF_ALL * len(strong)):
        return None
    return int(near[most]), float(strong[most, 0]), float(strong[most, 1])


def _warn_of_post(places: Places, scene: Scene) -> Iterator[str]:
    yield from places.explain_excess("spoilt", scene.settings.max_spoilt)
    width = _measure_departure(places.widths) / max(scene.noise.spread, 1.0)
    if width > _PROCESSED:
        yield explain("processed", width=width, limit=_PROCESSED)
    if places.below > _BELOW:
        yield explain("dark_end", percent=100 * places.below)


def _warn_of_noise(
    noise: NoiseModel, steps: tuple[float, float], levels: tuple[float, float]
) -> Iterator[str]:
    """Yield a reason if rounding is not small against noise, in the coarser image.

    And one if noise grows with the level of one image alone: not as a camera made it.
    """
    models = noise.variance_post, noise.variance_pre
    variances = [float(v(np.array(level))) for v, level in zip(models, levels, strict=True)]
    post, pre = (
        math.sqrt(max(variance / step**2 - ROUNDING, 0.0)) if step else math.inf
        for variance, step in zip(variances, steps, strict=True)
    )
    limit = _COARSE_PRE if pre < _FINER * post else _COARSE
    if post < _COARSE or pre < limit:
        yield explain("few_levels", name="post" if post < pre else "pre", steps=min(post, pre))
    shots = noise.post_shot * levels[0] / variances[0], noise.pre_shot * levels[1] / variances[1]
    if min(shots) <= 0 and max(shots) > _MOSTLY and noise.spread > 1:
        names = ("pre", "post") if shots[0] > 0 else ("post", "pre")
        yield explain("gamma", name=names[0], other=names[1], spread=noise.spread)


def _measure_departure(widths: Mapping[str, float]) -> float:
    """Return how much blocks scatter in slope or focus, over what noise explains.

    Where their levels scatter even more, as in two colours, the slope follows from that.
    """
    slope, focus, level = (widths.get(name, 0.0) for name in ("slope", "focus", "level"))
    return max(focus, slope if slope > level else 0.0)
