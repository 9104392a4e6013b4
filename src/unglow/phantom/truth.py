"""The truth of a phantom pair: the exact map between its frames, and the JSON file.

The section lives in the frame of post. With the matrix M and a deformation d (a sum of sine waves),

    post = u + d(u)   where   u = M^-1 pre      (pre -> post, closed form)
    pre  = M u        where   u = post - d(u)   (post -> pre, a fixed point that always converges)

so a pixel of pre is rendered at a place known in closed form, and the map that a registration has
to find is that of the second line.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from unglow.core.errors import InputError
from unglow.core.files import read_json, write_text
from unglow.core.records import to_record
from unglow.phantom.spec import PhantomSpec
from unglow.phantom.texture import Spots, make_generator

if TYPE_CHECKING:
    from pathlib import Path

    from unglow.core.arrays import Floats
    from unglow.core.windows import Window


VERSION = 1
_WAVES = 4
_STREAM = 101

# Steps of the fixed point at most; each is below 0.6 of the last (see PhantomSpec).
_MOST_STEPS = 60


@dataclass(frozen=True)
class PhantomMap:
    """Map between post and pre coordinates, (x, y) in px with pixel centres at integers.

    Attributes
    ----------
    matrix
        3 x 3 float64, post (x, y, 1) -> pre (x, y, 1): the entire map where there are no waves.
    waves
        (W, 5) float64: kx, ky (rad/px), phase (rad), and the amplitude dx, dy (px) of
        d(u) = sum (dx, dy) * sin(kx * u_x + ky * u_y + phase). W is 0 without deformation.
    """

    matrix: Floats
    waves: Floats

    @classmethod
    def from_spec(cls, spec: PhantomSpec) -> PhantomMap:
        """Return the map that a specification asks for."""
        about = spec.deform_px, spec.deform_wavelength_px, spec.seed, _STREAM
        return cls(_matrix(spec), draw_waves(spec.shape, *about))

    def deformation(self, points: Floats) -> Floats:
        """Return d at undeformed points, (N, 2) -> (N, 2) px."""
        phase = points @ self.waves[:, :2].T + self.waves[:, 2]
        return np.asarray(np.sin(phase) @ self.waves[:, 3:], dtype=np.float64)

    def to_pre(self, points: Floats) -> Floats:
        """Map post points to pre, (N, 2) -> (N, 2), to within 1e-9 px."""
        points = _stack_points(points)
        u = points.copy()
        if len(self.waves):
            for _ in range(_MOST_STEPS):
                step = points - self.deformation(u) - u
                u += step
                if not np.abs(step).max(initial=0.0) > 1e-10:
                    break
        return np.asarray(u @ self.matrix[:2, :2].T + self.matrix[:2, 2], dtype=np.float64)

    def to_post(self, points: Floats) -> Floats:
        """Map pre points to post, (N, 2) -> (N, 2), in closed form."""
        inverse = np.linalg.inv(self.matrix)
        u: Floats = _stack_points(points) @ inverse[:2, :2].T + inverse[:2, 2]
        return u + self.deformation(u) if len(self.waves) else u

    def window_to_post(self, window: Window) -> tuple[Floats, Floats]:
        """Return post x and y, each (rows, cols), of the pixels of a window of the pre image.

        The bits of a pixel do not depend on the window: everything is a sum or product of a value
        of its row and a value of its column.
        """
        inverse = np.linalg.inv(self.matrix)
        cols = np.arange(window.x0, window.x1, dtype=np.float64)[None, :]
        rows = np.arange(window.y0, window.y1, dtype=np.float64)[:, None]
        x = inverse[0, 0] * cols + (inverse[0, 1] * rows + inverse[0, 2])
        y = inverse[1, 0] * cols + (inverse[1, 1] * rows + inverse[1, 2])
        for kx, ky, phase, dx, dy in self.waves:
            # sin(a + b) by its addition theorem: sines of rows and columns, not of every pixel.
            a = (kx * inverse[0, 0] + ky * inverse[1, 0]) * cols
            b = (kx * inverse[0, 1] + ky * inverse[1, 1]) * rows
            b = b + (kx * inverse[0, 2] + ky * inverse[1, 2] + phase)
            wave = np.sin(a) * np.cos(b)
            wave += np.cos(a) * np.sin(b)
            x += dx * wave
            y += dy * wave
        return x, y

    def stretch(self) -> float:
        """Return a bound of how many times longer a small distance can become from post to pre."""
        linear = float(np.linalg.norm(self.matrix[:2, :2], 2))
        lengths = np.hypot(self.waves[:, 0], self.waves[:, 1])
        gradient = float(lengths @ np.hypot(self.waves[:, 3], self.waves[:, 4]))
        return linear / (1.0 - gradient)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON types."""
        return {"matrix": self.matrix.tolist(), "waves": self.waves.tolist()}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> PhantomMap:
        """Build from what `to_json` gave."""
        waves = np.array(values["waves"], dtype=np.float64).reshape(-1, 5)
        return cls(np.array(values["matrix"], dtype=np.float64).reshape(3, 3), waves)


