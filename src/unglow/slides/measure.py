"""Measuring a slide: gain and offset of every marker against its background, on a sample of it.

The images are not blurred to match each other's focus, as those of pairs are.

The residual shift of a marker is what its own pixels say against the map of its cycle: blocks are
matched against each background, both as maps bring them into the frame of the slide.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from unglow.core.progress import progress, step
from unglow.core.reasons import explain, split_notes
from unglow.core.rounding import percent
from unglow.core.windows import Window, map_bounded
from unglow.images.stored_values import LEAST_SHARE, MOST_SHARE, grey_level
from unglow.photometry.cell_moments import CellMoments
from unglow.photometry.gain.estimate import ESTIMATORS, Evidence, estimate
from unglow.photometry.gain.scale import METHODS, Scale, ScaleSettings
from unglow.photometry.joint_histogram import JointStatistics
from unglow.registration.images import Plane, PlanePair
from unglow.registration.phase_correlation import (
    MIN_PEAK_RATIO,
    Matches,
    block_shifts,
    matches_of,
)
from unglow.registration.quality import agreement
from unglow.slides.images import Frame, HeldChannel, SlideReader
from unglow.slides.ranges import ChannelSurvey, SampledCells, raw_noise, survey_channels
from unglow.slides.several import estimate_several, refine, uses_exposure
from unglow.slides.slide import (
    BLOCK,
    FIT,
    INTERPOLATE,
    SATURATED,
    Sample,
    compute_expected_gain,
    compute_expected_gains,
    group_by_background,
)
from unglow.transform import ResidualShift, Transform

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from unglow.core.arrays import Array, Floats32, Ints
    from unglow.images.slide_plan import Channel, Slide
    from unglow.images.tiff import TiffHeader
    from unglow.photometry.gain.scale import MethodResult
    from unglow.slides.channels import Gaps
    from unglow.slides.slide import Maps
    from unglow.spoilt.places import SpoiltMask

    Read = Callable[[Window], Array]


_ACROSS = 7
"""So many blocks across and down the image, at most."""
_LEAST = 6
"""Fewer blocks that agree say nothing."""


def choose_blocks(sample: Sample, texture: Floats32) -> Ints:
    """Choose blocks: of each cell of a grid the one where the background has most texture.

    ``texture`` is that of `unglow.slides.ranges.ChannelSurvey`. Cycles lie so near to each other
    that it hardly matters in whose frame.

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
    return np.asarray(sample.to_slide(corners), np.int64)


