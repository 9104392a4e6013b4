"""Scenes of smooth texture, seen through a known map."""

from __future__ import annotations

import numpy as np
from scipy.ndimage import map_coordinates

from unglow.transform import apply_matrix

OCTAVES = (3.0, 8.0, 21.0, 55.0, 144.0)


def render(matrix, shape, seed=1, gain=1.0, offset=100.0, noise=3.0, spots=0):
    """Draw a scene of smooth random octaves, sampled where ``matrix`` sends each pixel; uint16."""
    rows, cols = np.indices(shape)
    points = np.column_stack([cols.ravel(), rows.ravel()]).astype(float)
    u, v = apply_matrix(matrix, points).T
    rng = np.random.default_rng(seed)
    total = np.zeros(len(points))
    for size in OCTAVES:
        lattice = rng.random((256, 256))
        at = np.stack([v / size + 40, u / size + 40])
        total += map_coordinates(lattice, at, order=3, mode="grid-wrap") - 0.5
    image = 300 * np.exp(1.2 * total.reshape(shape))
    own = np.random.default_rng(seed + shape[0] + spots + int(100 * gain))
    for x, y in own.integers(6, min(shape) - 6, (spots, 2)):
        k = np.arange(-5, 6)
        image[y - 5 : y + 6, x - 5 : x + 6] += 3000 * np.exp(-(k[:, None] ** 2 + k**2) / 4)
    image = gain * image + offset
    image += own.normal(0, 1, shape) * np.sqrt(noise**2 + 0.1 * image)
    return np.clip(np.rint(image), 0, 65535).astype(np.uint16)


def _smooth(points, size, seed):
    lattice = np.random.default_rng(seed).random((256, 256))
    at = np.stack([points[:, 1] / size + 90, points[:, 0] / size + 90])
    return map_coordinates(lattice, at, order=3, mode="grid-wrap") - 0.5


def render_hard(matrix, shape, seed):
    """Draw fine texture that moves with the matrix, under the image's own autofluorescence; uint16.

    No search finds the map between two of them, and a refinement does.
    """
    rows, cols = np.indices(shape)
    points = np.column_stack([cols.ravel(), rows.ravel()]).astype(float)
    total = _smooth(apply_matrix(matrix, points), 4.0, 1)
    total += sum(2 * _smooth(points, size, seed + k) for k, size in enumerate((55.0, 144.0)))
    values = 300 * np.exp(total.reshape(shape))
    values += np.random.default_rng(seed).normal(0, 1, shape) * np.sqrt(9 + 0.1 * values)
    return np.rint(values).clip(0, 65535).astype(np.uint16)


def similarity(degrees, scale, shift, shape, other=None):
    """Map the centre of ``shape`` to that of ``other`` plus ``shift``."""
    c, s = scale * np.cos(np.deg2rad(degrees)), scale * np.sin(np.deg2rad(degrees))
    matrix = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1.0]])
    here, there = ((np.array(n[::-1]) - 1) / 2 for n in (shape, other or shape))
    matrix[:2, 2] = there + shift - matrix[:2, :2] @ here
    return matrix
