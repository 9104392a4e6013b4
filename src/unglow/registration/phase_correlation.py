"""Sub-pixel shifts of blocks by phase correlation, at any pyramid level.

Each block of pre is first resampled by the current map, so that what is left is a small shift.
Square roots even out shot noise and keep bright new signal from dominating; phase normalisation
takes gain and shading away; the peak is found on a locally upsampled correlation
(Guizar-Sicairos et al. 2008, doi:10.1364/OL.33.000156) with a parabola on top. There, waves weigh
by the square root of their product's magnitude, which halves the noise of a block: pure phases
would weigh those that are all noise like those that are all signal.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from unglow.core.kernels import kernel
from unglow.core.progress import progress
from unglow.core.windows import Window, map_bounded
from unglow.registration.images import backward, forward
from unglow.transform.resample import warp_matrix

if TYPE_CHECKING:
    from unglow.core.arrays import Array, Bools, Floats, Floats32, Ints
    from unglow.registration.images import PlanePair


MIN_PEAK_RATIO = 1.4
"""Correlation peaks lower than this over the next one are chance."""
_MOST_WEIGHT = 30.0
"""Square root of the greatest weight of a block: beyond it, other errors than noise prevail."""
UPSAMPLING = 8
"""Samples per px of the fine correlation, on which a parabola is put."""
CLIP = 3.0
"""New bright signal is in one image only: values are clipped at this many standard deviations."""
_CLIP_ROUNDS = 2
_LEAST_SPREAD = 1e-6
"""Standard deviation, square roots of grey levels, below which a block holds nothing."""
_STRIP_PX = 2048
"""Width of the strips in whose order blocks are measured, px."""
_PEAK_RADIUS = 5
"""The next peak of a correlation is further than this from the highest one, px."""
_HIGHEST_RATIO = 1e3
"""Of two peaks; where there is no other one."""
_MOST_EMPTY = 0.25
"""Greatest share of a block without data."""
_HIGHEST_FREQUENCY = 0.35
"""Cycles per px: noise and sampling are above."""
_LONGEST_WAVES = 4
"""Shading has fewer waves than this over a block."""


@dataclass(frozen=True, slots=True)
class Matches:
    """Measured positions of N blocks.

    Attributes
    ----------
    post, pre
        (N, 2) float64 (x, y).
    peak_ratio
        (N,) height of the correlation peak over the next one, see `block_shift`.
    """

    post: Floats
    pre: Floats
    peak_ratio: Floats

    def __len__(self) -> int:
        return len(self.peak_ratio)

    @property
    def weights(self) -> Floats:
        """(N,) see `block_weights`."""
        return block_weights(self.peak_ratio)

    def keep(self, mask: Bools) -> Matches:
        """Return the matches where ``mask`` (N,) is true."""
        return Matches(self.post[mask], self.pre[mask], self.peak_ratio[mask])


def block_weights(peak_ratio: Floats) -> Floats:
    """Inverse variances of blocks, up to a factor: the error of one goes as 1 / (peak_ratio - 1).

    0 for blocks whose peak may be chance.
    """
    above = np.clip(peak_ratio - 1, 1e-3, None)
    return np.where(peak_ratio >= MIN_PEAK_RATIO, 1 / (above**-2 + _MOST_WEIGHT**-2), 0.0)


class _Fourier:
    """Window, pass band and roots of unity for blocks of one size."""

    def __init__(self, size: int) -> None:
        self.edge = np.hanning(size + 2)[1:-1].astype(np.float32)
        self.taper = self.edge[:, None] * self.edge[None]
        radius = np.hypot(np.fft.fftfreq(size)[:, None], np.fft.rfftfreq(size)[None])
        low, high = _LONGEST_WAVES / size, _HIGHEST_FREQUENCY
        band = (1 - np.exp(-((radius / low) ** 4))) * np.exp(-((radius / high) ** 4))
        self.band = band.astype(np.float32)
        turns = np.arange(size * UPSAMPLING) / (size * UPSAMPLING)
        self.roots = np.exp(2j * np.pi * turns).astype(np.complex64)


@lru_cache(maxsize=8)
def _fourier(size: int) -> _Fourier:
    return _Fourier(size)


def block_shift(post: Floats32, pre: Floats32, sign: int = 1) -> tuple[float, float, float]:
    """Measure how far the content of ``post`` is from that of ``pre``.

    Parameters
    ----------
    post, pre
        (n, n) float32, n a power of two from 32 to 512, finite.
    sign
        1, or -1 if one is the negative of the other.

    Returns
    -------
    dx, dy, peak_ratio: post(x, y) matches pre(x - dx, y - dy), in px; the ratio is that of the
    correlation peak to the highest one elsewhere, about 1 for unrelated blocks.
    """
    size = len(post)
    f, found = _fourier(size), np.empty(3)
    room = np.empty(size * (7 * size // 2 + 56), np.float32)
    kernel("block_shift")(
        post, pre, size, f.edge, f.band, f.roots, UPSAMPLING, _PEAK_RADIUS, sign, room, found
    )
    dx, dy, peak_ratio = found.tolist()
    return dx, dy, min(peak_ratio, _HIGHEST_RATIO)


def compress(block: Array, floor: float) -> Floats32 | None:
    """Take the square root above ``floor``; None if too much is missing or nothing varies."""
    values = np.array(block, dtype=np.float32, order="C")
    spread = np.empty(1)
    most_empty = int(_MOST_EMPTY * values.size)
    kernel("compress")(values, values.size, floor, CLIP, _CLIP_ROUNDS, most_empty, spread)
    return values if spread[0] > _LEAST_SPREAD else None


def match_blocks(planes: PlanePair, corners: Ints, size: int) -> Matches:
    """Measure where blocks of post are in pre; parameters are those of `block_shifts`.

    Returns
    -------
    At most N matches (blocks without content or outside pre are excluded), at block centres, in
    pixels of the planes.
    """
    return matches_of(planes, corners, size, block_shifts(planes, corners, size))


def matches_of(planes: PlanePair, corners: Ints, size: int, shifts: Floats) -> Matches:
    """Return the measured ones of `block_shifts` as positions."""
    measured = np.isfinite(shifts[:, 2])
    centres = np.asarray(corners[measured] + (size - 1) / 2, dtype=np.float64)
    pre = planes.map(centres - shifts[measured, :2])
    return Matches(centres, pre, shifts[measured, 2])


def block_shifts(planes: PlanePair, corners: Ints, size: int) -> Floats:
    """Measure how far the content of each block of post is from that of mapped pre.

    Parameters
    ----------
    planes
        The images and the current map; found shifts reach size / 4 with confidence.
    corners
        (N, 2) int (x, y) of the first pixel of each block; blocks must be inside post.
    size
        Side of a block, px.

    Returns
    -------
    (N, 3) float64 of `block_shift`; NaN for blocks without content or outside pre.
    """
    steps, back = _find_integer_steps(planes, np.asarray(corners + size // 2, dtype=np.float64))

    def measure(k: int) -> tuple[float, float, float] | None:
        move = np.array([[1, 0, steps[k][0]], [0, 1, steps[k][1]], [0, 0, 1]])
        moved = replace(planes, matrix=move @ planes.matrix)
        blocks = read_mapped_blocks(moved, size, corners[k])
        return None if blocks is None else block_shift(*blocks, planes.sign)

    shifts = np.full((len(corners), 3), np.nan)
    # down one strip after the other, so that blocks find the chunks of their neighbours decoded
    order = np.lexsort((corners[:, 1], corners[:, 0] // _STRIP_PX)).tolist()
    measured = map_bounded(measure, order, planes.workers)
    for count, (k, shift) in enumerate(zip(order, measured, strict=True), 1):
        if shift is not None:
            shifts[k] = shift
        progress(count, len(corners), "block")
    shifts[:, :2] -= back
    return shifts


def _find_integer_steps(planes: PlanePair, pixels: Floats) -> tuple[Floats, Floats]:
    """Find steps in pre that put pixels (N, 2) on integer px, and the same in post, (N, 2) each.

    An interpolated image is shifted a little, by an amount that depends on the fraction of a px.
    With fractions evenly around zero that cancels; with the same one everywhere, as where pre is
    neither turned nor scaled, blocks would be off by up to 0.04 px together.
    """
    around = 0.5 * np.array([[0.0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]])
    points = (pixels[:, None] + around).reshape(-1, 2)
    if planes.displacement is not None:
        planes = replace(planes, displacement=planes.displacement.smooth)
    at = planes.map(points).reshape(-1, 5, 2)
    steps = np.rint(at[:, 0]) - at[:, 0]
    slopes = np.stack([at[:, 1] - at[:, 2], at[:, 3] - at[:, 4]], axis=2)
    beyond = ~np.isfinite(at).all(axis=(1, 2))
    steps[beyond], slopes[beyond] = 0.0, np.eye(2)
    back = np.asarray(np.linalg.solve(slopes, steps[..., None])[..., 0], dtype=np.float64)
    return steps, back


def read_mapped_blocks(
    planes: PlanePair, size: int, corner: Ints
) -> tuple[Floats32, Floats32] | None:
    """Return a block of post and what the map brings there from pre, both compressed, or None."""
    x0, y0 = (int(v) for v in corner)
    window = Window(y0, y0 + size, x0, x0 + size)
    post, pre = planes.post, planes.pre
    a = compress(post.read(window), post.floor)
    if a is None:
        return None
    warped = warp_matrix(pre.read, pre.shape, planes.matrix, window, planes.displacement)
    b = compress(warped, pre.floor)
    return None if b is None else (a, b)


def detail_correlation(post: Floats32, pre: Floats32, sign: int = 1) -> float:
    """Correlation (-1..1) of two blocks as they lie, in the pass band of `block_shift`."""
    f = _fourier(post.shape[0])
    a, b = (forward((v - v.mean()) * f.taper, post.shape) * f.band for v in (post, pre))
    # of a half spectrum, columns between the first and the last represent two
    twice = np.full(a.shape[1], 2.0)
    twice[[0, -1]] = 1.0
    both, own, other = (
        float((np.sum((p * np.conj(q)).real, axis=0, dtype=np.float64) * twice).sum())
        for p, q in ((a, b), (a, a), (b, b))
    )
    return sign * both / max(float(np.sqrt(own * other)), 1e-30)


def filter_band(block: Floats32) -> Floats32:
    """Return a compressed block in the pass band of `block_shift`, untapered."""
    f = _fourier(block.shape[0])
    return backward(forward(block - block.mean(), block.shape) * f.band, block.shape)


_SAMPLES = 128


def overlap_correlation(apart: Floats) -> Floats:
    """Correlation (...) of the noise of two blocks that lie ``apart`` (..., 2) sides from another.

    Both see the noise of the same pixels, weighted by the squared taper:
    1 for the same block, 3/70 for blocks half a
    side apart, 0 for blocks that only touch. NaN counts as far away.
    """
    at = np.arange(_SAMPLES) / _SAMPLES
    taper = np.sin(np.pi * (at + 0.5 / _SAMPLES)) ** 4
    shared = np.array([(taper[k:] * taper[: _SAMPLES - k]).sum() for k in range(_SAMPLES)])
    away = np.abs(np.nan_to_num(apart, nan=1.0))
    both = np.interp(away, at, shared / shared[0], right=0.0)
    return np.asarray(both.prod(axis=-1))
