"""The exact truth of a phantom pair, and its JSON file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.errors import InputError
from unglow.core.files import read_json, write_text
from unglow.phantom.catalogue import Spots
from unglow.phantom.damage.shapes import inside
from unglow.phantom.geometry import PhantomMap
from unglow.phantom.spec import PhantomSpec

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

VERSION = 1


@dataclass(frozen=True)
class Truth:
    """What a perfect analysis of a phantom pair would find.

    Attributes
    ----------
    sample, dye
        Names of the pair.
    spec
        All settings of the pair.
    geometry
        The map between the frames.
    microbes
        Spots in post only, at post coordinates; peaks in stored counts of the post image.
    grains
        Spots in both images, at post coordinates; peaks in stored counts of the pre image (times
        the gain in post).
    shading
        The illumination formula of each image, ``{"pre": ..., "post": ...}``.
    damage
        Spoilt places and faults of the entire image: ``kind``, ``size_px``, ``strength``,
        ``rim_px`` (the effect ends half of it outside the polygon), ``image``, ``polygon_xy``
        (in post, px: where the effect has more than half of its strength) and ``area_px``; size,
        rim, polygon and area are None for an entire image.
    """

    sample: str
    dye: str
    spec: PhantomSpec
    geometry: PhantomMap
    microbes: Spots
    grains: Spots
    shading: dict[str, Any]
    damage: tuple[dict[str, Any], ...] = ()

    @property
    def is_microbe_damaged(self) -> NDArray[np.bool_]:
        """Which microbes have their centre in a spoilt place, (N,)."""
        return self.is_damaged(self.microbes.xy)

    def is_damaged(self, points: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return which post points, (N, 2) px, are in the polygon of a spoilt place, (N,)."""
        found = np.zeros(len(points), dtype=bool)
        for one in self.damage:
            if one["polygon_xy"] is not None:
                found |= inside(points, np.array(one["polygon_xy"]))
        return found

    @property
    def matrix(self) -> NDArray[np.float64]:
        """3 x 3, post (x, y, 1) -> pre (x, y, 1); the entire map if nothing is deformed."""
        return self.geometry.matrix

    @property
    def gain(self) -> float:
        """Post background = gain * pre background + offset."""
        return self.spec.gain

    @property
    def offset(self) -> float:
        """Post background = gain * pre background + offset; in stored counts."""
        difference = self.spec.offset_post - self.spec.gain * self.spec.offset_pre
        return difference * self.spec.counts_per_level

    def map(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Map post points to pre, (N, 2) -> (N, 2), px, to within 1e-9 px."""
        return self.geometry.to_pre(points)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON types."""
        values: dict[str, Any] = {
            "version": VERSION,
            "sample": self.sample,
            "dye": self.dye,
            "convention": "points are (x, y), pixel centres at integers; pre = M u, where "
            "u = post - d(u) and d(u) = sum (dx, dy) sin(kx u_x + ky u_y + phase); "
            "a row of waves is kx, ky, phase, dx, dy; spots are at post coordinates, sigmas in px, "
            "peaks in stored counts (microbes: of post; grains: of pre, times the gain in post)",
            "map": self.geometry.to_json(),
            "gain": self.gain,
            "offset": self.offset,
            "raw": {
                "gain": self.spec.gain,
                "offset_pre": self.spec.offset_pre * self.spec.counts_per_level,
                "offset_post": self.spec.offset_post * self.spec.counts_per_level,
                "counts_per_level": self.spec.counts_per_level,
            },
            "shading": self.shading,
            "spec": self.spec.to_json(),
            "microbes": self.microbes.to_json(),
            "grains": self.grains.to_json(),
        }
        if self.damage:
            values["microbes"]["damaged"] = self.is_microbe_damaged.tolist()
            values["damage"] = list(self.damage)
        return values

    def save(self, path: Path) -> None:
        """Write the JSON file; it appears under its name only when it is complete."""
        write_text(path, json.dumps(self.to_json(), separators=(",", ":")) + "\n")

    @classmethod
    def load(cls, path: Path) -> Truth:
        """Read the JSON file; raises InputError if it is not one."""
        try:
            values = read_json(path)
            if values["version"] != VERSION:
                raise InputError(
                    f"{path}: truth of version {values['version']} cannot be read here, only "
                    f"{VERSION}; make the phantom again."
                )
            return cls(
                values["sample"],
                values["dye"],
                PhantomSpec.from_json(values["spec"]),
                PhantomMap.from_json(values["map"]),
                Spots.from_json(values["microbes"]),
                Spots.from_json(values["grains"]),
                values["shading"],
                tuple(values.get("damage", ())),
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{path}: not the truth of a phantom ({error}); make the phantom again."
            ) from error
