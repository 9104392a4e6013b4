"""The two images to be registered, and the map between them, at full and at lower resolution.

Of a pair of another magnification the finer image is seen from a coarser pyramid level on. There
both show the section about equally large, so that all of registration works as it is, and a map
between what is seen is one between the entire images in other px. Levels are averages: nothing that
is finer than a px of the coarser image disturbs the other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from unglow.core.progress import step
from unglow.core.reasons import explain
from unglow.core.windows import Coarser, coarse_level
from unglow.registration.images import MIN_SIDE, Plane, PlanePair, thumbnail
from unglow.registration.settings import ORDINARY_SCALE, RegisterSettings
from unglow.registration.verdict import MIN_SIGNIFICANCE, Registration, judge
from unglow.transform import Quantiles, apply_matrix, convert_levels, convert_to_level, to_level0
from unglow.transform.transform import octaves_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from unglow.core.arrays import Floats
    from unglow.core.windows import Pixels
    from unglow.registration.images import Thumbnail
    from unglow.transform import Transform
    from unglow.transform.displacement import Displacement


_UNSEEN_PX = 0.02
"""What rims still do to a map where one image is an average, at most, px of what is seen
(measured)."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Both images, what is known of the global map, and how to work on them.

    Attributes
    ----------
    post, pre
        The images with their pyramids; of a magnified pair the finer one is seen from a coarser
        level on, and "level 0" is what is seen of it.
    post_thumb, pre_thumb
        The images on the coarse level.
    settings
        What the user has chosen.
    workers
        Threads, on which no result depends.
    matrix
        (3, 3) float64, post to pre, level-0 px.
    sign
        -1 if the contrast is reversed.
    octaves
        From this level on pre is seen if positive, post (from its opposite) if negative.
    reach
        Maps are searched whose scale, in what is seen, is at most this, either way.
    blurred
        Level from which both images are seen since finer ones are mostly noise.
    """

    post: Pixels
    pre: Pixels
    post_thumb: Thumbnail
    pre_thumb: Thumbnail
    settings: RegisterSettings = field(default_factory=RegisterSettings)
    workers: int = 1
    matrix: Floats = field(default_factory=lambda: np.eye(3))
    sign: int = 1
    octaves: int = 0
    reach: float = ORDINARY_SCALE
    blurred: int = 0

    @classmethod
    def read(
        cls,
        post: Pixels,
        pre: Pixels,
        settings: RegisterSettings,
        workers: int,
        octaves: int = 0,
        reach: float = ORDINARY_SCALE,
        blurred: int = 0,
    ) -> Pair:
        """Read the coarse level of both images, the finer of which is seen coarser by octaves."""
        if blurred:
            post, pre = Coarser(post, blurred), Coarser(pre, blurred)
        level = coarse_level((post.shape, pre.shape), settings.coarse_px)
        level = max(level, min(blurred, 1))  # noise on glass is no section one level further up
        if octaves:
            most = max(_pixels(image.shape, level) for image in (post, pre))
            post, pre = (Coarser(i, max(0, k)) for i, k in ((post, -octaves), (pre, octaves)))
            level = coarse_level((post.shape, pre.shape), settings.coarse_px)
            while max(_pixels(image.shape, level) for image in (post, pre)) > most:
                level += 1  # jobs declare their memory before the magnification is known
        with step("thumbnails"):
            thumbs = thumbnail(post, level), thumbnail(pre, level)
        return cls(post, pre, *thumbs, settings, workers, np.eye(3), 1, octaves, reach, blurred)

    @property
    def coarser(self) -> tuple[int, int]:
        """Levels from which post and pre are seen."""
        return self.blurred + max(0, -self.octaves), self.blurred + max(0, self.octaves)

    def scale_map(self, matrix: Floats) -> Floats:
        """Convert a map between the entire images into px of what is seen."""
        return convert_levels(matrix, *self.coarser) if self.octaves else matrix

    @property
    def levels(self) -> int:
        """How many pyramid levels both images have."""
        return min(self.post.levels, self.pre.levels)

    @property
    def unseen_px(self) -> float:
        """Error of a map that all blocks share, so that none of them says of it."""
        return _UNSEEN_PX if self.octaves else 0.0

    def replace_map(self, matrix: Floats) -> Pair:
        """Return the pair with another global map."""
        return replace(self, matrix=matrix)

    def swap(self) -> Pair:
        """Return the pair with the roles of post and pre exchanged."""
        inverse = np.linalg.inv(self.matrix)
        return replace(
            self,
            post=self.pre,
            pre=self.post,
            post_thumb=self.pre_thumb,
            pre_thumb=self.post_thumb,
            matrix=inverse / inverse[2, 2],
        )

    def select_level(self, level: int, displacement: Displacement | None = None) -> PlanePair:
        """Both images at a stored pyramid level; a displacement field is in px of that level."""
        post = Plane.from_level(self.post, level, self.post_thumb.block_floor)
        pre = Plane.from_level(self.pre, level, self.pre_thumb.block_floor)
        matrix = convert_to_level(self.matrix, level) if level else self.matrix
        return PlanePair(post, pre, matrix, self.sign, self.workers, displacement)

    def section_points(self) -> Floats:
        """Points (x, y) of the section of post, level-0 px, evenly spread, (N, 2)."""
        return apply_matrix(to_level0(self.post_thumb.level), self.post_thumb.section_points())


def _pixels(shape: tuple[int, int], level: int) -> int:
    return (shape[0] >> level) * (shape[1] >> level)


HALF_OCTAVE = math.sqrt(2)
"""Largest scale that is searched around one of the octaves, which are 2 apart."""
_LADDER = (0, 1, -1, 2, -2)
"""Octaves in the order in which they are tried."""


def is_ordinary(scale: float) -> bool:
    """Whether the ordinary search finds a scale."""
    return 1 / ORDINARY_SCALE <= scale <= ORDINARY_SCALE


def searches(
    settings: RegisterSettings, expected: float | None
) -> Iterator[tuple[int, float, float]]:
    """Yield octaves, largest scale next to them, and the significance that a map has to have.

    The scale that pixel sizes make one expect comes first, then ordinary ones, then all others.
    A search more is one more occasion for chance, whose tail is at most that of a Gaussian.
    """
    tried = [(0, min(ORDINARY_SCALE, settings.max_scale))]
    if settings.max_scale > ORDINARY_SCALE:
        tried += [
            (k, HALF_OCTAVE) for k in _LADDER if 2.0 ** abs(k) < settings.max_scale * HALF_OCTAVE
        ]
    if expected is not None and not is_ordinary(expected):
        preferred = octaves_of(expected), HALF_OCTAVE
        if preferred in tried:
            tried = [preferred, *(one for one in tried if one != preferred)]
    for count, (octaves, reach) in enumerate(tried, 1):
        yield octaves, reach, math.sqrt(MIN_SIGNIFICANCE**2 + 2 * math.log(count))


def can_match(post: Pixels, pre: Pixels, octaves: int, min_overlap: float, section: float) -> bool:
    """Whether images are large enough for a magnification.

    Of the ``section``, a share (0..1) of post, pre has to be able to show ``min_overlap``.
    """
    rows, cols = (n >> max(0, -octaves) for n in post.shape)
    sides = rows, cols, *(n >> max(0, octaves) for n in pre.shape)
    most = pre.shape[0] * pre.shape[1] * (HALF_OCTAVE / 2.0**octaves) ** 2
    return min(sides) >= MIN_SIDE and most >= min_overlap * section * math.prod(post.shape)


def most_significant(refusals: Sequence[Registration]) -> Registration:
    """Return the first refusal of images that are equal; if none are, the most significant one."""

    def significance(found: Registration) -> float:
        value = found.transform.significance
        return min(value, MIN_SIGNIFICANCE) if math.isfinite(value) else 0.0

    return max(refusals, key=significance)


def convert_to_full(found: Registration, seen: Pair, post: Pixels, pre: Pixels) -> Registration:
    """Convert a registration of images seen from coarser levels into px of the entire images."""
    if not any(seen.coarser):
        return found
    levels = -seen.coarser[0], -seen.coarser[1]
    transform = replace(found.transform, post_shape=post.shape, pre_shape=pre.shape)
    if not transform.has_failed:
        field = transform.displacement
        transform = replace(
            transform,
            matrix=convert_levels(transform.matrix, *levels),
            displacement=None if field is None else field.convert_levels(*levels),
        )
    return Registration(
        convert_to_post_px(transform, seen.octaves), convert_blocks_to_full(found.blocks, seen)
    )


def convert_to_post_px(found: Transform, octaves: int) -> Transform:
    """Convert what blocks say of a map from px of what was seen into px of post.

    A map that is known only to the px of a much coarser pre gets a warning.
    """
    unit = 2.0 ** max(0, -octaves)
    if unit == 1:
        return found
    residual, error, way_back = (
        Quantiles(unit * lengths.median, unit * lengths.p95)
        for lengths in (found.residual_px, found.error_px, found.forward_backward_px)
    )
    found = replace(found, residual_px=residual, error_px=error, forward_backward_px=way_back)
    if found.has_failed:
        return found
    return judge(found, [explain("coarse_pre", scale=found.scale, side=int(unit))])


def convert_blocks_to_full(blocks: NDArray[np.void], seen: Pair) -> NDArray[np.void]:
    """Convert `BLOCK_DTYPE` into px of the entire images, and what is left into px of post."""
    post, pre = (2.0**level for level in seen.coarser)
    blocks = blocks.copy()
    for unit, names in ((post, ("x", "y")), (pre, ("pre_x", "pre_y"))):
        for name in names:
            blocks[name] = blocks[name] * unit + (unit - 1) / 2
    for name in ("dx_before", "dy_before", "dx", "dy"):
        blocks[name] *= post
    return blocks