@dataclass(frozen=True, eq=False, slots=True)
class BlockMatcher:
    """Matches blocks of a marker against a background, both in the frame of the slide.

    Attributes
    ----------
    shape
        (rows, columns) of the frame.
    floors
        Grey levels just below the background, of the marker and of its background.
    """

    shape: tuple[int, int]
    floors: tuple[float, float]

    def match(self, corners: Ints, marker: Read, background: Read) -> Matches:
        """Return where blocks lie in the background; both are read window by window."""
        planes = PlanePair(
            Plane(marker, self.shape, self.floors[0]),
            Plane(background, self.shape, self.floors[1]),
            np.eye(3),
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
        good = agreement(found, np.eye(3))
        if np.count_nonzero(good) < _LEAST:
            return ResidualShift(np.nan, np.nan, np.nan, int(np.count_nonzero(good)))
        return ResidualShift.from_residuals((found.pre - found.post)[good])


def shift_doubt(shift: ResidualShift, suspect_px: float) -> str | None:
    """Return a sentence if a shift is beyond what is accepted, and not zero within its error."""
    if not (shift.length_px > suspect_px and shift.is_certain):
        return None
    lengths = {"length": shift.length_px, "x": shift.x_px, "y": shift.y_px, "error": shift.error_px}
    return explain("shifted", blocks=shift.blocks, limit=suspect_px, **lengths)


TOLERANCE = 0.05
"""Exposure times are believed to such a part of the gain: shutters, lamps and bleaching."""
FAR = 1.5
"""A gain that differs from the expected one by more than this factor is not explained by lamps,
filters and bleaching: an exposure time or the background is wrong, or stain all over the section is
in the gain."""


def disagreement(scale: Scale, evidence: Evidence) -> str | None:
    """Return a reason or note if a measured gain contradicts the exposure times; else None.

    None also where no gain was found, so that nothing is subtracted.
    The interval of 95 % is widened by `TOLERANCE`. Where only given gains were asked for, the
    linear method is tried for this alone.
    """
    if not scale.default_result.ok:
        return None
    expected, measured = evidence.expected_gain, _choose_gain(scale, evidence)
    if expected is None or measured.gain_ci95 is None:
        return None
    low, high = measured.gain_ci95
    if low - TOLERANCE * expected <= expected <= high + TOLERANCE * expected:
        return None
    numbers = {"gain": measured.gain, "low": low, "high": high, "expected": expected}
    if METHODS[scale.default].is_given:
        used = {"used": scale.default_result.gain, "method": scale.default}
        return explain("exposure_used", **numbers, **used)
    far = low >= FAR * expected or high <= expected / FAR
    return explain("exposure_far" if far else "exposure_differs", **numbers)


def _choose_gain(scale: Scale, evidence: Evidence) -> MethodResult:
    """Return the default method if it measures a gain, or another one that does."""
    for name in (scale.default, *scale.methods):
        if not METHODS[name].is_given and scale.methods[name].ok:
            return scale.methods[name]
    return ESTIMATORS["linear"](evidence, ScaleSettings(methods=("linear",), gain_map="never"))


_MOST_SATURATED = 0.01
"""A background that is saturated in a larger share is a doubt."""

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
        Ratio of the exposure times, summed over several backgrounds; None if one is unknown.
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
    several: str = FIT,
    spoilt: Mapping[int, SpoiltMask] | None = None,
    refined: bool = True,
    workers: int = 1,
    markers_at_a_time: int = 1,
) -> dict[str, Measured]:
    """Measure every marker of a slide against its backgrounds, as the maps bring both.

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
    several
        How gains of several backgrounds are found: ``fit`` or ``interpolate``.
    spoilt
        Px of the frame that are left out of everything that is measured in a cycle.
    refined
        Whether the method `linear` allows for signal in many cells (`refine`).
    workers, markers_at_a_time
        Windows in flight, and markers of a pass over the slide, on which no result depends.
    """
    found: dict[str, Measured] = {}

    def fail(marker: Channel, sentences: Iterable[str]) -> None:
        reasons = tuple(sentences)
        scale = replace(Scale.make_failed(" ".join(reasons), settings), reasons=reasons)
        gain = compute_expected_gain(slide, marker)
        found.setdefault(marker.name, Measured(scale, JointStatistics.empty(), _UNKNOWN, gain))

    for one in slide.markers:
        failed = [maps[move] for move in slide.moves_of(one) if maps[move].has_failed]
        if failed:
            fail(one, dict.fromkeys(reason for map_ in failed for reason in map_.reasons))
    with SlideReader(headers) as reader:
        doubts = {one.name: _lost(reader.gaps, slide, one) for one in slide.markers}
        for one in slide.markers:
            sentences, too_much = doubts[one.name]
            if too_much:
                fail(one, sentences)
        usable = [one for one in slide.markers if one.name not in found]
        needed = {one.name: one for m in usable for one in (m, *slide.backgrounds_of(m))}
        frame = Frame(reader, slide, maps, spoilt)
        surveys = survey_channels(
            frame,
            Sample.from_shape(frame.shape),
            list(needed.values()),
            workers=workers,
            at_a_time=markers_at_a_time + 1,
        )
        sampled = np.prod(Sample.from_shape(frame.shape).extent)
        lacking = {
            n: sum(reader.gaps.constant.get(n, {}).values()) / (sampled * frame.area_of(one))
            for n, one in needed.items()
        }
        saturated = {name: reader.gaps.find_saturation(one) for name, one in needed.items()}
        losses = {m.name: [*_describe_losses(slide, m, lacking, saturated)] for m in usable}
        fitted = [
            c for m in usable if refined or len(m.backgrounds) > 1 for c in slide.backgrounds_of(m)
        ]
        noise = {c.name: raw_noise(reader, c) for c in dict.fromkeys(fitted)}
        work = _Measurement(slide, frame, surveys, noise, saturated, settings, suspect_px, several)
        for first in range(0, len(usable), markers_at_a_time):
            some = usable[first : first + markers_at_a_time]
            for name, known in work.measure(some, workers).items():
                found[name] = _add_doubts(known, [*doubts[name][0], *losses[name]])
    return {one.name: found[one.name] for one in slide.markers}


