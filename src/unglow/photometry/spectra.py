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
from unglow.images.zarr.layout import CHUNK
from unglow.memory import CELL
from unglow.photometry.resampled_noise import (
    compute_filtered_noise,
    phase_shares,
    round_jacobian,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from unglow.core.arrays import Bools, Floats
    from unglow.photometry.cell_moments import CellMoments
    from unglow.photometry.imaging import NoiseModel
    from unglow.transform import Transform

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
# Blocks that are transformed together: their spectra stay in the cache.
_AT_ONCE = 16
# Keeps a determinant above 0.
_TINY = 1e-300
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

    def select(self, chosen: Bools | NDArray[np.intp]) -> Spectra:
        """Return those of some blocks."""
        return Spectra(*(getattr(self, f.name)[chosen] for f in fields(Spectra)))

    def sums(self, weights: Floats) -> Spectra:
        """Return sums over blocks with weights: (N,) to (bins,) each, (M, N) to (M, bins)."""
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
    order = sorted(
        range(len(windows)), key=lambda n: (windows[n].y0 // CHUNK, windows[n].x0 // CHUNK)
    )
    values = np.full((len(windows), len(fields(Spectra)), len(RADII)), np.nan)
    for begin in range(0, len(order), _AT_ONCE):
        numbers, blocks = [], []
        for number in order[begin : begin + _AT_ONCE]:
            block = np.empty((2, SIDE, SIDE))
            for part, one in zip(block, read, strict=True):
                part[:] = one(windows[number])
            if all((part < top).all() for part, top in zip(block, tops, strict=True)):  # nor NaN
                numbers.append(number)
                blocks.append(block)
        if blocks:
            post, pre = np.stack(blocks, axis=1)
            of_post = noise.variance_post(post.mean(axis=(1, 2))).astype(np.float64)
            of_pre = noise.variance_pre(pre.mean(axis=(1, 2))).astype(np.float64)
            whites = of_post[:, None] * np.ones(len(RADII))
            resampled_whites = of_pre[:, None] * resampled.average_power(
                [windows[number] for number in numbers]
            )
            values[numbers] = np.stack([*_spectra(post, pre), whites, resampled_whites], axis=1)
    values = values[np.isfinite(values).all(axis=(1, 2))]
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


_IN_BINS = np.bincount(_BIN.ravel())[:-1]
_BY_BIN = np.argsort(_BIN.ravel(), kind="stable")[: _IN_BINS.sum()]
_BIN_STARTS = np.cumsum(_IN_BINS) - _IN_BINS


def _profile(power: Floats) -> Floats:
    """Mean over the frequencies of each bin, of half spectra (..., rows, cols) to (..., bins)."""
    flat = (_TIMES * power).reshape(*power.shape[:-2], -1)
    return np.asarray(np.add.reduceat(flat[..., _BY_BIN], _BIN_STARTS, axis=-1) / COUNTS)


def _spectra(post: Floats, pre: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Power of blocks (N, rows, cols) of post and of pre, and what they share, (N, bins) each.

    That is without and with the block's own shift.
    """
    share = _HANN / _HANN.sum()
    of_post, of_pre = (
        np.fft.rfft2((v - (v * share).sum(axis=(1, 2), keepdims=True)) * _HANN) for v in (post, pre)
    )
    cross = of_post * np.conj(of_pre)
    dx, dy = _find_shifts(cross).T[..., None, None]
    angle = _WX * dx + _WY * dy
    return (
        _profile(of_post.real**2 + of_post.imag**2),
        _profile(of_pre.real**2 + of_pre.imag**2),
        _profile(cross.real * np.cos(angle) - cross.imag * np.sin(angle)),
        _profile(cross.real),
    )


def _find_shifts(cross: NDArray[np.complex128]) -> Floats:
    """Shifts of post against pre, (N, 2) px, from the phases at low frequencies.

    Least squares with the real part as weight, repeated, as the phase is taken as small; 0 where
    no shift can be found.
    """
    along = np.stack([_WX[_LOW], _WY[_LOW]])
    products = np.stack([along[0] ** 2, along[0] * along[1], along[1] ** 2])
    low = (_TIMES * cross)[:, _LOW]
    shifts, found = np.zeros((len(cross), 2)), np.ones(len(cross), bool)
    for _ in range(_SHIFT_STEPS):
        turned = low * np.exp(1j * (shifts @ along))
        xx, xy, yy = (np.maximum(turned.real, 0) @ products.T).T
        x, y = (turned.imag @ along.T).T
        determinant = xx * yy - xy * xy
        found &= determinant > 1e-9 * (xx + yy) ** 2
        steps = np.stack([yy * x - xy * y, xx * y - xy * x], axis=1)
        shifts = np.where(
            found[:, None], shifts - steps / np.maximum(determinant, _TINY)[:, None], 0
        )
    found &= np.hypot(*shifts.T) <= _SHIFT_MOST
    return np.where(found[:, None], shifts, 0.0)


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

    def average_power(self, windows: Sequence[Window]) -> Floats:
        """Return the power in the bins, averaged over the phases of blocks, (N, bins)."""
        y, x = (v.ravel() for v in np.mgrid[0:SIDE:_THIN, 0:SIDE:_THIN])
        corners = np.array([(window.x0, window.y0) for window in windows], np.float64)
        points = corners[:, None] + np.stack([x, y], axis=1)
        mapped = self.transform.map(points.reshape(-1, 2)).reshape(points.shape)
        shares = phase_shares(self.tables.shape[1], mapped[..., 0], mapped[..., 1])
        means = shares.reshape(len(shares), -1) @ self.tables.reshape(len(self.tables), -1).T
        return np.asarray(means @ self.waves)
