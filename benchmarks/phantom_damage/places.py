"""Spoilt places: shapes that are laid at random on the section and do not overlap."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from phantom_damage.kinds import KINDS
from phantom_damage.shapes import Square, compute_area, make_blob, make_disc, strip
from unglow.core.errors import ConfigError
from unglow.core.windows import Window
from unglow.phantom.texture import Spots, derive_key, make_generator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from phantom_damage.kinds import Damage
    from phantom_damage.shapes import Shape

    Floats = NDArray[np.float64]
    Field = Callable[[Floats, Floats], Floats]


# Stream of random numbers of a phantom's seed (see `texture` for the others).
_STREAM = 105
# Where the effect goes from nothing to all of it, px, or as a part of the size.
_HARD_RIM_PX = 2.0
_SOFT_RIMS = {"film": 0.5, "blur": 0.5, "bleach": 0.5, "moved": 0.8}
# Places stay this far apart, px.
_GAP_PX = 12.0
_TRIES = 4000
_SAMPLES = 3000
# Points a side at which a place is compared with the section.
_GRID = 64
# A movement that falls off faster would fold the tissue: part of the rim, px per px.
_STEEPEST = 0.5
FWHM = math.sqrt(8 * math.log(2))
"""Width of a Gaussian at half of its height, in standard deviations."""
DUST_PART = 0.5
"""The part of the light that dust on the sensor takes."""


@dataclass(frozen=True)
class Place:
    """One spoilt place of an image.

    Attributes
    ----------
    damage
        What it is.
    shape
        Its outline, on which the effect has half of its strength.
    rim
        Width over which the effect rises from 0 to all of its strength, px.
    move
        (x, y) px that tissue is moved by (`moved` only).
    level
        Brightness of the section there (`film`), or on average (`debris`), levels.
    keys
        Of the noise of its texture.
    """

    damage: Damage
    shape: Shape
    rim: float
    move: tuple[float, float] = (0.0, 0.0)
    level: float = 0.0
    keys: tuple[np.uint64, ...] = ()

    @property
    def kind(self) -> str:
        """A key of `KINDS`."""
        return self.damage.kind

    @property
    def size(self) -> float:
        """Radius, width of a fold or side of a tile, px."""
        return self.damage.size_px or 0.0

    @property
    def strength(self) -> float:
        """Strength of the effect."""
        return DUST_PART if self.kind == "dust" else self.damage.strength

    @cached_property
    def box(self) -> Window:
        """Return a window that holds all pixels that the place changes."""
        x, y = self.shape.polygon(self.rim / 2.0 + 2.0).T
        low = int(np.floor(y.min())), int(np.floor(x.min()))
        return Window(low[0], int(np.ceil(y.max())) + 1, low[1], int(np.ceil(x.max())) + 1)

    def weight(self, x: Floats, y: Floats) -> Floats:
        """Return the part of the effect at points: 0 outside, 0.5 on the outline, 1 inside."""
        depth = self.shape.depth(x, y)
        if self.rim == 0:
            return (depth > 0).astype(np.float64)
        t = np.clip(depth / self.rim + 0.5, 0.0, 1.0)
        return np.asarray(t * t * (3.0 - 2.0 * t))

    def touches(self, other: Place) -> bool:
        """Whether another place comes nearer than places may."""
        mine, others = self.box.grow(int(_GAP_PX)), other.box
        if mine.common(others).size == 0:
            return False
        return any(
            (a.shape.depth(*b.shape.polygon(b.rim / 2.0).T) > -a.rim / 2.0 - _GAP_PX).any()
            for a, b in ((self, other), (other, self))
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON types; the polygon is rounded to 0.01 px."""
        polygon = np.round(self.shape.polygon(), 2)
        return {
            "kind": self.kind,
            "size_px": self.damage.size_px,
            "strength": self.strength,
            "rim_px": self.rim,
            "polygon_xy": polygon.tolist(),
            "area_px": round(compute_area(polygon), 1),
        }


def find_places(
    damages: Iterable[Damage],
    frame: tuple[int, int],
    sensor: tuple[int, int],
    seeds: tuple[int, ...],
    inside: Field,
    brightness: Field,
    others: Iterable[Place] = (),
) -> list[Place]:
    """Lay places on a section, in their order, each by random numbers of its own.

    Parameters
    ----------
    damages
        What was asked for; faults of the entire image are skipped.
    frame
        (rows, columns) of the image, px.
    sensor
        (rows, columns) that all images have, which dust is in, px.
    seeds
        Of the phantom, and one or more of its damage.
    inside
        Function of x and y, (N,) each, that is 1 inside the section and 0 outside.
    brightness
        Function of x and y, (N,) each: levels of the section.
    others
        Places that are there already and that these keep away from.

    Raises
    ------
    ConfigError
        If there is no space for a place, or a movement would fold the tissue.
    """
    found: list[Place] = []
    for damage in damages:
        if KINDS[damage.kind].size is None:
            continue
        for _ in range(round(damage.strength) if damage.kind == "dust" else 1):
            path = (_STREAM, *seeds[1:], len(found))
            rng = make_generator(seeds[0], *path)
            keys = tuple(derive_key(seeds[0], *path, n) for n in range(5))
            form = _make_form(damage, frame, rng, keys)
            area = sensor if damage.kind == "dust" else frame
            placed = _lay(form, [*others, *found], area, rng, inside)
            found.append(_measure(placed, frame, rng, inside, brightness))
    return found


