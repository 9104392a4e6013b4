"""All damage of one image, applied in the order in which light becomes counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.errors import ConfigError
from unglow.phantom.damage import effects
from unglow.phantom.damage.kinds import KINDS
from unglow.phantom.damage.places import find_places
from unglow.phantom.damage.shapes import compute_area

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from unglow.core.windows import Window
    from unglow.phantom.damage.effects import Array, Light, Tissue
    from unglow.phantom.damage.kinds import Damage
    from unglow.phantom.damage.places import Place
    from unglow.phantom.geometry import PhantomMap
    from unglow.phantom.spec import PhantomSpec

    CycleField = Callable[[int, NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]]


@dataclass(frozen=True)
class ImageDamage:
    """Places and faults of one image; without any, nothing is changed.

    Attributes
    ----------
    frame
        (rows, columns) of the image.
    places
        Its spoilt places.
    faults
        Damage of the entire image.
    """

    frame: tuple[int, int]
    places: Sequence[Place] = ()
    faults: Sequence[Damage] = ()

    @property
    def half_moved(self) -> float:
        """How far the lower half is moved in x, px."""
        return sum(one.strength for one in self.faults if one.kind == "half_moved")

    def spoil_tissue(self, window: Window, out: Array, tissue: Tissue, gain: float = 1.0) -> None:
        """Change the light of a window as `effects.spoil_tissue` does, and move the lower half."""
        move, half = self.half_moved, self.frame[0] // 2

        def is_inside(part: Window, x: Array, y: Array) -> Array:
            lower = np.arange(part.y0, part.y1)[:, None] >= half
            return tissue(part, x - move * lower, y)

        if move and window.y1 > half:
            x, y = effects.coordinates(window)
            rows = slice(max(half - window.y0, 0), None)
            out[rows] = is_inside(window, x, y)[rows]
        effects.spoil_tissue(self.places, window, out, is_inside if move else tissue, gain)

    def spoil_light(self, window: Window, out: Array, light: Light) -> None:
        """Blur and darken light that was imaged; ``light`` gives any window of what ``out`` was."""
        effects.spoil_focus(self.places, window, out, self.frame, light)
        effects.shade_by_dust(self.places, window, out)

    def spoil_counts(self, window: Window, counts: NDArray[Any], per_level: int) -> NDArray[Any]:
        """Return the stored values instead of recorded counts, (rows, cols) or (rows, cols, 3)."""
        table = effects.count_table(self.faults, counts.dtype, per_level)
        if table is not None:
            counts = table[counts]
        effects.clear_tiles(self.places, window, counts)
        return counts


def find_faults(damages: Sequence[Damage]) -> tuple[Damage, ...]:
    """Return what spoils the entire image."""
    return tuple(one for one in damages if KINDS[one.kind].size is None)


def describe_damage(
    spec: PhantomSpec, places: list[Place], geometry: PhantomMap
) -> list[dict[str, Any]]:
    """Return the damage of a pair: places in their order, then faults of the entire image.

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
    """Return the truth of damage of an entire image of a shape (rows, columns)."""
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


def check_damage(damages: Iterable[Damage], cycles: int) -> None:
    """Raise ConfigError if a damage is not one of a slide of this many cycles."""
    for one in damages:
        if one.kind == "swap":
            raise ConfigError("phantom: damage 'swap' is one of pairs, and not of slides.")
        if one.cycle is not None and not 1 <= one.cycle <= cycles:
            raise ConfigError(
                f"phantom: damage {one.text!r} names a cycle, but the slide has 1 to {cycles}."
            )


def draw_cycle_damage(
    damages: tuple[Damage, ...],
    cycles: int,
    frame: tuple[int, int],
    seeds: tuple[int, int],
    inside: CycleField,
    brightness: CycleField,
) -> dict[int, ImageDamage]:
    """Return the damage of each cycle, from 1, that has some.

    Dust that names no cycle is at the same pixels of all of them; other damage that names none is
    in the last. Parameters are those of `find_places`; its functions take the cycle first.
    """
    dust = [one for one in damages if one.kind == "dust" and one.cycle is None]
    common = find_places(
        dust, frame, frame, (*seeds, 0), lambda x, y: inside(1, x, y), lambda x, _: x
    )
    found = {}
    for cycle in range(1, cycles + 1):
        own = [one for one in damages if one not in dust and (one.cycle or cycles) == cycle]

        def here(x: Any, y: Any, cycle: int = cycle) -> NDArray[np.float64]:
            return inside(cycle, x, y)

        def bright(x: Any, y: Any, cycle: int = cycle) -> NDArray[np.float64]:
            return brightness(cycle, x, y)

        places = find_places(own, frame, frame, (*seeds, cycle), here, bright, common)
        if common or own:
            found[cycle] = ImageDamage(frame, (*common, *places), find_faults(own))
    return found


def describe_cycles(damage: dict[int, ImageDamage]) -> list[dict[str, Any]]:
    """Return the truth of all cycles: polygons are in the frame of the cycle, px."""
    found = []
    for cycle, image in damage.items():
        entries = [one.to_json() for one in image.places]
        entries += [describe_fault(one, image.frame) for one in image.faults]
        found += [{"cycle": cycle} | entry for entry in entries]
    return found
