"""Px of exactly one value that light does not make: holes, fill values, gaps between tiles.

Noise hardly gives neighbours one value for long, and what is clipped (glass at 0, saturated light)
ends where light and noise let it. So px have no data where they lie in squares of 3 x 3 px of one
value, and two of the four ends of their row and column are *firm*: on an edge that keeps to a row
or column for `RUN` px (or to a slanted line, where it cuts off a side of the image, as after a
rotation), and behind which values jump. So a hole differs from the dark glass that it touches. Px
that are not found are data, as before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unglow.core.windows import Window, merge_runs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from unglow.core.arrays import Array, Bools, Bytes


RUN, _LONG = 31, 151
"""An edge is straight over at least this many px; odd. The second is for slanted edges of runs that
begin at the end of a window, and not of the image."""
_BAND, _ROWS = 256, 64
"""Rows or columns that are worked on together, to save memory; and where each run is listed."""
_JUMP, _LEVELS = 0.02, 3
"""Behind a firm edge, half of the px differ by more than this part of what is typical in the
window, and of integers by more than this many grey levels: blocks of JPEG differ by less. And"""
_BEHIND, _AT_ONCE, _AFTER = 4, 0.5, 0.8
"""by the second part of what px do at the first number times their distance: optics make no such
steps. (Rotation mixes two px across a slanted edge: the second px is looked at, for the third
part.) And"""
_ROUGH = 0.25
"""of neighbours along it this part differs: where noise is lost, flat px may be chance."""
_FIRM, _SEAM, _BORDER = 1, 8, 64
"""Ends of runs, as they are added up: a firm edge, the end of the window, the border of the image.
The last one is firm if the other end is."""
_MANY = 1000
"""More places than this that may be an edge are not looked at one by one."""
_MOST_WAITING = 64
"""At most this many parts of a window wait for what its neighbours say, the largest first."""


def find_constant(
    block: Array, window: Window, shape: tuple[int, int], stored: Bools | None = None
) -> tuple[Bools, list[Window]] | None:
    """Find px of a window that are constant and were not imaged; None if nothing is to be said.

    Parameters
    ----------
    block
        Px of the window (rows, cols), any real dtype.
    window, shape
        Where it lies in an image of (rows, columns).
    stored
        Which px are stored; None for all.

    Returns
    -------
    Which px have no data, (rows, cols) bool; and further rectangles of one value, from the corner
    of the window, that have none if what they touch beyond its end has none.
    """
    if min(block.shape) < 3 or not _may_hold_any(block):
        return None
    flat = _find_squares(block)
    if stored is not None:
        flat &= stored
    if not flat.any():
        return None
    outer = (window.x0 == 0, window.x1 == shape[1]), (window.y0 == 0, window.y1 == shape[0])
    firm = _find_firm(flat, block, outer[0]), _find_firm(flat.T, block.T, outer[1])
    if not flat.all() and not any(at.size for both in firm for at, _ in both):
        return None
    ends = np.zeros(flat.shape, np.uint8)
    _add_ends(flat, firm[0], outer[0], ends)
    _add_ends(flat.T, firm[1], outer[1], ends.T)
    kinds = ends & (_SEAM - 1)
    mask = kinds >= 2
    ends //= _SEAM
    kinds += ends
    waits = kinds >= 2
    np.logical_and(waits, ends, out=waits)
    del ends, kinds  # as much memory as the block
    if mask.any():  # where gaps cross, no end is firm
        near = _erode(_widen(mask.copy(), RUN, RUN), RUN // 2, RUN // 2)
        np.logical_or(mask, flat, out=mask, where=near)
        del near
    waiting = merge_runs(np.greater(waits, mask, out=waits))
    return mask, sorted(waiting, key=lambda w: (-w.size, w))[:_MOST_WAITING]


def _may_hold_any(block: Array) -> bool:
    """Say whether every eighth row or column shows one value alone, or what may be a firm edge.

    Or whether a side is of one value, behind which a rim may be.
    """
    if any((side == side[0]).all() for side in (*block[[0, -1]], *block[:, [0, -1]].T)):
        return True
    least = _LEVELS if block.dtype.kind in "iu" else 0
    for every, lines in ((block, block[::8]), (block.T, block[:, ::8].copy().T)):
        equal = lines[:, 1:] == lines[:, :-1]
        flat = equal[:, 1:] & equal[:, :-1]
        ends = [flat[:, :-1] & ~equal[:, 2:], flat[:, 1:] & ~equal[:, :-2]]
        for edge, here, beyond in zip(ends, (2, 1), (3, 0), strict=True):
            row, col = _list_places(edge[3:] & edge[2:-1] & edge[1:-2] & edge[:-3])
            jumps = [
                np.abs(lines[row + k, col + beyond].astype(np.float64) - lines[row, col + here])
                for k in range(4)
            ]
            far = np.min(jumps, axis=0) > least
            if _have_one_value(every[:, here:], row[far], col[far]):
                return True
        if flat.all() or any(
            _may_be_cut(every[:, ::step], lines[:, ::step], least) for step in (-1, 1)
        ):
            return True
    return False


def _have_one_value(image: Array, row: NDArray[np.intp], col: NDArray[np.intp]) -> bool:
    """Say whether any 25 px of a column have: those from ``8 * row`` on, of columns ``col``."""
    if len(row) > _MANY:
        return True
    columns = image[8 * row[:, None] + np.arange(25), col[:, None]]
    return bool((columns == columns[:, :1]).all(axis=1).any())


def _may_be_cut(every: Array, lines: Array, least: int) -> bool:
    """Say whether runs of one value from the first px on may end at a slanted line, in jumps.

    ``lines`` are every eighth row of the image.
    """
    if np.count_nonzero((lines[:, 0] == lines[:, 1]) & (lines[:, 0] == lines[:, 2])) < 4:
        return False
    ends = (lines == lines[:, :1]).argmin(axis=1)  # 0 if all are of one value
    near = np.minimum(ends + 1, lines.shape[1] - 1)
    jumps = np.abs(np.take_along_axis(lines, near[:, None], 1)[:, 0] - lines[:, 0].astype("f8"))
    is_end = (ends >= 3) & (jumps > least)
    bends = np.abs(np.diff(ends, 2)) <= 2
    row = np.flatnonzero(bends[1:] & bends[:-1] & is_end[3:] & is_end[2:-1] & is_end[:-3])
    return _have_one_value(every, row, np.zeros_like(row))


def _list_places(mask: Bools) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return `np.nonzero`, which takes three times as long where little is true."""
    rows, cols = np.divmod(np.flatnonzero(mask), mask.shape[1])
    return rows, cols


