"""A smooth displacement field: a tensor-product cubic B-spline on a regular grid of knots.

Control point (row i, column k) sits at post (x, y) = ((k - 1) * spacing, (i - 1) * spacing), so the
grid starts one knot before the frame and ends one after it. A point feels the 4 x 4 control points
around it, with weights that are not negative and add up to 1: what the field is somewhere is
between the extremes of these 16 (the hull property), whatever happens between knots. Beyond the
grid the value of its edge continues, so the field never grows outside of what was fitted.

`Strips` are added to it: an image that was scanned in strips along its rows or columns, each
displaced as a whole. Seams of post are straight in post; those of pre are straight in pre, and are
found from where the rest of the map puts a point.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.archive import load_arrays, save_arrays
from unglow.core.errors import InputError, StoreError
from unglow.transform.matrix import apply_matrix, convert_levels

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping

    from numpy.typing import ArrayLike, NDArray

    from unglow.core.arrays import Array, Floats, Floats32, Ints
    from unglow.core.windows import Window

    _Basis = Callable[[Floats], Floats]

IMAGES = ("post", "pre")
ALONG = ("rows", "columns")
_ARRAYS = ("strips_frame", "strips_kind", "strips_seams", "strips_offsets")
SUPPORT = 4
"""Control points along each axis that a point feels."""


@dataclass(frozen=True, eq=False)
class Strips:
    """Displacements (px of pre) of K + 1 strips, added to those of a smooth field.

    Attributes
    ----------
    image
        ``post`` or ``pre``: the image that was scanned in strips.
    along
        ``rows`` (seams are horizontal) or ``columns``.
    frame
        (3, 3) float64 map from post to the frame in which seams are straight: the identity, or
        the matrix of the transform.
    seams
        (K,) increasing positions: a strip starts at its seam. px of that image; those of pre are
        where a point is put before its strip is displaced.
    offsets
        (K + 1, 2) displacements (x, y) of the strips, px of pre; zero if there is no seam.

    ValueError if anything of this does not hold.
    """

    image: str
    along: str
    frame: Floats
    seams: Floats
    offsets: Floats

    def __post_init__(self) -> None:
        if self.image not in IMAGES or self.along not in ALONG:
            raise ValueError(f"strips are along rows or columns of post or pre, not {self.name}")
        count = len(self.seams)
        shapes = {"frame": (3, 3), "seams": (count,), "offsets": (count + 1, 2)}
        for name, shape in shapes.items():
            values = np.array(getattr(self, name), dtype=np.float64, order="C")
            if values.shape != shape or not np.isfinite(values).all():
                raise ValueError(f"strips need finite {name} of shape {shape}")
            values.setflags(write=False)
            object.__setattr__(self, name, values)
        if (np.diff(self.seams) <= 0).any():
            raise ValueError("seams of strips have to increase")
        # resampling knows neither a frame of post nor a strip that is all there is
        if self.image == "post" and not np.array_equal(self.frame, np.eye(3)):
            raise ValueError("strips of post need the identity as their frame")
        if not len(self.seams) and self.offsets.any():
            raise ValueError("without a seam there is nothing to displace")

    @property
    def name(self) -> str:
        """As people read it: ``rows of pre``."""
        return f"{self.along} of {self.image}"

    @property
    def axis(self) -> int:
        """The coordinate across the strips: 0 for x, 1 for y."""
        return 1 if self.along == "rows" else 0

    @property
    def jumps(self) -> Floats:
        """(K, 2) differences of neighbouring strips, px."""
        return np.diff(self.offsets, axis=0)

    def project(self, points: Floats, displaced: Floats) -> Floats:
        """Positions (N,) across the strips of points of post that a field displaces, (N, 2)."""
        at = apply_matrix(self.frame, points)[:, self.axis]
        return at + displaced[:, self.axis] if self.image == "pre" else at

    def evaluate(self, points: Floats, displaced: Floats) -> Floats:
        """Displacements (N, 2), px, of points of post that a field displaces, (N, 2)."""
        return np.asarray(self.offsets[self.index(self.project(points, displaced))])

    def index(self, across: Floats) -> NDArray[np.intp]:
        """Which strip positions across the strips are in, 0 to K, any shape."""
        return np.searchsorted(self.seams, across, side="right")

    def gap(self, across: Floats) -> Floats:
        """Distances (N,) of positions across the strips to the nearest seam, px."""
        if not len(self.seams):
            return np.full(len(across), np.inf)
        after = np.searchsorted(self.seams, across)
        last = len(self.seams) - 1
        sides = [np.abs(across - self.seams[np.clip(after - k, 0, last)]) for k in (0, 1)]
        return np.asarray(np.minimum(*sides), dtype=np.float64)

    def convert_levels(self, post: int, pre: int) -> Strips:
        """Return the strips in px of a pyramid level of ``post`` and one of ``pre``."""
        level, frame = post, self.frame
        if self.image == "pre":
            level, frame = pre, convert_levels(frame, post, pre)
        seams = (self.seams - (2.0**level - 1) / 2) * 2.0**-level
        return replace(self, frame=frame, seams=seams, offsets=self.offsets * 2.0**-pre)

    def to_dict(self) -> dict[str, Any]:
        """Return what ``transform.json`` says of them."""
        return {
            "image": self.image,
            "along": self.along,
            "seams_px": [float(v) for v in self.seams],
            "offsets_px": [[float(v) for v in row] for row in self.offsets],
        }

    def arrays(self) -> dict[str, Array]:
        """Return arrays that `from_arrays` takes."""
        kind = np.array([IMAGES.index(self.image), ALONG.index(self.along)], dtype=np.int64)
        return dict(zip(_ARRAYS, (self.frame, kind, self.seams, self.offsets), strict=True))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> Strips | None:
        """Build from what `arrays` gave; None if there is nothing of it."""
        if _ARRAYS[0] not in arrays:
            return None
        frame, kind, seams, offsets = (arrays[name] for name in _ARRAYS)
        return cls(IMAGES[int(kind[0])], ALONG[int(kind[1])], frame, seams, offsets)


@dataclass(frozen=True, eq=False)
class Displacement:
    """A field d(x, y) in px of pre, added to where the matrix puts a point of post.

    Attributes
    ----------
    spacing_px
        Distance of the knots, integer px of post.
    coefficients
        (2, ny, nx) float64: x and y component of the control points, px.
    error_px
        (ny, nx) float32: estimated error of the map around each control point, px; NaN where
        nothing was measured nearby.
    strips
        Steps between the strips of a scanner, added to the smooth field; None for none.
    """

    spacing_px: int
    coefficients: Floats
    error_px: Floats32 = field(default_factory=lambda: np.zeros((0, 0), dtype=np.float32))
    strips: Strips | None = None

    def __post_init__(self) -> None:
        coefficients = np.array(self.coefficients, dtype=np.float64, order="C")
        if coefficients.ndim != 3 or len(coefficients) != 2 or min(coefficients.shape) < 2:
            raise ValueError(f"a field needs (2, ny, nx) coefficients, not {coefficients.shape}")
        if min(coefficients.shape[1:]) < SUPPORT or self.spacing_px < 1:
            raise ValueError("a field needs 4 x 4 control points and a spacing of 1 px or more")
        if not np.isfinite(coefficients).all():
            raise ValueError("a field needs finite coefficients")
        if self.error_px.ndim != 2 or self.error_px.dtype.kind != "f":
            raise ValueError(f"errors of a field are no {self.error_px.shape} of real numbers")
        coefficients.setflags(write=False)
        object.__setattr__(self, "coefficients", coefficients)

    @classmethod
    def zeros(cls, shape: tuple[int, int], spacing_px: int) -> Displacement:
        """Return the field that displaces nothing, over a frame of (rows, columns)."""
        return cls(spacing_px, np.zeros((2, *grid_shape(shape, spacing_px))))

    @property
    def digest(self) -> str:
        """SHA-256 of grid and coefficients, which ties the file of a field to its transform."""
        sha = hashlib.sha256(
            np.array([self.spacing_px, *self.coefficients.shape], dtype="<i8").tobytes()
        )
        sha.update(self.coefficients.astype("<f8").tobytes())
        for values in () if self.strips is None else self.strips.arrays().values():
            sha.update(values.astype("<f8").tobytes())
        return sha.hexdigest()

    @property
    def knots(self) -> Floats:
        """Positions (x, y) of all control points in row order, (ny * nx, 2), px of post."""
        _, ny, nx = self.coefficients.shape
        row, col = np.indices((ny, nx))
        points = (np.column_stack([col.ravel(), row.ravel()]) - 1.0) * self.spacing_px
        return np.asarray(points, dtype=np.float64)

    @property
    def smooth(self) -> Displacement:
        """The field without strips."""
        return replace(self, strips=None)

    def evaluate(self, points_xy: ArrayLike) -> Floats:
        """Displacements of points of post, (N, 2) (x, y) to (N, 2) px; NaN gives NaN."""
        points = np.asarray(points_xy, dtype=np.float64)
        smooth = self._sum_weighted(points, weights, weights)
        return smooth if self.strips is None else smooth + self.strips.evaluate(points, smooth)

    def jacobian(self, points_xy: ArrayLike) -> Floats:
        """Return derivatives, (N, 2) to (N, 2, 2): [:, i, j] is component i along axis j.

        Between seams, that is: at a seam there is none.
        """
        points = np.asarray(points_xy, dtype=np.float64)
        along_x = self._sum_weighted(points, slopes, weights)
        along_y = self._sum_weighted(points, weights, slopes)
        return np.stack([along_x, along_y], axis=2) / self.spacing_px

    def bounds(self, window: Window) -> tuple[Floats, Floats]:
        """Least and greatest displacement (x, y) that a pixel of the window can have, (2,) each."""
        reach = []
        for begin, end, count in zip(
            (window.y0, window.x0), (window.y1, window.x1), self.coefficients.shape[1:], strict=True
        ):
            ends = np.array([begin, max(begin, end - 1)], dtype=np.float64)
            (first, final), _ = find_cells(ends, self.spacing_px, count)
            reach.append(slice(first, final + SUPPORT))
        part = self.coefficients[:, reach[0], reach[1]]
        low, high = part.min(axis=(1, 2)), part.max(axis=(1, 2))
        if self.strips is None:
            return low, high
        offsets = self.strips.offsets
        return low + offsets.min(axis=0), high + offsets.max(axis=0)

    def finer(self, shape: tuple[int, int]) -> Displacement:
        """Return the same field over a frame of ``shape`` with knots half as far apart.

        Exact inside the frame (knot insertion); ``spacing_px`` has to be even.
        """
        if self.spacing_px % 2:
            raise ValueError(f"a spacing of {self.spacing_px} px cannot be halved")
        spacing = self.spacing_px // 2
        values = self.coefficients
        for axis, count in zip((1, 2), grid_shape(shape, spacing), strict=True):
            values = _insert_midpoints(values, axis, count)
        return Displacement(spacing, values, strips=self.strips)

    def convert_levels(self, post: int, pre: int) -> Displacement:
        """Return the field in px of a pyramid level of ``post`` and one of ``pre``.

        Negative levels convert back. The spacing has to be a multiple of the px of post. Knots
        start at a px of either level, half a coarse px apart: the spline is moved by its slope.
        """
        ahead = (2.0**post - 1) / 2 / self.spacing_px
        moved = self.coefficients + ahead * sum(np.gradient(self.coefficients, axis=(1, 2)))
        return Displacement(
            int(self.spacing_px * 2.0**-post),
            moved * 2.0**-pre,
            self.error_px * np.float32(2.0**-post),
            None if self.strips is None else self.strips.convert_levels(post, pre),
        )

    def _sum_weighted(self, points: Floats, of_x: _Basis, of_y: _Basis) -> Floats:
        if points.ndim != 2 or points.shape[1] != 2:
            raise ValueError(f"points must be (N, 2), not {points.shape}")
        _, ny, nx = self.coefficients.shape
        col, s = find_cells(points[:, 0], self.spacing_px, nx)
        row, t = find_cells(points[:, 1], self.spacing_px, ny)
        wx, wy = of_x(s), of_y(t)
        out = np.zeros((2, len(points)))
        for i in range(SUPPORT):
            line = np.zeros_like(out)
            for k in range(SUPPORT):
                line += wx[k] * self.coefficients[:, row + i, col + k]
            out += wy[i] * line
        return out.T


def save(path: str | os.PathLike[str], found: Displacement | None) -> None:
    """Write a field as ``.npz``; None is written too, without control points.

    Equal fields give equal bytes.
    """
    empty = np.zeros((0, 0))
    save_arrays(
        Path(path),
        {
            "spacing_px": np.array(0 if found is None else found.spacing_px),
            "coefficients": empty[None] if found is None else found.coefficients,
            "error_px": (empty if found is None else found.error_px).astype(np.float32),
            **(found.strips.arrays() if found is not None and found.strips is not None else {}),
        },
    )


def load(path: str | os.PathLike[str]) -> Displacement | None:
    """Read what `save` wrote; InputError if the file is absent or damaged."""
    try:
        arrays = load_arrays(Path(path))
        if not arrays["coefficients"].size:
            return None
        return Displacement(
            int(arrays["spacing_px"]),
            arrays["coefficients"],
            arrays["error_px"],
            Strips.from_arrays(arrays),
        )
    except FileNotFoundError:
        raise InputError(f"{path} does not exist: run the registration again.") from None
    except (StoreError, LookupError, OverflowError, ValueError, TypeError) as error:
        raise InputError(
            f"{path} is not a complete displacement field ({error}): delete it and run the "
            "registration again."
        ) from error


def grid_shape(shape: tuple[int, int], spacing_px: int) -> tuple[int, int]:
    """Control points (ny, nx) that cover a frame of (rows, columns)."""
    ny, nx = (max(1, -(-(n - 1) // spacing_px)) + 3 for n in shape)
    return ny, nx


def weights(t: Floats) -> Floats:
    """Cubic B-spline weights of the four control points around fractions (N,), (4, N)."""
    rest = 1 - t
    middle = [(3 * side**3 - 6 * side**2 + 4) / 6 for side in (t, rest)]
    return np.stack([rest**3 / 6, *middle, t**3 / 6])


def slopes(t: Floats) -> Floats:
    """Return the derivatives of `weights` by t, (4, N)."""
    rest = 1 - t
    return np.stack([-(rest**2) / 2, 1.5 * t**2 - 2 * t, 2 * rest - 1.5 * rest**2, t**2 / 2])


def find_cells(positions: ArrayLike, spacing: int, count: int) -> tuple[Ints, Floats]:
    """First of the four control points of each position, and the fraction beyond its knot."""
    inside = np.clip(np.asarray(positions, dtype=np.float64), 0, spacing * (count - 3))
    first = np.minimum(np.nan_to_num(inside) // spacing, count - SUPPORT).astype(np.int64)
    return first, (inside - first * spacing) / spacing


def _insert_midpoints(values: Floats, axis: int, count: int) -> Floats:
    """Halve the spacing along an axis: new control points at and between the old ones."""
    old = np.moveaxis(values, axis, 0)
    # past the old grid, as far as a finer one may reach, control points continue in a line
    more = max(0, (count + 1) // 2 + 2 - len(old))
    steps = np.arange(1, more + 1).reshape(-1, *[1] * (old.ndim - 1))
    old = np.concatenate([old, old[-1] + steps * (old[-1] - old[-2])])
    between = (old[:-1] + old[1:]) / 2
    at = (old[:-2] + 6 * old[1:-1] + old[2:]) / 8
    out = np.empty((2 * len(at) + 1, *old.shape[1:]))
    out[0::2], out[1::2] = between[: len(at) + 1], at
    return np.ascontiguousarray(np.moveaxis(out[:count], 0, axis))
