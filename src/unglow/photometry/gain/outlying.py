"""Places whose cells depart together from what all others follow: bleached, lost, dirty, blurred.

Single cells of a dim or half lost place depart from the line by less than their noise, so that
their weights in a robust fit stay, and they move the gain by up to 0.2 %. Sums over blocks of cells
show them; so they do where post has less of the texture of pre than elsewhere (out of focus).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unglow.photometry.gain.robust import LEVELS, compute_steps
from unglow.photometry.sizes import CELL

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from unglow.photometry.cell_moments import CellMoments

    Bools = NDArray[np.bool_]
    Floats = NDArray[np.float64]

BLOCK_CELLS = 16
"""Side of a block, in cells of the lattice: 64 px in an image of 2048 px, 900 px in one of 30000.
"""
FAR, BEYOND = 6.0, 3.0
"""A place has a block that departs by the first, and others next to it by the second, in standard
deviations of blocks."""
_CAP = 3.0
"""A cell adds at most this to the sum of its block, so that no single structure decides."""
_PART = 0.25
"""A block is judged if this share of its cells has data."""
_LEAST_CELLS, _LEAST_BLOCKS = 60, 30
"""Fewer cells of a level, or fewer blocks, have no spread to speak of."""
_MOST = 0.3
"""If more of the cells depart, no part is the odd one, and none is left out."""
_SIGMA_OF_MAD = 1.4826


def find_outlying_cells(bins: CellMoments, gain: ArrayLike, offset: ArrayLike) -> Bools:
    """Find the cells of places that depart from post = gain * pre + offset.

    Parameters
    ----------
    bins
        Moments of cells on a lattice of (ny, nx).
    gain, offset
        The line, numbers or (ny, nx); offset in grey levels.

    Returns
    -------
    (ny, nx) bool; none where more than 30 % of the cells would be among them.
    """
    whole = bins.count == CELL**2
    none = np.zeros(whole.shape, bool)
    if np.count_nonzero(whole) < _LEAST_CELLS:
        return none
    counts = _sum_blocks(whole.astype(np.float64))
    if np.count_nonzero(counts >= _PART * BLOCK_CELLS**2) < _LEAST_BLOCKS:
        return none
    pre, texture = bins.pre.astype(np.float64), bins.pre_var.astype(np.float64)
    residual = bins.post - (np.asarray(gain) * pre + np.asarray(offset))
    level = _score_blocks(residual, pre, whole, counts)
    shared = _score_blocks(bins.cov.astype(np.float64), np.log1p(texture), whole, counts)
    blocks = _grow(_join(level) | _join(-level) | _join(-shared))
    cells = np.kron(blocks, np.ones((BLOCK_CELLS, BLOCK_CELLS), bool))
    found: Bools = cells[: whole.shape[0], : whole.shape[1]] & whole
    return none if np.count_nonzero(found) > _MOST * np.count_nonzero(whole) else found


def _score_blocks(values: Floats, level: Floats, whole: Bools, counts: Floats) -> Floats:
    """Return how far the values of each block are from those of cells of the same level.

    In standard deviations of blocks; 0 where a block has too few cells.
    """
    scaled = np.zeros(whole.shape)
    scaled[whole] = np.clip(_scale_by_level(values[whole], level[whole]), -_CAP, _CAP)
    judged = counts >= _PART * BLOCK_CELLS**2
    score = _sum_blocks(scaled) / np.sqrt(np.maximum(counts, 1.0))
    score -= np.median(score[judged])
    score /= max(_SIGMA_OF_MAD * float(np.median(np.abs(score[judged]))), 1.0)
    score[~judged] = 0.0
    return score


def _scale_by_level(values: Floats, level: Floats) -> Floats:
    """Return values in standard deviations of those of the same level, below their median.

    Above it stain adds to them.
    """
    steps = compute_steps(level)
    scaled = np.zeros(len(values))
    for step in range(LEVELS):
        at = np.flatnonzero(steps == step)
        if len(at) >= _LEAST_CELLS:
            departure = values[at] - np.median(values[at])
            sigma = _SIGMA_OF_MAD * float(np.median(-departure[departure <= 0]))
            if sigma > 0:
                scaled[at] = departure / sigma
    return scaled


def _sum_blocks(values: Floats) -> Floats:
    """Sum over blocks of cells; the last ones may be smaller."""
    rows, cols = (range(0, n, BLOCK_CELLS) for n in values.shape)
    return np.asarray(np.add.reduceat(np.add.reduceat(values, rows, axis=0), cols, axis=1))


def _join(score: Floats) -> Bools:
    """Return blocks beyond `FAR`, with those beyond `BEYOND` that touch them or one another."""
    allowed, found = score > BEYOND, score > FAR
    while True:
        grown = _grow(found) & allowed
        if np.array_equal(grown, found):
            return found
        found = grown


def _grow(blocks: Bools) -> Bools:
    """Add the eight neighbours of each block."""
    padded = np.pad(blocks, 1)
    rows = padded[:-2] | padded[1:-1] | padded[2:]
    return rows[:, :-2] | rows[:, 1:-1] | rows[:, 2:]
