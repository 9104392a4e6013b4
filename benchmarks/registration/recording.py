"""From light to pixels: gain, gamma, uneven light, stain, cut outlines, noise, saturation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import ndimage

from unglow.core.windows import Window, grid
from unglow.phantom.texture import Shading, add_spots, draw_microbes, find_boxes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from registration.bases import Base, Levels

_COARSE = 16
"""Patches of stain and cuts are drawn on a grid this much coarser than the image."""
COUNTS = {"uint8": 1, "uint16": 64}
"""Stored counts for each grey level of the camera's 255."""


@dataclass(frozen=True)
class Camera:
    """How light becomes counts.

    Attributes
    ----------
    electrons
        Photoelectrons per grey level (of 255).
    read_noise, offset
        Grey levels.
    dtype
        ``uint8``, or ``uint16`` with 64 counts per grey level.
    """

    electrons: float = 8.0
    read_noise: float = 0.5
    offset: float = 0.5
    dtype: str = "uint8"

    def exposed(self, light: Levels, rng: np.random.Generator) -> NDArray[Any]:
        """Return the counts of noise-free levels (rows, cols), clipped at 255 levels."""
        counts = COUNTS[self.dtype]
        out = np.empty(light.shape, self.dtype)
        for window in grid(light.shape, (512, light.shape[1])):
            seen = rng.poisson(np.maximum(light[window.slices], 0) * self.electrons)
            level = seen / self.electrons + rng.normal(self.offset, self.read_noise, seen.shape)
            out[window.slices] = np.clip(np.rint(level * counts), 0, 256 * counts - 1)
        return out


def shade(light: Levels, amplitude: float, rng: np.random.Generator) -> None:
    """Light an image unevenly, in place; ``amplitude`` is the greatest relative difference."""
    rows, cols = light.shape
    x, y = rng.uniform(-1.0, 1.0, 2)
    shading = Shading(amplitude, x, y, (rows, cols))
    light *= shading.evaluate(Window.from_shape((rows, cols))).astype(np.float32)


def curve(light: Levels, gamma: float, *, reverse: bool) -> None:
    """Bend the tone curve about the 99th percentile, and reverse it, in place."""
    bright = np.float32(max(1.0, float(np.quantile(light[::7, ::7], 0.99))))
    if gamma != 1.0:
        np.divide(light, bright, out=light)
        np.power(light, np.float32(gamma), out=light)
        np.multiply(light, bright, out=light)
    if reverse:
        np.subtract(1.1 * bright, light, out=light)
        np.maximum(light, 0, out=light)


def saturate(light: Levels, share: float, gain: float) -> None:
    """Multiply by ``gain``, or by what makes ``share`` of the pixels exceed the camera's 255."""
    if share > 0:
        gain = 256.0 / max(1.0, float(np.quantile(light[::5, ::5], 1 - share)))
    light *= np.float32(gain)


def spots(light: Levels, base: Base, per_mpx: float, seed: int) -> None:
    """Add stained microbes of `unglow phantom` to post, in place."""
    shape = (light.shape[0], light.shape[1])
    found = draw_microbes(round(per_mpx * light.size / 1e6), shape, seed, base.inside)
    areas = find_boxes(found, found.xy, 1.0, shape)
    for window in grid(shape, (512, 512)):
        rows, cols = np.mgrid[window.y0 : window.y1, window.x0 : window.x1].astype(np.float64)
        part = light[window.slices].astype(np.float64)
        add_spots(found, areas, window, cols, rows, part)
        light[window.slices] = part


def stain(light: Levels, base: Base, share: float, strength: float, seed: int) -> None:
    """Add patches of new signal, with a texture of their own, to ``share`` of the section.

    ``strength`` is their mean brightness over the 90th percentile of the section.
    """
    rng = np.random.default_rng([seed, 301])
    rows, cols = (-(-n // _COARSE) for n in light.shape)
    field = ndimage.gaussian_filter(rng.normal(size=(rows, cols)), rng.uniform(0.7, 5.0))
    y, x = np.indices(field.shape, np.float64).reshape(2, -1) * _COARSE
    on = base.inside(x, y).reshape(field.shape) > 0.5
    field = (field - np.quantile(field[on], 1 - share)) / field.std()
    mask = np.clip(_enlarged(field, light.shape) * 8 + 0.5, 0, 1)
    grain = ndimage.gaussian_filter(rng.normal(size=light.shape).astype(np.float32), 1.5)
    grain = np.clip(1 + 0.5 * grain / grain.std(), 0, None)
    level = strength * float(np.quantile(light[::7, ::7], 0.9))
    outline = _enlarged(on.astype(np.float64), light.shape)
    light += np.float32(level) * mask * grain * np.clip(outline, 0, 1)


def cut(light: Levels, share: float, rng: np.random.Generator) -> None:
    """Darken a ragged part at one side of an image, in place: a differing outline."""
    rows, cols = (-(-n // _COARSE) for n in light.shape)
    y, x = np.indices((rows, cols)) / max(rows, cols)
    angle = rng.uniform(0, 2 * np.pi)
    field = ndimage.gaussian_filter(rng.normal(size=(rows, cols)), 4.0)
    field = x * np.cos(angle) + y * np.sin(angle) + 0.08 * field / field.std()
    field -= np.quantile(field, 1 - share)
    light *= np.clip(0.5 - _enlarged(field, light.shape) * 60, 0, 1)


def _enlarged(field: NDArray[np.float64], shape: tuple[int, ...]) -> Levels:
    """Enlarge a coarse grid to an image, linearly."""
    rows, cols = shape
    fine = ndimage.zoom(field.astype(np.float32), _COARSE, order=1, mode="nearest", grid_mode=True)
    return np.ascontiguousarray(fine[:rows, :cols])
