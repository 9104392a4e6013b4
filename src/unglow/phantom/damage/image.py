"""All damage of one image, applied in the order in which light becomes counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.phantom.damage import effects
from unglow.phantom.damage.kinds import KINDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from unglow.core.windows import Window
    from unglow.phantom.damage.effects import Array, Light, Tissue
    from unglow.phantom.damage.kinds import Damage
    from unglow.phantom.damage.places import Place


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
        Damage of the whole image.
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
        """Return what is stored instead of recorded counts, (rows, cols) or (rows, cols, 3)."""
        table = effects.count_table(self.faults, counts.dtype, per_level)
        if table is not None:
            counts = table[counts]
        effects.clear_tiles(self.places, window, counts)
        return counts


def find_faults(damages: Sequence[Damage]) -> tuple[Damage, ...]:
    """Return what spoils the whole image."""
    return tuple(one for one in damages if KINDS[one.kind].size is None)
