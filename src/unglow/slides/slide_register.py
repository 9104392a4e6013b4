"""Registration of two cycles of a slide, on the channels that cycles are registered on.

And how far these channels depart from each other, block by block, once the map is known: tissue
that is lost, folded or out of focus in a cycle shows there, as the difference of a pair does.
"""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from unglow.core.errors import InputError
from unglow.core.progress import progress, step
from unglow.core.records import to_record
from unglow.core.windows import Window, coarse_level, grid, halve_stored, map_bounded, strips
from unglow.detection.section_mask import Section, section_mask
from unglow.images.raw_file import remove_directories
from unglow.jobs.memory_limit import is_memory_failure
from unglow.memory import SECTION_PX
from unglow.photometry.difference import subtract_window
from unglow.photometry.difference_histogram import SIDE
from unglow.photometry.gain.scale import ScaleSettings
from unglow.photometry.imaging import NoiseModel
from unglow.registration.register import register
from unglow.registration.verdict import check_headers, judge, reject, scale_of_sizes
from unglow.slides.channels import choose_richest
from unglow.slides.images import Frame, InPlaceImage, SlideReader, frame_shape
from unglow.slides.measure import measure_slide
from unglow.slides.slide import COMPARED
from unglow.spoilt.block_scores import BlockScores, Expectation, score_strip
from unglow.spoilt.places import ON_SECTION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unglow.core.arrays import Array, Floats32
    from unglow.images.slide_plan import KnownSlide, Slide
    from unglow.images.tiff import TiffHeader
    from unglow.photometry.joint_histogram import JointStatistics
    from unglow.registration.settings import RegisterSettings
    from unglow.registration.verdict import Registration
    from unglow.transform import Transform

_DARK, _REACH = (0.001, 0.01), 4.0
"""Shares of the px that are as dark as glass, far below its middle, and a little nearer to it; the
middle of glass is this many times their distance above the first, for 2 to 100 % of glass."""

log = logging.getLogger(__name__)


def register_cycle(
    slide: Slide,
    headers: Sequence[TiffHeader],
    move: tuple[int, int],
    settings: RegisterSettings,
    *,
    workers: int = 1,
) -> Registration:
    """Find the map of a move, from the frame of its first cycle to that of the second.

    Parameters
    ----------
    slide, headers
        The slide, and the headers of its images in their order.
    move
        One of `Slide.moves`.
    settings
        As for `unglow.registration.register.register`, which says what is returned.
    workers
        Threads. The result has the same bytes for any number.
    """
    channels = [slide.channel(slide.registered_on[cycle]) for cycle in move]
    shapes = tuple(headers[one.image].shape for one in channels)
    kept = coarse_level(shapes, settings.coarse_px)
    with SlideReader(headers) as reader:
        post, pre = (InPlaceImage(reader, one, kept, workers=workers) for one in channels)
        sizes = [headers[one.image].pixel_size_um for one in channels]
        expected = scale_of_sizes(sizes[0], sizes[1])
        found = register(post, pre, settings, workers=workers, expected_scale=expected)
        checked = check_headers((sizes[0], sizes[1]), found.transform, settings)
        return replace(found, transform=judge(found.transform, checked))


def register_move(
    known: KnownSlide, move: tuple[int, int], settings: RegisterSettings, *, workers: int
) -> Registration:
    """Find the map of a move; an image that cannot be read is the reason of a refusal."""
    try:
        slide = choose_richest(known.slide, known.headers, move)
        return register_cycle(slide, known.headers, move, settings, workers=workers)
    except InputError as error:
        if is_memory_failure(error):  # no fault of the file
            raise
        log.warning("%s", error)
        reason = remove_directories(str(error), *known.headers)
        post, pre = (known.header_of(cycle).shape for cycle in move)
        return reject(post, pre, [reason])


