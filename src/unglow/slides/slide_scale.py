"""The scale of a slide: its cycles, whether loops of their maps close, and each marker's gain."""

from __future__ import annotations

import logging
import math
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from unglow.core.archive import make_damage_error
from unglow.core.errors import InputError
from unglow.core.reasons import explain
from unglow.images.raw_file import files_of_slide, fingerprint, remove_directories
from unglow.jobs.memory_limit import is_memory_failure
from unglow.memory import block_side, count_blocks
from unglow.photometry.cells import FAR_PX, map_error_px
from unglow.photometry.gain.scale import Scale
from unglow.photometry.joint_histogram import JointStatistics
from unglow.results.slide_files import (
    CycleState,
    MarkerScale,
    SlideRecord,
    save_records,
    save_scales,
    usable,
)
from unglow.slides.channels import choose_richest
from unglow.slides.measure import Measured, measure_slide
from unglow.slides.slide import FIT
from unglow.spoilt.block_scores import BlockScores
from unglow.spoilt.outlines import report, write_places, write_trusted
from unglow.spoilt.places import Places, SpoiltMask, find_places
from unglow.transform import ResidualShift, inside_frame

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from unglow.core.arrays import Bools, Floats
    from unglow.images.slide_plan import KnownSlide, Slide
    from unglow.photometry.gain.scale import ScaleSettings
    from unglow.slides.slide import Maps
    from unglow.transform import Transform


_ACROSS = 40
"""Number of places across and down the frame at which loops are closed."""
_LEAST = 20
"""Fewer places that all maps of a loop know say nothing."""

log = logging.getLogger(__name__)


def measure(
    known: KnownSlide,
    maps: Maps,
    settings: ScaleSettings,
    targets: Mapping[str, Path],
    *,
    suspect_px: float,
    several: str = FIT,
    scores: Mapping[int, Path] | None = None,
    max_spoilt: float = 1.0,
    workers: int,
    markers_at_a_time: int,
) -> None:
    """Measure every marker of a slide and write what was found, and the spoilt places of cycles.

    Markers of cycles without a map fail; what lacks some of its backgrounds is suspect. An image
    that cannot be read is the reason why the slide is refused. ``scores`` are the files of the
    block scores of cycles; one that is spoilt in a larger share than ``max_spoilt`` is suspect.

    Raises
    ------
    ChangedError
        An image was changed or replaced meanwhile.
    """
    prints = tuple(fingerprint(header) for header in known.headers)
    files = files_of_slide(known.headers, prints)
    found: dict[str, Measured] = {}
    reason = None
    states = cycle_states(known.slide, maps, suspect_px)
    places = find_in_cycles(scores or {}, known.shape, targets)
    states |= {
        cycle: judge_cycle(states[cycle], cycle, own, known.shape, max_spoilt)
        for cycle, own in places.items()
    }
    try:
        cycles = {cycle for move in known.slide.moves for cycle in move}
        known = replace(known, slide=choose_richest(known.slide, known.headers, cycles))
        slide, left_out = usable(known.slide, states)
        found = measure_slide(
            slide,
            known.headers,
            maps,
            settings,
            suspect_px=suspect_px,
            several=several,
            spoilt={n: SpoiltMask(own.mask, own.side) for n, own in places.items()},
            workers=workers,
            markers_at_a_time=markers_at_a_time,
        )
        found = {
            one.name: found[one.name]
            if one.name in found
            else _absent(left_out[one.name], settings)
            for one in known.slide.markers
        }
        for one in slide.markers:
            lacks = [
                n for n in known.slide.channel(one.name).backgrounds if n not in one.backgrounds
            ]
            if lacks:
                own = found[one.name].scale
                doubt = explain("background_lost", names=" and ".join(lacks))
                scale = replace(own, reasons=(*own.reasons, doubt))
                found[one.name] = replace(found[one.name], scale=scale)
    except InputError as error:
        if is_memory_failure(error):  # no fault of the file
            raise
        log.warning("%s", error)
        reason = remove_directories(str(error), *known.headers)
    for file in files:
        file.check()
    _write(known, found, targets, prints, reason, states)


