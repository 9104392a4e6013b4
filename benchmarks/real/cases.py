"""Pairs of real pixels, and what is true of each of them.

Three sorts: pairs that a microscope took at once, whose map is the identity; rounds that are
registered there and back; and real images that are warped by a known map, with noise of their own,
so that map, gain and list are known. Spots of known places and peaks are put into post, anywhere,
as completeness is said of the entire section. Each pair has noise and spots of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from zlib import crc32

import cv2
import numpy as np
import tifffile
from registration.bases import PictureBase, picture, picture_of
from registration.geometry import Pose, Warp, waves
from scipy import ndimage

from unglow.phantom.truth import PhantomMap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import TypeAlias

    from numpy.typing import NDArray

    Image = NDArray[Any]
    Floats = NDArray[np.float64]
    Change: TypeAlias = Callable[[Floats, Floats, np.random.Generator], tuple[Floats, Floats]]

GAIN, OFFSET = 1.3, 200.0
"""Of pairs that are made of one real image."""
_COUNTS, _SHOT, _READ = 40.0, 6.0, 60.0
# Grey levels for each level of a picture, and variance of a px for each grey level and at 0.
_SIDE, _CORNER, _MARGIN = 1100, (1500, 1500), 24
_WAVELENGTH_PX = 400.0
_SPOTS, _APART_PX, _EDGE_PX = 60, 24, 40
_FAINT, _BRIGHT = 2.0, 20.0
# Peaks of spots, in standard deviations of the finest structure of post.
_FWHM = 2 * np.sqrt(2 * np.log(2))
_SIGMA_OF_MAD = 1.4826


@dataclass(frozen=True, eq=False)
class Case:
    """A pair and its truth.

    Attributes
    ----------
    name, kind
        Of its sample, and of its row in the table.
    post, pre
        (rows, cols) images.
    warp
        The true map; None where only the way back knows.
    back
        Name of the case that is the way back.
    gain, gain_like
        The true gain; None if it is not known, NaN if none is right, as with a gamma. Cases that
        have the same one, to a fifth.
    spots
        (N, 3) x, y (px) and peak (grey levels) of spots that were put into post.
    closed
        Whether everything else that is listed is false.
    same_place
        Whether both images show the same; if not, a map of any kind is wrong.
    """

    name: str
    kind: str
    post: Image
    pre: Image
    warp: Warp | None = None
    back: str | None = None
    gain: float | None = None
    gain_like: tuple[str, ...] = ()
    spots: Floats = field(default_factory=lambda: np.zeros((0, 3)))
    closed: bool = False
    same_place: bool = True


def make_cases(data: Path) -> Iterator[Case]:
    """Yield all pairs; ``data`` is the directory of real images."""
    yield from _brain(data)
    yield from _embryos(data)
    yield from _rounds(data)
    for base in _bases(data):
        yield from _warped(*base)
        yield from _defects(*base)


def _brain(data: Path) -> Iterator[Case]:
    """Two channels of one acquisition: as they are, with spots, and planes that differ."""
    still = Warp.plain(np.eye(3))
    folder = data / "signal_autofluorescence"
    whole = [
        tifffile.imread(folder / name)
        for name in ("signal/signal_ch000013.tif", "background/background_ch010013.tif")
    ]
    planes = {
        f"brain{z}": [
            tifffile.imread(folder / name)
            for name in (f"crop_signal/ch000{z}.tif", f"crop_autofluorescence/ch100{z}.tif")
        ]
        for z in (13, 14, 15)
    } | {"brain-large": whole}
    for name, (post, pre) in planes.items():
        yield Case(name, "brain", post, pre, still)
        stained, spots = add_spots(post, 4.6, np.random.default_rng([len(name), 5]))
        yield Case(f"{name}-spots", "brain, spots", stained, pre, still, spots=spots)
    yield Case("planes", "one channel, two planes", planes["brain13"][1], planes["brain15"][1])


def _embryos(data: Path) -> Iterator[Case]:
    """Two emission channels: nothing in n2 is stain; and embryos that do not belong together."""
    still = Warp.plain(np.eye(3))
    folder = data / "two_emission_channels"
    pairs = {
        name: [
            tifffile.imread(folder / f"{name}_{one}.tif") for one in ("signal", "autofluorescence")
        ]
        for name in ("n2_1", "n2_2", "lgl_gfp_1", "lgl_gfp_2")
    }
    for name, (post, pre) in pairs.items():
        plain = name.startswith("n2")
        kind = "embryos, unlabelled" if plain else "embryos, labelled"
        like = () if plain else ("n2_1", "n2_2")
        yield Case(name, kind, post, pre, still, gain_like=like, closed=plain)
    yield Case("strangers", "different", pairs["n2_1"][0], pairs["lgl_gfp_2"][1], same_place=False)
    turned = np.ascontiguousarray(pairs["n2_1"][1][::-1, ::-1])
    yield Case("strangers2", "different", pairs["n2_2"][0], turned, same_place=False)


def _rounds(data: Path) -> Iterator[Case]:
    """Two rounds of one section, each onto the other."""
    for name, suffix in (("round", "_mip"), ("slab40", "_mip"), ("slice150", "")):
        fix, mov = (
            tifffile.imread(data / "two_round_fluorescence" / f"{name}_{one}{suffix}.tif")
            for one in ("fix", "mov")
        )
        yield Case(f"{name}-there", "two rounds", fix, mov, back=f"{name}-back")
        yield Case(f"{name}-back", "two rounds", mov, fix, back=f"{name}-there")


def _bases(data: Path) -> Iterator[tuple[str, PictureBase]]:
    shape = _SIDE, _SIDE
    for name in ("scanner-A", "scanner-N1", "fluorescence"):
        yield name, PictureBase(picture(name, data), shape, _CORNER)
    levels = tifffile.imread(
        data / "signal_autofluorescence" / "background" / "background_ch010013.tif"
    ).astype(np.float32)
    low, high = np.quantile(levels, (0.005, 0.995))
    brain = picture_of(np.clip((levels - low) * (150 / (high - low)), 0, None) + 1)
    yield "brain-background", PictureBase(brain, (560, 1000), (30, 60))


def _warped(name: str, base: PictureBase) -> Iterator[Case]:
    """Pre is post's own picture, warped by a known map, with other noise and less light."""
    for bend in (0.0, 1.0, 2.0, 6.0):
        for seed in (1, 2):
            yield _make(
                f"{name}-bend{bend:.0f}-{seed}", f"warped, bend {bend:.0f} px", base, bend, seed
            )


