"""The transform: mapping, its JSON file, the table of blocks."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from unglow.blocktable import BLOCK_DTYPE, read_blocks, write_blocks
from unglow.errors import InputError
from unglow.transform import (
    Quantiles,
    Transform,
    at_level,
    jacobians,
    load,
    to_level0,
)

MATRIX = np.array([[1.01, -0.02, 12.5], [0.03, 0.99, -7.25], [1e-6, 2e-6, 1.0]])


def transform(**changes):
    fields = {
        "status": "suspect",
        "reasons": ("Something is odd.",),
        "matrix": MATRIX,
        "model": "homography",
        "post_shape": (200, 300),
        "pre_shape": (210, 290),
        "residual_px": Quantiles(0.1, 0.30000000000000004),
        "error_px": Quantiles(0.01, 0.02),
        "inliers": 90,
        "blocks": 100,
        "overlap": 0.75,
        "scale": 1.0,
        "rotation_deg": 1.5,
        "shift_px": (10.0, -5.0),
        "coarse_method": "features",
        "significance": 50.0,
        "margin": 9.0,
    }
    return Transform(**(fields | changes))


def test_map_is_the_projective_formula_and_inverse_map_undoes_it():
    points = np.array([[0.0, 0.0], [100.0, 50.0]])
    w = 1 + 100 * 1e-6 + 50 * 2e-6
    mapped = transform().map(points)
    np.testing.assert_allclose(mapped[0], [12.5, -7.25])
    np.testing.assert_allclose(mapped[1], [(101 - 1 + 12.5) / w, (3 + 49.5 - 7.25) / w])
    np.testing.assert_allclose(transform().inverse_map(mapped), points, atol=1e-10)


def test_failed_transform_maps_to_nan_both_ways():
    failed = transform(status="failed", matrix=None)
    assert failed.failed
    assert np.isnan(failed.map([[1.0, 2.0]])).all()
    assert np.isnan(failed.inverse_map([[1.0, 2.0]])).all()


def test_points_beyond_the_horizon_are_nan():
    matrix = np.array([[1.0, 0, 0], [0, 1, 0], [-0.01, 0, 1]])
    mapped = transform(matrix=matrix).map([[50.0, 0], [150.0, 0]])
    np.testing.assert_allclose(mapped[0], [100, 0])
    assert np.isnan(mapped[1]).all()


def test_derivatives_are_those_of_the_formula():
    matrix = np.array([[1.01, -0.02, 12.5], [0.03, 0.99, -7.25], [1e-5, 2e-5, 1.0]])
    (found,) = jacobians(matrix, np.array([[300.0, 500.0]]))
    u, v, w = matrix @ [300.0, 500.0, 1.0]
    expected = (matrix[:2, :2] - np.outer([u / w, v / w], matrix[2, :2])) / w
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)
    affine = np.array([[1.01, -0.02, 12.5], [0.03, 0.99, -7.25], [0, 0, 1.0]])
    np.testing.assert_allclose(jacobians(affine, np.zeros((2, 2))), [affine[:2, :2]] * 2)
    beyond = np.array([[1.0, 0, 0], [0, 1, 0], [-0.01, 0, 1]])
    assert np.isnan(jacobians(beyond, np.array([[150.0, 0]]))).all()


@pytest.mark.parametrize("points", [[1.0, 2.0], [[1.0, 2.0, 3.0]]])
def test_points_of_another_shape_are_refused(points):
    with pytest.raises(ValueError, match=r"points must be \(N, 2\)"):
        transform().map(points)


def test_save_and_load_keep_every_bit(tmp_path):
    path = tmp_path / "transform.json"
    transform().save(path)
    back = load(path)
    assert back.as_dict() == transform().as_dict()
    np.testing.assert_array_equal(back.matrix, MATRIX)
    first = path.read_bytes()
    back.save(path)
    assert path.read_bytes() == first
    assert [p.name for p in tmp_path.iterdir()] == ["transform.json"]


def test_json_follows_the_contract(tmp_path):
    transform().save(tmp_path / "t.json")
    data = json.loads((tmp_path / "t.json").read_text())
    assert list(data)[:5] == ["version", "status", "reasons", "matrix", "model"]
    assert data["version"] == 1
    assert data["displacement"] is None
    assert data["residual_px"] == {"median": 0.1, "p95": 0.30000000000000004}


def test_failed_transform_survives_its_file(tmp_path):
    path = tmp_path / "t.json"
    Transform("failed", (5, 6), (7, 8), ("It did not work.",)).save(path)
    back = load(path)
    assert (back.status, back.reasons) == ("failed", ("It did not work.",))
    assert (back.post_shape, back.pre_shape) == ((5, 6), (7, 8))
    assert np.isnan(back.matrix).all()
    assert math.isnan(back.error_px.p95)
    assert json.loads(path.read_text())["matrix"] is None


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda d: d.update(version=2), "it has version 2, not 1"),
        (lambda d: d.pop("model"), "not a whole transform"),
        (lambda d: d.update(status="fine"), "unknown status 'fine'"),
        (lambda d: d.update(matrix=None), "status and matrix contradict"),
        (lambda d: d.update(matrix=[[1, 2], [3, 4]]), "3 x 3 matrix"),
        (lambda d: d.update(displacement={"spacing_px": 8}), "not a whole transform"),
    ],
)
def test_damaged_files_are_named(tmp_path, damage, message):
    data = transform().as_dict()
    damage(data)
    path = tmp_path / "transform.json"
    path.write_text(json.dumps(data))
    with pytest.raises(InputError, match=message) as error:
        load(path)
    assert str(path) in str(error.value)
    assert "run the registration again" in str(error.value)


def test_truncated_and_absent_files_are_named(tmp_path):
    path = tmp_path / "transform.json"
    with pytest.raises(InputError, match="does not exist"):
        load(path)
    path.write_text('{"version": 1, "sta')
    with pytest.raises(InputError, match="not a whole transform"):
        load(path)


def test_level_matrices_use_pixel_centres():
    np.testing.assert_array_equal(to_level0(2) @ [0, 0, 1], [1.5, 1.5, 1])
    shift = np.eye(3)
    shift[:2, 2] = 8, -4
    np.testing.assert_allclose(at_level(shift, 2)[:2, 2], [2, -1])
    turn = np.array([[0, -1.0, 99], [1, 0, 0], [0, 0, 1]])  # 100 px wide, about its corner
    np.testing.assert_allclose(at_level(turn, 1) @ [0, 0, 1], [49, 0, 1], atol=1e-12)


def test_blocks_table_round_trip(tmp_path):
    blocks = np.zeros(2, BLOCK_DTYPE)
    blocks["x"] = 127.5, 400.5
    blocks["dx"] = -0.00001, 0.12346
    blocks["used"] = True, False
    path = tmp_path / "blocks.csv"
    write_blocks(path, blocks)
    lines = path.read_text().splitlines()
    assert lines[0] == "x,y,pre_x,pre_y,dx_before,dy_before,dx,dy,quality,used,held_out"
    assert lines[1] == "127.5000" + ",0.0000" * 8 + ",1,0"
    back = read_blocks(path)
    assert back["dx"].tolist() == [0.0, 0.1235]
    assert back["used"].tolist() == [True, False]


def test_an_empty_table_of_blocks_and_a_foreign_one(tmp_path):
    path = tmp_path / "blocks.csv"
    write_blocks(path, np.zeros(0, BLOCK_DTYPE))
    assert read_blocks(path).shape == (0,)
    path.write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="its columns are a, b"):
        read_blocks(path)
    path.write_text("")
    with pytest.raises(InputError, match="not a table of registration blocks"):
        read_blocks(path)
    with pytest.raises(InputError, match="does not exist"):
        read_blocks(tmp_path / "none.csv")


def test_quantiles():
    assert Quantiles.of([3.0, 1.0, 2.0]).median == 2.0
    assert math.isnan(Quantiles.of([]).p95)
