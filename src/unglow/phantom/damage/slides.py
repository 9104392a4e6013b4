"""Damage of slides: each belongs to a cycle, and spoils all channels of it alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unglow.core.errors import ConfigError
from unglow.phantom.damage.description import describe_fault
from unglow.phantom.damage.image import ImageDamage, find_faults
from unglow.phantom.damage.places import find_places

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy as np
    from numpy.typing import NDArray

    from unglow.phantom.damage.kinds import Damage

    # of a cycle, and x and y in its frame, (N,) each
    CycleField = Callable[[int, NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]]


def check_damage(damages: Iterable[Damage], cycles: int) -> None:
    """Raise ConfigError if a damage is not one of a slide of so many cycles."""
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
