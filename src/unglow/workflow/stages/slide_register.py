"""Registration of two cycles of a slide: the channels that show the same in both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unglow.multiplexed.images import InPlaceImage
from unglow.registration.register import register
from unglow.workflow import memory_model

if TYPE_CHECKING:
    from unglow.core.demand import Demand
    from unglow.registration.settings import RegisterSettings
    from unglow.registration.verdict import Registration
    from unglow.workflow.slides import KnownSlide


def demand(known: KnownSlide, settings: RegisterSettings) -> Demand:
    """Return the memory demand of a map between two cycles."""
    shapes = (known.shape, known.shape)
    field = settings.field == "auto"
    return memory_model.register(shapes, settings.coarse_px, settings.block_px, field=field)


def register_cycles(
    known: KnownSlide, move: tuple[int, int], settings: RegisterSettings, *, workers: int
) -> Registration:
    """Find the map from the frame of one cycle (post) to that of another (pre)."""
    post, pre = (_channel_shown(known, cycle) for cycle in move)
    return register(post, pre, settings, workers=workers, hints=None)


def _channel_shown(known: KnownSlide, cycle: int) -> InPlaceImage:
    """Return the channel that the map of a cycle is found on."""
    channel = known.slide.channel(known.slide.registered_on[cycle])
    return InPlaceImage(known.headers[channel.image], channel.number)
