"""What is known of the cycles of a slide: their maps, and whether loops of maps close."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from unglow.multiplexed.results import CycleState
from unglow.photometry.cells import FAR_PX, map_error_px
from unglow.transform import inside_frame

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.multiplexed.slide import Maps, Slide
    from unglow.transform import Transform

    Floats = NDArray[np.float64]

_ACROSS = 40
"""Number of places across and down the frame at which loops are closed."""
_LEAST = 20
"""Fewer places that all maps of a loop know say nothing."""


def cycle_states(slide: Slide, maps: Maps, suspect_px: float) -> dict[int, CycleState]:
    """Return the state of each cycle that is brought into the frame.

    A cycle is in doubt where a loop with a neighbour misses by more than ``suspect_px``, unless its
    loop with the other neighbour closes: then it is the neighbour, or the map between them. Nor is
    it where it has one loop, and the neighbour misses in two.
    """
    misses = {loop: _miss(slide, maps, loop) for loop in slide.loops}
    missed = [loop for loop, miss in misses.items() if miss is not None and miss[0] > suspect_px]
    counts = Counter(cycle for loop in missed for cycle in loop)
    states = {}
    for cycle in slide.moved_cycles:
        found = maps[slide.frame_cycle, cycle]
        own = {(set(loop) - {cycle}).pop(): miss for loop, miss in misses.items() if cycle in loop}
        known = {other: miss for other, miss in own.items() if miss is not None}
        is_open = {other: miss for other, miss in known.items() if miss[0] > suspect_px}
        state = CycleState(
            found.status,
            found.reasons,
            {str(other): miss and round(miss[0], 4) for other, miss in own.items()} or None,
        )
        excused = len(known) == 1 and any(counts[other] > 1 for other in is_open)
        if is_open and len(is_open) == len(known) and not excused and not found.has_failed:
            reasons = [_sentence(cycle, other, miss, suspect_px) for other, miss in is_open.items()]
            state = replace(state, status="suspect", reasons=(*state.reasons, *reasons))
        states[cycle] = state
    return states


def _miss(
    slide: Slide, maps: Maps, loop: tuple[int, int]
) -> tuple[float, tuple[float, float]] | None:
    """Return how far a loop misses (95th percentile, px of the frame), and where it does most."""
    first, second = (maps[slide.frame_cycle, cycle] for cycle in loop)
    between = maps[loop]
    if first.has_failed or second.has_failed or between.has_failed:
        return None
    rows, cols = first.post_shape
    x, y = np.meshgrid(*((np.arange(_ACROSS) + 0.5) / _ACROSS * n for n in (cols, rows)))
    points = np.column_stack([x.ravel(), y.ravel()])
    there = first.map(points)
    known = _find_known(first, points) & _find_known(second, points) & _find_known(between, there)
    if np.count_nonzero(known) < _LEAST:
        return None
    points, there = points[known], there[known]
    scale = second.scale if np.isfinite(second.scale) else 1.0
    lengths = np.hypot(*(between.map(there) - second.map(points)).T) / scale
    place = points[int(np.argmax(lengths))]
    return float(np.quantile(lengths, 0.95)), (float(place[0]), float(place[1]))


def _find_known(transform: Transform, points: Floats) -> NDArray[np.bool_]:
    """Return where a map is known well, and leads into the image."""
    inside = inside_frame(transform.map(points), transform.pre_shape)
    return np.asarray(inside & (map_error_px(transform, points) <= FAR_PX))


def _sentence(
    cycle: int, other: int, miss: tuple[float, tuple[float, float]], suspect_px: float
) -> str:
    length, (x, y) = miss
    return (
        f"The maps of cycles {cycle} and {other} do not agree: going to {other} over {cycle} "
        f"misses by {length:.2f} px, most at x {x:.0f}, y {y:.0f} (setting suspect_px: "
        f"{suspect_px:g}). Look at the nuclei of both cycles there."
    )
