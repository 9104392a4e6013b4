"""Images in memory as passes over blocks take them."""

from __future__ import annotations

from unglow.core.windows import ArrayPixels
from unglow.registration.blocks.dense import Images
from unglow.registration.blocks.phase_correlation import Plane
from unglow.registration.images import thumbnail


def images_of(post, pre, matrix):
    """What passes over dense blocks take."""
    both = [ArrayPixels(image, 3) for image in (post, pre)]
    thumbs = [thumbnail(pixels, 1) for pixels in both]

    def planes(level):
        return tuple(
            Plane(lambda w, p=p: p.read(w, level), p.level_shape(level), t.floor)
            for p, t in zip(both, thumbs, strict=True)
        )

    return Images(*thumbs, post.shape, pre.shape, matrix, planes, 3, 1, 1, True)
