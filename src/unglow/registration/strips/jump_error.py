"""Error of a map with strips that follows from the error of their jumps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unglow.registration.blocks.dense import TAPER_SIGMA
from unglow.registration.bspline import fit_field
from unglow.registration.models import MEDIAN_OF_SQUARES
from unglow.registration.strips.offsets import normal_equations, product, ramp
from unglow.transform.displacement import Displacement

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.registration.blocks.dense import DenseMatches

    Floats = NDArray[np.float64]


def jump_variance(
    blocks: DenseMatches, field: Displacement, residuals: Floats, weights: Floats, stiffness: float
) -> Floats:
    """Variance of a map at its control points from that of its jumps, both components together.

    Jumps are fitted to what a smooth field S leaves of blocks and steps (Speckman 1988, see
    `unglow.registration.strips.offsets.fit_offsets`), so that a jump that is off by d moves the map
    by d times what S leaves of its step: by half of d beside the seam, and by nothing where the
    field has blocks enough to make up for it.

    Parameters
    ----------
    blocks, residuals, weights
        N blocks, (N, 2) what the map leaves of them, px, and their (N,) final weights.
    field
        The field, with strips that have seams.
    stiffness
        What its smooth part was fitted with.

    Returns
    -------
    (ny, nx) px squared, for blocks whose noise is independent.
    """
    strips, smooth = field.strips, field.smooth
    shape = field.coefficients.shape[1:]
    if strips is None or not len(strips.seams):
        return np.zeros(shape)
    knots, width = field.knots, TAPER_SIGMA * blocks.size
    at_blocks = strips.project(blocks.post, smooth.evaluate(blocks.post))
    at_knots = strips.project(knots, smooth.evaluate(knots))
    flat = Displacement(field.spacing_px, np.zeros_like(field.coefficients))
    count = len(strips.seams)
    seen = np.empty((len(blocks), count), np.float32)
    moved = np.empty((len(knots), count), np.float32)
    for k in range(0, count, 2):  # a field has two components: two steps are fitted at a time
        two = strips.seams[[k, min(k + 1, count - 1)]]
        steps = ramp((at_blocks[:, None] - two) / width)
        followed = fit_field(blocks.post, steps, weights, flat, stiffness)
        sharp = (at_knots[:, None] >= two).astype(np.float64)
        seen[:, k : k + 2] = (steps - followed.evaluate(blocks.post))[:, : count - k]
        moved[:, k : k + 2] = (sharp - followed.evaluate(knots))[:, : count - k]
    normal, _ = normal_equations(seen, residuals, weights)
    squares = ((residuals**2).sum(axis=1) * blocks.weights)[weights > 0]
    scale = float(np.median(squares)) / MEDIAN_OF_SQUARES if len(squares) else 0.0
    values, vectors = np.linalg.eigh(np.linalg.inv(normal))
    roots = vectors * np.sqrt(np.maximum(2 * scale * values, 0.0))
    return np.asarray((product(moved, roots) ** 2).sum(axis=1).reshape(shape))
