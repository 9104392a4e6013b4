"""How the images of a pair were taken: noise of their px, blur, and uneven light.

Blur is matched by a small Gaussian, block by block, which makes the sharper image like the other.
Its weights are those of a band-limited Gaussian, whose transfer function is exp(-width^2 w^2 / 2)
up to the Nyquist frequency: what an ideal sampled image goes through, however narrow it is.

Lamps and flat fields differ between sessions, so that post = m * (gain * pre + c1) + c0, where
m(x, y) is near 1 and c0, the camera's own offset in post, is not multiplied by light. m is a
polynomial of low degree in x and y: a sum of products of Legendre polynomials over the frame.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from unglow.core.archive import Saved
from unglow.core.kernels import kernel, lay_rows
from unglow.memory import BLUR_REACH

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from unglow.core.archive import ArrayAxes
    from unglow.core.arrays import Array, Bytes, Floats, Floats32
    from unglow.core.windows import Window


ROUNDING = 1 / 12
"""Variance of rounding to integer grey levels."""


@dataclass(frozen=True, slots=True)
class NoiseModel:
    """Variance of single raw px, grey levels squared, before anything is resampled.

    The variance is read + shot * level. A camera offset, which has no shot noise, makes ``read``
    smaller than the read-out noise, or negative; so it is never taken below ``least``.

    Attributes
    ----------
    post_read, post_shot
        Of post.
    pre_read, pre_shot
        Of pre.
    least
        The least variance a px can have: 1/12 for integer grey levels.
    spread
        Standard deviation of the difference averaged over a few px, over what the variances of
        single px and the error of the map give: 1 if nothing else is left, more where neighbouring
        px share their noise (JPEG, smoothing) and where the backgrounds differ.
    """

    post_read: float
    post_shot: float
    pre_read: float
    pre_shot: float
    least: float = ROUNDING
    spread: float = 1.0

    def variance_post(self, post: Array) -> Floats32:
        """Variance of px of post by their levels (any shape, any real dtype); NaN stays NaN."""
        return self._variance(post, self.post_read, self.post_shot)

    def variance_pre(self, pre: Array) -> Floats32:
        """Variance of raw px of pre by their levels (any shape); aligned pre says them as well."""
        return self._variance(pre, self.pre_read, self.pre_shot)

    def _variance(self, level: Array, read: float, shot: float) -> Floats32:
        variance = np.asarray(level).astype(np.float32)
        variance *= np.float32(shot)
        variance += np.float32(read)
        return np.maximum(variance, np.float32(self.least), out=variance)


WIDEST = 2.0
"""No Gaussian is wider than this, px (standard deviation)."""
_SIGMAS, _LEAST_REACH = 3.5, 4

# Frequencies that the transform of the transfer function is summed over.
_SUMMED = 512

# Rows that are worked on at a time.
_ROWS = 64


@dataclass(frozen=True, slots=True)
class Blur:
    """A Gaussian that is applied to one image of a pair, in the frame of post.

    Attributes
    ----------
    image
        ``post`` or ``pre`` (aligned), the sharper one.
    width_px
        Standard deviation, px of post; above 0, at most `WIDEST`.
    """

    image: str
    width_px: float

    @property
    def taps(self) -> Floats:
        """Weights along one axis, (2 r + 1,) float64, sum 1."""
        return gaussian_taps(self.width_px)

    @property
    def reach(self) -> int:
        """How far the Gaussian reaches, px."""
        return len(self.taps) // 2

    def select_taps(self, image: str) -> Floats:
        """Weights for one of the images: those of the Gaussian, or a single 1."""
        return self.taps if image == self.image else np.ones(1)

    def blur_window(
        self,
        read: Callable[[Window], NDArray[np.generic]],
        shape: tuple[int, int],
        window: Window,
        out: Floats32 | None = None,
    ) -> Floats32:
        """Blur a window of an image; a px has the same bits in whatever window.

        Parameters
        ----------
        read
            Returns the px of a window inside the image, any real dtype.
        shape
            (rows, columns) of the image.
        window
            Part of the image.
        out
            ``window.shape`` float32, overwritten and returned; None for a new array.
        """
        out = np.empty(window.shape, np.float32) if out is None else out
        outer = window.grow(self.reach)
        inside = outer.clip(shape)
        lacking = inside.y0 - outer.y0, inside.x0 - outer.x0
        return _blur_into(out, read(inside), lacking, self.taps)


@dataclass(frozen=True, slots=True)
class Sharpness:
    """Sharpness of the images of a pair, and the blur that matches them.

    Attributes
    ----------
    width_px
        Standard deviation of the Gaussian between them, px of post: positive if post is the more
        blurred one, negative if pre (aligned) is.
    error_px
        Its standard error.
    blurred
        ``pre`` or ``post``, the sharper image, which is blurred before the subtraction; None if
        that is not worth it.
    held_out
        Residual power of blocks that were kept out of the fit, with the blur over without it.
    blocks
        Blocks that were measured.
    """

    width_px: float
    error_px: float
    blurred: Literal["post", "pre"] | None
    held_out: float
    blocks: int

    @property
    def blur(self) -> Blur | None:
        """What is applied, and to which image."""
        return None if self.blurred is None else Blur(self.blurred, abs(self.width_px))


@lru_cache(maxsize=64)
def gaussian_taps(width_px: float) -> Floats:
    """Weights of a band-limited Gaussian along one axis, (2 r + 1,) float64, sum 1.

    Raises
    ------
    ValueError
        If the width is not above 0 and at most `WIDEST`.
    """
    if not 0 < width_px <= WIDEST:
        raise ValueError(f"a Gaussian of {width_px:g} px is not between 0 and {WIDEST:g} px")
    reach = min(BLUR_REACH, max(_LEAST_REACH, math.ceil(_SIGMAS * width_px)))
    w = (np.arange(_SUMMED) + 0.5) * np.pi / _SUMMED
    steps = np.arange(-reach, reach + 1)
    weights = (np.exp(-0.5 * (width_px * w) ** 2) * np.cos(steps[:, None] * w)).mean(axis=1)
    weights /= weights.sum()
    weights.flags.writeable = False
    return np.asarray(weights, dtype=np.float64)


def blur_image(image: NDArray[np.generic], taps: Floats) -> Floats32:
    """Filter both axes of an image with the same weights.

    Parameters
    ----------
    image
        (rows, cols), any real dtype. NaN has no weight, nor has what is outside: the weights that
        are left count for all.
    taps
        (2 r + 1,) float64, sum 1.

    Returns
    -------
    (rows, cols) float32; NaN where the image is NaN. The bits of a px depend on what is within r
    px of it along both axes, and on nothing else.
    """
    reach = len(taps) // 2
    return _blur_into(np.empty(image.shape, np.float32), image, (reach, reach), taps)


def _blur_into(
    out: Floats32, image: NDArray[np.generic], lacking: tuple[int, int], taps: Floats
) -> Floats32:
    """Fill ``out`` with blurred px of an image that has what the filter reaches around them.

    ``lacking`` are the rows above and the columns to the left that it has less of that.
    """
    (above, left), weights = lacking, taps.astype(np.float32)
    rim = len(taps) - 1
    for top in range(0, len(out), _ROWS):
        rows = out[top : top + _ROWS]
        strip = np.full((len(rows) + rim, out.shape[1] + rim), np.nan, np.float32)
        known = image[max(0, top - above) : max(0, top - above + len(strip))]
        first = max(0, above - top)
        strip[first : first + len(known), left : left + image.shape[1]] = known
        rows[:] = _blur_strip(strip, weights)
    return out


def _blur_strip(strip: Floats32, taps: Floats32) -> Floats32:
    """Filter px that are known, and cut off the rim; NaN in the strip becomes 0."""
    lost = np.isnan(strip)
    if not lost.any():
        return filter_both(strip, taps)
    np.copyto(strip, np.float32(0), where=lost)
    found = filter_both(strip, taps)
    with np.errstate(divide="ignore", invalid="ignore"):
        found /= compute_share(lost.view(np.uint8), taps)
    reach = len(taps) // 2
    rows, cols = found.shape
    found[lost[reach : reach + rows, reach : reach + cols]] = np.nan
    return found


def compute_share(lost: Bytes, taps: Floats32, least: float = -np.inf) -> Floats32:
    """Share of a filter that is on px that are not lost, the rim cut off: exactly 1 where all are.

    ``lost`` (rows, cols) is 0 for the others. NaN where the share is less than ``least``.
    """
    rows, cols = lost.shape
    out = np.empty((rows - len(taps) + 1, cols - len(taps) + 1), dtype=np.float32)
    line = np.empty(63 + len(taps), dtype=np.float32)
    last = np.empty(-(-cols // 64), dtype=np.int64)
    kernel("usable_share")(*lay_rows(lost), taps, len(taps), least, line, last, out, *out.shape)
    return out


def filter_both(image: Floats32, taps: Floats32) -> Floats32:
    """Filter both axes of a float32 image, (rows, cols), and cut off the rim.

    Weights ``taps`` are float32, an odd number. The result is smaller by their reach on every side.
    """
    rows, cols = (n - len(taps) + 1 for n in image.shape)
    line = np.empty(image.shape[1], np.float32)
    out = np.empty((rows, cols), np.float32)
    kernel("filtered")(*lay_rows(image), taps, len(taps), line, out, rows, cols)
    return out


@dataclass(frozen=True, eq=False, slots=True)
class GainMap(Saved):
    """A relative gain m over the frame of post, with a mean of 1 over the section.

    Attributes
    ----------
    shape
        (rows, columns) of post, px.
    coefficients
        (degree + 1, degree + 1) float64, [i, j]: of the Legendre polynomial i along y and j along
        x, both of which run from -1 to 1 over the pixel centres of the frame.
    limits
        Least and greatest m: what the section showed. Next to it a polynomial may run away.
    dark
        c0, the offset of post that light does not multiply, grey levels.
    """

    PARAMETERS = (("shape", (int, int)), ("limits", (float, float)), ("dark", (float,)))
    ARRAYS: ClassVar[ArrayAxes] = {"coefficients": ("float64", "degrees", "degrees")}

    shape: tuple[int, int]
    coefficients: Floats
    limits: tuple[float, float]
    dark: float

    @property
    def digest(self) -> str:
        """SHA-256 of everything that the map is."""
        numbers = np.array([*self.shape, *self.limits, self.dark, *self.coefficients.ravel()])
        return hashlib.sha256(numbers.astype("<f8").tobytes()).hexdigest()

    def line(self, light: Floats, gain: float, offset: float) -> tuple[Floats, Floats]:
        """Return gain and offset where m is ``light`` (any shape), of those where it is 1."""
        return light * gain, self.dark + light * (offset - self.dark)

    def evaluate(self, points_xy: Floats) -> Floats:
        """Return m at points (N, 2) (x, y) of post, (N,)."""
        rows, cols = self.shape
        along_y = legendre(points_xy[:, 1], rows, len(self.coefficients))
        along_x = legendre(points_xy[:, 0], cols, len(self.coefficients))
        total = np.zeros(len(points_xy))
        for line, y in zip(self.coefficients, along_y, strict=True):
            for factor, x in zip(line, along_x, strict=True):
                total += factor * y * x
        return np.clip(total, *self.limits)

    def evaluate_window(self, window: Window, step: int = 1) -> Floats32:
        """Return m at the pixels of a window, ``window.shape``; a px is the same in any window.

        ``step`` is the side of these px, level-0 px.
        """
        rows, cols = self.shape
        degrees, middle = len(self.coefficients), (step - 1) / 2
        along_y = legendre(step * np.arange(window.y0, window.y1) + middle, rows, degrees)
        along_x = legendre(step * np.arange(window.x0, window.x1) + middle, cols, degrees).astype(
            np.float32
        )
        total = np.zeros(window.shape, np.float32)
        for j, x in enumerate(along_x):
            down = np.zeros(window.shape[0])
            for i, y in enumerate(along_y):
                down += self.coefficients[i, j] * y
            total += down.astype(np.float32)[:, None] * x
        return np.clip(total, np.float32(self.limits[0]), np.float32(self.limits[1]), out=total)


def legendre(positions: NDArray[np.generic], side: int, count: int) -> Floats:
    """Return the Legendre polynomials 0 to count - 1 at positions along a side, (count, N).

    The side's first pixel centre is -1 and its last one 1.
    """
    t = 2 * np.asarray(positions, dtype=np.float64) / max(side - 1, 1) - 1
    found = [np.ones_like(t), t]
    for n in range(1, count - 1):
        found.append(((2 * n + 1) * t * found[n] - n * found[n - 1]) / (n + 1))
    return np.stack(found[:count])


_NONE = GainMap((0, 0), np.zeros((0, 0)), (0.0, 0.0), 0.0)


GAIN_MAP = "details/gain_map.npz"
"""Where it is from the directory of ``scale.json``."""


def save_gain_map(path: Path | str, found: GainMap | None) -> None:
    """Write a gain map as ``.npz``; None is written too, without coefficients."""
    (found or _NONE).save(path)


def load_gain_map(path: Path | str) -> GainMap | None:
    """Read what `save_gain_map` wrote; StoreError if it is damaged or from another version."""
    found = GainMap.load(path)
    return found if found.coefficients.size else None
