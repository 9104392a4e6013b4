"""Windows of the two images of a phantom, noise-free or as the camera records them."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import cv2
import numpy as np

from unglow.phantom.camera import Camera, Shading, fill_dark
from unglow.phantom.catalogue import draw_grains, draw_microbes
from unglow.phantom.damage.effects import coordinates
from unglow.phantom.damage.image import ImageDamage, find_faults
from unglow.phantom.damage.places import find_places
from unglow.phantom.geometry import PhantomMap
from unglow.phantom.scene import Scene
from unglow.phantom.spots import add_spots, add_spots_at, boxes
from unglow.phantom.texture import derive_key, generator

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.core.windows import Window
    from unglow.phantom.spec import PhantomSpec

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
    places
        Spoilt places of post, by the damage of the specification; those of dust are in pre as well.

    Raises
    ------
    ConfigError
        If the damage does not fit on the section.
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
        self._boxes = {
            "microbes": boxes(self.microbes, self.microbes.xy, 1.0, spec.shape),
            "post": boxes(self.grains, self.grains.xy, 1.0, spec.shape),
            "pre": boxes(
                self.grains, self.map.to_pre(self.grains.xy), self.map.stretch(), spec.pre_frame
            ),
        }
        self.shading = _shadings(spec)
        self._camera = Camera(
            spec.electrons_per_level, spec.read_noise, spec.counts_per_level, np.dtype(spec.dtype)
        )
        self.places = find_places(
            spec.damages,
            spec.shape,
            (min(spec.shape[0], spec.pre_frame[0]), min(spec.shape[1], spec.pre_frame[1])),
            (spec.seed, spec.damage_seed),
            self.scene.coverage,
            lambda x, y: self.scene.background(x, y) * spec.gain,
        )
        dust = [place for place in self.places if place.kind == "dust"]
        self._damage = {
            "post": ImageDamage(spec.shape, self.places, find_faults(spec.damages)),
            "pre": ImageDamage(spec.pre_frame, dust),
        }
        self._keys = {(i, c): derive_key(spec.seed, 2, n, c) for n, i in _IMAGES for c in range(3)}

    def shape(self, image: Image) -> tuple[int, int]:
        """Return (rows, columns) of an image."""
        return self.spec.shape if image == "post" else self.spec.pre_frame

    def offset(self, image: Image) -> float:
        """Return the camera's offset for an image, in levels."""
        return self.spec.offset_post if image == "post" else self.spec.offset_pre

    def background(self, image: Image, window: Window) -> NDArray[np.float64]:
        """Return section and grains at the pixels of a window, (rows, cols) levels.

        This is the scene that both images share: without gain, shading, microbes and offset.
        """
        x, y = self._coordinates(image, window)
        out = self.scene.background(x, y)
        add_spots(self.grains, self._boxes[image], window, x, y, out)
        return out

    def light(self, image: Image, window: Window) -> NDArray[np.float64]:
        """Return what reaches the camera in a window, (rows, cols) levels, without noise."""
        out = self._render_blurred(image, window)
        self._damage[image].spoil_light(
            window, out, lambda outer: self._render_blurred(image, outer)
        )
        return out

    def _render_blurred(self, image: Image, window: Window) -> NDArray[np.float64]:
        """Return `light` with the blur of the image, but without blurred places and dust."""
        spec = self.spec
        width = spec.blur_post_px if image == "post" else spec.blur_pre_px
        if not width:
            return self._render_focused(image, window)
        outer = window.grow(math.ceil(_BLUR_SIGMAS * width)).clip(self.shape(image))
        side = 2 * int(_BLUR_SIGMAS * width + 0.5) + 1
        # the image's own edges repeat; those of the window are cut off with all that they reach
        blurred = cv2.GaussianBlur(
            self._render_focused(image, outer), (side, side), width, borderType=cv2.BORDER_REPLICATE
        )
        return np.ascontiguousarray(blurred[window.shift(-outer.y0, -outer.x0).slices])

    def _render_focused(self, image: Image, window: Window) -> NDArray[np.float64]:
        """Return `light` without the blur of the image."""
        out = self.background(image, window)
        if self.spec.shading > 0:
            out *= self.shading[image].evaluate(window)
        if image == "post":
            out *= self.spec.gain
            x, y = self._coordinates(image, window)
            add_spots(self.microbes, self._boxes["microbes"], window, x, y, out)
            self._damage[image].spoil_tissue(window, out, self._tissue)
        return out

    def _tissue(
        self, window: Window, x: NDArray[np.float64], y: NDArray[np.float64]
    ) -> NDArray[np.float64]:
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

    def render_expected(self, image: Image, window: Window) -> NDArray[np.float64]:
        """Return the noise-free, unclipped image with its offset, (rows, cols) levels."""
        return self.light(image, window) + self.offset(image)

    def pixels(self, image: Image, window: Window) -> NDArray[Any]:
        """Return the recorded pixels of a window, (rows, cols) or (rows, cols, 3) counts."""
        light = self.light(image, window)
        green = self._camera.expose(light, self.offset(image), window, self._keys[image, 1])
        out = self._colour(image, window, light, green) if self.spec.rgb else green
        return self._damage[image].spoil_counts(window, out, self.spec.counts_per_level)

    def _colour(
        self, image: Image, window: Window, light: NDArray[np.float64], green: NDArray[Any]
    ) -> NDArray[Any]:
        """Return the counts of all three channels, (rows, cols, 3)."""
        out = np.empty((*green.shape, 3), dtype=green.dtype)
        out[..., 1] = green
        fill_dark(self._dark, window, self._keys[image, 0], out)
        if self.spec.bleed > 0 and image == "post":
            light *= self.spec.bleed
            out[..., 0] = self._camera.expose(light, _DARK_OFFSET, window, self._keys[image, 2])
        return out

    @cached_property
    def _dark(self) -> NDArray[Any]:
        return self._camera.dark_table(_DARK_OFFSET)

    def _coordinates(
        self, image: Image, window: Window
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return post x and y of the pixels of a window, (rows, cols) each."""
        if image == "pre":
            return self.map.window_to_post(window)
        return coordinates(window)


_IMAGES: tuple[tuple[int, Image], ...] = ((0, "pre"), (1, "post"))


def _shadings(spec: PhantomSpec) -> dict[Image, Shading]:
    """Draw illuminations: half the amplitude in each image, so that they differ by all of it."""
    phase = np.round(generator(spec.seed, _SHADING_STREAM).uniform(-1.0, 1.0, 4), 6)
    half = spec.shading / 2.0
    return {
        "pre": Shading(-half, float(phase[0]), float(phase[1]), spec.pre_frame),
        "post": Shading(half, float(phase[2]), float(phase[3]), spec.shape),
    }
