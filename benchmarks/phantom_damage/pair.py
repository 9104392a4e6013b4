"""Phantom pairs with damage, and their truth."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from phantom_damage.effects import ImageDamage, describe_fault, find_faults
from phantom_damage.kinds import DamagedPair
from phantom_damage.places import draw_cells, find_places
from phantom_damage.shapes import compute_area, find_inside
from unglow.core.windows import Window
from unglow.phantom.pair import write_pair
from unglow.phantom.render import Image, Renderer
from unglow.phantom.texture import CUTOFF_SIGMAS, Spots, add_spots, find_boxes
from unglow.phantom.truth import Truth

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


@dataclass(frozen=True)
class DamagedTruth(Truth):
    """Truth of a pair with damage.

    Attributes
    ----------
    damage
        Spoilt places and faults of the entire image: ``kind``, ``size_px``, ``strength``,
        ``rim_px`` (the effect ends half of it outside the polygon), ``image``, ``polygon_xy``
        (in post, px: where the effect has more than half of its strength) and ``area_px``; size,
        rim, polygon and area are None for an entire image.
    """

    SPEC: ClassVar = DamagedPair

    spec: DamagedPair
    damage: tuple[dict[str, Any], ...] = ()

    @property
    def is_microbe_damaged(self) -> NDArray[np.bool_]:
        """Which microbes have their centre in a spoilt place, (N,)."""
        return self.is_damaged(self.microbes.xy)

    def is_damaged(self, points: Floats) -> NDArray[np.bool_]:
        """Return which post points, (N, 2) px, are in the polygon of a spoilt place, (N,).

        Clusters of labelled cells are none.
        """
        found = np.zeros(len(points), dtype=bool)
        for one in self.damage:
            if one["polygon_xy"] is not None and one["kind"] != "cells":  # which are stain
                found |= find_inside(points, np.array(one["polygon_xy"]))
        return found

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON types."""
        values = super().to_json() | {"spec": self.spec.to_json()}
        if self.damage:
            values["microbes"]["damaged"] = self.is_microbe_damaged.tolist()
            values["damage"] = list(self.damage)
        return values

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> DamagedTruth:
        """Build from what `to_json` gave."""
        return replace(super().from_json(values), damage=tuple(values.get("damage", ())))


class DamagedRenderer(Renderer):
    """Renders a pair with damage.

    Attributes
    ----------
    places
        Spoilt places of post; those of dust are in pre as well. Labelled cells follow the microbes.

    Raises
    ------
    ConfigError
        If the damage does not fit on the section.
    """

    spec: DamagedPair

    def __init__(self, spec: DamagedPair) -> None:
        super().__init__(spec)
        self.places = find_places(
            spec.damages,
            spec.shape,
            (min(spec.shape[0], spec.pre_frame[0]), min(spec.shape[1], spec.pre_frame[1])),
            (spec.seed, spec.damage_seed),
            self.scene.coverage,
            lambda x, y: self.scene.background(x, y) * spec.gain,
        )
        cells = draw_cells(self.places)
        both = (
            np.append(*(getattr(s, f.name) for s in (self.microbes, cells))) for f in fields(cells)
        )
        self.microbes = Spots(*both)
        self.boxes["microbes"] = find_boxes(self.microbes, self.microbes.xy, 1.0, spec.shape)
        dust = [place for place in self.places if place.kind == "dust"]
        self._damage = {
            "post": ImageDamage(spec.shape, self.places, find_faults(spec.damages)),
            "pre": ImageDamage(spec.pre_frame, dust),
        }

    def light(self, image: Image, window: Window) -> Floats:
        """Return what reaches the camera in a window, (rows, cols) levels, without noise."""
        render = super().light
        out = render(image, window)
        self._damage[image].spoil_light(window, out, lambda outer: render(image, outer))
        return out

    def render_focused(self, image: Image, window: Window) -> Floats:
        """Return `light` without the blur of the image."""
        out = super().render_focused(image, window)
        if image == "post":
            self._damage[image].spoil_tissue(window, out, self._render_tissue)
        return out

    def _render_tissue(self, window: Window, x: Floats, y: Floats) -> Floats:
        """Return the light of post in a window whose pixels see the tissue of points (x, y).

        All are (rows, cols).
        """
        out = self.scene.background(x, y)
        add_spots_at(self.grains, x, y, out)
        if self.spec.shading > 0:
            out *= self.shading["post"].evaluate(window)
        out *= self.spec.gain
        add_spots_at(self.microbes, x, y, out)
        return out

    def pixels(self, image: Image, window: Window) -> NDArray[Any]:
        """Return the recorded pixels of a window, (rows, cols) or (rows, cols, 3) counts."""
        counts = super().pixels(image, window)
        return self._damage[image].spoil_counts(window, counts, self.spec.counts_per_level)

    def make_truth(self, sample: str, dye: str) -> DamagedTruth:
        """Return the truth of the pair."""
        return DamagedTruth(**vars(super().make_truth(sample, dye)), damage=self._describe_damage())

    def _describe_damage(self) -> tuple[dict[str, Any], ...]:
        """Return the damage: places in their order, then faults of the entire image.

        Dust is at the same sensor pixels of pre: it is there a second time, with the polygon mapped
        to post.
        """
        found = [place.to_json() | {"image": "post"} for place in self.places]
        for place in self.places:
            if place.kind == "dust":
                polygon = np.round(self.map.to_post(place.shape.polygon()), 2)
                seen = {"polygon_xy": polygon.tolist(), "area_px": round(compute_area(polygon), 1)}
                found.append(place.to_json() | seen | {"image": "pre"})
        for fault in find_faults(self.spec.damages):
            image = "both" if fault.kind == "swap" else "post"
            found.append(describe_fault(fault, self.spec.shape) | {"image": image})
        return tuple(found)


def add_spots_at(spots: Spots, x: Floats, y: Floats, out: Floats) -> None:
    """Add spots to pixels that see any post points (x, y), all (rows, cols), in place."""
    if x.size == 0:
        return
    reach = CUTOFF_SIGMAS * spots.sigma_long
    hit = (spots.x > x.min() - reach) & (spots.x < x.max() + reach)
    hit &= (spots.y > y.min() - reach) & (spots.y < y.max() + reach)
    near = spots.select(hit)
    everywhere = Window.from_shape((out.shape[0], out.shape[1]))
    areas = np.tile([0, everywhere.y1, 0, everywhere.x1], (len(near), 1))
    add_spots(near, areas, everywhere, x, y, out)


def make_pair(
    spec: DamagedPair, raw: Path, sample: str, dye: str, workers: int = 1
) -> DamagedTruth:
    """Write a pair as `unglow.phantom.pair.write_pair`; ``swap`` exchanges its two images."""
    truth = write_pair(DamagedRenderer(spec), raw, sample, dye, workers=workers)
    if any(one.kind == "swap" for one in spec.damages):
        pre, post = (raw / sample / f"{sample}_{image}_{dye}.tif" for image in ("pre", "post"))
        pre.rename(raw / sample / "swapped")
        post.rename(pre)
        (raw / sample / "swapped").rename(post)
    return cast("DamagedTruth", truth)
