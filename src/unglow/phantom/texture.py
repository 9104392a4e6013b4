"""What the pixels of a phantom are made of: texture, bright spots, and a camera's noise.

A value depends on a coordinate and a key alone, because all randomness comes from a counter-based
hash of lattice positions or pixels. So any point can be evaluated at any time, in any order, on any
thread, with the same bits.

The gradient noise is Perlin's (K. Perlin, Improving noise, SIGGRAPH 2002: quintic fade), the
domains are Worley's (S. Worley, A cellular texture basis function, SIGGRAPH 1996) with borders
smoothed over a given width. The hash is the finaliser of SplitMix64 (Steele, Lea, Flood 2014).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from unglow.core.kernels import kernel, pixel_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from unglow.core.arrays import Array, Bools, Floats, Ints
    from unglow.core.windows import Window


_ANGLES = 2.0 * np.pi * np.arange(64) / 64

# Scaled so that the noise has unit variance (that of unit gradients was measured: 0.2164**2).
_GRADIENTS = np.array([np.cos(_ANGLES) / 0.2164, np.sin(_ANGLES) / 0.2164])


def derive_key(seed: int, *path: int) -> np.uint64:
    """Return a key for one purpose (a path of small integers) under a user's seed."""
    state = np.random.SeedSequence([seed, *path]).generate_state(1, np.uint64)
    return cast("np.uint64", state[0])


def make_generator(seed: int, *stream: int) -> np.random.Generator:
    """Return the random generator of one purpose (``stream``: `_STREAM` of the module)."""
    return np.random.Generator(np.random.Philox(seed=np.random.SeedSequence([seed, *stream])))


def add_noise(
    x: Floats, y: Floats, spacing: float, key: np.uint64, amplitude: float, out: Floats
) -> None:
    """Add smooth noise of zero mean to ``out``.

    Parameters
    ----------
    x, y
        (N,) coordinates in px. Neighbours in memory should be neighbours in space: the lattice
        cell of the previous point is kept, which makes coarse noise cheap.
    spacing
        Lattice spacing in px; features are about that large.
    key
        Selects the noise; it also turns the lattice, so that octaves share no axes.
    amplitude
        Standard deviation of what is added.
    out
        (N,) float64, added to in place.
    """
    kernel("add_noise")(x, y, x.size, spacing, int(key), amplitude, _GRADIENTS, out)


def domains(
    x: Floats, y: Floats, spacing: float, border: float, key: np.uint64, out: Floats
) -> None:
    """Fill ``out`` with three random attributes per domain and a measure of being at a border.

    Parameters
    ----------
    x, y
        (N,) coordinates in px.
    spacing
        Mean distance of domain centres, px.
    border
        Width over which neighbouring domains blend, in px of difference of their distances.
    key
        Selects the tessellation and turns its lattice.
    out
        (4, N) float64: three attributes in [0, 1), and 0 inside a domain rising to 1 where two
        domains meet.
    """
    kernel("domains")(x, y, x.size, spacing, border, int(key), out)


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

    x: Floats
    y: Floats
    peak: Floats
    sigma: Floats
    sigma_long: Floats
    theta: Floats

    def __len__(self) -> int:
        return len(self.x)

    @property
    def xy(self) -> Floats:
        """Centres, (N, 2), in post coordinates."""
        return np.column_stack([self.x, self.y])

    def select(self, keep: Bools) -> Spots:
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
    count: int, shape: tuple[int, int], seed: int, inside: Callable[..., Floats]
) -> Spots:
    """Draw microbes: round cells and short rods, peaks of 4 to 60 levels, log-uniform.

    Parameters
    ----------
    count
        Number drawn over the entire frame; those outside the section are dropped.
    shape
        (rows, columns) of the frame of post.
    seed
        Seed of the phantom.
    inside
        Function of x and y, (N,) each, that is 1 inside the section and 0 outside.
    """
    rng = make_generator(seed, _MICROBE_STREAM)
    u = rng.random((6, count))
    sigma = 1.0 + 1.0 * u[2]
    rod = u[3] < 0.4
    long = np.where(rod, np.minimum(sigma * (1.3 + 1.2 * u[4]), 3.5), sigma)
    peak = 4.0 * 15.0 ** rng.random(count)
    return _place(u, shape, inside, peak=peak, sigma=sigma, sigma_long=long)


def draw_grains(
    count: int, shape: tuple[int, int], seed: int, inside: Callable[..., Floats]
) -> Spots:
    """Draw bright mineral grains: peaks of 15 to 450 levels, most of them faint, some saturating.

    Parameters are those of `draw_microbes`.
    """
    rng = make_generator(seed, _GRAIN_STREAM)
    u = rng.random((6, count))
    sigma = 0.9 * 3.5 ** (u[2] ** 1.5)
    long = sigma * (1.0 + 1.2 * u[3] ** 2)
    peak = 15.0 * 30.0 ** (u[4] ** 1.7)
    return _place(u, shape, inside, peak=peak, sigma=sigma, sigma_long=long)


def _place(
    u: Floats, shape: tuple[int, int], inside: Callable[..., Floats], **form: Floats
) -> Spots:
    """Spread spots over the frame, round to what JSON will hold, keep those in the section."""
    x, y = np.round(u[0] * (shape[1] - 1), 3), np.round(u[1] * (shape[0] - 1), 3)
    theta = np.round(u[5] * np.pi, 4)
    spots = Spots(x, y, theta=theta, **{name: np.round(v, 3) for name, v in form.items()})
    return spots.select(inside(x, y) > 0.95)