def draw_cells(places: Iterable[Place]) -> Spots:
    """Return the labelled cells of all clusters: round, with peaks of 10 to 40 levels."""
    found = [np.zeros((0, 4))]
    for place in places:
        if place.kind == "cells":
            rng, box = make_generator(int(place.keys[0])), place.box
            u = rng.random((3, round(box.size / place.strength)))
            rows, cols = box.shape
            x, y = np.round(box.x0 + u[0] * cols, 3), np.round(box.y0 + u[1] * rows, 3)
            inside = place.shape.depth(x, y) > 0
            sigma = np.full(len(x), round(place.damage.width_px / FWHM, 3))
            peak = np.round(10.0 * 4.0 ** u[2], 3)
            found.append(np.stack([x, y, peak, sigma], axis=1)[inside])
    x, y, peak, sigma = np.concatenate(found).T
    return Spots(x, y, peak, sigma, sigma, np.zeros_like(x))


def _make_form(
    damage: Damage, frame: tuple[int, int], rng: np.random.Generator, keys: tuple[np.uint64, ...]
) -> Place:
    """Return a place that is not yet laid anywhere."""
    size = damage.size_px or 0.0
    rim = _SOFT_RIMS[damage.kind] * size if damage.kind in _SOFT_RIMS else _HARD_RIM_PX
    move = (0.0, 0.0)
    shape: Shape
    if damage.kind == "tile":
        shape, rim = Square(round(size)), 0.0
    elif damage.kind == "dust":
        shape = make_disc(size)
    elif damage.kind == "fold":
        shape = strip(size, max(6.0 * size, min(300.0, 0.4 * min(frame))), rng)
    else:
        shape = make_blob(size, rng, torn=damage.kind not in _SOFT_RIMS)
    if damage.kind == "moved":
        if damage.strength > _STEEPEST * rim:
            raise ConfigError(
                f"damage {damage.text!r} moves tissue by {damage.strength:g} px, but at "
                f"most {_STEEPEST * rim:g} px are possible in this size."
            )
        towards = rng.uniform(0.0, 2.0 * np.pi)
        x, y = np.round(damage.strength * np.array([np.cos(towards), np.sin(towards)]), 4)
        move = float(x), float(y)
    return Place(damage, shape, rim, move, keys=keys)


def _lay(
    form: Place,
    others: list[Place],
    frame: tuple[int, int],
    rng: np.random.Generator,
    inside: Field,
) -> Place:
    """Return the place at the first random position where it is in the section and alone."""
    u = rng.random((3, _TRIES))
    x, y = np.round(u[0] * (frame[1] - 1), 2), np.round(u[1] * (frame[0] - 1), 2)
    for n in np.flatnonzero(inside(x, y) >= 1.0):
        shape = form.shape.move_to(
            float(x[n]), float(y[n]), float(np.round(2.0 * np.pi * u[2][n], 4))
        )
        place = replace(form, shape=shape)
        if _is_within(place, frame, inside) and not any(place.touches(one) for one in others):
            return place
    raise ConfigError(
        f"damage {form.damage.text!r} does not fit on the section of {frame[0]} x "
        f"{frame[1]} px; make it smaller, name larger places first, or make the phantom larger."
    )


def _is_within(place: Place, frame: tuple[int, int], inside: Field) -> bool:
    """Whether all of a place is on the section, and all that a fold is made of."""
    margin = place.size if place.kind == "fold" else place.rim / 2.0 + 2.0
    outline = place.shape.polygon(margin)
    low, high = outline.min(axis=0), outline.max(axis=0)
    if low.min() < 0 or (high > [frame[1] - 1, frame[0] - 1]).any():
        return False
    if not (inside(*outline[:: max(1, len(outline) // 48)].T) >= 1.0).all():
        return False
    x, y = (
        one.ravel()
        for one in np.meshgrid(*(np.linspace(*ends, _GRID) for ends in zip(low, high, strict=True)))
    )
    covered = place.shape.depth(x, y) >= -margin
    points = np.concatenate([outline, np.column_stack([x, y])[covered]])
    return bool((inside(*points.T) >= 1.0).all())


def _measure(
    place: Place, frame: tuple[int, int], rng: np.random.Generator, inside: Field, brightness: Field
) -> Place:
    """Return the place with the level of the section that it needs."""
    if place.kind not in ("film", "debris"):
        return place
    u = rng.random((2, _SAMPLES))
    if place.kind == "debris":
        x, y = u[0] * (frame[1] - 1), u[1] * (frame[0] - 1)
        keep = inside(x, y) >= 1.0
    else:
        box = place.box
        x, y = box.x0 + u[0] * box.shape[1], box.y0 + u[1] * box.shape[0]
        keep = place.shape.depth(x, y) > 0
    level = float(np.round(brightness(x[keep], y[keep]).mean(), 4))
    return replace(place, level=level)
