"""What a map does and how well it is known, on grids."""

from __future__ import annotations

import numpy as np
import pytest

from unglow.figures.colour_maps import Grid, area_ratio, error_of_map, find_covered, turn_to_post
from unglow.registration.block_table import BLOCK_DTYPE
from unglow.transform import Quantiles, Transform, apply_matrix
from unglow.transform.displacement import Displacement

FRAME = (300, 600)
MATRIX = np.array([[1.02, 0.01, 9], [-0.01, 1.01, -4], [0, 0, 1]])


def transform(matrix=MATRIX, **changes):
    return Transform("ok", FRAME, FRAME, matrix=matrix, model="affine", **changes)


def linear_field(a, b):
    """A field d = (a * x, b * y): control points of a linear spline are its values."""
    _, ny, nx = Displacement.zeros(FRAME, 50).coefficients.shape
    row, col = np.indices((ny, nx))
    return Displacement(50, np.stack([a * (col - 1) * 50.0, b * (row - 1) * 50.0]))


def blocks(noise=0.02, shift=0.0, step=30):
    """Blocks on a grid with noise; ``shift`` px too much on the right half."""
    y, x = (n.ravel() for n in np.mgrid[10 : FRAME[0] : step, 10 : FRAME[1] : step])
    table = np.zeros(len(x), BLOCK_DTYPE)
    table["x"], table["y"] = x, y
    off = np.random.default_rng(2).normal(0, noise, (len(x), 2))
    off[x > FRAME[1] / 2, 0] += shift
    pre = apply_matrix(MATRIX, np.column_stack([x, y])) + off
    table["pre_x"], table["pre_y"] = pre.T
    table["dx"], table["dy"] = off.T
    table["used"], table["quality"] = True, 5
    table["held_out"] = np.arange(len(x)) % 5 == 0
    return table


def test_a_grid_gives_the_nearest_value():
    grid = Grid(np.arange(6).reshape(2, 3), 10.0, 5.0)
    assert grid.places().tolist() == [[5, 5], [15, 5], [25, 5], [5, 15], [15, 15], [25, 15]]
    assert grid.look_up(grid.places()).tolist() == [0, 1, 2, 3, 4, 5]
    assert grid.look_up(np.array([[-99, 12], [99, 8.0]])).tolist() == [3, 2]
    assert grid.sample((20, 30), 2, 6).tolist() == [[0, 0, 1, 1, 2, 2], [3, 3, 4, 4, 5, 5]]
    assert grid.fill(np.zeros(6)).values.tolist() == [[0] * 3] * 2


def test_areas_of_a_field_are_those_of_its_derivatives():
    ratio = area_ratio(transform(displacement=linear_field(0.02, -0.03)))
    inside = ratio.values[2:-10, 2:-10]
    jacobian = MATRIX[:2, :2] + np.diag([0.02, -0.03])
    expected = np.linalg.det(jacobian) / np.linalg.det(MATRIX[:2, :2])
    assert inside == pytest.approx(expected)
    assert area_ratio(transform()).values == pytest.approx(1)


def test_areas_are_compared_with_a_homography_where_they_are():
    tilted = np.array([[1, 0, 0], [0, 1, 0], [1e-4, 0, 1]])
    stretch = Displacement(50, linear_field(0.02, 0).coefficients)
    ratio = area_ratio(transform(tilted, displacement=stretch))
    x, y = ratio.places()[ratio.values.size // 2]
    w = 1 + 1e-4 * x
    plain = np.array([[1 / w**2, 0], [-1e-4 * y / w**2, 1 / w]])
    expected = np.linalg.det(plain + np.diag([0.02, 0])) / np.linalg.det(plain)
    assert ratio.look_up(np.array([[x, y]]))[0] == pytest.approx(expected, rel=1e-6)


def test_vectors_are_turned_and_mirrored_but_not_stretched():
    angle = np.deg2rad(137)
    turn = 1.3 * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    for plain in (turn, turn @ np.diag([1, -1])):
        matrix = np.eye(3)
        matrix[:2, :2] = plain
        in_pre = np.array([[1.0, 0], [0, 2], [3, 4]]) @ (plain / 1.3).T
        out = turn_to_post(transform(matrix), in_pre)
        np.testing.assert_allclose(out, [[1, 0], [0, 2], [3, 4]], atol=1e-12)


def test_the_error_of_a_field_is_what_its_file_holds():
    plain = Displacement.zeros(FRAME, 50)
    error = np.random.default_rng(0).random(plain.coefficients.shape[1:]).astype(np.float32)
    known = Displacement(50, plain.coefficients, error)
    grid = error_of_map(transform(displacement=known), blocks())
    assert grid.look_up(np.array([[50.0, 100.0]])) == error[3, 2]
    # A field whose error is not known is not judged by the blocks of its matrix.
    assert np.isnan(error_of_map(transform(displacement=plain), blocks()).values).all()


def test_the_error_of_a_matrix_is_estimated_as_the_transform_has_it():
    from unglow.registration.phase_correlation import Matches
    from unglow.registration.quality import map_error

    table = blocks(shift=0.4)
    grid = error_of_map(transform(), table)
    points = np.column_stack([table["x"], table["y"]])
    matches = Matches(points, np.column_stack([table["pre_x"], table["pre_y"]]), table["quality"])
    fitted = ~table["held_out"]
    direct = Quantiles.from_lengths(
        map_error("affine", matches, fitted, table["used"], MATRIX, grid.places()).lengths
    )
    assert Quantiles.from_lengths(grid.values) == direct
    left, right = grid.values[:, :14], grid.values[:, 18:]
    assert np.median(left) < 0.1
    assert np.median(right) > 0.3


def test_without_enough_blocks_the_error_is_unknown():
    assert np.isnan(error_of_map(transform(), blocks()[:0]).values).all()
    table = blocks()
    table["used"][9:] = False
    assert np.isnan(error_of_map(transform(), table).values).all()


def test_covered_is_where_an_agreeing_block_is_near():
    table = blocks()
    table["used"] = table["x"] < 300
    near = find_covered(table, FRAME)
    assert near.step == pytest.approx(1.5 * np.sqrt(570 * 270 / len(table)))
    assert near.look_up(np.array([[10, 10], [280, 290], [300, 150.0]])).all()
    assert not near.look_up(np.array([[400, 10], [590, 290.0]])).any()
    assert not find_covered(table[:0], FRAME).values.any()
