"""Displacements of blocks on a dense grid, against a map that may already hold a field."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np

from unglow.registration.blocks.phase_correlation import MIN_QUALITY, block_shifts, trust_of
from unglow.registration.blocks.placement import (
    SMALLEST_PX,
    Frames,
    centroids,
    dense_corners,
    fifths,
    rim_corners,
)
from unglow.transform import apply_matrix, at_level

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from unglow.registration.blocks.phase_correlation import Plane
    from unglow.transform.displacement import Displacement

    Floats = NDArray[np.float64]
    Mask = NDArray[np.bool_]

TAPER_SIGMA = 0.14
"""Standard deviation, along an axis, of the squared taper of a block, as a share of its side."""
NEAR_PX = 2.0
"""Blocks within this distance of a known field agree with it."""
_ISLAND_SHARE = 0.02
_ISLAND_BLOCKS = 8
_LEAST = 3
_SLOPE = 0.02
_PART = 1 << 13
_COLUMNS = ("post", "pre", "off", "quality", "place", "corner")


@dataclass(frozen=True, slots=True)
class Images(Frames):
    """Both images and where to look: what every pass over blocks needs.

    Attributes
    ----------
    planes
        Returns post and pre at a pyramid level.
    levels
        How many levels both have.
    sign
        -1 if the contrast is reversed.
    workers
        Threads.
    strips
        Whether a scanner's strips are to be looked for.
    """

    planes: Callable[[int], tuple[Plane, Plane]]
    levels: int
    sign: int
    workers: int
    strips: bool


@dataclass(frozen=True, slots=True)
class Dense:
    """N measured blocks on a grid.

    Attributes
    ----------
    post
        (N, 2) float64 centres (x, y) of what the blocks see of the section, level-0 px.
    pre
        (N, 2) float64 measured positions, level-0 px.
    off
        (N, 2) float64 measured positions minus those of the global model.
    quality
        (N,) float64, see `block_shift`.
    place
        (N, 2) int (column, row) on the grid.
    corner
        (N, 2) int (x, y) of the first pixel, level-0 px.
    size, step
        Side and distance of the blocks, level-0 px; along rims there may be smaller ones.
    """

    post: Floats
    pre: Floats
    off: Floats
    quality: Floats
    place: NDArray[np.int64]
    corner: NDArray[np.int64]
    size: int
    step: int

    def __len__(self) -> int:
        return len(self.quality)

    @property
    def held_out(self) -> Mask:
        """(N,) every fifth block, spatially interleaved, which no fit may use."""
        mask: Mask = fifths(self.place) == 0
        return mask

    @property
    def trust(self) -> Floats:
        """(N,) inverse variances up to a factor: `blocks.phase_correlation.trust_of`."""
        return trust_of(self.quality)

    def on_grid(self, values: Floats, reach: int = 1) -> tuple[Floats, NDArray[np.int64]]:
        """Spread (N,) or (N, K) values over the grid, NaN where there is no block.

        Returns
        -------
        (rows + 2 * reach, cols + 2 * reach[, K]), and the flat index of each block in it.
        """
        place = self.place - self.place.min(axis=0) + reach
        cols, rows = (int(n) for n in place.max(axis=0) + 1 + reach)
        out = np.full((rows * cols, *values.shape[1:]), np.nan)
        index = place[:, 1] * cols + place[:, 0]
        out[index] = values
        return out.reshape(rows, cols, *values.shape[1:]), index

    def agreeing(self, known: Displacement | None = None) -> Mask:
        """(N,) blocks that lie near the median of the blocks around them, beside a known field."""
        good = self.quality >= MIN_QUALITY
        if not good.any():
            return good
        off = self.off if known is None else self.off - known.at(self.post)
        middle, number = self.around(np.where(good[:, None], off, np.nan))
        enough = good & (number >= _LEAST)
        with np.errstate(invalid="ignore"):
            near = np.hypot(*(off - middle).T) <= self.reach(known)
        return np.asarray(enough & near, dtype=np.bool_)

    def reach(self, known: Displacement | None) -> float:
        """How much a displacement may change from block to block, px."""
        return NEAR_PX if known is not None else NEAR_PX + _SLOPE * self.step

    def mainland(self, agreeing: Mask, known: Displacement | None = None) -> Mask:
        """(N,) agreeing blocks from which one comes to many others in small steps.

        Dirt on the glass moves on its own: a few blocks of it, at the edge of the section, agree
        with each other and with nothing else.
        """
        off = self.off if known is None else self.off - known.at(self.post)
        grid, index = self.on_grid(np.where(agreeing[:, None], off, np.nan))
        (rows, cols), reach = grid.shape[:2], self.reach(known)
        # blocks are at even places of a finer grid, and between two of them is what links them
        mask = np.zeros((2 * rows - 1, 2 * cols - 1), np.uint8)
        mask[::2, ::2] = np.isfinite(grid[..., 0])
        with np.errstate(invalid="ignore"):
            mask[1::2, ::2] = np.hypot(*np.moveaxis(np.diff(grid, axis=0), -1, 0)) <= reach
            mask[::2, 1::2] = np.hypot(*np.moveaxis(np.diff(grid, axis=1), -1, 0)) <= reach
        _, labels = cv2.connectedComponents(mask, connectivity=4)
        label = labels[::2, ::2].ravel()[index]
        sizes = np.bincount(label[agreeing], minlength=int(labels.max()) + 1)
        least = max(_ISLAND_BLOCKS, _ISLAND_SHARE * np.count_nonzero(agreeing))
        return np.asarray(agreeing & (sizes >= least)[label], dtype=np.bool_)

    def replaced(self, again: Dense) -> Dense:
        """Return these blocks with those that were measured again in their places."""
        place = np.concatenate([self.place, again.place])
        # of blocks with the same place the last one counts
        _, last = np.unique(place[::-1], axis=0, return_index=True)
        keep = len(place) - 1 - np.sort(last)[::-1]
        joined: dict[str, Any] = {
            name: np.concatenate([getattr(self, name), getattr(again, name)])[keep]
            for name in _COLUMNS
        }
        return replace(self, **joined)

    def around(self, values: Floats) -> tuple[Floats, NDArray[np.int64]]:
        """Median (N, K) of the up to 8 blocks around each block, NaN for none; and their number."""
        middle = np.full_like(values, np.nan)
        number = np.zeros(len(values), np.int64)
        for begin in range(0, len(values), _PART):  # in parts, so that memory stays put
            part = slice(begin, begin + _PART)
            ordered = np.sort(self.neighbours(values, part), axis=0)  # NaN comes last
            count = np.isfinite(ordered).sum(axis=0)
            low, high = (
                np.take_along_axis(ordered, np.maximum(k, 0)[None], axis=0)[0]
                for k in ((count - 1) // 2, np.minimum(count // 2, len(ordered) - 1))
            )
            middle[part] = np.where(count > 0, (low + high) / 2, np.nan)
            number[part] = count[:, 0]
        return middle, number

    def neighbours(self, values: Floats, part: slice = slice(None)) -> Floats:
        """(8, n, K) values (N, K) of the blocks around each block of a part, NaN for none."""
        grid, index = self.on_grid(values)
        cols = grid.shape[1]
        flat = grid.reshape(-1, values.shape[1])
        steps = [dy * cols + dx for dy in (-1, 0, 1) for dx in (-1, 0, 1) if dy or dx]
        return np.stack([flat[index[part] + step] for step in steps])


def measure(
    images: Images,
    field: Displacement | None,
    size: int,
    step: int,
    level: int = 0,
    only: NDArray[np.int64] | Callable[[NDArray[np.int64]], Mask] | None = None,
) -> Dense:
    """Match blocks of ``size`` px, ``step`` px apart (level-0 px), on a pyramid level.

    Parameters
    ----------
    images
        Images and global model.
    field
        What is known of the field; None unless ``level`` is 0.
    size, step
        Side and distance of the blocks.
    level
        Pyramid level.
    only
        (N, 2) places (column, row) of the blocks to measure, or a function that marks them; all
        if None.
    """
    whole = dense_corners(images, size, step, 2**level)
    groups = [(*whole, size)]
    if level == 0 and size >= 2 * SMALLEST_PX:  # blocks of half the side are for rims
        groups.append((*rim_corners(images, size, step, whole[1]), size // 2))
    parts = []
    for corners, place, side in groups:
        if only is None:
            chosen = np.ones(len(place), dtype=bool)
        else:
            chosen = only(place) if callable(only) else _listed(place, only)
        parts.append(_matched(images, field, corners[chosen], place[chosen], side, level))
    joined: dict[str, Any] = {
        name: np.concatenate([part[name] for part in parts]) for name in parts[0]
    }
    return Dense(**joined, size=size, step=step)


def _matched(
    images: Images,
    field: Displacement | None,
    corners: NDArray[np.int64],
    place: NDArray[np.int64],
    size: int,
    level: int,
) -> dict[str, NDArray[Any]]:
    """Match blocks of one side: the columns of `Dense`."""
    unit = 2**level
    matrix = at_level(images.matrix, level) if level else images.matrix
    shifts = block_shifts(
        *images.planes(level),
        matrix,
        corners // unit,
        size // unit,
        field,
        sign=images.sign,
        workers=images.workers,
    )
    found = np.isfinite(shifts[:, 2])
    corners, place, shifts = corners[found], place[found], shifts[found]
    centres = centroids(images.post, corners, size)
    moved = centres - shifts[:, :2] * unit
    pre = apply_matrix(images.matrix, moved)
    if field is not None:
        pre += field.at(moved)
    off = pre - apply_matrix(images.matrix, centres)
    columns = centres, pre, off, shifts[:, 2], place, corners
    return dict(zip(_COLUMNS, columns, strict=True))


def _listed(place: NDArray[np.int64], wanted: NDArray[np.int64]) -> Mask:
    known = {(c, r) for c, r in wanted.tolist()}
    return np.array([(c, r) in known for c, r in place.tolist()], dtype=bool)
