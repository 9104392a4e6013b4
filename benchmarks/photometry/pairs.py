"""Pairs with known gain, offset and light, and unglow's own alignment of them in memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from array_pixels import ArrayPixels
from registration.bases import PhantomBase
from registration.geometry import Pose, Warp, waves
from registration.pool import registered
from registration.recording import COUNTS, Camera, shade, spots, stain

from unglow.core.windows import Window
from unglow.images.stored_values import quantise
from unglow.phantom.truth import PhantomMap
from unglow.photometry.cell_moments import CellMoments
from unglow.photometry.defects import find_defects
from unglow.photometry.joint_histogram import JointStatistics
from unglow.transform import Quantiles, Transform
from unglow.transform.resample import warp_window

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from registration.bases import Base

    Levels = NDArray[np.float32]

_MICROBES_PER_MPX = 40.0
_WAVELENGTH_PX = 500.0


@dataclass(frozen=True)
class Pair:
    """One pair; offsets are in grey levels of 255, shares are parts of 1.

    Attributes
    ----------
    seed, side
        Everything random follows from the seed; post is ``side`` x ``side`` px.
    gain, offset_pre, offset_post, dtype
        post = gain * background + offset_post, pre = background + offset_pre.
    stained
        Share of the section under patches of stain, apart from the microbes.
    shading
        Greatest relative difference in illumination between the images.
    bend_px
        How far a smooth deformation displaces the section at most.
    """

    seed: int
    side: int
    gain: float
    offset_pre: float
    offset_post: float
    dtype: str
    stained: float = 0.0
    shading: float = 0.0
    bend_px: float = 0.0

    @property
    def counts(self) -> int:
        """Stored counts per grey level."""
        return COUNTS[self.dtype]

    @property
    def offset(self) -> float:
        """Of post = gain * pre + offset, grey levels of 255."""
        return self.offset_post - self.gain * self.offset_pre

    @property
    def warp(self) -> Warp:
        """The true map."""
        rng = np.random.default_rng([self.seed, 41])
        shape = self.side, self.side
        pose = Pose(
            shape=shape,
            pre_shape=self.pre_shape,
            rotation_deg=rng.uniform(-5, 5),
            scale=rng.uniform(0.97, 1.03),
            shear=rng.uniform(-0.003, 0.003),
            shift=(rng.uniform(-12, 12), rng.uniform(-12, 12)),
        )
        if not self.bend_px:
            return Warp.plain(pose.matrix())
        return Warp(
            PhantomMap(pose.matrix(), waves(shape, self.bend_px, _WAVELENGTH_PX, self.seed))
        )

    @property
    def pre_shape(self) -> tuple[int, int]:
        """(rows, columns) of pre."""
        return round(1.06 * self.side), round(1.07 * self.side)


@dataclass(frozen=True, eq=False)
class Aligned:
    """What the workflow knows of a pair once it is aligned, and the pixels themselves."""

    post: NDArray[Any]
    pre: Levels
    transform: Transform
    statistics: JointStatistics
    bins: CellMoments


@lru_cache(maxsize=1)
def _light(seed: int, side: int, bend_px: float) -> tuple[Base, Levels, Levels]:
    """Return a scene with the light of post and pre before gain, which many pairs share."""
    pair = Pair(seed, side, 1.0, 0.0, 0.0, "uint8", bend_px=bend_px)
    scene = PhantomBase((side, side), seed)
    return scene, scene.post(), scene.pre(pair.warp, pair.pre_shape)


def images(pair: Pair) -> tuple[NDArray[Any], NDArray[Any]]:
    """Render post and pre as the camera records them."""
    scene, post, pre = _light(pair.seed, pair.side, pair.bend_px)
    rng = np.random.default_rng([pair.seed, 43])
    post, pre = post * np.float32(pair.gain), pre.copy()
    if pair.shading > 0:
        shade(pre, -pair.shading / 2, rng)
        shade(post, pair.shading / 2, rng)
    if pair.stained > 0:
        stain(post, scene, pair.stained, 0.5, pair.seed)
    spots(post, scene, _MICROBES_PER_MPX, pair.seed)
    recorded = (
        Camera(offset=offset, dtype=pair.dtype).exposed(light, rng)
        for light, offset in ((post, pair.offset_post), (pre, pair.offset_pre))
    )
    return next(recorded), next(recorded)


def aligned(post: NDArray[Any], pre: NDArray[Any], transform: Transform) -> Aligned:
    """Align two whole images as `unglow.stages.align` does; they have no seams."""
    ranges = [(float(image.min()), float(image.max())) for image in (post, pre)]
    images = ArrayPixels(post), ArrayPixels(pre)
    defects = find_defects(images, transform, ranges[1], lambda *_: None, integer=True, workers=1)

    def read(window: Window) -> Levels:
        block = pre[window.slices].astype(np.float32)
        defects.mask(block, window)
        return block

    block = quantise(warp_window(read, pre.shape, transform, Window.from_shape(post.shape)))
    statistics = JointStatistics.create(
        post_range=ranges[0], pre_range=ranges[1], grey_level=1.0, integer=True
    )
    bins = CellMoments.create(post.shape, (ranges[0][1], ranges[1][1]))
    statistics.add(post, block)
    bins.add(post, block)
    return Aligned(post, block, transform, statistics, bins)


def transform_of(pair: Pair, post: NDArray[Any], pre: NDArray[Any], *, true: bool) -> Transform:
    """Return the true map, or what registration finds."""
    if not true:
        return registered(post, pre)[0].transform
    shapes = (pair.side, pair.side), pair.pre_shape
    return Transform("ok", *shapes, matrix=pair.warp.smooth.matrix, error_px=Quantiles(0.0, 0.0))
