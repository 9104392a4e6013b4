"""Slides with damage in some of their cycles."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from phantom_damage.effects import ImageDamage, describe_fault, find_faults
from phantom_damage.pair import add_spots_at
from phantom_damage.places import find_places
from unglow.phantom.slide import SlideRenderer, get_gain, write_slide

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from phantom_damage.kinds import DamagedSlide
    from unglow.core.windows import Window
    from unglow.phantom.slide_spec import SlideChannel

    Floats = NDArray[np.float64]


class DamagedSlideRenderer(SlideRenderer):
    """Renders a slide with damage: ``damage`` is that of each cycle, from 1, that has some."""

    spec: DamagedSlide

    def __init__(self, spec: DamagedSlide) -> None:
        super().__init__(spec)
        self.damage = self._draw_damage()

    def _draw_damage(self) -> dict[int, ImageDamage]:
        """Draw the damage of each cycle.

        Dust that names no cycle is at the same pixels of all of them; other damage that names none
        is in the last.
        """

        def inside(cycle: int, x: Floats, y: Floats) -> Floats:
            return self.is_inside(*self.map_to_first(cycle, x, y)).astype(np.float64)

        def brightness(cycle: int, x: Floats, y: Floats) -> Floats:
            return self.render_shared(cycle, *self.map_to_first(cycle, x, y))

        damages, cycles, frame = self.spec.damages, self.spec.cycles, self.spec.shape
        seeds = self.spec.seed, self.spec.damage_seed
        dust = [one for one in damages if one.kind == "dust" and one.cycle is None]
        common = find_places(dust, frame, frame, (*seeds, 0), partial(inside, 1), lambda x, _: x)
        found = {}
        for cycle in range(1, cycles + 1):
            own = [one for one in damages if one not in dust and (one.cycle or cycles) == cycle]
            fields = partial(inside, cycle), partial(brightness, cycle)
            places = find_places(own, frame, frame, (*seeds, cycle), *fields, common)
            if common or own:
                found[cycle] = ImageDamage(frame, (*common, *places), find_faults(own))
        return found

    def pixels(self, channel: SlideChannel, window: Window, shared: Floats) -> NDArray[Any]:
        """Return the recorded pixels of a window; ``shared`` is `autofluorescence` there."""
        counts = super().pixels(channel, window, shared)
        damage = self.damage.get(channel.cycle)
        return counts if damage is None else damage.spoil_counts(window, counts, 1)

    def render_light(self, channel: SlideChannel, window: Window, shared: Floats) -> Floats:
        """Return the light that a window of a channel sends, (rows, cols) counts."""
        light = self._render_tissue(channel, window, shared)
        damage = self.damage.get(channel.cycle)
        if damage is not None:
            damage.spoil_light(
                window,
                light,
                lambda outer: self._render_tissue(
                    channel, outer, self.autofluorescence(channel.cycle, outer)
                ),
            )
        return light

    def _render_tissue(self, channel: SlideChannel, window: Window, shared: Floats) -> Floats:
        """Return the light of the tissue in a window with what happened to the tissue."""
        light = super().render_light(channel, window, shared)
        damage = self.damage.get(channel.cycle)
        if damage is not None:
            damage.spoil_tissue(
                window, light, partial(self._render_points, channel), get_gain(channel)
            )
        return light

    def _render_points(self, channel: SlideChannel, window: Window, x: Floats, y: Floats) -> Floats:
        """Return the light of the undamaged tissue at points of a channel's cycle, (rows, cols)."""
        x, y = self.map_to_first(channel.cycle, x, y)
        out = self.render_shared(channel.cycle, x.ravel(), y.ravel()).reshape(window.shape)
        out *= get_gain(channel)
        if channel.nuclear or channel.background is not None:
            for spots in self.cells(channel, x, y):
                add_spots_at(spots, x, y, out)
        return out

    def describe(self, slide: str) -> dict[str, Any]:
        """Return the truth of the slide; polygons are in the frame of their cycle, px."""
        values = super().describe(slide) | {"spec": self.spec.to_json()}
        if self.damage:
            values["damage"] = [
                {"cycle": cycle} | entry
                for cycle, image in self.damage.items()
                for entry in (
                    *(one.to_json() for one in image.places),
                    *(describe_fault(one, image.frame) for one in image.faults),
                )
            ]
        return values


def make_slide(spec: DamagedSlide, raw: Path, slide: str, *, workers: int = 1) -> None:
    """Write a slide as `unglow.phantom.slide.write_slide`."""
    write_slide(DamagedSlideRenderer(spec), raw, slide, workers=workers)
