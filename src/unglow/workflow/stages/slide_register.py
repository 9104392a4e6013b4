"""Registration of two cycles of a slide."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from unglow.core.errors import InputError
from unglow.jobs.memory_limit import is_memory_failure
from unglow.multiplexed.cycles import register_cycle
from unglow.registration.verdict import rejected
from unglow.workflow.stages.plan import without_directories

if TYPE_CHECKING:
    from unglow.registration.settings import RegisterSettings
    from unglow.registration.verdict import Registration
    from unglow.workflow.slides import KnownSlide

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
        return rejected(known.shape, known.shape, [reason])
