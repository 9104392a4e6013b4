"""Pairs that have no map: whatever registration says of them, it must not be a map."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cv2
import numpy as np

from registration.bases import SCANNERS, PhantomBase, PictureBase, picture
from registration.geometry import Warp, linear
from registration.recording import Camera, shade
from unglow.phantom.truth import PhantomMap

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    Image = NDArray[Any]
    Made = tuple[Image, Image]

_CAMERA = Camera()
_HISTOLOGY = "histology_landmarks/lesions_/scale-5pc/Izd2-29-041-w35_{}.jpg"


def unrelated(seed: int, data: Path | None) -> tuple[str, Image, Image]:
    """Return the kind, post and pre of the pair that belongs to a seed; kinds take turns."""
    makers = {name: make for name, make in KINDS.items() if data is not None or not make[1]}
    kind = list(makers)[seed % len(makers)]
    rng = np.random.default_rng([seed, 21])
    side = int(rng.integers(1024, 1600))
    return kind, *makers[kind][0](rng, side, data)


def _phantom(rng: np.random.Generator, side: int) -> NDArray[np.float32]:
    return PhantomBase((side, side), int(rng.integers(10**6, 10**9))).post()


def _two_phantoms(rng: np.random.Generator, side: int, _: Path | None) -> Made:
    return _exposed(_phantom(rng, side), _phantom(rng, side + 60), rng)


def _same_light(rng: np.random.Generator, side: int, _: Path | None) -> Made:
    """Different sections of one outline under the same, very uneven light and dust."""
    seed = int(rng.integers(10**9))
    lights = [_phantom(rng, side), _phantom(rng, side)]
    dust = np.ones((side, side), np.float32)
    own = np.random.default_rng(seed)
    for x, y in own.integers(0, side, (25, 2)).tolist():
        cv2.circle(dust, (x, y), int(own.integers(2, 9)), 0.4, -1, cv2.LINE_AA)
    for light in lights:
        shade(light, 0.6, np.random.default_rng(seed))
    return _exposed(lights[0] * dust, lights[1] * dust, rng)


def _mirrored(rng: np.random.Generator, side: int, _: Path | None) -> Made:
    base = PhantomBase((side, side), int(rng.integers(10**6, 10**9)))
    matrix = linear(
        (side, side), (side, side), rotation_deg=rng.uniform(-180, 180), scale=1.0, mirror=True
    )
    pre = base.pre(Warp(PhantomMap(matrix, np.zeros((0, 5)))), (side, side))
    return _exposed(base.post(), pre, rng)


def _phantom_and_real(rng: np.random.Generator, side: int, data: Path) -> Made:
    return _exposed(_phantom(rng, side), _crop(rng, side, data, rng.uniform(0.2, 0.5, 2)), rng)


def _two_places(rng: np.random.Generator, side: int, data: Path) -> Made:
    """Two places of one slide that do not overlap: the same kind of cells, other ones."""
    side = min(side, 1300)
    left = rng.uniform(0.2, 0.23, 2)
    return _exposed(_crop(rng, side, data, left), _crop(rng, side, data, left + 0.29), rng)


def _histology(rng: np.random.Generator, _: int, data: Path) -> Made:
    pictures = []
    for stain in ("HE", "proSPC"):
        colours = cv2.imread(str(data / _HISTOLOGY.format(stain)))
        pictures.append(np.asarray(colours[..., int(rng.integers(3))]))
    if rng.random() < 0.5:
        pictures.reverse()
    turned = np.rot90(pictures[1], int(rng.integers(4)))
    return pictures[0], np.ascontiguousarray(turned)


def _empty(rng: np.random.Generator, side: int, _: Path | None) -> Made:
    """One image that shows nothing but its noise, or not even that."""
    noise = rng.random() < 0.5
    empty = np.full((side, side), 3.0, np.float32)
    exposed = _CAMERA.exposed(empty, rng) if noise else empty.astype(np.uint8)
    pair = _CAMERA.exposed(_phantom(rng, side), rng), exposed
    return pair if rng.random() < 0.5 else pair[::-1]


def _saturated(rng: np.random.Generator, side: int, _: Path | None) -> Made:
    """Pre overexposed throughout: what is left of it is the noise of its brightest level."""
    full = np.full((side, side), rng.uniform(245, 300), np.float32)
    return _exposed(_phantom(rng, side), full, rng)


def _noise(rng: np.random.Generator, side: int, _: Path | None) -> Made:
    flat = np.full((side, side), 40.0, np.float32)
    return _exposed(flat, flat.copy(), rng)


def _crop(
    rng: np.random.Generator, side: int, data: Path, at: NDArray[np.float64]
) -> NDArray[np.float32]:
    shown = picture(str(rng.choice(list(SCANNERS))), data)
    corner = (at * shown.shape).astype(int)
    return PictureBase(shown, (side, side), (int(corner[0]), int(corner[1]))).post()


def _exposed(post: NDArray[np.float32], pre: NDArray[np.float32], rng: np.random.Generator) -> Made:
    return _CAMERA.exposed(post, rng), _CAMERA.exposed(pre, rng)


KINDS: dict[str, tuple[Callable[..., Made], bool]] = {
    "two phantoms": (_two_phantoms, False),
    "same light and dust": (_same_light, False),
    "mirrored, mirror: false": (_mirrored, False),
    "empty": (_empty, False),
    "saturated": (_saturated, False),
    "noise": (_noise, False),
    "phantom and real": (_phantom_and_real, True),
    "two places of a slide": (_two_places, True),
    "consecutive sections": (_histology, True),
}
"""How each kind is made, and whether it needs real images."""
