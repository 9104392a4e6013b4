"""The scale of a slide: what it consists of, and gain and offset of every marker."""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from unglow.core.errors import InputError
from unglow.jobs.memory_limit import is_memory_failure
from unglow.multiplexed.cycles import cycle_states
from unglow.multiplexed.measure import Measured, measure_slide
from unglow.multiplexed.results import MarkerScale, SlideRecord, save_records, save_scales, usable
from unglow.multiplexed.slide import FIT
from unglow.photometry.gain.scale import Scale
from unglow.photometry.joint_histogram import JointStatistics
from unglow.transform import ResidualShift
from unglow.workflow.stages.plan import files_of_slide, fingerprint, without_directories

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from unglow.multiplexed.results import CycleState
    from unglow.multiplexed.slide import Maps
    from unglow.photometry.gain.scale import ScaleSettings
    from unglow.workflow.slides import KnownSlide

log = logging.getLogger(__name__)


def measure(
    known: KnownSlide,
    maps: Maps,
    settings: ScaleSettings,
    targets: Mapping[str, Path],
    *,
    suspect_px: float,
    several: str = FIT,
    workers: int,
    markers_at_a_time: int,
) -> None:
    """Measure every marker of a slide and write what was found.

    Markers of cycles without a map fail; what lacks some of its backgrounds is suspect. An image
    that cannot be read is the reason why the slide is refused.

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
    try:
        known = known.resolved(cycle for move in known.slide.moves for cycle in move)
        slide, left_out = usable(known.slide, states)
        found = measure_slide(
            slide,
            known.headers,
            maps,
            settings,
            suspect_px=suspect_px,
            several=several,
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
                found[one.name] = _without_some(found[one.name], lacks)
    except InputError as error:
        if is_memory_failure(error):  # no fault of the file
            raise
        log.warning("%s", error)
        reason = without_directories(str(error), *known.headers)
    for file in files:
        file.check()
    _write(known, found, targets, prints, reason, states)


def _absent(reason: str, settings: ScaleSettings) -> Measured:
    """Return what is known of a marker whose cycle has no map."""
    unknown = ResidualShift.from_residuals(np.zeros((0, 2)))
    return Measured(Scale.make_failed(reason, settings), JointStatistics.empty(), unknown, None)


def _without_some(measured: Measured, lacks: Sequence[str]) -> Measured:
    """Add the doubt that some backgrounds were left out."""
    sentence = (
        f"Subtracted without {' and '.join(lacks)}: the cycle has no map (see registration of the "
        "cycles)."
    )
    scale = replace(measured.scale, reasons=(*measured.scale.reasons, sentence))
    return replace(measured, scale=scale)


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
