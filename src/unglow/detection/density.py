"""How many candidates there are on an area, with an exact interval."""

from __future__ import annotations

from typing import Any

from unglow.core.poisson import poisson_density
from unglow.core.rounding import round_digits


def density(
    count: int, searched_px: int, pixel_size_um: tuple[float, float] | None
) -> dict[str, Any]:
    """Return area and density with its 95 % Poisson interval; None for what is not known."""
    if pixel_size_um is None or not searched_px:
        return {"area_mm2": None, "density_per_mm2": None, "density_ci95_per_mm2": None}
    area = searched_px * pixel_size_um[0] * pixel_size_um[1] / 1e6
    density_per_mm2, ends = poisson_density(count, area)
    return {
        "area_mm2": round_digits(area),
        "density_per_mm2": density_per_mm2,
        "density_ci95_per_mm2": ends,
    }
