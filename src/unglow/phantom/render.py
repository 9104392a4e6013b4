"""Windows of the two images of a phantom, noise-free or as the camera records them."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import cv2
import numpy as np

from unglow.core.kernels import kernel
from unglow.phantom.texture import (
    Camera,
    Shading,
    add_noise,
    add_spots,
    derive_key,
    domains,
    draw_grains,
    draw_microbes,
    fill_dark,
    find_boxes,
    make_generator,
)
from unglow.phantom.truth import PhantomMap, Truth

if TYPE_CHECKING:
    from unglow.core.arrays import Array, Floats
    from unglow.core.windows import Window
    from unglow.phantom.spec import PhantomSpec


# The part of the frame that the section covers.
COVERAGE = 0.65
_EDGE_PX = 5.0


class Scene:
    """The section of one phantom, a function of continuous post coordinates.

    Parameters
    ----------
    spec
        What to make; only its shape and seed matter here.
    """

    def __init__(self, spec: PhantomSpec) -> None:
        self._keys = [derive_key(spec.seed, 1, n) for n in range(40)]
        rows, cols = spec.shape
        self._centre = (cols - 1) / 2.0, (rows - 1) / 2.0
        self._axes = 0.47 * cols, 0.47 * rows
        self._size = float(min(self._axes))
        self._level = 0.0
        # the height whose contour encloses the coverage wanted
        (cx, cy), (ax, ay) = self._centre, self._axes
        y, x = np.mgrid[-1.0:1.0:160j, -1.0:1.0:160j]
        x, y = cx + x.ravel() * ax / 0.94, cy + y.ravel() * ay / 0.94
        self._level = float(np.round(np.quantile(self._height(x, y), 1.0 - COVERAGE), 3))

    def _height(self, x: Floats, y: Floats) -> Floats:
        """Return roughly the distance inside the outline in px, without its finest teeth."""
        height = np.empty(x.size)
        x, y = np.ascontiguousarray(x), np.ascontiguousarray(y)
        kernel("oval")(x, y, x.size, *self._centre, *self._axes, height)
        for n, (part, amplitude) in enumerate(((0.9, 0.085), (0.33, 0.04), (0.11, 0.018))):
            add_noise(x, y, part * self._size, self._keys[n], amplitude * self._size, height)
        return height

    def coverage(self, x: Floats, y: Floats) -> Floats:
        """Return 1 inside the section, 0 outside, and between at its soft edge; (N,) -> (N,)."""
        out = self._height(x, y) - self._level
        # Teeth matter near the edge only; the band is far wider than they are tall.
        near = np.flatnonzero(np.abs(out) < 60.0)
        if near.size:
            teeth = np.zeros(near.size)
            add_noise(x[near], y[near], 45.0, self._keys[3], 6.0, teeth)
            add_noise(x[near], y[near], 11.0, self._keys[4], 1.6, teeth)
            out[near] += teeth
        t = np.clip(out / _EDGE_PX + 0.5, 0.0, 1.0)
        return np.asarray(t * t * (3.0 - 2.0 * t))

    def texture(self, x: Floats, y: Floats) -> Floats:
        """Return the brightness of the section's material, (N,) -> (N,) levels, positive."""
        k = self._keys
        wx = self._sum_noise(x, y, (700.0, k[21], 80.0), (130.0, k[5], 20.0), (34.0, k[6], 5.0))
        wy = self._sum_noise(x, y, (700.0, k[22], 80.0), (130.0, k[7], 20.0), (34.0, k[8], 5.0))
        wx += x
        wy += y
        minerals, crystals = np.empty((4, x.size)), np.empty((4, x.size))
        domains(wx, wy, 190.0, 5.0, k[9], minerals)
        domains(wx, wy, 36.0, 4.0, k[10], crystals)
        zones = self._sum_noise(
            x, y, (7000.0, k[23], 0.1), (1600.0, k[11], 0.17), (430.0, k[12], 0.13)
        )
        medium = self._sum_noise(x, y, (170.0, k[13], 1.0))
        crack = self._sum_noise(x, y, (330.0, k[14], 1.0), (60.0, k[15], 0.12))
        fine = self._sum_noise(
            x, y, (75.0, k[16], 0.45), (33.0, k[17], 0.5), (15.0, k[18], 0.6), (7.2, k[19], 0.6)
        )
        add_noise(x, y, 3.6, k[20], 0.4, fine)
        out = np.empty(x.size)
        kernel("mix_textures")(minerals, crystals, zones, medium, crack, fine, x.size, out)
        return out

    def background(self, x: Floats, y: Floats) -> Floats:
        """Return the section without grains and microbes at post coordinates.

        Parameters
        ----------
        x, y
            float64 arrays of one shape, px.

        Returns
        -------
        Levels, float64, of that shape; exactly 0 outside the section.
        """
        flat_x, flat_y = np.ravel(x), np.ravel(y)
        out = self.coverage(flat_x, flat_y)
        inside = np.flatnonzero(out)
        if inside.size:
            out[inside] *= self.texture(flat_x[inside], flat_y[inside])
        return out.reshape(np.shape(x))

    @staticmethod
    def _sum_noise(x: Floats, y: Floats, *octaves: tuple[float, np.uint64, float]) -> Floats:
        out = np.zeros(x.size)
        for spacing, key, amplitude in octaves:
            add_noise(x, y, spacing, key, amplitude, out)
        return out


Image = Literal["pre", "post"]
# What the channels without signal show: almost black.
_DARK_OFFSET = 0.05
_SHADING_STREAM = 104
# The kernel of the blur ends where it has fallen to exp(-8) of its peak.
_BLUR_SIGMAS = 4.0


