"""Auto- and cross-spectra of small blocks of a pair.

Autospectra hold the noise of their image, which is predicted next to them. The cross-spectrum holds
none, and no stain either: it shows what of pre is seen again in post.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from unglow.core.progress import step
from unglow.core.windows import Window
from unglow.io.zarr.layout import CHUNK
from unglow.memory.sizes import CELL
from unglow.photometry.resampled_noise import (
    compute_filtered_noise,
    phase_shares,
    positions,
    round_jacobian,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from unglow.photometry.cell_moments import CellMoments
    from unglow.photometry.imaging import NoiseModel
    from unglow.transform import Transform

    Floats = NDArray[np.float64]
    Read = Callable[[Window], NDArray[np.generic]]


SIDE = 64
"""Side of a block, px."""
BLOCKS = 400
"""At most this many blocks are read."""
_STEP = 2 * np.pi / SIDE
# Below the first one, a block of this size holds mostly what its window makes of the mean.
_FIRST, _LAST = 2, SIDE // 2 - 1
RADII = np.arange(_FIRST, _LAST + 1) * _STEP
"""Frequencies of the bins, radians per px."""
# Resampled noise is correlated over this many px.
_LAG = 3
# Every this many px of a block give its phases.
_THIN = 4
# Shifts are found from frequencies below this, rad per px, in this many steps, and not believed
# beyond this many px.
_SHIFT_BAND, _SHIFT_STEPS, _SHIFT_MOST = 1.5, 3, 1.0


@dataclass(frozen=True, eq=False, slots=True)
class Spectra:
    """Mean power by frequency (`RADII`) in blocks, (N, bins) float64 each.

    That of white noise is its variance.

    Attributes
    ----------
    post, pre
        Of each image, its noise included, grey levels squared.
    shared
        Real part of the cross-spectrum, in phase once the block's own shift is taken out.
    raw
        The same with that shift, as the difference sees it.
    post_noise, pre_noise
        Noise that the model predicts in ``post`` and ``pre``.
    """

    post: Floats
    pre: Floats
    shared: Floats
    raw: Floats
    post_noise: Floats
    pre_noise: Floats

    def __len__(self) -> int:
        return len(self.post)

    def select(self, chosen: NDArray[np.bool_] | NDArray[np.intp]) -> Spectra:
        """Return those of some blocks."""
        return Spectra(*(getattr(self, f.name)[chosen] for f in fields(Spectra)))

    def sums(self, weights: Floats) -> Spectra:
        """Return sums over blocks, (bins,) each, with weights (N,)."""
        return Spectra(*(weights @ getattr(self, f.name) for f in fields(Spectra)))


def choose_textured(bins: CellMoments) -> list[Window]:
    """Choose blocks all over the section: in each of many regions the one with the most texture.

    They are at most `BLOCKS` windows of `SIDE` x `SIDE` px, in row order, on a grid from the first
    px on. Texture is the gradient of pre.
    """
    rows, cols = (n // SIDE for n in bins.shape)
    if not rows * cols:
        return []
    whole = ((bins.count == CELL**2) & np.isfinite(bins.gradient)).ravel()
    at = (bins.centres_xy[whole] // SIDE).astype(np.intp)
    inside = (at[:, 0] < cols) & (at[:, 1] < rows)
    block = (at[:, 1] * cols + at[:, 0])[inside]
    total = np.bincount(block, bins.gradient.ravel()[whole][inside], rows * cols)
    count = np.bincount(block, minlength=rows * cols)
    texture = (total / np.maximum(count, 1)).reshape(rows, cols)
    side = 1
    while -(-rows // side) * -(-cols // side) > BLOCKS:
        side += 1
    chosen = []
    for top in range(0, rows, side):
        for left in range(0, cols, side):
            part = texture[top : top + side, left : left + side]
            row, col = np.unravel_index(int(part.argmax()), part.shape)
            if part[row, col] > 0:
                y, x = SIDE * (top + int(row)), SIDE * (left + int(col))
                chosen.append(Window(y, y + SIDE, x, x + SIDE))
    return sorted(chosen)


@step("spectra")
def measure(
    read: tuple[Read, Read],
    windows: Sequence[Window],
    tops: tuple[float, float],
    noise: NoiseModel,
    transform: Transform,
) -> Spectra:
    """Measure blocks; those with px without data or saturated are excluded.

    Parameters
    ----------
    read
        Return the px of a window of post and of aligned pre.
    windows
        Blocks of `SIDE` x `SIDE` px.
    tops
        Largest value of post and of pre.
    noise, transform
        Of the pair.
    """
    resampled = _Resampled.from_transform(transform)
    measured = {}
    for window in sorted(windows, key=lambda w: (w.y0 // CHUNK, w.x0 // CHUNK)):
        post, pre = (np.asarray(one(window), np.float64) for one in read)
        if not ((post < tops[0]) & (pre < tops[1])).all():  # False for NaN as well
            continue
        levels = np.array([post.mean(), pre.mean()])
        of_post = float(noise.variance_post(levels)[0])
        of_pre = float(noise.variance_pre(levels)[1])
        spectra = _spectra(post, pre)
        whites = np.full(len(RADII), of_post), of_pre * resampled.average_power(window)
        measured[window] = (*spectra, *whites)
    blocks = [measured[window] for window in windows if window in measured]
    values = np.array(blocks).reshape(len(blocks), len(fields(Spectra)), len(RADII))
    return Spectra(*values.transpose(1, 0, 2).copy())


def _frequencies() -> tuple[Floats, Floats, NDArray[np.intp], Floats]:
    """Frequencies of half a spectrum, and how many of a full one each represents.

    Along y and x, rad per px; the number of the bin or a last one for none. The highest ones are in
    none.
    """
    along = np.fft.fftfreq(SIDE) * 2 * np.pi
    y, x = np.meshgrid(along, along[: SIDE // 2 + 1], indexing="ij")
    number = np.rint(np.hypot(y, x) / _STEP).astype(np.intp) - _FIRST
    number[(number < 0) | (number >= len(RADII))] = len(RADII)
    return y, x, number, np.where((x == 0) | (x == x.min()), 1.0, 2.0)


_WY, _WX, _BIN, _TIMES = _frequencies()
_LOW = (np.hypot(_WY, _WX) < _SHIFT_BAND) & (np.hypot(_WY, _WX) >= RADII[0])
COUNTS = np.bincount(_BIN.ravel(), _TIMES.ravel())[:-1]
"""Number of frequencies in each bin, (bins,)."""
_HANN = np.outer(*[np.sin(np.pi * (np.arange(SIDE) + 0.5) / SIDE) ** 2] * 2)
_HANN /= np.sqrt((_HANN**2).sum())
SQUARES = np.bincount(_BIN.ravel(), (_TIMES * (_WY**2 + _WX**2) / 2).ravel())[:-1] / COUNTS
"""Half the mean squared frequency of each bin, (bins,)."""


def _profile(power: Floats) -> Floats:
    """Mean over the frequencies of each bin, (bins,)."""
    return np.asarray(np.bincount(_BIN.ravel(), (_TIMES * power).ravel())[:-1] / COUNTS)


def _spectra(post: Floats, pre: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Power of post and of pre, and what they share, without and with the block's own shift."""
    share = _HANN / _HANN.sum()
    of_post, of_pre = (np.fft.rfft2((v - (v * share).sum()) * _HANN) for v in (post, pre))
    cross = of_post * np.conj(of_pre)
    dx, dy = _shift(cross)
    angle = _WX * dx + _WY * dy
    return (
        _profile(of_post.real**2 + of_post.imag**2),
        _profile(of_pre.real**2 + of_pre.imag**2),
        _profile(cross.real * np.cos(angle) - cross.imag * np.sin(angle)),
        _profile(cross.real),
    )


