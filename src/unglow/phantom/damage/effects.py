"""What damage does to the light of a window, before the camera, and to the counts after it.

All functions work on any window; a pixel does not depend on the window it is in, and pixels
outside the places keep their bits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import cv2
import numpy as np

from unglow.phantom.damage.shapes import Square
from unglow.phantom.texture import add_noise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from unglow.core.windows import Window
    from unglow.phantom.damage.kinds import Damage
    from unglow.phantom.damage.places import Place
    from unglow.phantom.damage.shapes import Strip

    Array = NDArray[np.float64]
    Light = Callable[[Window], Array]
    Tissue = Callable[[Window, Array, Array], Array]

# Focus changes over the rim of a blur in this many steps.
_BLUR_STEPS = 4
_BLUR_SIGMAS = 4.0
# What debris lets through of the tissue below it.
_DEBRIS_CLEAR = 0.3


def coordinates(window: Window) -> tuple[Array, Array]:
    """Return x and y of the pixels of a window, (rows, cols) each."""
    rows = np.arange(window.y0, window.y1, dtype=np.float64)
    cols = np.arange(window.x0, window.x1, dtype=np.float64)
    y, x = np.meshgrid(rows, cols, indexing="ij")
    return x, y


@dataclass(frozen=True)
class _Part:
    """The pixels of a window in the box of a place; arrays are (rows, cols).

    ``light`` is what there is without the place, ``weight`` the part of the effect, and ``level``
    the brightness of film or debris of strength 1.
    """

    window: Window
    x: Array
    y: Array
    weight: Array
    light: Array
    level: float
    tissue: Tissue


def spoil_tissue(
    places: Iterable[Place], window: Window, out: Array, tissue: Tissue, gain: float = 1.0
) -> None:
    """Apply what happens to the tissue: lost, debris, film, fold, bleach and moved.

    Parameters
    ----------
    places
        Of the image; other kinds are skipped.
    window
        What ``out`` covers.
    out
        (rows, cols) light without the camera's offset, changed in place.
    tissue
        Function of a window and of x and y, (rows, cols) each: the light that its pixels get if
        the undamaged tissue of those points is on them.
    gain
        Brightness of film and debris against the levels that the places hold.
    """
    for place, part, here in _hits(places, window, out):
        change = _CHANGES.get(place.kind)
        if change is None:
            continue
        x, y = coordinates(part)
        weight = place.weight(x, y)
        touched = weight > 0
        if touched.any():
            given = _Part(part, x, y, weight, here, gain * place.level, tissue)
            here[touched] = change(place, given)[touched]


def _lose(_: Place, part: _Part) -> Array:
    return part.light * (1.0 - part.weight)


def _bleach(place: Place, part: _Part) -> Array:
    return part.light * (1.0 - place.strength * part.weight)


def _veil(place: Place, part: _Part) -> Array:
    return part.light + place.strength * part.level * part.weight


def _cover(place: Place, part: _Part) -> Array:
    """Lay a crumpled flake on the tissue: brighter in lumps and along ridges."""
    size = place.size
    lumps, ridges, fine = (np.zeros(part.x.size) for _ in range(3))
    points = part.x.ravel(), part.y.ravel()
    add_noise(*points, max(0.7 * size, 6.0), place.keys[0], 0.3, lumps)
    add_noise(*points, max(0.25 * size, 5.0), place.keys[1], 0.22, lumps)
    add_noise(*points, max(0.35 * size, 5.0), place.keys[2], 1.0, ridges)
    add_noise(*points, 7.0, place.keys[3], 0.12, fine)
    add_noise(*points, 3.2, place.keys[4], 0.1, fine)
    look = 0.7 * np.exp(1.3 * lumps + 1.2 * fine) + 0.45 * np.exp(-((ridges / 0.18) ** 2))
    own = place.strength * part.level * look.reshape(part.x.shape)
    through = 1.0 - (1.0 - _DEBRIS_CLEAR) * part.weight
    return np.asarray(part.light * through + own * part.weight)


def _fold(place: Place, part: _Part) -> Array:
    """Add the tissue beyond the upper edge of the strip, mirrored at this edge."""
    x, y = cast("Strip", place.shape).mirror(part.x, part.y)
    return part.light + part.weight * part.tissue(part.window, x, y)


def _move(place: Place, part: _Part) -> Array:
    x, y = (v - move * part.weight for v, move in zip((part.x, part.y), place.move, strict=True))
    return part.tissue(part.window, x, y)


_CHANGES: dict[str, Callable[[Place, _Part], Array]] = {
    "moved": _move,
    "fold": _fold,
    "bleach": _bleach,
    "lost": _lose,
    "film": _veil,
    "debris": _cover,
}


def spoil_focus(
    places: Iterable[Place], window: Window, out: Array, frame: tuple[int, int], light: Light
) -> None:
    """Blur within the places of kind ``blur``; ``light`` gives any window of what ``out`` was.

    The variance of the blur follows the weight squared: between two of a few Gaussians the mixture
    of both has just that variance.
    """
    for place, part, here in _hits(places, window, out):
        if place.kind != "blur":
            continue
        weight = place.weight(*coordinates(part))
        touched = weight > 0
        if not touched.any():
            continue
        outer = part.grow(math.ceil(_BLUR_SIGMAS * place.strength)).clip(frame)
        source = light(outer)
        inner = part.shift(-outer.y0, -outer.x0).slices
        wanted = weight**2
        result = np.zeros(part.shape)
        stops = np.linspace(0.0, 1.0, _BLUR_STEPS + 1)
        variances = stops**2
        for n, stop in enumerate(stops):
            share = np.interp(wanted, variances, np.eye(len(stops))[n])
            result += share * _blur(source, stop * place.strength)[inner]
        here[touched] = result[touched]


def _blur(source: Array, sigma: float) -> Array:
    if sigma == 0:
        return source
    side = 2 * int(_BLUR_SIGMAS * sigma + 0.5) + 1
    return np.asarray(
        cv2.GaussianBlur(source, (side, side), sigma, borderType=cv2.BORDER_REPLICATE)
    )


def shade_by_dust(places: Iterable[Place], window: Window, out: Array) -> None:
    """Darken the light behind dust on the sensor, in place."""
    for place, part, here in _hits(places, window, out):
        if place.kind == "dust":
            np.multiply(here, 1.0 - place.strength * place.weight(*coordinates(part)), out=here)


def clear_tiles(places: Iterable[Place], window: Window, counts: NDArray[Any]) -> None:
    """Set tiles that were not stored to 0 in (rows, cols) or (rows, cols, 3) counts, in place."""
    for place in places:
        if isinstance(place.shape, Square):
            part = window.common(place.shape.window)
            counts[part.shift(-window.y0, -window.x0).slices] = 0


def count_table(
    damages: Iterable[Damage], dtype: np.dtype[Any], per_level: int
) -> NDArray[Any] | None:
    """Return the count that each count becomes by faults of the entire image; None without any.

    Faults act in their order. ``per_level`` is how many counts a level has.
    """
    damages = list(damages)
    if not damages:
        return None
    top = np.iinfo(dtype).max
    counts = np.arange(top + 1, dtype=np.float64)
    table = counts.copy()
    for damage in damages:
        if damage.kind == "dark_clip":
            table = np.maximum(table - damage.strength * per_level, 0.0)
        elif damage.kind == "coarse":
            table = table / damage.strength
        elif damage.kind == "gamma":
            table = top * (table / top) ** damage.strength
        table = np.floor(table + 0.5)
    return None if np.array_equal(table, counts) else table.astype(dtype)


def _hits(
    places: Iterable[Place], window: Window, out: Array
) -> Iterator[tuple[Place, Window, Array]]:
    """Yield places that a window touches, the part of it there, and that part of ``out``."""
    for place in places:
        part = window.common(place.box)
        if part.size:
            yield place, part, out[part.shift(-window.y0, -window.x0).slices]
