"""Outlines of spoilt places: irregular blobs, strips and squares, at any point.

A shape gives the depth of a point in px: 0 on the outline, positive inside, negative outside. It is
measured from the middle of a blob and across a strip, so it is never less than the distance from
the outline. All coordinates are (x, y) of the image, px.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from unglow.core.windows import Window

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


# Low harmonics modulate a radius by this much together (standard deviation).
_IRREGULARITY = 0.17
_LOW_HARMONICS = 6
# Teeth of a torn edge: standard deviation at 1 px of radius, grows with its square root.
_TEETH_PX = 0.16


class Shape(Protocol):
    """What all shapes have in common."""

    def depth(self, x: Floats, y: Floats) -> Floats:
        """Return the depth of points inside the outline, px, in the shape of ``x``."""
        ...

    def polygon(self, margin: float = 0.0) -> Floats:
        """Return the outline, or about that of ``margin`` px further out, (N, 2) points (x, y)."""
        ...

    def move_to(self, x: float, y: float, angle: float) -> Shape:
        """Return the shape with its middle elsewhere, turned by an angle (rad)."""
        ...


@dataclass(frozen=True)
class Blob:
    """A star-shaped outline: a radius for each direction, (N,) px, from 0 to 2 pi."""

    radii: Floats
    x: float = 0.0
    y: float = 0.0
    angle: float = 0.0

    def depth(self, x: Floats, y: Floats) -> Floats:
        """See `Shape`."""
        dx, dy = x - self.x, y - self.y
        place = (np.arctan2(dy, dx) - self.angle) * (len(self.radii) / (2.0 * np.pi))
        place %= len(self.radii)
        first = np.minimum(place.astype(np.int64), len(self.radii) - 1)
        part = place - first
        following = np.append(self.radii[1:], self.radii[0])
        # between two points of the outline it is straight: 1 / r is nearly linear there
        radius = 1.0 / ((1.0 - part) / self.radii[first] + part / following[first])
        return np.asarray(radius - np.hypot(dx, dy))

    def polygon(self, margin: float = 0.0) -> Floats:
        """See `Shape`."""
        towards = self.angle + 2.0 * np.pi * np.arange(len(self.radii)) / len(self.radii)
        radius = self.radii + margin
        return np.column_stack(
            [self.x + radius * np.cos(towards), self.y + radius * np.sin(towards)]
        )

    def move_to(self, x: float, y: float, angle: float) -> Blob:
        """See `Shape`."""
        return Blob(self.radii, x, y, angle)


@dataclass(frozen=True)
class Strip:
    """A bent strip that tapers to both ends.

    Attributes
    ----------
    length, bend
        Of the middle line, px; how far it is from straight in its middle, px.
    upper, lower
        (N,) px: half widths on either side of the middle line, from end to end.
    """

    length: float
    bend: float
    upper: Floats
    lower: Floats
    x: float = 0.0
    y: float = 0.0
    angle: float = 0.0

    def local(self, x: Floats, y: Floats) -> tuple[Floats, Floats]:
        """Return positions along the strip (0 to 1 within) and distances across it, px."""
        dx, dy = x - self.x, y - self.y
        c, s = np.cos(self.angle), np.sin(self.angle)
        along = (c * dx + s * dy) / self.length + 0.5
        return along, c * dy - s * dx - self._middle(along)

    def _middle(self, along: Floats) -> Floats:
        return np.asarray(self.bend * (1.0 - 4.0 * (along - 0.5) ** 2))

    def mirror(self, x: Floats, y: Floats) -> tuple[Floats, Floats]:
        """Return the points on the other side of the widest line along the upper edge."""
        beyond = 2.0 * (self.upper.max() - self.local(x, y)[1])
        return x - np.sin(self.angle) * beyond, y + np.cos(self.angle) * beyond

    def edge(self, along: Floats, sides: Floats) -> Floats:
        """Return the half width at positions along the strip."""
        return np.asarray(np.interp(along, np.linspace(0.0, 1.0, len(sides)), sides))

    def depth(self, x: Floats, y: Floats) -> Floats:
        """See `Shape`."""
        along, across = self.local(x, y)
        sides = np.minimum(
            self.edge(along, self.upper) - across, self.edge(along, self.lower) + across
        )
        ends = np.minimum(along, 1.0 - along) * self.length
        return np.asarray(np.minimum(sides, ends))

    def polygon(self, margin: float = 0.0) -> Floats:
        """See `Shape`."""
        along = np.linspace(0.0, 1.0, len(self.upper))
        c, s = np.cos(self.angle), np.sin(self.angle)
        middle = self._middle(along)
        u = np.concatenate([along, along[::-1]]) - 0.5
        v = np.concatenate([middle + self.upper + margin, (middle - self.lower - margin)[::-1]])
        u = u * (self.length + 2.0 * margin)
        return np.column_stack([self.x + c * u - s * v, self.y + s * u + c * v])

    def move_to(self, x: float, y: float, angle: float) -> Strip:
        """See `Shape`."""
        return Strip(self.length, self.bend, self.upper, self.lower, x, y, angle)


@dataclass(frozen=True)
class Square:
    """The pixels of a square, its sides along rows and columns; the outline is their border."""

    side: int
    x: float = 0.0
    y: float = 0.0

    @property
    def window(self) -> Window:
        """The pixels of the square."""
        y0, x0 = (round(v - (self.side - 1) / 2.0) for v in (self.y, self.x))
        return Window(y0, y0 + self.side, x0, x0 + self.side)

    def depth(self, x: Floats, y: Floats) -> Floats:
        """See `Shape`."""
        w = self.window
        inside_x = np.minimum(x - (w.x0 - 0.5), (w.x1 - 0.5) - x)
        return np.asarray(np.minimum(inside_x, np.minimum(y - (w.y0 - 0.5), (w.y1 - 0.5) - y)))

    def polygon(self, margin: float = 0.0) -> Floats:
        """See `Shape`."""
        w, out = self.window, margin + 0.5
        left, right, top, bottom = w.x0 - out, w.x1 - 1 + out, w.y0 - out, w.y1 - 1 + out
        return np.array([[left, top], [right, top], [right, bottom], [left, bottom]])

    def move_to(self, x: float, y: float, angle: float) -> Square:  # noqa: ARG002 (never turned)
        """See `Shape`."""
        return Square(self.side, x, y)


def make_disc(radius: float) -> Blob:
    """Return a round shape."""
    return Blob(np.full(_count_points(2.0 * np.pi * radius), float(radius)))


def make_blob(radius: float, rng: np.random.Generator, *, torn: bool) -> Blob:
    """Return a blob of the area of a disc of ``radius`` px; ``torn`` gives its edge fine teeth."""
    count = _count_points(2.0 * np.pi * radius)
    towards = 2.0 * np.pi * np.arange(count) / count
    order = np.arange(2, 2 + _LOW_HARMONICS)
    form = _sum_waves(towards, order, order**-0.8, rng)
    form *= rng.uniform(0.9, 1.2) * _IRREGULARITY / form.std()
    radii = radius * np.exp(form)
    if torn:
        # features of 8 to 60 px along the edge, whatever the size of the place
        high = np.unique(np.rint(np.geomspace(2.0 * np.pi * radius / 60.0, count / 5.0, 24)))
        high = high[high > order[-1]]
        if high.size:
            teeth = _sum_waves(towards, high, high**-0.6, rng)
            radii += teeth * (_TEETH_PX * np.sqrt(radius) / teeth.std())
    radii *= radius / np.sqrt(np.mean(radii**2))
    return Blob(np.round(radii, 3))


def strip(width: float, length: float, rng: np.random.Generator) -> Strip:
    """Return a bent strip with irregular edges; ``width`` is the mean in its middle half, px."""
    count = _count_points(length)
    along = np.linspace(0.0, 1.0, count)
    taper = np.clip(np.minimum(along, 1.0 - along) * length / (1.2 * width), 0.0, 1.0) ** 0.5
    sides = []
    for _ in range(2):
        form = _sum_waves(np.pi * along, np.arange(1, 9), np.arange(1, 9) ** -0.9, rng)
        teeth = _sum_waves(np.pi * along, np.array([19.0, 31.0, 47.0]), np.ones(3), rng)
        wide = 1.0 + 0.16 * form / form.std() + 0.025 * teeth / teeth.std()
        sides.append(np.maximum(wide, 0.3))
    width_there = (sides[0] + sides[1])[count // 4 : -(count // 4)].mean()
    upper, lower = (np.round(taper * side * width / width_there, 3) for side in sides)
    return Strip(length, float(np.round(rng.uniform(-0.08, 0.08) * length, 3)), upper, lower)


def _count_points(length: float) -> int:
    """Return how many points an outline of a length (px) has: one in 2 px, 48 to 3000."""
    return int(np.clip(np.ceil(length / 2.0), 48, 3000))


def _sum_waves(
    phase: Floats, order: NDArray[Any], amplitude: NDArray[Any], rng: np.random.Generator
) -> Floats:
    """Return a sum of waves of random phases and amplitudes."""
    start = rng.uniform(0.0, 2.0 * np.pi, len(order))
    height = amplitude * rng.uniform(0.5, 1.0, len(order))
    return np.asarray(np.cos(phase[:, None] * order + start) @ height)


def compute_area(polygon: Floats) -> float:
    """Return the area of a polygon, (N, 2), px."""
    x, y = (polygon - polygon[0]).T
    return float(abs(x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2.0)


def find_inside(points: Floats, polygon: Floats) -> NDArray[np.bool_]:
    """Return which of (N, 2) points are in a polygon, (M, 2), by crossings of its sides."""
    found = np.zeros(len(points), dtype=bool)
    low, high = polygon.min(axis=0), polygon.max(axis=0)
    near = np.flatnonzero(((points >= low) & (points <= high)).all(axis=1))
    if near.size == 0:
        return found
    x, y = points[near].T
    odd = np.zeros(near.size, dtype=bool)
    for (x0, y0), (x1, y1) in zip(polygon, np.roll(polygon, -1, axis=0), strict=True):
        crosses = (y0 > y) != (y1 > y)
        if crosses.any():
            odd[crosses] ^= x[crosses] < x0 + (y[crosses] - y0) * ((x1 - x0) / (y1 - y0))
    found[near] = odd
    return found
