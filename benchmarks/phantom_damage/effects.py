"""All damage of an image: what it does to light and counts, in their order, and its truth.

All functions work on any window; a pixel does not depend on the window it is in, and pixels
outside the places keep their bits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import cv2
import numpy as np

from phantom_damage.kinds import KINDS
from phantom_damage.shapes import Square
from unglow.phantom.texture import add_noise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from phantom_damage.kinds import Damage
    from phantom_damage.places import Place
    from phantom_damage.shapes import Strip
    from unglow.core.windows import Window

    Floats = NDArray[np.float64]
    Light = Callable[[Window], Floats]
    Tissue = Callable[[Window, Floats, Floats], Floats]


# Focus changes over the rim of a blur in this many steps.
_BLUR_STEPS = 4
_BLUR_SIGMAS = 4.0
# What debris lets through of the tissue below it.
_DEBRIS_CLEAR = 0.3


def _find_coordinates(window: Window) -> tuple[Floats, Floats]:
    """Return x and y of the pixels of a window, (rows, cols) each."""
    y, x = np.mgrid[window.y0 : window.y1, window.x0 : window.x1].astype(np.float64)
    return x, y


@dataclass(frozen=True)
class _Part:
    """The pixels of a window in the box of a place; arrays are (rows, cols).

    ``light`` is what there is without the place, ``weight`` the part of the effect, and ``level``
    the brightness of film or debris of strength 1.
    """

    window: Window
    x: Floats
    y: Floats
    weight: Floats
    light: Floats
    level: float
    tissue: Tissue


def _cover(place: Place, part: _Part) -> Floats:
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


def _fold(place: Place, part: _Part) -> Floats:
    """Add the tissue beyond the upper edge of the strip, mirrored at this edge."""
    x, y = cast("Strip", place.shape).mirror(part.x, part.y)
    return part.light + part.weight * part.tissue(part.window, x, y)


def _move(place: Place, part: _Part) -> Floats:
    x, y = (v - move * part.weight for v, move in zip((part.x, part.y), place.move, strict=True))
    return part.tissue(part.window, x, y)


_CHANGES: dict[str, Callable[[Place, _Part], Floats]] = {
    "moved": _move,
    "fold": _fold,
    "bleach": lambda place, part: part.light * (1.0 - place.strength * part.weight),
    "lost": lambda _, part: part.light * (1.0 - part.weight),
    "film": lambda place, part: part.light + place.strength * part.level * part.weight,
    "debris": _cover,
}


def _blur(source: Floats, sigma: float) -> Floats:
    if sigma == 0:
        return source
    side = 2 * int(_BLUR_SIGMAS * sigma + 0.5) + 1
    return np.asarray(
        cv2.GaussianBlur(source, (side, side), sigma, borderType=cv2.BORDER_REPLICATE)
    )


def _hits(
    places: Iterable[Place], window: Window, out: Floats
) -> Iterator[tuple[Place, Window, Floats]]:
    """Yield places that a window touches, the part of it there, and that part of ``out``."""
    for place in places:
        part = window.common(place.box)
        if part.size:
            yield place, part, out[part.shift(-window.y0, -window.x0).slices]


@dataclass(frozen=True)
class ImageDamage:
    """Places and faults of one image; without any, nothing is changed.

    Attributes
    ----------
    frame
        (rows, columns) of the image.
    places
        Its spoilt places.
    faults
        Damage of the entire image.
    """

    frame: tuple[int, int]
    places: Sequence[Place] = ()
    faults: Sequence[Damage] = ()

    @property
    def half_moved(self) -> float:
        """How far the lower half is moved in x, px."""
        return sum(one.strength for one in self.faults if one.kind == "half_moved")

    def spoil_tissue(self, window: Window, out: Floats, tissue: Tissue, gain: float = 1.0) -> None:
        """Apply what happens to the tissue: lost, debris, film, fold, bleach and moved.

        Parameters
        ----------
        window
            What ``out`` covers.
        out
            (rows, cols) light without the camera's offset, changed in place.
        tissue
            Function of a window and of x and y, (rows, cols) each: the light that its pixels get
            if the undamaged tissue of those points is on them.
        gain
            Brightness of film and debris against the levels that the places hold.
        """
        move, half = self.half_moved, self.frame[0] // 2

        def is_inside(part: Window, x: Floats, y: Floats) -> Floats:
            lower = np.arange(part.y0, part.y1)[:, None] >= half
            return tissue(part, x - move * lower, y)

        if move and window.y1 > half:
            x, y = _find_coordinates(window)
            rows = slice(max(half - window.y0, 0), None)
            out[rows] = is_inside(window, x, y)[rows]
        for place, part, here in _hits(self.places, window, out):
            change = _CHANGES.get(place.kind)
            if change is None:
                continue
            x, y = _find_coordinates(part)
            weight = place.weight(x, y)
            touched = weight > 0
            if touched.any():
                given = _Part(
                    part, x, y, weight, here, gain * place.level, is_inside if move else tissue
                )
                here[touched] = change(place, given)[touched]

    def spoil_light(self, window: Window, out: Floats, light: Light) -> None:
        """Blur and darken light that was imaged; ``light`` gives any window of what ``out`` was.

        The variance of the blur follows the weight squared: between two of a few Gaussians the
        mixture of both has just that variance.
        """
        hits = list(_hits(self.places, window, out))
        for place, part, here in hits:
            if place.kind != "blur":
                continue
            weight = place.weight(*_find_coordinates(part))
            touched = weight > 0
            if not touched.any():
                continue
            outer = part.grow(math.ceil(_BLUR_SIGMAS * place.strength)).clip(self.frame)
            source = light(outer)
            inner = part.shift(-outer.y0, -outer.x0).slices
            result = np.zeros(part.shape)
            stops = np.linspace(0.0, 1.0, _BLUR_STEPS + 1)
            for n, stop in enumerate(stops):
                share = np.interp(weight**2, stops**2, np.eye(len(stops))[n])
                result += share * _blur(source, stop * place.strength)[inner]
            here[touched] = result[touched]
        for place, part, here in hits:
            if place.kind == "dust":
                np.multiply(
                    here, 1.0 - place.strength * place.weight(*_find_coordinates(part)), out=here
                )

    def spoil_counts(self, window: Window, counts: NDArray[Any], per_level: int) -> NDArray[Any]:
        """Return the stored values instead of recorded counts, (rows, cols) or (rows, cols, 3)."""
        if self.faults:
            counts = self._count_table(counts.dtype, per_level)[counts]
        for place in self.places:
            if isinstance(place.shape, Square):  # a tile that was not stored
                part = window.common(place.shape.window)
                counts[part.shift(-window.y0, -window.x0).slices] = 0
        return counts

    def _count_table(self, dtype: np.dtype[Any], per_level: int) -> NDArray[Any]:
        """Return the count that each count becomes by faults of the image, in their order."""
        top = np.iinfo(dtype).max
        table = np.arange(top + 1, dtype=np.float64)
        for fault in self.faults:
            if fault.kind == "dark_clip":
                table = np.maximum(table - fault.strength * per_level, 0.0)
            elif fault.kind == "coarse":
                table = table / fault.strength
            elif fault.kind == "gamma":
                table = top * (table / top) ** fault.strength
            table = np.floor(table + 0.5)
        return table.astype(dtype)


def find_faults(damages: Sequence[Damage]) -> tuple[Damage, ...]:
    """Return what spoils the entire image."""
    return tuple(one for one in damages if KINDS[one.kind].size is None)


def describe_fault(damage: Damage, shape: tuple[int, int]) -> dict[str, Any]:
    """Return the truth of damage of an entire image of a shape (rows, columns)."""
    polygon = area = None
    if damage.kind == "half_moved":
        left, right, top, bottom = -0.5, shape[1] - 0.5, shape[0] // 2 - 0.5, shape[0] - 0.5
        polygon = [[left, top], [right, top], [right, bottom], [left, bottom]]
        area = (right - left) * (bottom - top)
    return {
        "kind": damage.kind,
        "size_px": None,
        "strength": damage.strength,
        "rim_px": None,
        "polygon_xy": polygon,
        "area_px": area,
    }