def score_move(
    known: KnownSlide, move: tuple[int, int], found: Transform | None, *, workers: int
) -> BlockScores:
    """Return `score_cycle` of a move; no data without a map, or if a channel cannot be measured."""
    nothing = BlockScores.create(known.shape)
    if found is None or found.has_failed:
        return nothing
    try:
        slide = choose_richest(known.slide, known.headers, move)
        return score_cycle(slide, known.headers, move, found, workers=workers) or nothing
    except InputError as error:
        if is_memory_failure(error):
            raise
        log.warning("%s", error)
        return nothing


@step("score blocks")
def score_cycle(
    slide: Slide,
    headers: Sequence[TiffHeader],
    move: tuple[int, int],
    found: Transform,
    *,
    workers: int = 1,
) -> BlockScores | None:
    """Score the blocks of a cycle: what it is registered on, against that of the reference.

    Parameters
    ----------
    slide, headers
        The slide, and the headers of its images in their order.
    move
        From the frame of the slide to the cycle.
    found
        The map of the move.
    workers
        Threads. The result has the same bytes for any number.

    Returns
    -------
    Scores of the blocks of the frame that are on the section; None if gain or noise of the two
    channels cannot be measured.
    """
    reference, cycle = (slide.channel(slide.registered_on[one]) for one in move)
    cycle = replace(cycle, background=reference.name)
    pair = replace(slide, channels=(reference, cycle), reference=move[0], paired=(), checked=False)
    settings = ScaleSettings(methods=("linear",))
    measured = measure_slide(
        pair, headers, {move: found}, settings, refined=False, workers=workers
    )[cycle.name]
    result = measured.scale.default_result
    noise = result.details.get("noise")
    if not result.ok or noise is None:
        log.warning("spoilt places were not looked for: %s", " ".join(measured.scale.reasons))
        return None
    expected = Expectation.from_result(
        result,
        to_record(noise, NoiseModel),
        measured.statistics,
        result.details["range"][0],
        dark_end(measured.statistics),
    )
    shape = frame_shape(pair, headers)
    scores = BlockScores.create(shape)
    level = coarse_level((shape,), math.isqrt(SECTION_PX))
    small = np.full([n >> level for n in shape], np.nan, np.float32)
    with SlideReader(headers) as reader:
        frame = Frame(reader, pair, {move: found})

        def score(window: Window) -> None:
            before, after = frame.read(window, (reference, cycle))
            _shrink(before, small, window, level)
            parts = []
            for strip in strips(window, SIDE):
                rows = slice(strip.y0 - window.y0, strip.y1 - window.y0)
                post, pre = (np.array(one[rows], np.float32) for one in (after, before))
                left = subtract_window(result, (post, pre), strip, integer=False)
                parts.append(score_strip(post, left, expected))
            scores.store_part(parts, (window.y0, window.x0))

        windows = [*grid(shape, (COMPARED, COMPARED))]
        for n, _ in enumerate(map_bounded(score, windows, workers), 1):
            progress(n, len(windows), "window")
    section = Section.from_mask(section_mask(small), level)
    on_section = section.compute_block_shares(shape, scores.side) >= ON_SECTION
    scores.scores[~on_section] = np.nan
    return scores


def dark_end(statistics: JointStatistics) -> float:
    """Return up to which level a cycle is as dark as glass: where glass has its middle, or above.

    From the lower end of its grey levels: in the dark, resampled px have less noise than the model
    of noise gives, which is fitted where there is light.
    """
    below = np.cumsum(statistics.joint.sum(axis=0) + statistics.post_only)
    darkest, dark = (
        statistics.first + (np.searchsorted(below, share * below[-1]) + 0.5) * statistics.width
        for share in _DARK
    )
    return float(darkest + _REACH * max(dark - darkest, statistics.width))


def _shrink(pixels: Array, small: Floats32, window: Window, level: int) -> None:
    """Put a window of the frame into the small image that the section is found on."""
    for _ in range(level):
        pixels = halve_stored(pixels)
    top, left = window.y0 >> level, window.x0 >> level
    small[top : top + pixels.shape[0], left : left + pixels.shape[1]] = pixels