def _widen(mask: Bools, rows: int, cols: int) -> Bools:
    """Add to a mask, in place, the px at most so many rows and columns from it."""
    for lines, most in ((mask, rows), (mask.T, cols)):
        reached = 0
        while reached < most:
            step = min(2 * reached + 1, most - reached)
            before = lines.copy()
            lines[step:] |= before[:-step]
            lines[:-step] |= before[step:]
            del before
            reached += step
    return mask


def _erode(mask: Bools, rows: int, cols: int) -> Bools:
    """Take away from a mask, in place, the px at most so many rows and columns from its ends."""
    np.logical_not(mask, out=mask)
    return np.logical_not(_widen(mask, rows, cols), out=mask)


def _find_squares(block: Array) -> Bools:
    """Return which px lie in squares of 3 x 3 px of one value, which may go on beyond the end."""
    flat = np.empty(block.shape, np.bool_)
    for y in range(0, len(block), _BAND):
        end = min(y + _BAND, len(block)) + 2
        room = max(0, 2 - y), max(0, end - len(block))
        band = np.pad(block[max(0, y - 2) : end], (room, (2, 2)), "edge")
        across, down = band[:, 1:] == band[:, :-1], band[1:] == band[:-1]
        pairs = across[:, 1:] & across[:, :-1]
        equal = down[1:, 1:-1] & down[:-1, 1:-1]
        nines = pairs[2:] & pairs[1:-1] & pairs[:-2] & equal
        tall = nines[2:] | nines[1:-1] | nines[:-2]
        flat[y : y + _BAND] = tall[:, 2:] | tall[:, 1:-1] | tall[:, :-2]
    flat[np.ix_((0, -1), (0, -1))] &= flat[np.ix_((1, -2), (1, -2))]  # not a px by itself
    for values, squares in ((block, flat), (block.T, flat.T)):
        # where squares of two values touch, an image was enlarged by repeating its px
        touch = values[1:] != values[:-1]
        touch &= squares[1:]
        touch &= squares[:-1]
        if touch.any():
            for one in (squares[1:], squares[:-1]):
                np.greater(one, touch, out=one)
    return flat