def _lost(gaps: Gaps, slide: Slide, marker: Channel) -> tuple[list[str], bool]:
    """Return sentences about what a marker or a background lost; whether that is too much."""
    each = [gaps.doubt(one) for one in (marker, *slide.backgrounds_of(marker))]
    return [note for note, _ in each if note is not None], any(much for _, much in each)


def _add_doubts(measured: Measured, more: Sequence[str]) -> Measured:
    """Return what was measured with more doubts and notes."""
    scale, (doubts, notes) = measured.scale, split_notes(more)
    reasons, notes_ = (*scale.reasons, *doubts), (*scale.notes, *notes)
    return replace(measured, scale=replace(scale, reasons=reasons, notes=notes_))


def _describe_losses(
    slide: Slide,
    marker: Channel,
    lacking: Mapping[str, float],
    saturated: Mapping[str, tuple[float, float]],
) -> Iterator[str]:
    """Yield doubts and notes about px of a marker or its backgrounds that show no light.

    ``lacking`` are shares of the slide, ``saturated`` levels and shares, by channel.
    """
    for one in (marker, *slide.backgrounds_of(marker)):
        so = "" if one is marker else f", so {marker.name} is missing there"
        share, (level, above) = lacking[one.name], saturated[one.name]
        if share - min(lacking.values()) > LEAST_SHARE:  # else cut out of all of them on purpose
            key = "channel_large_gaps" if share > MOST_SHARE else "channel_not_imaged"
            yield explain(key, name=one.name, share=percent(share), so=so)
        if above:
            many = one is not marker and above > _MOST_SATURATED
            key = "background_saturated" if many else "channel_saturated"
            about = {"name": one.name, "marker": marker.name, "so": so}
            yield explain(key, share=percent(above), level=level, **about)


@dataclass(frozen=True, eq=False, slots=True)
class _Measurement:
    """The work on a slide: what all markers share."""

    slide: Slide
    frame: Frame
    surveys: Mapping[str, ChannelSurvey]
    noise: Mapping[str, float]
    saturated: Mapping[str, tuple[float, float]]
    settings: ScaleSettings
    suspect_px: float
    several: str

    def measure(self, markers: Sequence[Channel], workers: int) -> dict[str, Measured]:
        """Measure some markers in one pass over the slide."""
        sample, frame = Sample.from_shape(self.frame.shape), self.frame
        tallies = {one.name: _Tally(self, sample, one) for one in markers}

        def count(item: tuple[Window, tuple[int, int]]) -> dict[str, list[Matches]]:
            window, matches = item[0], {}
            for names, of_backgrounds in group_by_background(markers).items():
                channels = [self.slide.channel(name) for name in names]
                held = [
                    HeldChannel(frame, one, window, pixels)
                    for one, pixels in zip(channels, frame.read(window, channels), strict=True)
                ]
                for batch in frame.batches(of_backgrounds, len(markers)):
                    for one, signal in zip(batch, frame.read(window, batch), strict=True):
                        matches[one.name] = tallies[one.name].add(signal, held, *item)
            return matches

        windows = sample.windows
        with step("measure"):
            for i, matches in enumerate(map_bounded(count, windows, workers)):
                for name, of_window in matches.items():
                    tallies[name].matches.append(of_window)
                progress(i + 1, len(windows), "window")
        return {name: tallies.pop(name).estimate() for name in list(tallies)}