def find_in_cycles(
    scores: Mapping[int, Path], shape: tuple[int, int], targets: Mapping[str, Path]
) -> dict[int, Places]:
    """Find the spoilt places of each cycle from its block scores, and write all and what is left.

    Parameters
    ----------
    scores
        Files of block scores by cycle; one without data has no places.
    shape
        (rows, columns) of the frame.
    targets
        Paths of ``artefacts`` and ``trusted``, which are written.
    """
    side, good, places = block_side(shape), [], {}
    for cycle, path in scores.items():
        found = BlockScores.load(path)
        if found.shape != shape:
            raise make_damage_error(path)
        on_section = np.isfinite(found.select("level"))
        places[cycle] = find_places(found, on_section)
        if places[cycle].judged:
            good.append(on_section & ~places[cycle].mask)
    write_places(targets["artefacts"], places, shape)
    nothing = np.zeros(count_blocks(shape, side), np.bool_)
    write_trusted(targets["trusted"], np.logical_and.reduce(good) if good else nothing, side, shape)
    return places


def judge_cycle(
    state: CycleState, cycle: int, places: Places, shape: tuple[int, int], most: float
) -> CycleState:
    """Add to the state of a cycle what is spoilt of it, and a doubt if that is too much."""
    if not places.judged:
        return state
    state = replace(state, spoilt=report(places, shape))
    excess = places.explain_excess("cycle_spoilt", most, cycle=cycle)
    if not excess:
        return state
    return replace(state, status="suspect", reasons=(*state.reasons, *excess))


def _absent(reason: str, settings: ScaleSettings) -> Measured:
    """Return what is known of a marker whose cycle has no map."""
    unknown = ResidualShift.from_residuals(np.zeros((0, 2)))
    return Measured(Scale.make_failed(reason, settings), JointStatistics.empty(), unknown, None)


def _write(
    known: KnownSlide,
    found: Mapping[str, Measured],
    targets: Mapping[str, Path],
    prints: tuple[str, ...],
    reason: str | None,
    states: Mapping[int, CycleState],
) -> None:
    size = known.frame_header.pixel_size_um
    record = SlideRecord(known.slide, known.shape, known.dtype, size, prints, reason, states)
    record.save(targets["slide"])
    each = [found.get(marker.name) for marker in known.slide.markers]
    save_records(targets["statistics"], [None if one is None else one.statistics for one in each])
    save_records(
        targets["gain_maps"], [None if one is None else one.scale.gain_map for one in each]
    )
    entries = {name: _entry(one) for name, one in found.items()}
    save_scales(targets["scale"], known.slide, entries, reason)


def _entry(measured: Measured) -> MarkerScale:
    shift = measured.shift
    known = shift.blocks > 0 and math.isfinite(shift.error_px)
    return MarkerScale(
        measured.scale,
        measured.expected_gain,
        (shift.x_px, shift.y_px) if known else None,
        shift.error_px if known else None,
        shift.blocks,
    )


def cycle_states(slide: Slide, maps: Maps, suspect_px: float) -> dict[int, CycleState]:
    """Return the state of each cycle that is brought into the frame.

    A cycle is in doubt where a loop with a neighbour misses by more than ``suspect_px``, unless its
    loop with the other neighbour closes: then it is the neighbour, or the map between them. Nor is
    it where it has one loop, and the neighbour misses in two.
    """
    misses = {loop: _measure_loop(slide, maps, loop) for loop in slide.loops}
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
            limit = suspect_px
            reasons = [
                explain("loop", at=place, cycle=cycle, other=other, length=length, limit=limit)
                for other, (length, place) in is_open.items()
            ]
            state = replace(state, status="suspect", reasons=(*state.reasons, *reasons))
        states[cycle] = state
    return states


def _measure_loop(
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


def _find_known(transform: Transform, points: Floats) -> Bools:
    """Return where a map is known well, and leads into the image."""
    inside = inside_frame(transform.map(points), transform.pre_shape)
    return np.asarray(inside & (map_error_px(transform, points) <= FAR_PX))
