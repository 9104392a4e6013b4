"""Blurring with a small Gaussian, block by block: it makes the sharper image like the other.

The weights are those of a band-limited Gaussian, whose transfer function is exp(-width^2 w^2 / 2)
up to the Nyquist frequency: what an ideal sampled image goes through, however narrow it is.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.memory.sizes import BLUR_REACH

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from unglow.core.windows import Window

    Floats = NDArray[np.float32]

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
    def taps(self) -> NDArray[np.float64]:
        """Weights along one axis, (2 r + 1,) float64, sum 1."""
        return gaussian_taps(self.width_px)

    @property
    def reach(self) -> int:
        """How far the Gaussian reaches, px."""
        return len(self.taps) // 2

    def select_taps(self, image: str) -> NDArray[np.float64]:
        """Weights for one of the images: those of the Gaussian, or a single 1."""
        return self.taps if image == self.image else np.ones(1)

    def blur_window(
        self, read: Callable[[Window], NDArray[np.generic]], shape: tuple[int, int], window: Window
    ) -> Floats:
        """Blur a window of an image; a px has the same bits in whatever window.

        Parameters
        ----------
        read
            Returns the px of a window inside the image, any real dtype.
        shape
            (rows, columns) of the image.
        window
            Part of the image.
        """
        outer = window.grow(self.reach).clip(shape)
        found = blur_image(read(outer), self.taps)
        return found[window.shift(-outer.y0, -outer.x0).slices]


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
    blurred: str | None
    held_out: float
    blocks: int

    @property
    def blur(self) -> Blur | None:
        """What is applied, and to which image."""
        return None if self.blurred is None else Blur(self.blurred, abs(self.width_px))

    def to_json(self) -> dict[str, Any]:
        """Return the entry "sharpness" of ``scale.json``."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any] | None) -> Sharpness | None:
        """Read what `to_json` gave; None stays None. TypeError or ValueError if it is no such."""
        if values is None:
            return None
        found = cls(**values)
        if found.blur is not None and not (
            found.blurred in ("post", "pre") and 0 < found.blur.width_px <= WIDEST
        ):
            raise ValueError(f"nothing is blurred by {found.width_px} px")
        return found


@lru_cache(maxsize=64)
def gaussian_taps(width_px: float) -> NDArray[np.float64]:
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


def blur_image(image: NDArray[np.generic], taps: NDArray[np.float64]) -> Floats:
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
    out = np.empty(image.shape, np.float32)
    rows, cols = image.shape
    reach = len(taps) // 2
    for top in range(0, rows, _ROWS):
        bottom = min(top + _ROWS, rows)
        above, below = max(top - reach, 0), min(bottom + reach, rows)
        strip = np.full((bottom - top + 2 * reach, cols + 2 * reach), np.nan, np.float32)
        at = slice(above - top + reach, below - top + reach)
        strip[at, reach : reach + cols] = image[above:below]
        lost = np.isnan(strip)
        strip[lost] = 0
        found = _filter_both(strip, taps)
        # 1 minus what is lost: exactly 1 where nothing is
        with np.errstate(divide="ignore", invalid="ignore"):
            found /= 1 - _filter_both(lost.astype(np.float32), taps)
        found[lost[reach : reach + len(found), reach : reach + cols]] = np.nan
        out[top:bottom] = found
    return out


def _filter_both(padded: Floats, taps: NDArray[np.float64]) -> Floats:
    """Filter both axes; the result is smaller by the reach of the weights on every side."""
    return _sum_rows(_sum_rows(padded, taps).T, taps).T


def _sum_rows(padded: Floats, taps: NDArray[np.float64]) -> Floats:
    """Sum rows with weights, from the first to the last: (rows - 2 r, cols)."""
    rows = len(padded) - len(taps) + 1
    total = padded[:rows] * np.float32(taps[0])
    for k in range(1, len(taps)):
        total += padded[k : k + rows] * np.float32(taps[k])
    return total
