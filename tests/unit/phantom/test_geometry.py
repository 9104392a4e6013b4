"""The map between the frames of a phantom is exact."""

from __future__ import annotations

import numpy as np
import pytest

from unglow.core.windows import Window
from unglow.phantom.spec import PhantomSpec
from unglow.phantom.truth import PhantomMap


def _points(shape, count=500):
    rng = np.random.default_rng(5)
    return rng.uniform(0, 1, (count, 2)) * [shape[1] - 1, shape[0] - 1]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"rotation_deg": 180.0, "scale": 0.85},
        {"rotation_deg": -37.0, "shear": 0.05},
        {"deform_px": 4.0},
        {"deform_px": 20.0, "deform_wavelength_px": 640.0, "seed": 9},
    ],
)
def test_post_to_pre_and_back(options):
    shape = (3000, 2600)
    mapping = PhantomMap.from_spec(PhantomSpec(shape=shape, **options))
    points = _points(shape)
    assert np.abs(mapping.to_post(mapping.to_pre(points)) - points).max() < 1e-8
    assert np.abs(mapping.to_pre(mapping.to_post(points)) - points).max() < 1e-8


def test_matrix_turns_scales_and_shifts_about_the_centres():
    spec = PhantomSpec(
        shape=(101, 201), pre_shape=(301, 401), rotation_deg=90, scale=2, shear=0, shift_px=(5, -7)
    )
    mapping = PhantomMap.from_spec(spec)
    # 10 px right of the centre of post (100, 50) goes 20 px below the centre of pre (200, 150).
    np.testing.assert_allclose(mapping.to_pre(np.array([[110.0, 50.0]])), [[205.0, 163.0]])
    homogeneous = mapping.matrix @ [110.0, 50.0, 1.0]
    np.testing.assert_allclose(homogeneous, [205.0, 163.0, 1.0])


@pytest.mark.parametrize("seed", range(5))
def test_deformation_is_as_long_as_asked_and_smooth(seed):
    mapping = PhantomMap.from_spec(PhantomSpec(shape=(4000, 4000), deform_px=6.0, seed=seed))
    y, x = np.mgrid[0:4000:40, 0:4000:40].astype(float)
    field = mapping.deformation(np.column_stack([x.ravel(), y.ravel()]))
    length = np.hypot(*field.T)
    assert 5.9 < length.max() < 6.1
    steps = np.abs(np.diff(field.reshape(*x.shape, 2), axis=0)) / 40
    assert steps.max() < 2 * np.pi * 6.0 / 1500.0 * 2


def test_window_coordinates_are_those_of_points_whatever_the_window():
    mapping = PhantomMap.from_spec(PhantomSpec(deform_px=5.0))
    whole = mapping.window_to_post(Window(100, 200, 300, 450))
    part = mapping.window_to_post(Window(150, 160, 333, 440))
    for a, b in zip(whole, part, strict=True):
        np.testing.assert_array_equal(a[50:60, 33:140], b)
    cols, rows = np.meshgrid(np.arange(333.0, 440), np.arange(150.0, 160))
    expected = mapping.to_post(np.column_stack([cols.ravel(), rows.ravel()]))
    np.testing.assert_allclose(np.column_stack([v.ravel() for v in part]), expected, atol=1e-10)


def test_stretch_bounds_how_far_neighbours_move_apart():
    mapping = PhantomMap.from_spec(PhantomSpec(deform_px=10.0, scale=1.4, shear=0.2))
    points = _points((2048, 2048))
    for step in ([1.0, 0.0], [0.0, 1.0], [0.7, -0.7]):
        moved = mapping.to_pre(points + step) - mapping.to_pre(points)
        assert (np.hypot(*moved.T) <= mapping.stretch() * np.hypot(*step)).all()
