"""Images in memory as registration takes them."""

from __future__ import annotations

from array_pixels import ArrayPixels

from unglow.registration.images import thumbnail
from unglow.registration.pair import Pair


def pair_of(post, pre, matrix):
    """A pair of images with its global map."""
    both = [ArrayPixels(image, 3) for image in (post, pre)]
    return Pair(*both, *(thumbnail(pixels, 1) for pixels in both), matrix=matrix)
