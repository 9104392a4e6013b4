"""Catalogues of bright spots (elongated Gaussians) and how microbes and grains are drawn."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.phantom.texture import generator

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

# Streams of random numbers of a seed: 101 is that of the map, 104 that of the illumination.
_MICROBE_STREAM, _GRAIN_STREAM = 102, 103


@dataclass(frozen=True)
class Spots:
    """A catalogue of Gaussian spots; every attribute is (N,) float64.

    Attributes
    ----------
    x, y
        Centre in post coordinates, px.
    peak
        Height at the centre, in the unit that the catalogue's holder names.
    sigma, sigma_long
        Standard deviation across and along the long axis, px (equal for a round spot).
    theta
        Direction of the long axis, rad from x towards y.
    """

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    peak: NDArray[np.float64]
    sigma: NDArray[np.float64]
    sigma_long: NDArray[np.float64]
    theta: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.x)

    @property
    def xy(self) -> NDArray[np.float64]:
        """Centres, (N, 2), in post coordinates."""
        return np.column_stack([self.x, self.y])

    def select(self, keep: NDArray[np.bool_]) -> Spots:
        """Return the spots where ``keep``, (N,), is true, in their order."""
        return Spots(*(getattr(self, f.name)[keep] for f in fields(self)))

    def scale(self, factor: float) -> Spots:
        """Return the spots with their peaks multiplied."""
        return Spots(self.x, self.y, self.peak * factor, self.sigma, self.sigma_long, self.theta)

    def to_json(self) -> dict[str, Any]:
        """Return columns of plain numbers."""
        return {f.name: getattr(self, f.name).tolist() for f in fields(self)}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Spots:
        """Build from what `to_json` gave."""
        return cls(*(np.array(values[f.name], dtype=np.float64) for f in fields(cls)))


def draw_microbes(
    count: int, shape: tuple[int, int], seed: int, inside: Callable[..., NDArray[np.float64]]
) -> Spots:
    """Draw microbes: round cells and short rods, peaks of 4 to 60 levels, log-uniform.

    Parameters
    ----------
    count
        Number drawn over the whole frame; those outside the section are dropped.
    shape
        (rows, columns) of the frame of post.
    seed
        Seed of the phantom.
    inside
        Function of x and y, (N,) each, that is 1 inside the section and 0 outside.
    """
    rng = generator(seed, _MICROBE_STREAM)
    u = rng.random((6, count))
    sigma = 1.0 + 1.0 * u[2]
    rod = u[3] < 0.4
    long = np.where(rod, np.minimum(sigma * (1.3 + 1.2 * u[4]), 3.5), sigma)
    peak = 4.0 * 15.0 ** rng.random(count)
    return _place(u, shape, inside, peak=peak, sigma=sigma, sigma_long=long)


def draw_grains(
    count: int, shape: tuple[int, int], seed: int, inside: Callable[..., NDArray[np.float64]]
) -> Spots:
    """Draw bright mineral grains: peaks of 15 to 450 levels, most of them faint, some saturating.

    Parameters are those of `draw_microbes`.
    """
    rng = generator(seed, _GRAIN_STREAM)
    u = rng.random((6, count))
    sigma = 0.9 * 3.5 ** (u[2] ** 1.5)
    long = sigma * (1.0 + 1.2 * u[3] ** 2)
    peak = 15.0 * 30.0 ** (u[4] ** 1.7)
    return _place(u, shape, inside, peak=peak, sigma=sigma, sigma_long=long)


def _place(
    u: NDArray[np.float64],
    shape: tuple[int, int],
    inside: Callable[..., NDArray[np.float64]],
    **form: NDArray[np.float64],
) -> Spots:
    """Spread spots over the frame, round to what JSON will hold, keep those in the section."""
    x, y = np.round(u[0] * (shape[1] - 1), 3), np.round(u[1] * (shape[0] - 1), 3)
    theta = np.round(u[5] * np.pi, 4)
    spots = Spots(x, y, theta=theta, **{name: np.round(v, 3) for name, v in form.items()})
    return spots.select(inside(x, y) > 0.95)
