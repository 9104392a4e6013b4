"""Random pairs over the whole range that registration promises to follow, and pairs it must refuse.

Everything follows from a seed: `drawn` says what a seed is, `images` renders it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np

from registration.bases import SCANNERS, PhantomBase, PictureBase, picture
from registration.geometry import Pose, Warp
from registration.judging import inside, section_points
from registration.recording import Camera, curve, cut, saturate, shade, stain
from unglow.core.windows import halve
from unglow.phantom.truth import PhantomMap

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from registration.bases import Base

    Image = NDArray[Any]
    Made = tuple[Image, Image]

LEAST_OVERLAP = 0.3
"""Share of the section that pre shows in every draw; the default refuses less than 0.2."""
_MONTAGE_SHARE, _SCANNER_SHARE = 0.15, 0.25
_BRIGHT_GAIN = 1.05
_SHARP_OCTAVES = 0.4
"""Pre is sampled at points, as it is, if it is coarser than post by no more than this."""


@dataclass(frozen=True, kw_only=True)
class Draw(Pose):
    """One random pair; shares are parts of 1, lengths px.

    Attributes
    ----------
    base
        ``phantom``, a scanner's image, or the montage of fluorescence.
    mirror
        Whether pre is a mirror image.
    gain, gamma, reversed
        Of post against pre; ``reversed`` turns bright and dark of pre around.
    saturated
        (post, pre) share of pixels beyond the camera's range; 0 leaves the gain as it is.
    light
        (post, pre) greatest relative difference of illumination.
    cut
        Share of pre that is dark at one side: a differing outline.
    outline
        Real pixels: cut to the outline of a phantom, with an empty background.
    bright
        Real pixels: dark structures on a bright field.
    stain, strength
        Share of the section with new signal in post, and its brightness.
    electrons, read_noise, dtype
        Of the camera.
    """

    seed: int
    base: str
    mirror: bool
    gain: float
    gamma: float
    reversed: bool
    saturated: tuple[float, float]
    light: tuple[float, float]
    cut: float
    outline: bool
    bright: bool
    stain: float
    strength: float
    electrons: float
    read_noise: float
    dtype: str
    overlap: float = float("nan")

    @property
    def warp(self) -> Warp:
        """The true map."""
        return Warp.plain(self.matrix(mirror=self.mirror))


def drawn(seed: int, data: Path | None, sides: tuple[int, int] = (1024, 2048)) -> Draw:
    """Draw a pair; without real images (``data`` None) all are phantoms."""
    rng = np.random.default_rng([seed, 11])
    which, scanner = rng.random(), str(rng.choice(list(SCANNERS)))
    base = "phantom"
    if data is not None and which < _MONTAGE_SHARE + _SCANNER_SHARE:
        base = scanner if which < _SCANNER_SHARE else "fluorescence"
    rows, cols = (int(n) for n in rng.integers(sides[0], sides[1], 2, endpoint=True))
    more = rng.uniform(0.85, 1.15, 2)
    chance = rng.random(7)
    light, sharp = rng.uniform(0.0, 0.6, 2), rng.uniform(0.001, 0.05, 2)
    draw = Draw(
        seed=seed,
        base=base,
        shape=(rows, cols),
        pre_shape=(round(rows * more[0]), round(cols * more[1])),
        rotation_deg=rng.uniform(-180, 180),
        scale=float(np.exp(rng.uniform(np.log(0.8), np.log(1.25)))),
        shear=rng.uniform(-0.005, 0.005),
        shift=(0.0, 0.0),
        mirror=bool(chance[0] < 0.2),
        gain=float(np.exp(rng.uniform(np.log(0.4), np.log(2.5)))),
        gamma=float(np.exp(rng.uniform(np.log(0.6), np.log(1.6)))) if chance[1] < 0.5 else 1.0,
        reversed=bool(chance[2] < 0.12),
        saturated=(sharp[0], sharp[1]) if chance[3] < 0.4 else (0.0, 0.0),
        light=(light[0], light[1]) if chance[4] < 0.6 else (0.0, 0.0),
        cut=rng.uniform(0.02, 0.2) if chance[5] < 0.35 else 0.0,
        outline=base != "phantom" and bool(rng.random() < 0.6),
        bright=base in SCANNERS and bool(rng.random() < 0.4),
        stain=rng.uniform(0.0, 0.3) if chance[6] < 0.7 else 0.0,
        strength=rng.uniform(0.3, 2.5),
        electrons=float(np.exp(rng.uniform(np.log(3), np.log(25)))),
        read_noise=rng.uniform(0.3, 1.5),
        dtype=str(rng.choice(("uint8", "uint16"))),
    )
    if draw.bright:  # a field of 220 levels is not to vanish in saturation
        draw = replace(draw, gain=min(draw.gain, _BRIGHT_GAIN))
    return _shifted(draw, data, rng, min(draw.shape))


def _shifted(draw: Draw, data: Path | None, rng: np.random.Generator, side: int) -> Draw:
    """Shift by up to half of a side, px, as long as pre still shows enough of the section."""
    points = section_points(base_of(draw, data), draw.shape)
    while True:
        angle, length = rng.uniform(0, 2 * np.pi), rng.uniform(0, 0.5) * side
        shift = (float(length * np.cos(angle)), float(length * np.sin(angle)))
        shifted = replace(draw, shift=shift)
        mapped = shifted.warp.to_pre(points)
        overlap = float(inside(mapped, draw.pre_shape).mean())
        if overlap >= LEAST_OVERLAP:
            return replace(shifted, overlap=overlap)


def base_of(draw: Draw, data: Path | None) -> Base:
    """Return the scene of a draw."""
    if draw.base == "phantom" or data is None:
        return PhantomBase(draw.shape, draw.seed)
    rng = np.random.default_rng([draw.seed, 12])
    shown = picture(draw.base, data)
    low, high = (0.12, 0.88) if draw.base in SCANNERS else (0.0, 1.0)
    corner = [
        int(rng.uniform(low * n, max(low * n + 1, high * n - side)))
        for n, side in zip(shown.shape, draw.shape, strict=True)
    ]
    outline = draw.seed if draw.outline else None
    return PictureBase(shown, draw.shape, (corner[0], corner[1]), outline, bright=draw.bright)


def _pre(base: Base, draw: Draw) -> NDArray[np.float32]:
    """Render pre; a px coarser than those of post is a mean of finer ones, as a camera has it."""
    finer = max(0, math.ceil(-math.log2(draw.scale) - _SHARP_OCTAVES))
    times, half = 2.0**finer, (2.0**finer - 1) / 2
    finely = np.array([[times, 0, half], [0, times, half], [0, 0, 1]]) @ draw.warp.smooth.matrix
    warp = Warp(PhantomMap(finely, draw.warp.smooth.waves))
    rows, cols = (n << finer for n in draw.pre_shape)
    pre = base.pre(warp if finer else draw.warp, (rows, cols))
    for _ in range(finer):
        pre = halve(pre)
    return pre


def images(draw: Draw, data: Path | None) -> tuple[NDArray[Any], NDArray[Any], Base]:
    """Render post and pre of a draw as its camera records them; and the scene."""
    base = base_of(draw, data)
    post, pre = base.post(), _pre(base, draw)
    rng = np.random.default_rng([draw.seed, 13])
    curve(post, draw.gamma, reverse=False)
    curve(pre, 1.0, reverse=draw.reversed)
    if draw.cut:
        cut(pre, draw.cut, rng)
    if draw.stain:
        stain(post, base, draw.stain, draw.strength, draw.seed)
    for light, uneven, full, gain in zip(
        (post, pre), draw.light, draw.saturated, (draw.gain, 1.0), strict=True
    ):
        shade(light, uneven, rng)
        saturate(light, full, gain)
    camera = Camera(draw.electrons, draw.read_noise, 1.0, draw.dtype)
    return camera.exposed(post, rng), camera.exposed(pre, rng), base


# Pairs that have no map: whatever registration says of them, it must not be a map

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
    shape = side, side
    pose = Pose(shape=shape, pre_shape=shape, rotation_deg=rng.uniform(-180, 180), scale=1.0)
    pre = base.pre(Warp.plain(pose.matrix(mirror=True)), shape)
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
    for kind in ("HE", "proSPC"):
        colours = np.asarray(cv2.imread(str(data / _HISTOLOGY.format(kind))))
        pictures.append(colours[..., int(rng.integers(3))])
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