# A Gaussian is cut off where it has fallen to exp(-18) = 1.5e-8 of its peak.
CUTOFF_SIGMAS = 6.0


def find_boxes(spots: Spots, centres: Floats, stretch: float, shape: tuple[int, int]) -> Ints:
    """Return (N, 4) pixel boxes y0, y1, x0, x1 around spots in a frame of ``shape``.

    ``centres`` are (N, 2) positions in that frame, ``stretch`` bounds how much longer distances
    are there than in post.
    """
    reach = CUTOFF_SIGMAS * spots.sigma_long * stretch + 1.0
    low = np.floor(centres - reach[:, None]).astype(np.int64)
    high = np.ceil(centres + reach[:, None]).astype(np.int64) + 1
    limits = np.array([shape[1], shape[0]])
    low, high = np.clip(low, 0, limits), np.clip(high, 0, limits)
    return np.column_stack([low[:, 1], high[:, 1], low[:, 0], high[:, 0]])


def add_spots(spots: Spots, areas: Ints, window: Window, x: Floats, y: Floats, out: Floats) -> None:
    """Add spots to a window, in the order of the catalogue.

    Parameters
    ----------
    spots, areas
        The catalogue and its `find_boxes` in the frame of the window.
    window
        The part of the frame that ``out`` covers.
    x, y
        (rows, cols) post coordinates of the pixels of the window.
    out
        (rows, cols) float64, added to in place.
    """
    x, y = (np.ascontiguousarray(v) for v in (x, y))
    hit = (areas[:, 0] < window.y1) & (areas[:, 1] > window.y0)
    hit &= (areas[:, 2] < window.x1) & (areas[:, 3] > window.x0)
    for n in np.flatnonzero(hit):
        y0, y1, x0, x1 = areas[n]
        rows = slice(max(y0, window.y0) - window.y0, min(y1, window.y1) - window.y0)
        cols = slice(max(x0, window.x0) - window.x0, min(x1, window.x1) - window.x0)
        here = [array[rows, cols] for array in (x, y, out)]
        strides = [array.strides[0] // array.itemsize for array in here]
        kernel("add_spot")(
            here[0],
            strides[0],
            here[1],
            strides[1],
            *(v[n] for v in (spots.x, spots.y, spots.peak)),
            *(v[n] for v in (spots.sigma, spots.sigma_long, spots.theta)),
            CUTOFF_SIGMAS,
            here[2],
            strides[2],
            *here[2].shape,
        )


@dataclass(frozen=True)
class Shading:
    """Illumination of one image: 1 + amplitude * cos(1.7 u + phase_x) * cos(1.7 v + phase_y).

    u and v run from -1 to 1 over the columns and rows of that image's own frame.
    """

    amplitude: float
    phase_x: float
    phase_y: float
    shape: tuple[int, int]

    def evaluate(self, window: Window) -> Floats:
        """Return the illumination of the pixels of a window, (rows, cols)."""
        rows, cols = self.shape
        v = 2.0 * np.arange(window.y0, window.y1) / (rows - 1) - 1.0
        u = 2.0 * np.arange(window.x0, window.x1) / (cols - 1) - 1.0
        along, down = np.cos(1.7 * u + self.phase_x), np.cos(1.7 * v + self.phase_y)
        return np.asarray(1.0 + self.amplitude * along[None, :] * down[:, None], dtype=np.float64)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON types, with the formula."""
        formula = "1 + amplitude * cos(1.7 u + phase_x) * cos(1.7 v + phase_y)"
        return asdict(self) | {"shape": list(self.shape), "formula": formula}


@dataclass(frozen=True)
class Camera:
    """How levels become counts.

    Attributes
    ----------
    electrons_per_level
        Photoelectrons per level; 0 means no shot noise.
    read_noise
        Standard deviation in levels.
    counts_per_level
        Stored counts per level.
    dtype
        Unsigned integer type of the counts, which also clips them.
    """

    electrons_per_level: float
    read_noise: float
    counts_per_level: int
    dtype: np.dtype[Any]

    def expose(self, light: Floats, offset: float, window: Window, key: np.uint64) -> Array:
        """Return the counts for ``light`` (rows, cols; levels without offset) in a window."""
        counts = np.empty(light.shape, dtype=self.dtype)
        kernel("expose")(
            light,
            *light.shape,
            window.y0,
            window.x0,
            int(key),
            self.electrons_per_level,
            self.read_noise,
            offset,
            self.counts_per_level,
            np.iinfo(self.dtype).max,
            counts,
            pixel_type(self.dtype),
        )
        return counts

    def dark_table(self, offset: float) -> Array:
        """Return 65536 equally probable counts of a pixel that sees no light."""
        normal = NormalDist()
        quantile = np.array([normal.inv_cdf((n + 0.5) / 65536) for n in range(65536)])
        counts = np.rint((quantile * self.read_noise + offset) * self.counts_per_level)
        return counts.clip(0, np.iinfo(self.dtype).max).astype(self.dtype)


def fill_dark(table: Array, window: Window, key: np.uint64, channels: Array) -> None:
    """Fill the first and last of (rows, cols, 3) channels of a window with dark counts."""
    kernel("fill_dark")(
        table,
        *channels.shape[:2],
        window.y0,
        window.x0,
        int(key),
        channels,
        pixel_type(channels.dtype),
    )


# Streams of random numbers of a seed: 101 is that of the map, 104 that of the illumination.
_MICROBE_STREAM, _GRAIN_STREAM = 102, 103