class Renderer:
    """Renders any window of either image; the pixels do not depend on the window. Thread-safe.

    Parameters
    ----------
    spec
        What to render.

    Attributes
    ----------
    scene, map
        The section, and the map between the frames.
    microbes, grains
        Catalogues; their peaks are in levels (those of grains before gain).
    shading
        Illumination of each image.
    """

    def __init__(self, spec: PhantomSpec) -> None:
        self.spec = spec
        self.scene = Scene(spec)
        self.map = PhantomMap.from_spec(spec)
        # Spots are drawn over the frame; those outside the section go.
        mpx = spec.shape[0] * spec.shape[1] / 1e6
        microbes, grains = round(spec.microbes_per_mpx * mpx), round(spec.grains_per_mpx * mpx)
        self.microbes = draw_microbes(microbes, spec.shape, spec.seed, self.scene.coverage)
        self.grains = draw_grains(grains, spec.shape, spec.seed, self.scene.coverage)
        self.boxes = {
            "microbes": find_boxes(self.microbes, self.microbes.xy, 1.0, spec.shape),
            "post": find_boxes(self.grains, self.grains.xy, 1.0, spec.shape),
            "pre": find_boxes(
                self.grains, self.map.to_pre(self.grains.xy), self.map.stretch(), spec.pre_frame
            ),
        }
        self.shading = _draw_shadings(spec)
        self._camera = Camera(
            spec.electrons_per_level, spec.read_noise, spec.counts_per_level, np.dtype(spec.dtype)
        )
        self._keys = {(i, c): derive_key(spec.seed, 2, n, c) for n, i in _IMAGES for c in range(3)}

    def shape(self, image: Image) -> tuple[int, int]:
        """Return (rows, columns) of an image."""
        return self.spec.shape if image == "post" else self.spec.pre_frame

    def offset(self, image: Image) -> float:
        """Return the camera's offset for an image, in levels."""
        return self.spec.offset_post if image == "post" else self.spec.offset_pre

    def background(self, image: Image, window: Window) -> Floats:
        """Return section and grains at the pixels of a window, (rows, cols) levels.

        This is the scene that both images share: without gain, shading, microbes and offset.
        """
        x, y = self.map_coordinates(image, window)
        out = self.scene.background(x, y)
        add_spots(self.grains, self.boxes[image], window, x, y, out)
        return out

    def light(self, image: Image, window: Window) -> Floats:
        """Return what reaches the camera in a window, (rows, cols) levels, without noise."""
        spec = self.spec
        width = spec.blur_post_px if image == "post" else spec.blur_pre_px
        if not width:
            return self.render_focused(image, window)
        outer = window.grow(math.ceil(_BLUR_SIGMAS * width)).clip(self.shape(image))
        side = 2 * int(_BLUR_SIGMAS * width + 0.5) + 1
        # the image's own edges repeat; those of the window are cut off with all that they reach
        blurred = cv2.GaussianBlur(
            self.render_focused(image, outer), (side, side), width, borderType=cv2.BORDER_REPLICATE
        )
        return np.ascontiguousarray(blurred[window.shift(-outer.y0, -outer.x0).slices])

    def render_focused(self, image: Image, window: Window) -> Floats:
        """Return `light` without the blur of the image."""
        out = self.background(image, window)
        if self.spec.shading > 0:
            out *= self.shading[image].evaluate(window)
        if image == "post":
            out *= self.spec.gain
            x, y = self.map_coordinates(image, window)
            add_spots(self.microbes, self.boxes["microbes"], window, x, y, out)
        return out

    def pixels(self, image: Image, window: Window) -> Array:
        """Return the recorded pixels of a window, (rows, cols) or (rows, cols, 3) counts."""
        light = self.light(image, window)
        green = self._camera.expose(light, self.offset(image), window, self._keys[image, 1])
        return self._add_colours(image, window, green) if self.spec.rgb else green

    def make_truth(self, sample: str, dye: str) -> Truth:
        """Return the truth of the pair."""
        scale = float(self.spec.counts_per_level)
        return Truth(
            sample=sample,
            dye=dye,
            spec=self.spec,
            geometry=self.map,
            microbes=self.microbes.scale(scale),
            grains=self.grains.scale(scale),
            shading={image: shading.to_json() for image, shading in self.shading.items()},
        )

    def _add_colours(self, image: Image, window: Window, green: Array) -> Array:
        """Return the counts of all three channels, (rows, cols, 3)."""
        out = np.empty((*green.shape, 3), dtype=green.dtype)
        out[..., 1] = green
        fill_dark(self._dark, window, self._keys[image, 0], out)
        return out

    @cached_property
    def _dark(self) -> Array:
        return self._camera.dark_table(_DARK_OFFSET)

    def map_coordinates(self, image: Image, window: Window) -> tuple[Floats, Floats]:
        """Return post x and y of the pixels of a window, (rows, cols) each."""
        if image == "pre":
            return self.map.window_to_post(window)
        rows = np.arange(window.y0, window.y1, dtype=np.float64)
        cols = np.arange(window.x0, window.x1, dtype=np.float64)
        y, x = np.meshgrid(rows, cols, indexing="ij")
        return x, y


_IMAGES: tuple[tuple[int, Image], ...] = ((0, "pre"), (1, "post"))


def _draw_shadings(spec: PhantomSpec) -> dict[Image, Shading]:
    """Draw illuminations: half the amplitude in each image, so that they differ by all of it."""
    phase = np.round(make_generator(spec.seed, _SHADING_STREAM).uniform(-1.0, 1.0, 4), 6)
    half = spec.shading / 2.0
    return {
        "pre": Shading(-half, float(phase[0]), float(phase[1]), spec.pre_frame),
        "post": Shading(half, float(phase[2]), float(phase[3]), spec.shape),
    }
