"""Forward and backward: whether registering post onto pre leads back to where one came from.

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
from unglow.registration.blocks.dense import measure
from unglow.registration.blocks.phase_correlation import match_blocks
from unglow.registration.blocks.placement import sample_corners
from unglow.registration.bspline import fit_robust_field
from unglow.registration.models import consensus, fit_robust
from unglow.registration.strips.offsets import without
from unglow.transform import Quantiles, apply_matrix
from unglow.transform.displacement import Displacement

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.registration.blocks.dense import Images
    from unglow.registration.blocks.phase_correlation import Plane
    from unglow.registration.field.fit import Deformation
    from unglow.registration.settings import RegisterSettings
    from unglow.transform import Transform
    from unglow.transform.scanner_strips import Strips

    Floats = NDArray[np.float64]
    Places = NDArray[np.int64]

_BLOCKS = 700
_PATCH = 10
_SAMPLES = 150
_REACH_PX = 2.0
_LEAST = 20
_INTERPOLATION_STEPS = 12


@dataclass(frozen=True, eq=False)
class Closure:
    """How far going to post and back misses, at points of pre.

    Attributes
    ----------
    post
        (N, 2) where the points of pre lie in post, px of post.
    miss
        (N,) distance between a point of pre and where it comes back to, px of pre.
    """

    post: Floats
    miss: Floats

    @property
    def quantiles(self) -> Quantiles:
        """Median and 95th percentile of the miss, px; NaN for too few points."""
        known = self.miss[np.isfinite(self.miss)]
        return Quantiles.of(known) if len(known) >= _LEAST else Quantiles()

    def doubts(self, settings: RegisterSettings) -> list[str]:
        """Return a sentence if the way back does not lead to where one came from."""
        p95 = self.quantiles.p95
        if not p95 > settings.suspect_px:
            return []
        sentence = (
            f"Registered the other way round, 5 % of the section lie more than {p95:.1f} px from "
            f"where they came (setting suspect_px: {settings.suspect_px:g}): check the overlay."
        )
        return [sentence]


@step("way back")
def field_closure(images: Images, found: Transform, deformation: Deformation) -> Closure:
    """Measure blocks of pre on patches spread over the section, and fit a field to them.

    Parameters
    ----------
    images
        The pair; its global model is that of ``found``.
    found
        The map without its field.
    deformation
        The field, and what it was fitted to; blocks of pre are as large and as far apart, and
        their field is as stiff.
    """
    blocks = deformation.blocks
    back = swapped(images)
    known = inverse_field(found, deformation.field, images.pre_shape)
    seen = measure(back, known, blocks.size, blocks.step, only=_patches)
    if np.count_nonzero(seen.trust) < _LEAST:
        return Closure(np.zeros((0, 2)), np.zeros(0))
    rest = seen if known.strips is None else without(seen, known.strips, known.smooth)
    rest = replace(rest, off=rest.off - known.smooth.at(rest.post))
    inside = rest.agreeing()
    trust = np.where(inside, rest.trust, 0.0)
    start = Displacement.zeros(back.post_shape, known.spacing_px)
    weights = inside.astype(np.float64)
    change, weights = fit_robust_field(rest, trust, start, deformation.stiffness, weights)
    around = rest.neighbours((weights > 0)[:, None].astype(np.float64))
    whole = (np.nan_to_num(around[..., 0]) > 0).sum(axis=0) >= 7
    points = rest.post[whole]
    returned = apply_matrix(back.matrix, points) + known.at(points) + change.at(points)
    there = replace(found, displacement=deformation.field).map(returned)
    return Closure(returned, np.hypot(*(there - points).T))


@step("way back")
def global_closure(
    images: Images, found: Transform, size: int, count: int, points: Floats
) -> Closure:
    """Fit the same global model to blocks of pre, which all count alike, however clear they are.

    Parameters
    ----------
    images
        The pair.
    found
        The map, without a field.
    size
        Side of the blocks, px.
    count
        How many blocks the map itself rests on at most; here are no more.
    points
        (N, 2) points of post to be judged at, px.
    """
    back = swapped(replace(images, matrix=found.matrix))
    corners, _ = sample_corners(back, size, min(count, _SAMPLES))
    planes = back.planes(0)
    seen = match_blocks(*planes, back.matrix, corners, size, sign=back.sign, workers=back.workers)
    start = consensus(seen.post, seen.pre, _REACH_PX)
    try:
        matrix, _ = fit_robust(found.model, seen.post, seen.pre, start)
    except np.linalg.LinAlgError:
        return Closure(np.zeros((0, 2)), np.zeros(0))
    pre = found.map(points)
    returned = apply_matrix(matrix, pre)
    return Closure(points, np.hypot(*(found.map(returned) - pre).T))


def swapped(images: Images) -> Images:
    """Return the same pair with the roles of post and pre exchanged."""
    inverse = np.linalg.inv(images.matrix)

    def planes(level: int) -> tuple[Plane, Plane]:
        post, pre = images.planes(level)
        return pre, post

    return replace(
        images,
        planes=planes,
        post=images.pre,
        pre=images.post,
        post_shape=images.pre_shape,
        pre_shape=images.post_shape,
        matrix=inverse / inverse[2, 2],
    )


def inverse_field(
    found: Transform, field: Displacement, pre_shape: tuple[int, int]
) -> Displacement:
    """Field that, added to the inverse matrix, about undoes a map: good to start from.

    It is exact at knots but for seams, which are shifted by what their strips are.

    Parameters
    ----------
    found
        The map without its field.
    field
        Its field.
    pre_shape
        (rows, columns) of pre, the frame of the field that is returned.
    """
    start = Displacement.zeros(pre_shape, field.spacing_px)
    inverse = np.asarray(np.linalg.inv(found.matrix), dtype=np.float64)
    plain = replace(found, displacement=field.smooth)
    wanted = plain.inverse_map(start.knots) - apply_matrix(inverse, start.knots)
    wanted = np.asarray(np.nan_to_num(wanted).T.reshape(start.coefficients.shape))
    values = wanted.copy()
    for _ in range(_INTERPOLATION_STEPS):  # control points whose spline takes the values at knots
        values += wanted - _at_knots(values)
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


def _at_knots(values: Floats) -> Floats:
    """Values of a spline at its own knots; control points beyond the rim repeat it."""
    padded = np.pad(values, ((0, 0), (1, 1), (1, 1)), mode="edge")
    rows = (padded[:, :-2] + 4 * padded[:, 1:-1] + padded[:, 2:]) / 6
    return np.asarray((rows[..., :-2] + 4 * rows[..., 1:-1] + rows[..., 2:]) / 6)


def _patches(place: Places) -> NDArray[np.bool_]:
    """Mark square patches of places, spread evenly, of about `_BLOCKS` places together."""
    every = max(1, math.ceil(len(place) / _BLOCKS))
    patch = place // _PATCH
    return np.asarray((patch[:, 0] + 2 * patch[:, 1]) % every == 0, dtype=np.bool_)
