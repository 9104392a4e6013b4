"""Measuring a slide: gain and offset of every marker against its background, on a sample of it.

The images are not blurred to match each other's focus, as those of pairs are.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from unglow.core.grey_levels import grey_level
from unglow.core.progress import progress, step
from unglow.core.windows import Window, bounded_map
from unglow.multiplexed.expectation import disagreement
from unglow.multiplexed.images import Background, SlideReader
from unglow.multiplexed.ranges import Look, look_at
from unglow.multiplexed.residual_shift import BlockMatcher, chosen_blocks, shift_doubt
from unglow.multiplexed.sample import Sample, SampledCells
from unglow.multiplexed.sizes import BLOCK
from unglow.multiplexed.slide import by_background, expected_gain
from unglow.photometry.cell_moments import CellMoments
from unglow.photometry.gain.estimate import Evidence, estimate
from unglow.photometry.gain.scale import Scale
from unglow.photometry.joint_histogram import JointStatistics
from unglow.transform import ResidualShift, Transform

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from unglow.io.tiff import TiffHeader
    from unglow.multiplexed.slide import Channel, Maps, Slide
    from unglow.photometry.gain.scale import ScaleSettings
    from unglow.registration.blocks.phase_correlation import Matches

_UNKNOWN = ResidualShift(np.nan, np.nan, np.nan, 0)


@dataclass(frozen=True, eq=False, slots=True)
class Measured:
    """What is known of one marker.

    Attributes
    ----------
    scale
        Gain and offset by every method, with doubts; their details have ``expected_gain``, and
        ``range`` and ``background_range``, those of both channels in the sample.
    statistics
        Joint statistics of marker and background, not by spatial groups any more; without pixels
        where there is no map.
    shift
        What the marker says against the map of its cycle; NaN where too few blocks say anything.
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
    suspect_px: float = 1.0,
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
        What is estimated.
    suspect_px
        A residual shift above this (px) is a doubt.
    workers, markers_at_a_time
        Windows in flight, and markers of a pass over the slide, on which no result depends.
    """
    found: dict[str, Measured] = {}
    for one in slide.markers:
        move = slide.move_of(one)
        if move is not None and maps[move].failed:
            scale = Scale.failed(" ".join(maps[move].reasons), settings)
            gain = expected_gain(slide, one)
            found[one.name] = Measured(scale, JointStatistics.empty(), _UNKNOWN, gain)
    usable = [one for one in slide.markers if one.name not in found]
    needed = {one.name: one for m in usable for one in (m, slide.background_of(m))}
    with SlideReader(headers) as reader:
        looks = look_at(
            reader,
            Sample.of(reader.shape),
            list(needed.values()),
            workers=workers,
            at_a_time=markers_at_a_time + 1,
        )
        for first in range(0, len(usable), markers_at_a_time):
            some = usable[first : first + markers_at_a_time]
            found |= _measured(slide, reader, maps, looks, some, (settings, suspect_px), workers)
    return {one.name: found[one.name] for one in slide.markers}


def _measured(
    slide: Slide,
    reader: SlideReader,
    maps: Maps,
    looks: Mapping[str, Look],
    markers: Sequence[Channel],
    settings: tuple[ScaleSettings, float],
    workers: int,
) -> dict[str, Measured]:
    """Measure some markers in one pass over the slide."""
    sample, tallies = Sample.of(reader.shape), {}
    for one in markers:
        move = slide.move_of(one)
        transform = _within(reader.shape) if move is None else maps[move]
        pair = looks[one.name], looks[str(one.background)]
        tallies[one.name] = _Tally(sample, transform, pair, expected_gain(slide, one))

    def count(item: tuple[Window, tuple[int, int]]) -> dict[str, Matches]:
        window, matches = item[0], {}
        for (name, move), of_background in by_background(slide, markers).items():
            transform = None if move is None else maps[move]
            background = Background(reader, slide.channel(name), transform, window)
            aligned = background.aligned()
            for batch in reader.batches(of_background, len(markers)):
                for one, signal in zip(batch, reader.read(window, batch), strict=True):
                    tally = tallies[one.name]
                    matches[one.name] = tally.add(signal, aligned, background, *item)
        return matches

    windows = sample.windows
    with step("measure"):
        for i, matches in enumerate(bounded_map(count, windows, workers)):
            for name, of_window in matches.items():
                tallies[name].matches.append(of_window)
            progress(i + 1, len(windows), "window")
    return {name: tallies.pop(name).measured(*settings) for name in list(tallies)}


class _Tally:
    """What is counted of one marker, window by window; all methods but the last are thread-safe."""

    def __init__(
        self,
        sample: Sample,
        transform: Transform,
        looks: tuple[Look, Look],
        expected: float | None,
    ) -> None:
        ranges = looks[0].range, looks[1].range
        self._integer = all(look.integer for look in looks)
        self._looks, self._transform, self._expected = looks, transform, expected
        self._sample = sample
        self._statistics = JointStatistics.create(
            post_range=ranges[0],
            pre_range=ranges[1],
            grey_level=grey_level(ranges, integer=self._integer),
            integer=self._integer,
        )
        self._bins = CellMoments.create(sample.extent, (looks[0].high, looks[1].high))
        self._blocks = chosen_blocks(sample, looks[1].texture)
        self._matcher = BlockMatcher(sample.shape, transform, (looks[0].floor, looks[1].floor))
        self._lock = threading.Lock()
        self.matches: list[Matches] = []
        """Matched blocks, window by window."""

    def add(
        self,
        signal: NDArray[np.generic],
        aligned: NDArray[np.float32],
        background: Background,
        window: Window,
        origin: tuple[int, int],
    ) -> Matches:
        """Count a window of the marker and its background; return the blocks matched in it.

        ``origin`` is [row, col] of its first px in the mosaic.
        """
        with self._lock:  # a copy for each thread would take 5 MB
            self._statistics.add(signal, aligned, origin=origin)
        self._bins.add(signal, aligned, origin=origin)
        first, last = np.array([window.x0, window.y0]), np.array([window.x1, window.y1])
        inside = ((self._blocks >= first) & (self._blocks + BLOCK <= last)).all(axis=1)
        return self._matcher.match(
            self._blocks[inside],
            lambda part: signal[part.shift(-window.y0, -window.x0).slices],
            background.read,
        )

    def measured(self, settings: ScaleSettings, suspect_px: float) -> Measured:
        """Estimate gain and offset from what was counted."""
        cells = SampledCells.placed(self._bins, self._sample)
        evidence = Evidence(self._statistics, cells, self._transform, expected_gain=self._expected)
        scale = estimate(evidence, settings)
        shift = self._matcher.shift(self.matches)
        found, shifted = disagreement(scale, evidence), shift_doubt(shift, suspect_px)
        about_gain = [] if found is None else [found.sentence]
        doubts = about_gain if found is not None and found.is_doubt else []
        notes = (*scale.notes, *(about_gain if not doubts else []))
        reasons = (*scale.reasons, *doubts, *filter(None, [shifted]))
        for method in scale.methods.values():
            method.details["expected_gain"] = self._expected
            method.details["range"] = list(self._looks[0].range)
            method.details["background_range"] = list(self._looks[1].range)
        whole = {**self._statistics.arrays, "ratios": self._statistics.ratio_counts[None]}
        # 32 bits hold the counts of a sample: many markers are kept
        small = {k: a.astype(np.int32) if a.dtype == np.int64 else a for k, a in whole.items()}
        statistics = JointStatistics.restored(self._statistics.parameters, small)
        return Measured(
            replace(scale, reasons=reasons, notes=notes), statistics, shift, self._expected
        )


def _within(shape: tuple[int, int]) -> Transform:
    """Return the map within one cycle."""
    return Transform("ok", shape, shape, matrix=np.eye(3), model="none")