def _find_firm(
    flat: Bools, block: Array, at_border: tuple[bool, bool]
) -> list[tuple[NDArray[np.intp], ...]]:
    """Return the px (row, col) at firm ends of the runs in rows: the first px, then the last."""
    ends, none = [], (np.zeros(0, np.intp),) * 2
    for beyond, opposite in zip((-1, 1), at_border[::-1], strict=True):
        found = []
        for x in range(0, flat.shape[1], _BAND):
            band = np.ascontiguousarray(flat[:, max(0, x - 1) : x + _BAND + 1])
            edge = np.zeros_like(band)
            here, there = (np.s_[:, 1:], np.s_[:, :-1])[::-beyond]
            edge[here] = band[here] & ~band[there]
            _widen(_erode(edge, RUN // 2, 0), RUN // 2, 0)
            if not edge.any():
                continue
            col, row = _list_places(edge.T[min(x, 1) : min(x, 1) + _BAND])
            found.append((row, col + x))
        row, col = (np.concatenate(part) for part in zip(none, *found, strict=True))
        straight = _keep_jumps(row, col, beyond, _AT_ONCE, flat, block)
        row, col = _find_slanted(flat, beyond, RUN if opposite else _LONG)
        slanted = _keep_jumps(row, col, 2 * beyond, _AFTER, flat, block)
        ends.append(tuple(np.concatenate(both) for both in zip(straight, slanted, strict=True)))
    return ends


def _find_slanted(
    flat: Bools, beyond: int, least: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the px (row, col) where runs end that begin at a side, if a slanted line cuts them.

    It is straight over any `RUN` rows, and has at least ``least`` of them. Of two px that rotation
    mixes across the edge, either may be flat.
    """
    begin = flat[:, 0 if beyond > 0 else -1]
    if np.count_nonzero(begin) < RUN:
        return np.zeros(0, np.intp), np.zeros(0, np.intp)
    ends = np.full(len(flat), -1)  # as where a run does not end
    ends[begin] = flat[begin, ::beyond].argmin(axis=1) - 1
    around = np.lib.stride_tricks.sliding_window_view(ends, RUN)
    slope = (around[:, -1:] - around[:, :1]) / (RUN - 1)
    off = np.abs(around - around[:, :1] - slope * np.arange(RUN)).max(axis=1)
    slanted = (around.min(axis=1) >= 0) & (off <= 1) & (slope != 0)[:, 0] & (abs(slope) <= 1)[:, 0]
    on = np.zeros(len(ends), np.bool_)
    on[RUN // 2 : len(ends) - RUN // 2] = slanted
    more = (least - RUN) // 2
    row = np.flatnonzero(_widen(_erode(on[:, None], more, 0), more + RUN // 2, 0))
    return row, ends[row] if beyond > 0 else flat.shape[1] - 1 - ends[row]


def _keep_jumps(
    row: NDArray[np.intp],
    col: NDArray[np.intp],
    beyond: int,
    part: float,
    flat: Bools,
    block: Array,
) -> tuple[NDArray[np.intp], ...]:
    """Return those px of edges behind which, at a distance ``beyond``, values jump by a part."""
    if not row.size:
        return row, col
    apart = (np.abs(np.diff(col, prepend=-9)) > 1) | (np.diff(row, prepend=-9) != 1)
    apart |= row % RUN == 0
    first = np.flatnonzero(apart)  # of pieces: an edge may begin on glass
    lengths = np.diff(first, append=row.size)
    own = block[row[first], col[first]].astype(np.float64)
    others = block[::8, ::8][~flat[::8, ::8]].astype(np.float64)
    least = np.zeros(len(own))
    for value in np.unique(own):
        typical = np.median(np.abs(others - value)) if others.size else 0.0
        least[own == value] = max(_JUMP * typical, _LEVELS if block.dtype.kind in "iu" else 0)
    next_, whole = (
        block[row, np.clip(col + at, 0, block.shape[1] - 1)].astype(np.float64)
        for at in (beyond, _BEHIND * beyond)
    )
    least, own = np.repeat(least, lengths), np.repeat(own, lengths)
    step, whole = np.abs(next_ - own), np.abs(whole - own)
    jump = np.add.reduceat((step > least) & (step >= part * whole), first)
    rough = np.add.reduceat(np.diff(next_, prepend=next_[:1]) != 0, first)
    jumps = (jump >= 0.5 * lengths) & (rough >= _ROUGH * lengths)
    kept = np.repeat(jumps, lengths)
    return row[kept], col[kept]


def _add_ends(
    flat: Bools,
    firm: list[tuple[NDArray[np.intp], ...]],
    at_border: tuple[bool, bool],
    total: Bytes,
) -> None:
    """Add to ``total``, for each flat px, the kinds of the ends of its run."""
    last = flat.shape[1] - 1
    edges = [_BORDER if one else _SEAM for one in at_border]
    for y in range(0, len(flat), _ROWS):
        band = np.ascontiguousarray(flat[y : y + _ROWS])
        ends = np.zeros((2, *band.shape), np.uint8)
        ends[0, :, 0], ends[1, :, last] = edges
        for one, (row, col) in zip(ends, firm, strict=True):
            inside = (row >= y) & (row < y + len(band))
            one[row[inside] - y, col[inside]] = _FIRM
        steps = np.diff(band.astype(np.int8), axis=1, prepend=0, append=0)
        starts, stops = _list_places(steps > 0), _list_places(steps < 0)
        lengths = stops[1] - starts[1]
        codes = ends[0][starts] + ends[1][stops[0], stops[1] - 1]
        codes += codes == _FIRM + _BORDER
        codes[codes == 2 * _BORDER] = _SEAM  # corners of a frame: their neighbours know
        band_total = np.zeros(band.shape, np.uint8)
        band_total[band] = np.repeat(codes % _BORDER, lengths)
        total[y : y + _ROWS] += band_total


def spread(found: Mapping[Window, float], waiting: Mapping[Window, float]) -> list[Window]:
    """Return what waits and touches no data of its value along half of a side, or such a one."""
    added: list[Window] = []
    left, new = dict(waiting), dict(found)
    while new:
        near = {
            w: value
            for w, value in left.items()
            if any(value == other and _go_on(w, one) for one, other in new.items())
        }
        added += near
        left, new = {w: v for w, v in left.items() if w not in near}, near
    return added


def _go_on(one: Window, other: Window) -> bool:
    rows, cols = one.grow(1).common(other).shape
    return 2 * rows * cols >= (one.shape[1] if rows == 1 else one.shape[0]) > 0
