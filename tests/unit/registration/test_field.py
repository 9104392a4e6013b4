"""Following deformed sections: fits, the choice between field and global model, the verdict."""

from __future__ import annotations

import math

import numpy as np
import pytest
from array_pixels import ArrayPixels
from made_blocks import SHAPE, count_blocks, wave

from unglow.core.windows import Window
from unglow.phantom.render import Renderer
from unglow.phantom.spec import PhantomSpec
from unglow.registration.bspline import choose_stiffness, fit_field, stiffness_of
from unglow.registration.deformation import curvature_bias, field_step
from unglow.registration.dense_blocks import DenseMatches
from unglow.registration.register import RegisterSettings, register
from unglow.transform.displacement import Displacement

pytestmark = pytest.mark.slow


def grid_points(margin=40, step=23):
    y, x = np.mgrid[margin : SHAPE[0] - margin : step, margin : SHAPE[1] - margin : step]
    return np.column_stack([x.ravel(), y.ravel()]).astype(float)


# -------------------------------------------------------------------------------------------- fit


def test_the_fit_solves_its_normal_equations():
    rng = np.random.default_rng(3)
    points = rng.uniform(0, 1023, (400, 2))
    targets, weights = rng.normal(size=(400, 2)), rng.uniform(0, 2, 400)
    start = Displacement.zeros(SHAPE, 128)

    def cost(field):
        c = field.coefficients

        def rough(order):
            return sum(
                math.comb(order, k) * (np.diff(np.diff(c, order - k, axis=1), k, axis=2) ** 2).sum()
                for k in range(order + 1)
            )

        off = targets - field.evaluate(points)
        stiff = rough(3) + rough(2) / 4.5**2 + (c**2).sum() / 4.5**6
        return float((weights * (off**2).sum(1)).sum() + 0.7 * stiff)

    found = fit_field(points, targets, weights, start, 0.7)
    for _ in range(20):
        other = found.coefficients + 1e-5 * rng.normal(size=found.coefficients.shape)
        assert cost(Displacement(128, other)) > cost(found)
    again = fit_field(points, targets, weights, found, 0.7)
    np.testing.assert_allclose(again.coefficients, found.coefficients, atol=1e-4)


def test_stiffness_halves_a_wave_of_its_length():
    length, spacing, step = 100.0, 64, 16
    k = 1 / length
    y, x = np.mgrid[0:2048:step, 0:2048:step]
    points = np.column_stack([x.ravel(), y.ravel()]).astype(float)
    targets = np.column_stack([np.sin(k * points[:, 0]), np.zeros(len(points))])
    start = Displacement.zeros((2048, 2048), spacing)
    stiffness = stiffness_of(length, spacing, step)
    found = fit_field(points, targets, np.ones(len(points)), start, stiffness)
    middle = np.array([[100 * np.pi * (2 * n + 0.5), 1000.0] for n in (1, 2)])
    assert found.evaluate(middle)[:, 0] == pytest.approx(0.5, abs=0.05)


def test_the_fit_goes_on_bending_beyond_its_points():
    def parabola(points):
        return 1e-4 * (points[:, :1] - 512) ** 2 * np.array([[1.0, -0.5]])

    y, x = np.mgrid[32:1024:32, 200:800:32]
    points = np.column_stack([x.ravel(), y.ravel()]).astype(float)
    start = Displacement.zeros(SHAPE, 64)
    stiffness = stiffness_of(45.0, 64, 32)
    found = fit_field(points, parabola(points), np.ones(len(points)), start, stiffness)
    beyond = np.array([[776.0 + away, 500.0] for away in (0, 100, 150)])
    error = np.hypot(*(found.evaluate(beyond) - parabola(beyond)).T)
    in_a_line = 1e-4 * np.hypot(1, 0.5) * np.array([100, 150]) ** 2
    assert error[0] < 0.06
    assert (error[1:] < 0.7 * in_a_line).all()


@pytest.mark.parametrize("wrong", [0.0, 0.25])
def test_a_wave_is_followed_through_noise_and_wrong_matches(wrong):
    blocks = count_blocks(wave, wrong=wrong)
    start = Displacement.zeros(SHAPE, 32)
    fit = choose_stiffness(blocks, start, None)
    error = np.hypot(*(fit.field.evaluate(grid_points()) - wave(grid_points())).T)
    assert np.median(error) < 0.06
    assert np.quantile(error, 0.99) < 0.5
    assert (fit.weights[blocks.is_held_out] == 0).all()
    assert 0.15 < blocks.is_held_out.mean() < 0.25


