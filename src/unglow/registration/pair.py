"""The two images to be registered, and the map between them, at full and at lower resolution."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from unglow.core.progress import step
from unglow.core.windows import Coarser, coarse_level
from unglow.registration.images import Plane, PlanePair, thumbnail
from unglow.registration.settings import ORDINARY_SCALE, RegisterSettings
from unglow.transform import apply_matrix, convert_levels, convert_to_level, to_level0

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.core.windows import Pixels
    from unglow.registration.images import Thumbnail
    from unglow.transform.displacement import Displacement

    Floats = NDArray[np.float64]

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

    @classmethod
    def read(
        cls,
        post: Pixels,
        pre: Pixels,
        settings: RegisterSettings,
        workers: int,
        octaves: int = 0,
        reach: float = ORDINARY_SCALE,
    ) -> Pair:
        """Read the coarse level of both images, the finer of which is seen coarser by octaves."""
        level = coarse_level((post.shape, pre.shape), settings.coarse_px)
        if octaves:
            most = max(_pixels(image.shape, level) for image in (post, pre))
            post, pre = (Coarser(i, max(0, k)) for i, k in ((post, -octaves), (pre, octaves)))
            level = coarse_level((post.shape, pre.shape), settings.coarse_px)
            while max(_pixels(image.shape, level) for image in (post, pre)) > most:
                level += 1  # jobs declare their memory before the magnification is known
        with step("thumbnails"):
            thumbs = thumbnail(post, level), thumbnail(pre, level)
        return cls(post, pre, *thumbs, settings, workers, octaves=octaves, reach=reach)

    @property
    def coarser(self) -> tuple[int, int]:
        """Levels from which post and pre are seen."""
        return max(0, -self.octaves), max(0, self.octaves)

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
