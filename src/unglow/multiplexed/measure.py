"""Measuring a slide: gain and offset of every marker against its background, on a sample of it.

The images are not blurred to match each other's focus, as those of pairs are.

The residual shift of a marker is what its own pixels say against the map of its cycle: blocks are
matched against the background as the map brings it, as registration matches them.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from unglow.core.grey_levels import grey_level
from unglow.core.progress import progress, step
from unglow.core.windows import Window, map_bounded
from unglow.multiplexed.images import Background, SlideReader
from unglow.multiplexed.ranges import Look, look_at
from unglow.multiplexed.sample import BLOCK, Sample, SampledCells
from unglow.multiplexed.slide import by_background, expected_gain
from unglow.photometry.cell_moments import CellMoments
from unglow.photometry.gain.estimate import ESTIMATORS, Evidence, estimate
from unglow.photometry.gain.scale import METHODS, Scale, ScaleSettings
from unglow.photometry.joint_histogram import JointStatistics
from unglow.registration.blocks.phase_correlation import (
    MIN_PEAK_RATIO,
    Matches,
    block_shifts,
    matches_of,
)
from unglow.registration.images import Plane, PlanePair
from unglow.registration.quality import agreement
from unglow.transform import ResidualShift, Transform, apply_matrix

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from unglow.io.tiff import TiffHeader
    from unglow.multiplexed.gaps import Gaps
    from unglow.multiplexed.slide import Channel, Maps, Slide
    from unglow.photometry.gain.scale import MethodResult

    Read = Callable[[Window], NDArray[Any]]


_ACROSS = 7
"""So many blocks across and down the image, at most."""
_LEAST = 6
"""Fewer blocks that agree tell nothing."""


def chosen_blocks(sample: Sample, texture: NDArray[np.float32]) -> NDArray[np.int64]:
    """Choose blocks: of each cell of a grid the one where the background has most texture.

    ``texture`` is that of `unglow.multiplexed.ranges.Look`. Cycles lie so near to each other that
    it hardly matters in whose frame.

    Returns
    -------
    (N, 2) corners (x, y) in the slide, multiples of `BLOCK` px, in row order.
    """
    rows, cols = texture.shape
    y, x = (v.ravel() for v in np.indices(texture.shape))
    cell = (y * _ACROSS // max(rows, 1)) * _ACROSS + x * _ACROSS // max(cols, 1)
    merit = texture.ravel()
    order = np.lexsort((-merit, cell))
    best = np.sort(order[np.flatnonzero(np.diff(cell[order], prepend=-1))])
    best = best[merit[best] > 0]
    corners = np.asarray(np.column_stack([x[best], y[best]]) * BLOCK, np.float64)
    return np.asarray(sample.in_slide(corners), np.int64)


@dataclass(frozen=True, eq=False, slots=True)
class BlockMatcher:
    """Matches blocks of a marker against its background.

    Attributes
    ----------
    shape
        (rows, columns) of both.
    transform
        Map from marker to background.
    floors
        Grey levels just below the background, of the marker and of its background.
    """

    shape: tuple[int, int]
    transform: Transform
    floors: tuple[float, float]

    def match(self, corners: NDArray[np.int64], marker: Read, background: Read) -> Matches:
        """Return where blocks lie in the background; both are read window by window."""
        planes = PlanePair(
            Plane(marker, self.shape, self.floors[0]),
            Plane(background, self.shape, self.floors[1]),
            self.transform.matrix,
            displacement=self.transform.displacement,
        )
        return matches_of(planes, corners, BLOCK, block_shifts(planes, corners, BLOCK))

    def shift(self, parts: Sequence[Matches]) -> ResidualShift:
        """Return what the blocks that agree have in common; NaN if too few do."""
        found = Matches(
            np.concatenate([np.zeros((0, 2)), *(one.post for one in parts)]),
            np.concatenate([np.zeros((0, 2)), *(one.pre for one in parts)]),
            np.concatenate([np.zeros(0), *(one.peak_ratio for one in parts)]),
        )
        found = found.keep(found.peak_ratio >= MIN_PEAK_RATIO)
        left = found.pre - self.transform.map(found.post)
        plain = apply_matrix(self.transform.matrix, found.post)
        good = agreement(Matches(found.post, plain + left, found.peak_ratio), self.transform.matrix)
        if np.count_nonzero(good) < _LEAST:
            return ResidualShift(np.nan, np.nan, np.nan, int(np.count_nonzero(good)))
        return ResidualShift.from_residuals(left[good])


def shift_doubt(shift: ResidualShift, suspect_px: float) -> str | None:
    """Return a sentence if a shift is beyond what is accepted, and not zero within its error."""
    if not (shift.length_px > suspect_px and shift.is_certain):
        return None
    return (
        f"The background lies {shift.length_px:.2f} px (x {shift.x_px:+.2f}, y {shift.y_px:+.2f}, "
        f"error {shift.error_px:.2f}, {shift.blocks} blocks) beside this marker (setting "
        "suspect_px: "
        f"{suspect_px:g}): its channel is shifted against the one that its cycle was registered "
        "on, or something moved; look at what is left of edges."
    )


TOLERANCE = 0.05
"""Exposure times are believed to such a part of the gain: shutters, lamps and bleaching."""
FAR = 1.5
"""A gain that is more than so many times the expected one, or less than one part of so many, is
more than lamps, filters and bleaching explain: an exposure time or the background is wrong, or
stain all over the section is in the gain."""


class Disagreement(NamedTuple):
    """A sentence about a gain that exposure times do not promise, and whether it is a doubt.

    It is none where the measured gain is subtracted, and less than `FAR` from the expected one.
    """

    sentence: str
    is_doubt: bool


def disagreement(scale: Scale, evidence: Evidence) -> Disagreement | None:
    """Return what to say if a measured gain does not agree with the exposure times; else None.

    None also where no gain was found, so that nothing is subtracted.
    The interval of 95 % is widened by `TOLERANCE`. Where only given gains were asked for, the
    linear method is tried for this alone.
    """
    if not scale.default_result.ok:
        return None
    expected, measured = evidence.expected_gain, _measured_gain(scale, evidence)
    if expected is None or measured is None or measured.gain_ci95 is None:
        return None
    low, high = measured.gain_ci95
    if low - TOLERANCE * expected <= expected <= high + TOLERANCE * expected:
        return None
    value, interval = f"{measured.gain:.3g}", f"{low:.3g} to {high:.3g}"
    if METHODS[scale.default].is_given:
        sentence = (
            f"The exposure times promise a gain of {expected:.3g}, but {value} ({interval}) was "
            "measured: lamp, filters or bleaching differ between the two images, or an exposure "
            f"time is wrong; {scale.default_result.gain:.3g} is subtracted (method "
            f"{scale.default}), but the measured gain is the one to believe: "
            "to subtract that, put linear first in scale.methods."
        )
        return Disagreement(sentence, is_doubt=True)
    if low >= FAR * expected or high <= expected / FAR:
        sentence = (
            f"Measured gain {value} ({interval}) is far from the {expected:.3g} expected from "
            "exposure times: an exposure time or the background channel is wrong, or stain all "
            "over the section is in the gain. The measured gain was used: look at the marker's "
            "figure."
        )
        return Disagreement(sentence, is_doubt=True)
    sentence = (
        f"Measured gain {value} ({interval}) differs from the {expected:.3g} expected from "
        "exposure times. The measured gain was used."
    )
    return Disagreement(sentence, is_doubt=False)


def _measured_gain(scale: Scale, evidence: Evidence) -> MethodResult | None:
    """Return the default method if it measures a gain, or another one that does."""
    names = (scale.default, *scale.methods, None)
    for name in names:
        if name is None:
            alone = replace(ScaleSettings(), methods=("linear",), gain_map="never")
            return ESTIMATORS["linear"](evidence, alone)
        if not METHODS[name].is_given and scale.methods[name].ok:
            return scale.methods[name]
    return None


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
        if move is not None and maps[move].has_failed:
            scale = Scale.make_failed(" ".join(maps[move].reasons), settings)
            gain = expected_gain(slide, one)
            found[one.name] = Measured(scale, JointStatistics.empty(), _UNKNOWN, gain)
    with SlideReader(headers) as reader:
        doubts = {one.name: _lost(reader.gaps, slide, one) for one in slide.markers}
        for one in slide.markers:
            sentences, too_much = doubts[one.name]
            if too_much and one.name not in found:
                scale = Scale.make_failed(" ".join(sentences), settings)
                gain = expected_gain(slide, one)
                found[one.name] = Measured(scale, JointStatistics.empty(), _UNKNOWN, gain)
        usable = [one for one in slide.markers if one.name not in found]
        needed = {one.name: one for m in usable for one in (m, slide.background_of(m))}
        looks = look_at(
            reader,
            Sample.of(reader.shape),
            list(needed.values()),
            workers=workers,
            at_a_time=markers_at_a_time + 1,
        )
        for first in range(0, len(usable), markers_at_a_time):
            some = usable[first : first + markers_at_a_time]
            measured = _measured(slide, reader, maps, looks, some, (settings, suspect_px), workers)
            for name, known in measured.items():
                found[name] = _doubted(known, doubts[name][0])
    return {one.name: found[one.name] for one in slide.markers}


def _lost(gaps: Gaps, slide: Slide, marker: Channel) -> tuple[list[str], bool]:
    """Return sentences about what a marker or its background lost; whether that is too much."""
    both = [gaps.doubt(one) for one in (marker, slide.background_of(marker))]
    return [told for told, _ in both if told is not None], any(much for _, much in both)


def _doubted(measured: Measured, doubts: Sequence[str]) -> Measured:
    """Return what was measured with more doubts."""
    scale = measured.scale
    return replace(measured, scale=replace(scale, reasons=(*scale.reasons, *doubts)))


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
                    tally, shown = tallies[one.name], reader.gaps.hidden(one, window, signal)
                    matches[one.name] = tally.add(shown, aligned, background, *item)
        return matches

    windows = sample.windows
    with step("measure"):
        for i, matches in enumerate(map_bounded(count, windows, workers)):
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
        statistics = JointStatistics.restore(self._statistics.parameters, small)
        return Measured(
            replace(scale, reasons=reasons, notes=notes), statistics, shift, self._expected
        )


def _within(shape: tuple[int, int]) -> Transform:
    """Return the map within one cycle."""
    return Transform("ok", shape, shape, matrix=np.eye(3), model="none")
