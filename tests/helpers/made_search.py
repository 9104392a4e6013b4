"""Pairs to search, of images that are given."""

from __future__ import annotations

import math

import numpy as np
from array_pixels import ArrayPixels

from unglow.detection.coarse_grid import CoarseGrid
from unglow.detection.settings import DetectSettings
from unglow.detection.snr import Scene
from unglow.photometry.imaging import NoiseModel
from unglow.transform import Transform


def make_scene(post, pre, difference=None, *, variance=9.0, **more):
    """A pair whose px fall on each other; the noise is white, of one variance in both images."""
    difference = post - pre if difference is None else difference
    given = {
        "gain": 1.0,
        "noise": NoiseModel(variance, 0.0, variance, 0.0),
        "transform": Transform("ok", post.shape, post.shape, matrix=np.eye(3)),
        "error": CoarseGrid.constant(0.0),
        "saturation": (math.inf, math.inf),
        "settings": DetectSettings(),
    }
    images = (ArrayPixels(image.astype(np.float32)) for image in (post, pre, difference))
    return Scene(*images, **given | more)
