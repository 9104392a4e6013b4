"""Registration of two cycles of a slide, on the channels that cycles are registered on."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from unglow.core.errors import InputError
from unglow.core.windows import coarse_level
from unglow.jobs.memory_limit import is_memory_failure
from unglow.multiplexed.images import InPlaceImage, SlideReader
from unglow.registration.register import register
from unglow.registration.verdict import check_headers, judge, reject, scale_of_sizes
from unglow.workflow.stages.plan import without_directories

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unglow.io.tiff import TiffHeader
    from unglow.multiplexed.slide import Slide
    from unglow.registration.settings import RegisterSettings
    from unglow.registration.verdict import Registration
    from unglow.workflow.slides import KnownSlide


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


log = logging.getLogger(__name__)


def register_move(
    known: KnownSlide, move: tuple[int, int], settings: RegisterSettings, *, workers: int
) -> Registration:
    """Find the map of a move; an image that cannot be read is the reason of a refusal."""
    try:
        slide = known.resolved(move).slide
        return register_cycle(slide, known.headers, move, settings, workers=workers)
    except InputError as error:
        if is_memory_failure(error):  # no fault of the file
            raise
        log.warning("%s", error)
        reason = without_directories(str(error), *known.headers)
        post, pre = (known.header_of(cycle).shape for cycle in move)
        return reject(post, pre, [reason])
