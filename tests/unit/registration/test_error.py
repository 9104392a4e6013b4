"""What a field says of its own error: quantiles of lengths, noise that blocks share, rims."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from array_pixels import ArrayPixels
from scipy import ndimage

from unglow.registration.bspline import choose_stiffness, fit_field
from unglow.registration.deformation import Deformation, subtract_displacement
from unglow.registration.deformed_pair import find_textured_points, inner_points
from unglow.registration.dense_blocks import TAPER_SIGMA, DenseMatches
from unglow.registration.field_uncertainty import (
    error_map,
    length_quantile,
    look_up_values,
    raise_error_map,
    unseen,
)
from unglow.registration.images import thumbnail
from unglow.registration.inverse_consistency import InverseConsistency
from unglow.registration.strip_offsets import jump_variance, ramp
from unglow.transform.displacement import Displacement, Strips

SHAPE = (1600, 1600)
SIZE, STEP = 128, 64


def wave(points):
    k = 2 * np.pi / 1200
    x, y = points.T
    return 4.0 * np.column_stack([np.sin(k * (x + 0.4 * y)), np.cos(k * (y - 0.3 * x))])


def count_blocks(noise, seed):
    """Make blocks over a frame, each of which measures the wave with the same noise."""
    rng = np.random.default_rng(seed)
    count = (SHAPE[0] - SIZE) // STEP + 1
    place = np.array([(c, r) for r in range(count) for c in range(count)])
    corner = place * STEP
    post = corner + (SIZE - 1) / 2
    off = wave(post) + rng.normal(0, noise, post.shape)
    return DenseMatches(post, post + off, off, np.full(len(post), 20.0), place, corner, SIZE, STEP)


def fitted(blocks):
    start = Displacement.zeros(SHAPE, STEP)
    fit = choose_stiffness(blocks, start, None)
    change = subtract_displacement(fit.field, fit.field)
    return Deformation(fit.field, blocks, fit.weights, fit.stiffness, change, 1)


# -------------------------------------------------------------------------------------- quantiles


def test_quantiles_of_lengths_are_those_of_errors_drawn_from_them():
    rng = np.random.default_rng(1)
    errors = rng.uniform(0.01, 0.2, 400_000)
    lengths = errors / np.sqrt(2) * np.hypot(*rng.normal(size=(2, len(errors))))
    for share in (0.5, 0.95):
        expected = np.quantile(lengths, share)
        assert length_quantile(errors, share) == pytest.approx(expected, rel=0.01)


def test_quantiles_of_one_error_are_rayleighs():
    assert length_quantile(np.array([0.1]), 0.95) == pytest.approx(0.1 * np.sqrt(np.log(20)))
    assert np.isnan(length_quantile(np.zeros(0), 0.5))
    assert length_quantile(np.array([0.1, np.inf]), 0.95) > 1e5


# ------------------------------------------------------------------------------------------ noise


def test_the_jackknife_misses_what_overlapping_blocks_share():
    blocks = count_blocks(0.05, 0)
    use = ~blocks.is_held_out
    inner = use & (blocks.cell > 0).all(axis=1) & (blocks.cell < blocks.cell.max()).all(axis=1)
    apart = replace(blocks, post=2 * blocks.post)
    np.testing.assert_allclose(unseen(apart, use)[inner], 1.1)
    # blocks half a side apart share 3 / 70 of their noise, and 3 of the 4 are used
    total = 1 + 3 * 3 / 70 + 3 * (3 / 70) ** 2
    np.testing.assert_allclose(unseen(blocks, use)[inner], 1.1 * 3 * total / (4 - total), rtol=1e-2)
    near = replace(blocks, post=0.6 * blocks.post)
    assert (unseen(near, use)[inner] > 1.5 * unseen(blocks, use)[inner]).all()


def test_the_error_map_is_the_error_of_the_field_up_to_its_rim():
    """Noise of these blocks is independent, so that they share nothing that is unseen."""
    true, said, points = [], [], []
    for seed in range(6):
        found = fitted(count_blocks(0.05, seed))
        field = found.field
        y, x = np.mgrid[0 : SHAPE[0] : 20, 0 : SHAPE[1] : 20]
        points = np.column_stack([x.ravel(), y.ravel()]).astype(float)
        true.append(((field.evaluate(points) - wave(points)) ** 2).sum(axis=1))
        said.append(look_up_values(field, error_map(found), points) ** 2)
    rim = np.minimum(points, SHAPE[0] - 1 - points).min(axis=1)
    for low, high in ((0, 30), (30, 100), (100, 800)):
        zone = (rim >= low) & (rim < high)
        ratio = np.sqrt(np.mean([s[zone] for s in said]) / np.mean([t[zone] for t in true]))
        assert 1 / 1.5 < ratio < 1.5


# ------------------------------------------------------------------------------------------ jumps


def test_a_jump_that_is_off_moves_the_map_next_to_its_seam():
    """Jumps of an absent seam, fitted to what a field leaves of both blocks and steps."""
    first = count_blocks(0.05, 0)
    field, stiffness = fitted(first).field, fitted(first).stiffness
    strips = Strips("post", "columns", np.eye(3), np.array([800.0]), np.zeros((2, 2)))
    use, post = np.where(first.is_held_out, 0.0, first.weights), first.post
    step = ramp((post[:, :1] - 800.0) / (TAPER_SIGMA * SIZE)) * np.ones((1, 2))
    followed = fit_field(post, step, use, Displacement.zeros(SHAPE, STEP), stiffness)
    seen = step - followed.evaluate(post)
    jumps = []
    for seed in range(40):
        off = count_blocks(0.05, seed).displacement
        left = off - fit_field(post, off, use, field, stiffness).evaluate(post)
        jumps.append((use[:, None] * seen * left).sum(axis=0) / (use @ seen[:, 0] ** 2))
    residuals = first.subtract_field(field)
    split = replace(field, strips=strips)
    variance = jump_variance(first, split, residuals, use, stiffness).ravel()
    moved = (field.knots[:, 0] >= 800.0) - followed.evaluate(field.knots)[:, 0]
    expected = moved**2 * (np.array(jumps) ** 2).sum(axis=1).mean()
    near = np.abs(field.knots[:, 0] - 800) < 70
    assert np.sqrt(variance[near].mean()) == pytest.approx(np.sqrt(expected[near].mean()), rel=0.25)
    far = np.abs(field.knots[:, 0] - 800) > 400
    assert variance[far].max() < 0.01 * variance[near].mean()
    np.testing.assert_array_equal(
        jump_variance(first, field, residuals, use, stiffness), np.zeros((28, 28))
    )


# ---------------------------------------------------------------------------------------- closure


def test_a_way_back_raises_the_error_to_what_it_misses_by():
    rng = np.random.default_rng(2)
    field = replace(Displacement.zeros(SHAPE, STEP), error_px=np.full((28, 28), 0.1, np.float32))
    post = rng.uniform(0, 1599, (500, 2))
    miss = 0.1 / np.sqrt(2) * np.hypot(*rng.normal(size=(2, 500)))  # as long as the error
    np.testing.assert_array_equal(
        raise_error_map(field, InverseConsistency(post, 0.8 * miss)), field.error_px
    )
    np.testing.assert_allclose(
        raise_error_map(field, InverseConsistency(post, 3 * miss)), 0.3, rtol=0.1
    )
    few = InverseConsistency(post[:29], 3 * miss[:29])
    np.testing.assert_array_equal(raise_error_map(field, few), field.error_px)


# ----------------------------------------------------------------------------------------- domain


@pytest.mark.parametrize("dark", [False, True])
def test_an_error_is_reported_for_the_section_and_not_for_the_glass_around_it(dark):
    rng = np.random.default_rng(4)
    y, x = np.mgrid[:400, :400]
    away = np.hypot(x - 200, y - 200)
    texture = ndimage.gaussian_filter(rng.normal(size=(400, 400)), 2.0)
    image = np.where(away < 120, 100 + 25 * texture / texture.std(), 10.0)
    image += rng.normal(0, 1, image.shape)
    image = (255 - image if dark else image).astype(np.float32)
    pair = SimpleNamespace(post_thumb=thumbnail(ArrayPixels(image), 0))
    off = [np.hypot(*(points(pair) - 200).T) for points in (find_textured_points, inner_points)]
    adjacent = [float((away > 125).mean()) for away in off]
    assert adjacent[0] > 0.04
    assert adjacent[1] < 0.4 * adjacent[0]
    assert len(off[1]) > 0.3 * len(off[0])
