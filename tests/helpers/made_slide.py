"""Small slides whose gains, offsets and maps are known."""

from __future__ import annotations

from functools import cache

import numpy as np
import tifffile
from scipy.ndimage import gaussian_filter, shift

from unglow.images.raw_images import read_header
from unglow.images.slide_plan import Channel, Slide
from unglow.transform import Transform

SHAPE = (700, 900)
GAINS, OFFSETS = {"A": 1.5, "B": 0.8, "C": 1.0}, {"A": 20.0, "B": 0.0, "C": 5.0}
MOVE = (1.3, -0.6)
"""Content of cycle 1 lies so far, (x, y) px, from that of cycle 2."""


def autofluorescence(shape=SHAPE, seed=0):
    """Return a smooth section above glass, float64."""
    noise = np.random.default_rng(seed).normal(size=(shape[0] + 16, shape[1] + 16))
    fine, broad = gaussian_filter(noise, 2), gaussian_filter(noise, 25)
    section = 400 + 1500 * fine / fine.std() * 0.2 + 600 * np.clip(broad / broad.std(), -1, 1)
    return np.clip(section, 60, None)


def pixels(dtype="uint16"):
    """Return the channels AF, A, B (cycle 1) and C (cycle 2), (4, rows, cols)."""
    image = _noisy()
    return np.rint(image).astype(dtype) if np.dtype(dtype).kind == "u" else image.astype(dtype)


@cache
def _noisy():
    base, random = autofluorescence(), np.random.default_rng(1)
    there = shift(base, (-MOVE[1], -MOVE[0]), order=3, mode="nearest")[8:-8, 8:-8]
    here = base[8:-8, 8:-8]
    spots = gaussian_filter((random.random(SHAPE) < 2e-4) * 4e4, 2)
    seen = {"A": here, "B": here, "C": there}
    made = [here, *(GAINS[n] * seen[n] + OFFSETS[n] + spots for n in seen)]
    noisy = [random.normal(one, np.sqrt(one) / 2) for one in made]
    return np.clip(noisy, 0, 60000)


def channels(**changes):
    """Return the channels of `pixels`; all in one image."""
    times = {"A": 150.0, "B": 80.0, "C": 100.0}
    return (
        Channel("AF", 0, 0, exposure=100.0, removed=True),
        *(
            Channel(n, 0, i, 2 if n == "C" else 1, times[n], "AF", **changes)
            for i, n in enumerate(times, 1)
        ),
    )


def write(path, image, *, tile=(256, 256), **options):
    """Write channels as OME-TIFF and return its header."""
    about = {"axes": "CYX"} if image.ndim == 3 else None
    tifffile.imwrite(path, image, tile=tile, metadata=about, photometric="minisblack", **options)
    return read_header(path)


def slide(path, made=None):
    """Return the slide of a file."""
    return Slide("s", (path,), made or channels(), {1: "AF", 2: "C"})


def moved(x=MOVE[0], y=MOVE[1], shape=SHAPE):
    """Return the map of cycle 1 to cycle 2."""
    matrix = np.array([[1.0, 0, -x], [0, 1, -y], [0, 0, 1]])
    return {(1, 2): Transform("ok", shape, shape, matrix=matrix, model="translation")}


class Kept:
    """A sink that keeps what is written, and sees that each window comes once."""

    def __init__(self, count, dtype="uint16", shape=SHAPE, window=512):
        self.window = window
        self.image = np.zeros((count, *shape), dtype)
        self.times = np.zeros((count, *shape), np.uint8)
        self.order = []

    def write(self, channel, window, block):
        assert block.dtype == self.image.dtype
        self.image[channel][window.slices] = block
        self.times[channel][window.slices] += 1
        self.order.append(channel)
