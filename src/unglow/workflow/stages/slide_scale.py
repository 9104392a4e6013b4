"""The scale of a slide: what it consists of, and gain and offset of every marker."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING

from unglow.core.errors import InputError
from unglow.jobs.memory_limit import is_memory_failure
from unglow.multiplexed.measure import measure_slide
from unglow.multiplexed.results import MarkerScale, SlideRecord, save_records, save_scales
from unglow.workflow.stages.plan import files_of_slide, fingerprint, without_directories

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from unglow.multiplexed.measure import Measured
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
    workers: int,
    markers_at_a_time: int,
) -> None:
    """Measure every marker of a slide and write what was found.

    An image that cannot be read is the reason why the slide is refused.

    Raises
    ------
    ChangedError
        An image was changed or replaced meanwhile.
    """
    prints = tuple(fingerprint(header) for header in known.headers)
    files = files_of_slide(known.headers, prints)
    found: dict[str, Measured] = {}
    reason = None
    try:
        known = known.resolved(cycle for move in known.slide.moves for cycle in move)
        found = measure_slide(
            known.slide,
            known.headers,
            maps,
            settings,
            suspect_px=suspect_px,
            workers=workers,
            markers_at_a_time=markers_at_a_time,
        )
    except InputError as error:
        if is_memory_failure(error):  # no fault of the file
            raise
        log.warning("%s", error)
        reason = without_directories(str(error), *known.headers)
    for file in files:
        file.check()
    _write(known, found, targets, prints, reason)


def _write(
    known: KnownSlide,
    found: Mapping[str, Measured],
    targets: Mapping[str, Path],
    prints: tuple[str, ...],
    reason: str | None,
) -> None:
    header = known.headers[0]
    SlideRecord(known.slide, known.shape, header.dtype, header.pixel_size_um, prints, reason).save(
        targets["slide"]
    )
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