def test_dirt_that_moves_on_its_own_is_left_out():
    def off(points):
        found = wave(points, 1.0)
        dirt = (points[:, 0] < 150) & (points[:, 1] < 150)
        found[dirt] += [15.0, 3.0]
        return found

    field = choose_stiffness(count_blocks(off), Displacement.zeros(SHAPE, 32), None).field
    assert np.hypot(*field.evaluate(grid_points()).T).max() < 3


def test_without_blocks_the_field_fades():
    blocks = count_blocks(lambda p: wave(p) + 6.0)
    left = blocks.post[:, 0] < 250
    names = ("post", "pre", "displacement", "peak_ratio", "cell", "corner")
    part = DenseMatches(*(getattr(blocks, name)[left] for name in names), 64, 32)
    field = choose_stiffness(part, Displacement.zeros(SHAPE, 32), None).field
    away = field.evaluate(grid_points()[grid_points()[:, 0] > 800])
    assert np.abs(away).max() < 1.0


@pytest.mark.parametrize(
    ("shape", "side", "step"),
    [
        ((512, 512), 64, 16),
        ((483, 913), 128, 32),
        ((1024, 1024), 128, 32),
        ((4096, 4096), 128, 64),
        ((25000, 30000), 128, 128),
    ],
)
def test_the_number_of_blocks_is_bounded(shape, side, step):
    assert field_step(shape, side) == step
    assert shape[0] * shape[1] / step**2 <= 50_000


# --------------------------------------------------------------------------------------- decision


def test_bias_of_blocks_is_the_curvature_within_them():
    field = fit_field(
        grid_points(0, 16), np.column_stack([1e-4 * grid_points(0, 16)[:, 0] ** 2 / 2] * 2),
        np.ones(len(grid_points(0, 16))), Displacement.zeros(SHAPE, 64), 1e-9,
    )  # fmt: skip
    bias = curvature_bias(field, np.array([[512.0, 512.0]]), 128)
    assert bias[0] == pytest.approx(1e-4 * (0.14 * 128) ** 2 / 2, rel=0.05)


# ------------------------------------------------------------------------------------ whole pairs


@pytest.fixture(scope="module")
def deformed():
    """A phantom of 1400 x 1300 px, bent by 4 px, and its exact map."""
    spec = PhantomSpec(
        shape=(1400, 1300), deform_px=4.0, deform_wavelength_px=1000.0, rgb=False, seed=5
    )
    renderer = Renderer(spec)
    images = [renderer.pixels(n, Window.from_shape(renderer.shape(n))) for n in ("post", "pre")]
    return [np.asarray(i).reshape(i.shape[:2]) for i in images], renderer.map


def pixels(images):
    return [ArrayPixels(image, 3) for image in images]


@pytest.fixture(scope="module")
def followed(deformed):
    return register(*pixels(deformed[0]))


def test_a_deformed_pair_ends_ok_with_an_honest_error(deformed, followed):
    (post, _), truth = deformed
    found = followed.transform
    assert found.status == "ok", found.reasons
    assert found.displacement is not None
    assert found.displacement.strips is None
    y, x = np.nonzero(post[::8, ::8] > 10)
    at = 8.0 * np.column_stack([x, y])
    error = np.hypot(*(found.map(at) - truth.to_pre(at)).T)
    assert np.median(error) < 0.05
    assert np.quantile(error, 0.95) < 0.3
    assert found.error_px.median < 2.5 * np.median(error)
    assert np.median(error) < 2.5 * found.error_px.median
    assert found.residual_px.median > found.error_px.median


def test_never_means_never(deformed, followed):
    plain = register(*pixels(deformed[0]), RegisterSettings(field="never")).transform
    assert plain.displacement is None
    assert plain.status == "suspect"
    np.testing.assert_array_equal(plain.matrix, followed.transform.matrix)
    assert plain.error_px.median > 10 * followed.transform.error_px.median


def test_the_table_holds_the_dense_blocks(followed):
    blocks, found = followed.blocks, followed.transform
    assert len(blocks) == found.blocks
    post = np.column_stack([blocks["x"], blocks["y"]])
    pre = np.column_stack([blocks["pre_x"], blocks["pre_y"]])
    off = np.column_stack([blocks["dx"], blocks["dy"]])
    np.testing.assert_allclose(found.map(post) + off, pre, atol=1e-9)
    held = blocks["held_out"] & blocks["used"]
    assert found.residual_px.p95 == pytest.approx(np.quantile(np.hypot(*off[held].T), 0.95))


def test_the_error_map_grows_where_nothing_was_measured(followed):
    found = followed.transform.displacement
    assert found.error_px.shape == found.coefficients.shape[1:]
    assert np.isfinite(found.error_px).all()
    assert found.error_px[0, 0] > 2 * np.median(found.error_px)
