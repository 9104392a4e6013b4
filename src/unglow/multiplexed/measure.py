"""Measuring a slide: gain and offset of every marker against its background."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unglow.core.grey_levels import grey_level
from unglow.core.progress import progress, step
from unglow.core.windows import Window, bounded_map, grid
from unglow.multiplexed.images import SlideReader, aligned
from unglow.multiplexed.ranges import Range, find_ranges
from unglow.multiplexed.residual_shift import ResidualShift
from unglow.multiplexed.sizes import WINDOW
from unglow.multiplexed.slide import expected_gain
from unglow.photometry.cell_moments import CellMoments
from unglow.photometry.gain.estimate import Evidence, estimate
from unglow.photometry.gain.scale import Scale
from unglow.photometry.joint_histogram import JointStatistics
from unglow.transform import Transform

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from unglow.io.tiff import TiffHeader
    from unglow.multiplexed.slide import Channel, Maps, Slide
    from unglow.photometry.gain.scale import ScaleSettings


@dataclass(frozen=True, eq=False, slots=True)
class Measured:
    """What is known of one marker.

    Attributes
    ----------
    scale
        Gain and offset by every method, with doubts.
    statistics
        Joint statistics of marker and background; without pixels where there is no map.
    shift
        What the marker says against the map of its cycle.
    expected_gain
        Ratio of the exposure times; None if one is unknown.
    """

    scale: Scale
    statistics: JointStatistics
    shift: ResidualShift
    expected_gain: float | None


def measure_slide(
    slide: Slide,
    headers: Sequence[TiffHeader],
    maps: Maps,
    settings: ScaleSettings,
    *,
    workers: int = 1,
    markers_at_a_time: int = 1,
) -> dict[str, Measured]:
    """Measure every marker of a slide against its background, as the maps bring it.

    Parameters
    ----------
    slide, headers
        The slide, and the headers of its images in their order.
    maps
        Of each of `Slide.moves`; markers of a failed one fail.
    settings
        What is estimated; nothing is blurred.
    workers, markers_at_a_time
        Windows in flight, and markers of a pass over the slide, on which no result depends.
    """
    found: dict[str, Measured] = {}
    usable = []
    for marker in slide.markers:
        move = slide.move_of(marker)
        if move is not None and maps[move].failed:
            reason = " ".join(maps[move].reasons)
            found[marker.name] = _refused(slide, marker, reason, settings)
        else:
            usable.append(marker)
    with SlideReader(headers) as reader:
        wanted = {one.name: one for m in usable for one in (m, slide.background_of(m))}
        at_a_time = markers_at_a_time + 1
        ranges = find_ranges(reader, list(wanted.values()), workers=workers, at_a_time=at_a_time)
        for first in range(0, len(usable), markers_at_a_time):
            some = usable[first : first + markers_at_a_time]
            found |= _Pass(slide, reader, maps, ranges, some).run(settings, workers)
    return {marker.name: found[marker.name] for marker in slide.markers}


def _refused(slide: Slide, marker: Channel, reason: str, settings: ScaleSettings) -> Measured:
    scale = Scale.failed(reason, settings)
    gain = expected_gain(slide, marker)
    return Measured(scale, JointStatistics.empty(), ResidualShift(), gain)


class _Pass:
    """One pass over a slide for some of its markers."""

    def __init__(
        self,
        slide: Slide,
        reader: SlideReader,
        maps: Maps,
        ranges: Mapping[str, Range],
        markers: Sequence[Channel],
    ) -> None:
        self._slide, self._reader, self._maps = slide, reader, maps
        self._markers = markers
        self._locks = {one.name: threading.Lock() for one in markers}
        self._statistics: dict[str, JointStatistics] = {}
        self._bins: dict[str, CellMoments] = {}
        for one in markers:
            pair = ranges[one.name], ranges[slide.background_of(one).name]
            limits = [(r.low, r.high) for r in pair]
            integer = all(r.integer for r in pair)
            self._statistics[one.name] = JointStatistics.create(
                post_range=limits[0],
                pre_range=limits[1],
                grey_level=grey_level(tuple(limits), integer=integer),
                integer=integer,
            )
            self._bins[one.name] = CellMoments.create(reader.shape, (pair[0].high, pair[1].high))

    def run(self, settings: ScaleSettings, workers: int) -> dict[str, Measured]:
        """Go over the slide, and estimate."""
        windows = list(grid(self._reader.shape, (WINDOW, WINDOW)))
        with step("measure"):
            for i, _ in enumerate(bounded_map(self._count, windows, workers)):
                progress(i + 1, len(windows), "window")
        return {one.name: self._measured(one, settings) for one in self._markers}

    def _count(self, window: Window) -> None:
        """Count a window of each marker, which is read once."""
        signals = dict(
            zip(
                (one.name for one in self._markers),
                self._reader.read(window, self._markers),
                strict=True,
            )
        )
        for (name, move), markers in by_background(self._slide, self._markers).items():
            background = self._slide.channel(name)
            transform = None if move is None else self._maps[move]
            pre = aligned(self._reader, background, transform, window)
            for one in markers:
                origin = window.y0, window.x0
                with self._locks[one.name]:
                    self._statistics[one.name].add(signals[one.name], pre, origin=origin)
                self._bins[one.name].add(signals[one.name], pre, origin=origin)

    def _measured(self, marker: Channel, settings: ScaleSettings) -> Measured:
        move = self._slide.move_of(marker)
        transform = _identity(self._reader.shape) if move is None else self._maps[move]
        statistics, bins = self._statistics[marker.name], self._bins.pop(marker.name)
        scale = estimate(Evidence(statistics, bins, transform), settings)
        return Measured(scale, statistics, ResidualShift(), expected_gain(self._slide, marker))


def by_background(
    slide: Slide, markers: Sequence[Channel]
) -> dict[tuple[str, tuple[int, int] | None], list[Channel]]:
    """Group markers by their background and the move that brings it."""
    groups: dict[tuple[str, tuple[int, int] | None], list[Channel]] = {}
    for one in markers:
        groups.setdefault((str(one.background), slide.move_of(one)), []).append(one)
    return groups


def _identity(shape: tuple[int, int]) -> Transform:
    """Return the map within one cycle."""
    from numpy import eye  # noqa: PLC0415

    return Transform("ok", shape, shape, matrix=eye(3), model="translation")