class _Tally:
    """What is counted of one marker, window by window; all methods but the last are thread-safe.

    The joint statistics are those with its first background.
    """

    def __init__(self, work: _Measurement, sample: Sample, marker: Channel) -> None:
        surveys = [work.surveys[name] for name in (marker.name, *marker.backgrounds)]
        self._surveys, self._work, self._marker, self._sample = surveys, work, marker, sample
        ranges = surveys[0].range, surveys[1].range
        integer = all(survey.integer for survey in surveys[:2])
        self._statistics = JointStatistics.create(
            post_range=ranges[0],
            pre_range=ranges[1],
            grey_level=grey_level(ranges, integer=integer),
            integer=integer,
        )
        self._bins = [
            CellMoments.create(sample.extent, (surveys[0].high, one.high)) for one in surveys[1:]
        ]
        self._blocks = [choose_blocks(sample, one.texture) for one in surveys[1:]]
        self._matchers = [
            BlockMatcher(sample.shape, (surveys[0].floor, one.floor)) for one in surveys[1:]
        ]
        self._lock = threading.Lock()
        self.matches: list[list[Matches]] = []
        """Matched blocks, window by window, with each background."""

    def add(
        self,
        signal: Array,
        backgrounds: Sequence[HeldChannel],
        window: Window,
        origin: tuple[int, int],
    ) -> list[Matches]:
        """Count a window of the marker; return the blocks matched in it with each background.

        ``origin`` is [row, col] of its first px in the mosaic.
        """
        first, last = np.array([window.x0, window.y0]), np.array([window.x1, window.y1])
        own = HeldChannel(self._work.frame, self._marker, window, signal)
        matches = []
        for n, background in enumerate(backgrounds):
            aligned = background.pixels.astype(np.float32, copy=False)
            if not n:
                with self._lock:  # a copy for each thread would take 5 MB
                    self._statistics.add(signal, aligned, origin=origin)
            self._bins[n].add(signal, aligned, origin=origin)
            blocks = self._blocks[n]
            inside = ((blocks >= first) & (blocks + BLOCK <= last)).all(axis=1)
            matches.append(self._matchers[n].match(blocks[inside], own.read, background.read))
        return matches

    def estimate(self) -> Measured:
        """Estimate gains and offset from what was counted."""
        work, marker = self._work, self._marker
        expected = compute_expected_gains(work.slide, marker)
        if len(self._bins) == 1:
            scale, about_gain = self._single(expected)
        else:
            scale, about_gain = self._several(expected), None
        shifts = [
            matcher.shift([of_window[n] for of_window in self.matches])
            for n, matcher in enumerate(self._matchers)
        ]
        shifted = (shift_doubt(one, work.suspect_px) for one in shifts)
        doubts, notes = split_notes(filter(None, (about_gain, *shifted)))
        total = None if expected is None else float(sum(expected))
        known = {name: work.saturated[name] for name in marker.backgrounds}
        saturated = {name: level for name, (level, share) in known.items() if share}
        for method in scale.methods.values():
            method.details["expected_gain"] = total
            method.details["range"] = list(self._surveys[0].range)
            method.details["background_range"] = self._background_range(method)
            if saturated:
                method.details[SATURATED] = saturated
        whole = {**self._statistics.arrays, "ratios": self._statistics.ratio_counts[None]}
        # 32 bits hold the counts of a sample: many markers are kept
        small = {k: a.astype(np.int32) if a.dtype == np.int64 else a for k, a in whole.items()}
        statistics = JointStatistics.restore(self._statistics.parameters, small)
        longest = max(shifts, key=lambda one: np.nan_to_num(one.length_px, nan=-1))
        reasons = (*scale.reasons, *doubts)
        scale = replace(scale, reasons=reasons, notes=(*scale.notes, *notes))
        return Measured(scale, statistics, longest, total)

    def _single(self, expected: tuple[float, ...] | None) -> tuple[Scale, str | None]:
        frame, shape = self._work.frame, self._sample.shape
        cells = SampledCells.from_moments(self._bins[0], self._sample)
        (background,) = self._work.slide.backgrounds_of(self._marker)
        error = frame.error_between(self._marker, background)
        in_one_cycle = Transform("ok", shape, shape, matrix=np.eye(3), model="none")
        evidence = Evidence(
            self._statistics,
            cells,
            replace(frame.map_of(background) or in_one_cycle, error_px=error),
            expected_gain=None if expected is None else expected[0],
            post_transform=frame.map_of(self._marker),
        )
        scale = estimate(evidence, self._work.settings)
        if background.name in self._work.noise:
            scale = refine(scale, cells, self._work.noise[background.name])
        return scale, disagreement(scale, evidence)

    def _several(self, expected: tuple[float, ...] | None) -> Scale:
        settings, choice = self._work.settings, self._work.several
        by_times = uses_exposure(settings.methods, settings.default, choice)
        cells = {
            name: SampledCells.from_moments(one, self._sample)
            for name, one in zip(self._marker.backgrounds, self._bins, strict=True)
        }
        return estimate_several(cells, self._work.noise, expected, INTERPOLATE if by_times else FIT)

    def _background_range(self, method: MethodResult) -> list[float]:
        """Return the range of the background, or of the weighted mean of several."""
        surveys = dict(zip(self._marker.backgrounds, self._surveys[1:], strict=True))
        if len(surveys) == 1 or not method.ok:
            return list(self._surveys[1].range)
        ends = [(w * surveys[n].low, w * surveys[n].high) for n, w in method.weights]
        return [float(v) for v in np.sum(ends, axis=0)]
