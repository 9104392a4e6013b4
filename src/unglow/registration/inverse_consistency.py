"""Inverse consistency: whether registering post onto pre leads back to where one came from.

Blocks of pre are matched in post, around the inverse of the map that was found, and a map of the
same kind is fitted to them. Where both maps rest on the same structures they are each other's
inverse.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from unglow.core.progress import step
from unglow.registration.block_placement import sample_corners
from unglow.registration.bspline import fit_robust_field
from unglow.registration.dense_blocks import measure
from unglow.registration.models import find_consensus, fit_robust
from unglow.registration.phase_correlation import match_blocks
from unglow.registration.strip_offsets import remove_strips
from unglow.transform import Quantiles, apply_matrix
from unglow.transform.displacement import Displacement

if TYPE_CHECKING:
    from unglow.core.arrays import Bools, Floats, Ints
    from unglow.registration.deformation import Deformation
    from unglow.registration.pair import Pair
    from unglow.transform import Transform
    from unglow.transform.displacement import Strips

    Cells = Ints

_PATCH, _PATCH_BLOCKS = 10, 700
"""Side, in cells, of the squares on which blocks of pre are measured; blocks measured at once."""
_SAMPLES = 150
"""Sample blocks of pre without a field, at most."""
_CONSENSUS_PX = 2.0
"""They agree if one similarity puts them this near: they are measured against the map."""
_LEAST_POINTS = 20
"""Fewer points decide nothing."""
_LEAST_AROUND = 7
"""A point is judged if this many of the 8 blocks around it were fitted to."""
_INTERPOLATION_STEPS = 12
"""The shortest waves, of two knots, converge as (8 / 9)^n, smooth ones much faster."""


@dataclass(frozen=True, eq=False)
class InverseConsistency:
    """How far going to post and back misses, at points of pre.

    Attributes
    ----------
    post
        (N, 2) where the points of pre are in post, px of post.
    miss
        (N,) distance between a point of pre and where it comes back to, px of pre.
    """

    post: Floats
    miss: Floats

    @property
    def quantiles(self) -> Quantiles:
        """Median and 95th percentile of the miss, px; NaN for too few points."""
        finite = self.miss[np.isfinite(self.miss)]
        return Quantiles.from_lengths(finite) if len(finite) >= _LEAST_POINTS else Quantiles()


_UNKNOWN = InverseConsistency(np.zeros((0, 2)), np.zeros(0))


@step("way back")
def field_consistency(pair: Pair, found: Transform, deformation: Deformation) -> InverseConsistency:
    """Measure blocks of pre on patches spread over the section, and fit a field to them.

    ``pair`` is mapped by the global model of ``found``, the map without its field. Blocks of pre
    are as large and as far apart as those of the deformation, and their field is as stiff.
    """
    blocks = deformation.blocks
    back = pair.swap()
    inverse = inverse_field(found, deformation.field, pair.pre.shape)
    seen = measure(back, blocks.size, blocks.step, field=inverse, only=_patches)
    if np.count_nonzero(seen.weights) < _LEAST_POINTS:
        return _UNKNOWN
    strips, smooth = inverse.strips, inverse.smooth
    rest = seen if strips is None else remove_strips(seen, strips, smooth)
    rest = replace(rest, displacement=rest.subtract_field(smooth))
    inside = rest.find_agreeing()
    prior = np.where(inside, rest.weights, 0.0)
    start = Displacement.zeros(back.post.shape, inverse.spacing_px)
    biweights = inside.astype(np.float64)
    change, biweights = fit_robust_field(rest, prior, start, deformation.stiffness, biweights)
    around = rest.neighbours((biweights > 0)[:, None].astype(np.float64))
    whole = (np.nan_to_num(around[..., 0]) > 0).sum(axis=0) >= _LEAST_AROUND
    points = rest.post[whole]
    returned = back.select_level(0, inverse).map(points) + change.evaluate(points)
    there = replace(found, displacement=deformation.field).map(returned)
    return InverseConsistency(returned, np.hypot(*(there - points).T))


@step("way back")
def global_consistency(
    pair: Pair, found: Transform, size: int, points: Floats
) -> InverseConsistency:
    """Fit the same global model to blocks of pre, which all count equally, however clear they are.

    ``pair`` is mapped by ``found``, a map without a field; the blocks have a side of ``size`` px,
    and ``points`` (N, 2) of post are judged.
    """
    back = pair.swap()
    corners, _ = sample_corners(back, size, min(pair.settings.blocks, _SAMPLES))
    seen = match_blocks(back.select_level(0), corners, size)
    start = find_consensus(seen.post, seen.pre, _CONSENSUS_PX)
    try:
        matrix, _ = fit_robust(found.model, seen.post, seen.pre, start)
    except np.linalg.LinAlgError:
        return _UNKNOWN
    pre = found.map(points)
    returned = apply_matrix(matrix, pre)
    return InverseConsistency(points, np.hypot(*(found.map(returned) - pre).T))


def inverse_field(
    found: Transform, field: Displacement, pre_shape: tuple[int, int]
) -> Displacement:
    """Field over pre that, added to the inverse matrix, about undoes a map: good to start from.

    It is exact at knots but for seams, which are shifted by what their strips are. ``found`` is the
    map without its field.
    """
    start = Displacement.zeros(pre_shape, field.spacing_px)
    inverse = np.asarray(np.linalg.inv(found.matrix), dtype=np.float64)
    plain = replace(found, displacement=field.smooth)
    wanted = plain.inverse_map(start.knots) - apply_matrix(inverse, start.knots)
    wanted = np.asarray(np.nan_to_num(wanted).T.reshape(start.coefficients.shape))
    values = wanted.copy()
    for _ in range(_INTERPOLATION_STEPS):  # control points whose spline takes the values at knots
        values += wanted - _evaluate_at_knots(values)
    strips = None if field.strips is None else _inverse_strips(field.strips, inverse)
    return Displacement(field.spacing_px, values, strips=strips)


def _inverse_strips(strips: Strips, inverse: Floats) -> Strips:
    offsets = -strips.offsets @ inverse[:2, :2].T
    if strips.image == "pre":
        moved = (strips.offsets[1:] + strips.offsets[:-1])[:, strips.axis] / 2
        return replace(
            strips, image="post", frame=np.eye(3), seams=strips.seams + moved, offsets=offsets
        )
    return replace(strips, image="pre", frame=inverse, offsets=offsets)


def _evaluate_at_knots(values: Floats) -> Floats:
    """Values of a spline at its own knots; control points beyond the rim repeat it."""
    padded = np.pad(values, ((0, 0), (1, 1), (1, 1)), mode="edge")
    rows = (padded[:, :-2] + 4 * padded[:, 1:-1] + padded[:, 2:]) / 6
    return np.asarray((rows[..., :-2] + 4 * rows[..., 1:-1] + rows[..., 2:]) / 6)


def _patches(cells: Cells) -> Bools:
    """Mark square patches of cells, spread evenly, of about `_PATCH_BLOCKS` cells together."""
    every = max(1, math.ceil(len(cells) / _PATCH_BLOCKS))
    patch = cells // _PATCH
    return np.asarray((patch[:, 0] + 2 * patch[:, 1]) % every == 0, dtype=np.bool_)
