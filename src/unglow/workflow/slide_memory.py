"""Memory of the jobs of a slide."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unglow.core.demand import Demand
from unglow.workflow import memory_model

if TYPE_CHECKING:
    from typing import Any

    from unglow.workflow.slides import KnownSlide


def register(known: KnownSlide, settings: Any) -> Demand:
    """Demand of a map between two cycles."""
    shapes = (known.shape, known.shape)
    field = settings.field == "auto"
    return memory_model.register(shapes, settings.coarse_px, settings.block_px, field=field)


def markers_at_a_time(known: KnownSlide, budget_mb: float) -> int:
    """Return how many markers are measured in one pass over a slide."""
    return len(known.slide.markers)


def channels_at_a_time(known: KnownSlide, budget_mb: float) -> int:
    """Return how many channels are read at once when a slide is subtracted."""
    return len(known.slide.kept)


def measure(known: KnownSlide, at_a_time: int) -> Demand:
    """Demand of measuring so many markers in one pass."""
    return Demand(200.0, 100.0, fixed=100.0)


def subtract(known: KnownSlide, at_a_time: int) -> Demand:
    """Demand of writing the corrected slide."""
    return Demand(200.0, 200.0, fixed=100.0)
