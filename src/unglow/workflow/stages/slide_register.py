"""Registration of two cycles of a slide, on the channels that cycles are registered on."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from unglow.core.errors import InputError
from unglow.core.windows import coarse_level
from unglow.jobs.memory_limit import is_memory_failure
from unglow.multiplexed.images import InPlaceImage, SlideReader
from unglow.registration.register import register
from unglow.registration.verdict import reject
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
    """Find the map of a move, from the frame of a marker's cycle to that of its background's.

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
        return register(post, pre, settings, workers=workers)


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
        return reject(known.shape, known.shape, [reason])
