"""Maps of a pair as files, for tests of their exports."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from made_stores import write_store

from unglow.transform import Transform
from unglow.transform.displacement import Displacement, Strips

# one frame ends on a knot (8 * 32 + 1 columns, 6 * 32 + 1 rows), the other does not
FRAMES = [(193, 257), (200, 251)]
PRE = (320, 400)
AFFINE = np.array([[1.01, -0.05, 30.25], [0.04, 0.98, 12.5], [0, 0, 1.0]])
HOMOGRAPHY = np.array([[1.01, -0.05, 30.25], [0.04, 0.98, 12.5], [1.5e-5, -2e-5, 1.0]])


POST_UM, PRE_UM = (0.5, 0.4), (0.325, 0.25)


def wavy(shape, spacing=32, amplitude=0.1):
    flat = Displacement.zeros(shape, spacing)
    noise = np.random.default_rng(3).normal(size=flat.coefficients.shape)
    return Displacement(spacing, amplitude * noise)


def torn(shape, image, along, matrix=AFFINE):
    """A field whose seams cut through the frame."""
    frame = matrix if image == "pre" else np.eye(3)
    offsets = np.array([[1.0, 0.5], [-2.0, 0.25], [0.5, -1.5]])
    strips = Strips(image, along, frame, np.array([60.5, 140.25]), offsets)
    return replace(wavy(shape), strips=strips)


def saved(folder, shape=FRAMES[0], matrix=AFFINE, field=True, um=True):
    """Save a transform, and stores with pixel sizes next to it; return both.

    ``field`` is a field, or whether there is one.
    """
    folder.mkdir(exist_ok=True)
    if isinstance(field, bool):
        field = wavy(shape) if field else None
    found = Transform("ok", shape, PRE, matrix=matrix, displacement=field, model="any")
    found.save(folder / "transform.json")
    for name, size in (("post", POST_UM), ("pre", PRE_UM)) if um else ():
        image = np.zeros((8, 8), np.uint8)
        write_store(folder / f"{name}.ome.zarr", image, pixel_size_um=size)
    return folder / "transform.json", found


def points(shape, count=300):
    """Positions anywhere in the frame, its corners included, (N, 2)."""
    last = np.array(shape[::-1]) - 1.0
    corners = np.array([[0, 0], [1, 0], [0, 1], [1, 1]]) * last
    return np.concatenate([np.random.default_rng(5).uniform(0, last, (count, 2)), corners])


def off(got, found, at, pre=(1, 1)):
    return float(np.hypot(*(got / pre - found.map(at)).T).max())