def _shift(cross: NDArray[np.complex128]) -> tuple[float, float]:
    """Shift of post against pre, (x, y) px, from the phase at low frequencies; 0 if there is none.

    Least squares with the real part as weight, repeated, as the phase is taken as small.
    """
    x, y, c = _WX[_LOW], _WY[_LOW], (_TIMES * cross)[_LOW]
    shift = np.zeros(2)
    for _ in range(_SHIFT_STEPS):
        turned = c * np.exp(1j * (x * shift[0] + y * shift[1]))
        weight = np.maximum(turned.real, 0)
        matrix = np.array(
            [[(weight * x * x).sum(), (weight * x * y).sum()], [0, (weight * y * y).sum()]]
        )
        matrix[1, 0] = matrix[0, 1]
        if np.linalg.det(matrix) <= 1e-9 * np.trace(matrix) ** 2:
            return 0.0, 0.0
        shift -= np.linalg.solve(matrix, [(turned.imag * v).sum() for v in (x, y)])
    if not np.hypot(*shift) <= _SHIFT_MOST:
        return 0.0, 0.0
    return float(shift[0]), float(shift[1])


@dataclass(frozen=True, eq=False, slots=True)
class _Resampled:
    """Spectrum of resampled white noise of variance 1: covariances of px, by phase."""

    transform: Transform
    tables: Floats
    waves: Floats

    @classmethod
    def from_transform(cls, transform: Transform) -> _Resampled:
        rows, cols = transform.post_shape
        local = round_jacobian(transform, ((cols - 1) / 2, (rows - 1) / 2))
        lags = [(i, j) for i in range(_LAG + 1) for j in range(-_LAG, _LAG + 1) if (i, j) > (0, 0)]
        one = np.zeros((2 * _LAG + 1,) * 2)
        one[_LAG, _LAG] = 1
        tables, waves = [compute_filtered_noise(local, one)], [np.ones(len(RADII))]
        for i, j in lags:
            pair = np.zeros_like(one)
            pair[_LAG + i, _LAG + j] = 1
            tables.append(
                (
                    compute_filtered_noise(local, one + pair)
                    - compute_filtered_noise(local, one - pair)
                )
                / 4
            )
            waves.append(2 * _profile(np.cos(_WY * i + _WX * j)))
        return cls(transform, np.array(tables), np.array(waves))

    def average_power(self, window: Window) -> Floats:
        """Return the power in the bins, averaged over the phases of a block."""
        x, y = (v[::_THIN, ::_THIN] for v in positions(self.transform, window))
        share = phase_shares(self.tables.shape[1], x, y)
        means = (self.tables * share).sum(axis=(1, 2))
        return np.asarray(means @ self.waves)