def _stack_points(points: Floats) -> Floats:
    points = np.asarray(points, dtype=np.float64)
    if points.ndim != 2 or points.shape[1] != 2:
        raise ValueError(f"points must have shape (N, 2), not {points.shape}")
    return points


def _centre(shape: tuple[int, int]) -> Floats:
    return np.array([(shape[1] - 1) / 2.0, (shape[0] - 1) / 2.0])


def _matrix(spec: PhantomSpec) -> Floats:
    angle = math.radians(spec.rotation_deg)
    turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    linear = spec.scale * turn @ np.array([[1.0, spec.shear], [0.0, 1.0]])
    matrix = np.eye(3)
    matrix[:2, :2] = linear
    matrix[:2, 2] = _centre(spec.pre_frame) + spec.shift_px - linear @ _centre(spec.shape)
    return matrix


def draw_waves(
    shape: tuple[int, int], longest_px: float, wavelength_px: float, *seeds: int
) -> Floats:
    """Draw waves of 1 to 2 wavelengths, scaled to the greatest length asked for in a frame."""
    if longest_px == 0:
        return np.zeros((0, 5))
    rng = make_generator(*seeds)
    length = wavelength_px * np.array([1.0, 1.3, 1.6, 2.0])
    # Directions spread over half a turn: waves in one direction would bend along one axis only.
    direction = np.pi / _WAVES * (np.arange(_WAVES) + rng.uniform(0.0, 1.0, _WAVES))
    phase, towards = rng.uniform(0.0, 2.0 * np.pi, (2, _WAVES))
    k = 2.0 * np.pi / length
    waves = np.column_stack(
        [k * np.cos(direction), k * np.sin(direction), phase, np.cos(towards), np.sin(towards)]
    )
    rows, cols = shape
    y, x = np.mgrid[0 : rows - 1 : 129j, 0 : cols - 1 : 129j]
    field = PhantomMap(np.eye(3), waves).deformation(np.column_stack([x.ravel(), y.ravel()]))
    # A frame that sees only a small part of every wave must not raise their amplitudes.
    waves[:, 3:] *= longest_px / max(1.0, float(np.hypot(field[:, 0], field[:, 1]).max()))
    return waves


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
    """

    SPEC: ClassVar = PhantomSpec

    sample: str
    dye: str
    spec: PhantomSpec
    geometry: PhantomMap
    microbes: Spots
    grains: Spots
    shading: dict[str, Any]

    @property
    def matrix(self) -> Floats:
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

    def map(self, points: Floats) -> Floats:
        """Map post points to pre, (N, 2) -> (N, 2), px, to within 1e-9 px."""
        return self.geometry.to_pre(points)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON types."""
        return {
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
            "spec": asdict(self.spec),
            "microbes": self.microbes.to_json(),
            "grains": self.grains.to_json(),
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """Build from what `to_json` gave."""
        return cls(
            values["sample"],
            values["dye"],
            to_record(values["spec"], cls.SPEC),
            PhantomMap.from_json(values["map"]),
            Spots.from_json(values["microbes"]),
            Spots.from_json(values["grains"]),
            values["shading"],
        )

    def save(self, path: Path) -> None:
        """Write the JSON file; it appears under its name only when it is complete."""
        write_text(path, json.dumps(self.to_json(), separators=(",", ":")) + "\n")

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read the JSON file; raises InputError if it is not one."""
        try:
            values = read_json(path)
            if values["version"] != VERSION:
                raise InputError(
                    f"{path}: truth of version {values['version']} cannot be read here, only "
                    f"{VERSION}; make the phantom again."
                )
            return cls.from_json(values)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{path}: not the truth of a phantom ({error}); make the phantom again."
            ) from error