def _defects(name: str, base: PictureBase) -> Iterator[Case]:
    """Yield pairs with a defect of camera, stage or export in one of the images."""
    for kind, change in DEFECTS.items():
        yield _make(f"{name}-{kind.replace(' ', '_')}", kind, base, 0.0, 3, change)


def _put_px(image: Floats, rng: np.random.Generator, count: int, value: float) -> Floats:
    image[rng.integers(image.shape[0], size=count), rng.integers(image.shape[1], size=count)] = (
        value
    )
    return image


def _draw_lines(image: Floats, factor: float, width: int, every: int = 200) -> Floats:
    for line in range(every, min(image.shape), every):
        image[line : line + width] *= factor
        image[:, line : line + width] *= factor
    return image


def _clear_box(image: Floats, side: int, value: float) -> Floats:
    row, col = (n // 3 for n in image.shape)
    image[row : row + side, col : col + side] = value
    return image


def _crowd(image: Floats, rng: np.random.Generator) -> Floats:
    """Put 150 cells, 8 px wide and bright, into a disk."""
    radius, angle = 90 * np.sqrt(rng.uniform(size=150)), rng.uniform(0, 2 * np.pi, 150)
    light = np.zeros_like(image)
    row, col = (n // 2 for n in image.shape)
    at = np.rint([row + radius * np.sin(angle), col + radius * np.cos(angle)]).astype(int)
    light[tuple(at)] = 1.0
    light = ndimage.gaussian_filter(light, 8 / _FWHM)
    return np.asarray(image + light * (0.6 * np.median(image) / light.max()))


def _fill_rim(image: Floats, wide: int) -> Floats:
    return np.pad(image[wide:-wide, wide:-wide], wide)


def _turn_frame(image: Floats, degrees: float) -> Floats:
    """Show nothing in the corners that a rotation would leave empty."""
    rows, cols = image.shape
    turn = cv2.getRotationMatrix2D((cols / 2, rows / 2), degrees, 1)
    return image * cv2.warpAffine(np.ones_like(image), turn, (cols, rows))


def _add_fibres(image: Floats, rng: np.random.Generator) -> Floats:
    """Draw three thin bent lines, brighter by two fifths of what is typical."""
    drawn = np.zeros(image.shape, np.float32)
    t = np.linspace(0, 1, 40)[:, None]
    for _ in range(3):
        a, b, c, d = rng.uniform(0, 1, (4, 2)) * image.shape[::-1]
        bent = (1 - t) ** 3 * a + 3 * t * (1 - t) ** 2 * b + 3 * t * t * (1 - t) * c + t**3 * d
        cv2.polylines(drawn, [np.rint(bent).astype(np.int32)], isClosed=False, color=1.0)
    return np.asarray(image + ndimage.gaussian_filter(drawn, 1.0) * (0.4 * np.median(image)))


def _truncate(post: Floats, pre: Floats) -> tuple[Floats, Floats]:
    """Leave so few levels that the noise of post is 0.6 of them."""
    step = np.sqrt(_SHOT * np.quantile(post, 0.75) + _READ) / 0.6
    return np.floor(post / step), np.floor(pre / step)


def _contrast(image: Floats) -> float:
    """Return how far two grey levels of a smoothed image are apart that few changes reach."""
    return float(np.subtract(*np.quantile(ndimage.gaussian_filter(image, 2), (0.85, 0.6))))


DEFECTS: dict[str, Change] = {
    "hot px in post": lambda post, pre, rng: (_put_px(post, rng, 20, 60000), pre),
    "dead px in pre": lambda post, pre, rng: (post, _put_px(pre, rng, 200, 0)),
    "hot px in both": lambda post, pre, rng: (
        _put_px(post, rng, 20, 60000),
        _put_px(pre, rng, 20, 60000),
    ),
    "seams in post": lambda post, pre, _: (_draw_lines(post, 1.2, 1), pre),
    "dark seams in post": lambda post, pre, _: (_draw_lines(post, 0.8, 2), pre),
    "hole in post": lambda post, pre, _: (_clear_box(post, 100, 0), pre),
    "hole in pre": lambda post, pre, _: (post, _clear_box(pre, 100, 0)),
    "rim in pre": lambda post, pre, _: (post, _fill_rim(pre, 8)),
    "rotated frame of post": lambda post, pre, _: (_turn_frame(post, 4.0), pre),
    "fibres in post": lambda post, pre, rng: (_add_fibres(post, rng), pre),
    "fill in post": lambda post, pre, _: (_clear_box(post, 130, 65535), pre),
    "saturated pre": lambda post, pre, _: (post, np.minimum(pre, np.quantile(pre, 0.99))),
    "saturated post": lambda post, pre, _: (np.minimum(post, np.quantile(post, 0.9)), pre),
    "dark end cut": lambda post, pre, _: (np.maximum(post - np.quantile(post, 0.3), 0), pre),
    "few levels": lambda post, pre, _: _truncate(post, pre),
    "gamma in post": lambda post, pre, _: (65000 * (post / post.max()) ** 0.6, pre),
    "dense cells": lambda post, pre, rng: (_crowd(post, rng), pre),
}
"""Changes of post and pre by the kind of defect."""


def _make(
    name: str,
    kind: str,
    base: PictureBase,
    bend: float,
    seed: int,
    change: Change | None = None,
) -> Case:
    rng = np.random.default_rng([seed, crc32(name.encode())])
    rows, cols = base.shape
    shape = rows + 2 * _MARGIN, cols + 2 * _MARGIN
    pose = Pose(
        shape=base.shape,
        pre_shape=shape,
        rotation_deg=float(rng.uniform(-2, 2)),
        scale=float(rng.uniform(0.98, 1.02)),
        shift=(float(rng.uniform(-9, 9)), float(rng.uniform(-9, 9))),
    )
    bends = waves(base.shape, bend, _WAVELENGTH_PX, seed) if bend else np.zeros((0, 5))
    warp = Warp(PhantomMap(pose.matrix(), bends))
    pre = np.asarray(base.pre(warp, shape) * _COUNTS, np.float64)
    light: Image = base.post() * _COUNTS * GAIN
    noise = float(np.sqrt(_SHOT * np.median(light) + _READ))
    stained, spots = add_spots(light, 3.0, rng, noise)
    post, pre = stained + OFFSET, pre + OFFSET
    post, pre = (v + rng.normal(size=v.shape) * np.sqrt(_SHOT * v + _READ) for v in (post, pre))
    if change is not None:
        before = _contrast(post)
        post, pre = change(post, pre, rng)
        spots[:, 2] *= _contrast(post) / before
    images = [np.clip(np.rint(v), 0, 65535).astype(np.uint16) for v in (post, pre)]
    closed = change is not DEFECTS["dense cells"]  # these cells are stain as well
    gain = math.nan if change is DEFECTS["gamma in post"] else GAIN
    return Case(name, kind, images[0], images[1], warp, gain=gain, spots=spots, closed=closed)


def add_spots(
    image: Image, fwhm: float, rng: np.random.Generator, noise: float | None = None
) -> tuple[Image, Floats]:
    """Put spots into an image: Gaussians of a width, px, of known places and peaks.

    They lie anywhere, as those of which completeness is measured; peaks are in units of ``noise``,
    by default the finest structure of the brighter half. They get no shot noise of their own here.
    """
    if noise is None:
        smooth, narrow = (ndimage.gaussian_filter(image.astype(np.float64), s) for s in (8, 2))
        fine = (image - narrow)[smooth >= np.median(smooth)]
        noise = _SIGMA_OF_MAD * float(np.median(np.abs(fine)))
    places: list[tuple[float, float]] = []
    while len(places) < _SPOTS:
        x, y = (rng.uniform(_EDGE_PX, n - _EDGE_PX) for n in image.shape[::-1])
        if all(np.hypot(x - a, y - b) > _APART_PX for a, b in places):
            places.append((x, y))
    peaks = noise * np.geomspace(_FAINT, _BRIGHT, _SPOTS)
    out = image.astype(np.float64)
    reach = int(np.ceil(2 * fwhm))
    for (x, y), peak in zip(places, peaks, strict=True):
        part = tuple(slice(round(at) - reach, round(at) + reach + 1) for at in (y, x))
        row, col = np.mgrid[part]
        out[part] += peak * np.exp(-((col - x) ** 2 + (row - y) ** 2) * _FWHM**2 / (2 * fwhm**2))
    if image.dtype.kind in "iu":
        out = np.clip(np.rint(out), 0, np.iinfo(image.dtype).max).astype(image.dtype)
    return out, np.column_stack([*np.array(places).T, peaks])
