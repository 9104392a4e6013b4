"""The truth about the damage of a pair, as plain JSON types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.phantom.damage.image import find_faults
from unglow.phantom.damage.shapes import compute_area

if TYPE_CHECKING:
    from unglow.phantom.damage.kinds import Damage
    from unglow.phantom.damage.places import Place
    from unglow.phantom.geometry import PhantomMap
    from unglow.phantom.spec import PhantomSpec


def describe_damage(
    spec: PhantomSpec, places: list[Place], geometry: PhantomMap
) -> list[dict[str, Any]]:
    """Return the damage of a pair: places in their order, then faults of the whole image.

    Dust is at the same sensor pixels of pre: it is there a second time, with the polygon mapped to
    post.
    """
    found = [place.to_json() | {"image": "post"} for place in places]
    for place in places:
        if place.kind == "dust":
            polygon = np.round(geometry.to_post(place.shape.polygon()), 2)
            seen = {"polygon_xy": polygon.tolist(), "area_px": round(compute_area(polygon), 1)}
            found.append(place.to_json() | seen | {"image": "pre"})
    for fault in find_faults(spec.damages):
        image = "both" if fault.kind == "swap" else "post"
        found.append(describe_fault(fault, spec.shape) | {"image": image})
    return found


def describe_fault(damage: Damage, shape: tuple[int, int]) -> dict[str, Any]:
    """Return the truth of damage of a whole image of a shape (rows, columns)."""
    polygon = area = None
    if damage.kind == "half_moved":
        left, right, top, bottom = -0.5, shape[1] - 0.5, shape[0] // 2 - 0.5, shape[0] - 0.5
        polygon = [[left, top], [right, top], [right, bottom], [left, bottom]]
        area = (right - left) * (bottom - top)
    return {
        "kind": damage.kind,
        "size_px": None,
        "strength": damage.strength,
        "rim_px": None,
        "polygon_xy": polygon,
        "area_px": area,
    }
