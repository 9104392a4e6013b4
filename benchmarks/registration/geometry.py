"""The true map of a pair: a matrix, smooth waves, and the jumps of a scanner between its strips.

Pre is rendered at places of post that are known in closed form (`Warp.to_post`); nothing here comes
from `unglow.registration.register` or from `unglow.transform.resample`, so that an error there
cannot hide itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.phantom.spec import PhantomSpec
from unglow.phantom.truth import PhantomMap

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.core.windows import Window

    Points = NDArray[np.float64]

_SEAM_STREAM = 201


@dataclass(frozen=True, eq=False)
class Strips:
    """Strips of pre, each moved as a whole: what a scanner's stage does between two passes.

    Attributes
    ----------
    axis
        0: strips of rows, 1: strips of columns.
    edges
        (K - 1,) where one strip ends and the next begins, px of pre along the other axis.
    jumps
        (K, 2) displacement (x, y) of each strip, px of pre.
    """

    axis: int
    edges: NDArray[np.float64]
    jumps: Points

    def index(self, points: Points) -> NDArray[np.intp]:
        """Return the strip that each pre point lies in, (N, 2) (x, y) to (N,)."""
        return np.searchsorted(self.edges, points[:, 1 - self.axis], side="right")

    def moved(self, points: Points) -> Points:
        """Map from a pre without jumps to one with them; what fell into a gap goes with its strip.

        Where strips overlap a point shows twice; the first of both places is returned.
        """
        out = points + self.jumps[self.index(points)]
        for strip, jump in reversed(list(enumerate(self.jumps))):
            there = points + jump
            inside = self.index(there) == strip
            out[inside] = there[inside]
        return out

    def undone(self, points: Points) -> Points:
        """Map from pre with jumps to pre without."""
        return points - self.jumps[self.index(points)]

    def distance(self, points: Points) -> NDArray[np.float64]:
        """Distance of pre points from the nearest seam, (N, 2) to (N,) px."""
        along = points[:, 1 - self.axis]
        return np.abs(along[:, None] - self.edges[None]).min(axis=1)


@dataclass(frozen=True, eq=False)
class Warp:
    """The truth: post to pre by a `PhantomMap`, then the jumps of the strips, if there are any."""

    smooth: PhantomMap
    strips: Strips | None = None

    @classmethod
    def plain(cls, matrix: NDArray[np.float64]) -> Warp:
        """Return the warp of a 3 x 3 matrix alone."""
        return cls(PhantomMap(matrix, np.zeros((0, 5))))

    def to_pre(self, points: Points) -> Points:
        """Map post points to pre, (N, 2) (x, y) to (N, 2) px, to within 1e-9 px."""
        mapped = self.smooth.to_pre(points)
        return mapped if self.strips is None else self.strips.moved(mapped)

    def to_post(self, points: Points) -> Points:
        """Map pre points to post in closed form, (N, 2) to (N, 2) px.

        The formula of `PhantomMap.to_post`, column by column, which is much faster for many points.
        """
        x, y = (points if self.strips is None else self.strips.undone(points)).T
        u, v = (row[0] * x + row[1] * y + row[2] for row in np.linalg.inv(self.smooth.matrix)[:2])
        out = np.column_stack([u, v])
        for kx, ky, phase, dx, dy in self.smooth.waves:
            wave = np.sin(kx * u + ky * v + phase)
            out[:, 0] += dx * wave
            out[:, 1] += dy * wave
        return out

    def from_seam(self, points: Points) -> NDArray[np.float64]:
        """Distance of pre points from the nearest seam, px; infinite if there is none."""
        if self.strips is None or not len(self.strips.edges):
            return np.full(len(points), np.inf)
        return self.strips.distance(points)

    def stretch(self) -> float:
        """Bound of how many times longer a small distance becomes from post to pre."""
        return self.smooth.stretch()

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON types."""
        strips = self.strips and {
            "axis": self.strips.axis,
            "edges": self.strips.edges.tolist(),
            "jumps": self.strips.jumps.tolist(),
        }
        return {**self.smooth.to_json(), "strips": strips}


@dataclass(frozen=True, kw_only=True)
class Pose:
    """How pre lies against post: centre on centre, then turned, scaled, sheared and shifted.

    ``shape`` and ``pre_shape`` are (rows, columns), ``shift`` is (x, y) in px.
    """

    shape: tuple[int, int]
    pre_shape: tuple[int, int]
    rotation_deg: float
    scale: float
    shear: float = 0.0
    shift: tuple[float, float] = (0.0, 0.0)

    def matrix(self, *, mirror: bool = False) -> NDArray[np.float64]:
        """Return the true 3 x 3 matrix, post (x, y, 1) to pre."""
        angle = math.radians(self.rotation_deg)
        turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
        flip = np.diag([-1.0 if mirror else 1.0, 1.0])
        part = self.scale * turn @ flip @ np.array([[1.0, self.shear], [0.0, 1.0]])
        centre, other = ((np.array(s[::-1]) - 1) / 2 for s in (self.shape, self.pre_shape))
        matrix = np.eye(3)
        matrix[:2, :2] = part
        matrix[:2, 2] = other + self.shift - part @ centre
        return matrix


def waves(
    shape: tuple[int, int], deform_px: float, wavelength_px: float, seed: int
) -> NDArray[np.float64]:
    """Return waves as `unglow phantom` draws them, (W, 5), of the greatest length ``deform_px``."""
    spec = PhantomSpec(
        shape=shape, deform_px=deform_px, deform_wavelength_px=wavelength_px, seed=seed
    )
    return PhantomMap.from_spec(spec).waves


def draw_strips(pre_shape: tuple[int, int], seed: int) -> Strips:
    """Draw strips of 300 to 900 px, of rows or columns; every other one has jumped by 1 to 3 px."""
    rng = np.random.default_rng([seed, _SEAM_STREAM])
    axis = int(rng.integers(2))
    width = rng.uniform(300.0, 900.0)
    count = max(2, math.ceil(pre_shape[axis] / width))
    edges = np.cumsum(width * rng.uniform(0.9, 1.1, count - 1))
    length, angle = rng.uniform(1.0, 3.0, count), rng.uniform(0.0, 2 * np.pi, count)
    length[::2] = 0.0
    jumps = np.column_stack([length * np.cos(angle), length * np.sin(angle)])
    return Strips(axis, edges, jumps)


def pixel_centres(window: Window) -> Points:
    """Return the (x, y) of all pixels of a window in row order, (rows * cols, 2)."""
    y, x = np.mgrid[window.y0 : window.y1, window.x0 : window.x1].astype(np.float64)
    return np.column_stack([x.ravel(), y.ravel()])
