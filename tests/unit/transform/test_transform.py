"""The transform: mapping, its JSON file, the table of blocks."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys

import numpy as np
import pytest

from unglow.core.errors import InputError
from unglow.registration.block_table import BLOCK_DTYPE, read_blocks, write_blocks
from unglow.transform import (
    LandmarkResiduals,
    Quantiles,
    Transform,
    convert_to_level,
    from_level,
    jacobians,
    load,
    to_level0,
)
from unglow.transform.displacement import Displacement, Strips

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


def test_points_may_be_whole_numbers_or_none():
    assert transform().map([[0, 0]]).tolist() == [[12.5, -7.25]]
    back = transform(matrix=np.diag([2.0, 4.0, 1.0])).inverse_map([[3, 2], [5, 7]])
    assert back.tolist() == [[1.5, 0.5], [2.5, 1.75]]
    for way in (transform().map, transform().inverse_map, moved().map, moved().inverse_map):
        assert way(np.zeros((0, 2))).shape == (0, 2)


def moved(**changes):
    """A transform with a field that moves everything by (3, -4)."""
    coefficients = np.zeros((2, 5, 6))
    coefficients[0], coefficients[1] = 3, -4
    return transform(displacement=Displacement(100, coefficients), **changes)


def test_a_field_is_added_to_where_the_matrix_puts_a_point():
    points = np.array([[0.0, 0.0], [100.0, 50.0]])
    step = moved().map(points) - transform().map(points)
    np.testing.assert_allclose(step, [[3, -4], [3, -4]], atol=1e-12)
    np.testing.assert_allclose(moved().inverse_map(moved().map(points)), points, atol=1e-9)
    assert transform().model_name == "homography"
    assert moved().model_name == "homography + field"


def test_the_inverse_of_a_steep_field_is_found_to_a_millionth_of_a_px_or_is_nan():
    rng = np.random.default_rng(0)
    gentle = transform(displacement=Displacement(20, rng.normal(0, 3, (2, 13, 18))))
    points = np.stack(np.meshgrid(np.arange(5.0, 300, 20), np.arange(5.0, 200, 20)), 2)
    points = points.reshape(-1, 2)
    back = gentle.inverse_map(gentle.map(points))
    assert np.abs(back - points).max() < 2e-6
    folded = transform(displacement=Displacement(20, rng.normal(0, 40, (2, 13, 18))))
    back = folded.inverse_map(points)
    known = ~np.isnan(back[:, 0])
    assert 0 < known.sum() < len(points)
    assert (np.isnan(back).all(axis=1) == ~known).all()
    assert np.hypot(*(folded.map(back[known]) - points[known]).T).max() <= 1e-6


def test_a_point_that_is_nowhere_leaves_the_others_where_they_are():
    noise = np.random.default_rng(0).normal(0, 3, (2, 13, 18))
    found = transform(displacement=Displacement(20, noise))
    points = np.array([[10.0, 20.0], [np.nan, np.nan], [200.0, 90.0]])
    np.testing.assert_allclose(found.inverse_map(found.map(points)), points, atol=2e-6)


def test_one_point_that_has_no_inverse_takes_nothing_from_others():
    horizon = transform(matrix=np.array([[1.0, 0, 0], [0, 1, 0], [0.01, 0, 1]]))
    bent = moved(matrix=horizon.matrix)
    points = np.array([[150.0, 10.0], [20.0, 10.0]])  # nothing of post comes to x = 150
    for found in (horizon.inverse_map(points), bent.inverse_map(points)):
        assert np.isnan(found[0]).all()
        assert not np.isnan(found[1]).any()
    np.testing.assert_allclose(bent.map(bent.inverse_map(points)[1:]), points[1:], atol=1e-9)


def test_the_median_error_is_a_turn_of_the_corners():
    # the corners of 600 x 800 px are 500 px away from the centre
    found = transform(post_shape=(600, 800), error_px=Quantiles(0.5, 2.0))
    assert found.turn_error == pytest.approx(0.001, rel=1e-12)


def test_failed_transform_maps_to_nan_both_ways():
    failed = transform(status="failed", matrix=None)
    assert failed.has_failed
    assert not transform(status="ok").has_failed
    assert not transform(status="suspect").has_failed
    assert np.isnan(failed.map([[1.0, 2.0]])).all()
    assert np.isnan(failed.inverse_map([[1.0, 2.0]])).all()
    assert np.isnan(failed.inverse_map([[1, 2]])).all()


def test_points_beyond_the_horizon_are_nan():
    matrix = np.array([[1.0, 0, 0], [0, 1, 0], [-0.01, 0, 1]])
    mapped = transform(matrix=matrix).map([[50.0, 0], [150.0, 0], [100.0, 0]])
    np.testing.assert_allclose(mapped[0], [100, 0])
    assert np.isnan(mapped[1:]).all()


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


@pytest.mark.parametrize("points", [[1.0, 2.0], [[1.0, 2.0, 3.0]], [[[1.0, 2.0]]]])
def test_points_of_another_shape_are_refused(points):
    shape = np.shape(points)
    with pytest.raises(
        ValueError, match=rf"^points must be \(N, 2\), not {re.escape(str(shape))}$"
    ):
        transform().map(points)


def test_everything_that_is_known_is_in_the_file_and_comes_back(tmp_path):
    coefficients = np.zeros((2, 5, 6))
    coefficients[:, 1, 2] = 0.6, 0.8
    coefficients[:, 2, 2] = 0.0, 0.9
    strips = Strips("post", "rows", np.eye(3), np.array([60.0]), np.array([[0.5, 0], [-0.5, 0]]))
    whole = transform(
        displacement=Displacement(100, coefficients, strips=strips),
        forward_backward_px=Quantiles(0.03, 0.04),
        landmarks=LandmarkResiduals(4, 1.5, 2.5),
        source="Iba1",
    )
    path = tmp_path / "transform.json"
    whole.save(path)
    content = json.loads(path.read_text())
    assert list(content)[:5] == ["version", "status", "reasons", "matrix", "model"]
    assert content == {
        "version": 1,
        "status": "suspect",
        "reasons": ["Something is odd."],
        "matrix": MATRIX.tolist(),
        "model": "homography",
        "displacement": {
            "path": "details/displacement.npz",
            "spacing_px": 100,
            "grid": [5, 6],
            "max_px": 1.0,
            "strips": {
                "image": "post",
                "along": "rows",
                "seams_px": [60.0],
                "offsets_px": [[0.5, 0.0], [-0.5, 0.0]],
            },
            "sha256": whole.displacement.digest,
        },
        "residual_px": {"median": 0.1, "p95": 0.30000000000000004},
        "error_px": {"median": 0.01, "p95": 0.02},
        "forward_backward_px": {"median": 0.03, "p95": 0.04},
        "inliers": 90,
        "blocks": 100,
        "overlap": 0.75,
        "scale": 1.0,
        "rotation_deg": 1.5,
        "shift_px": [10.0, -5.0],
        "coarse": {"method": "features", "significance": 50.0, "margin": 9.0},
        "from": "Iba1",
        "landmarks": {"count": 4, "median_px": 1.5, "max_px": 2.5},
        "post_shape": [200, 300],
        "pre_shape": [210, 290],
    }
    back = load(path)
    for name in (
        "status", "reasons", "model", "residual_px", "error_px", "forward_backward_px", "inliers",
        "blocks", "overlap", "scale", "rotation_deg", "shift_px", "coarse_method", "significance",
        "margin", "landmarks", "source", "post_shape", "pre_shape", "version",
    ):  # fmt: skip
        assert getattr(back, name) == getattr(whole, name), name
    assert back.matrix.tolist() == MATRIX.tolist()
    assert back.displacement.digest == whole.displacement.digest
    files = [tmp_path / "details/displacement.npz", path]
    first = [file.read_bytes() for file in files]
    back.save(path)
    assert [file.read_bytes() for file in files] == first
    assert sorted(tmp_path.iterdir()) == [tmp_path / "details", path]


def test_what_is_not_known_is_null_and_comes_back_as_nan(tmp_path):
    path = tmp_path / "transform.json"
    Transform("failed", (5, 6), (7, 8), ("It did not work.",)).save(path)
    content = json.loads(path.read_text())
    empty = {"median": None, "p95": None}
    assert content == {
        "version": 1, "status": "failed", "reasons": ["It did not work."], "matrix": None,
        "model": "", "displacement": None, "residual_px": empty, "error_px": empty,
        "forward_backward_px": empty, "inliers": 0, "blocks": 0, "overlap": None, "scale": None,
        "rotation_deg": None, "shift_px": [None, None],
        "coarse": {"method": "", "significance": None, "margin": None},
        "post_shape": [5, 6], "pre_shape": [7, 8],
    }  # fmt: skip
    back = load(path)
    numbers = (
        *(back.overlap, back.scale, back.rotation_deg, *back.shift_px, back.significance),
        *(back.margin, back.residual_px.median, back.error_px.p95, back.forward_backward_px.p95),
    )
    assert all(map(math.isnan, numbers))
    assert (back.source, back.landmarks, back.displacement) == ("", None, None)
    assert (back.status, back.reasons) == ("failed", ("It did not work.",))
    assert (back.post_shape, back.pre_shape) == ((5, 6), (7, 8))
    assert np.isnan(back.matrix).all()


def test_files_are_utf_8_whatever_the_locale(tmp_path):
    path = tmp_path / "transform.json"
    whole = transform(reasons=("Ø 3 µm.",))
    whole.save(path)
    first = path.read_bytes()
    code = f"from unglow import transform; p = {str(path)!r}; transform.load(p).save(p)"
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    subprocess.run([sys.executable, "-c", code], env=os.environ | plain, check=True)
    assert path.read_bytes() == first
    assert "Ø 3 µm.".encode() in first


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda d: d.update(version=2), r"\(version: "),
        (lambda d: d.pop("model"), r"\(model: it is missing"),
        (lambda d: d.update(status="fine"), r"\(status: .*'fine'"),
        (lambda d: d.update(matrix=None), "status and matrix contradict each other"),
        (lambda d: d.update(matrix=[[1, 2], [3, 4]]), r"\(matrix: .*3, got 2"),
        (lambda d: d.update(matrix=[[0] * 3] * 3), "the matrix maps post onto a line"),
        (lambda d: d.update(matrix=[["1", 0, 0], [0, 1, 0], [0, 0, 1]]), r"\(matrix\[0\]\[0\]: "),
        (lambda d: d.update(inliers=10**400), "is too large"),
        (lambda d: d.update(post_shape=[10**12, 5]), r"\(post_shape\[0\]: "),
        (lambda d: d.update(reasons="many"), r"\(reasons: "),
        (lambda d: d.update(displacement={"spacing_px": 8}), r"\(displacement.path: it is missing"),
    ],
)
def test_damaged_files_are_named(tmp_path, damage, message):
    data = transform().to_dict()
    damage(data)
    path = tmp_path / "transform.json"
    path.write_text(json.dumps(data))
    with pytest.raises(InputError, match=message) as error:
        load(path)
    assert str(error.value).startswith(f"{path} is not a")
    assert str(error.value).endswith("): delete it and run the registration again.")


def test_truncated_and_absent_files_are_named(tmp_path):
    path = tmp_path / "transform.json"
    with pytest.raises(InputError, match=r"json does not exist: run the registration first\.$"):
        load(path)
    path.write_text('{"version": 1, "sta')
    with pytest.raises(InputError, match="Unterminated string"):
        load(path)


def test_level_matrices_use_pixel_centres():
    np.testing.assert_array_equal(to_level0(2) @ [0, 0, 1], [1.5, 1.5, 1])
    assert to_level0(3).tolist() == [[8, 0, 3.5], [0, 8, 3.5], [0, 0, 1]]
    assert to_level0(0).tolist() == np.eye(3).tolist()
    shift = np.eye(3)
    shift[:2, 2] = 8, -4
    np.testing.assert_allclose(convert_to_level(shift, 2)[:2, 2], [2, -1])
    turn = np.array([[0, -1.0, 99], [1, 0, 0], [0, 0, 1]])  # 100 px wide, about its corner
    np.testing.assert_allclose(convert_to_level(turn, 1) @ [0, 0, 1], [49, 0, 1], atol=1e-12)
    np.testing.assert_allclose(from_level(convert_to_level(turn, 1), 1), turn, atol=1e-12)
    np.testing.assert_allclose(from_level(shift, 2)[:2, 2], 4 * shift[:2, 2])


def test_blocks_table_round_trip(tmp_path):
    blocks = np.zeros(2, BLOCK_DTYPE)
    blocks["x"] = 127.5, 400.5
    blocks["dx"] = -0.00001, 0.12346
    blocks["used"] = True, False
    path = tmp_path / "details/blocks.csv"
    write_blocks(path, blocks)
    lines = path.read_text().splitlines()
    assert lines[0] == "x,y,pre_x,pre_y,dx_before,dy_before,dx,dy,quality,used,held_out"
    assert lines[1] == "127.5000" + ",0.0000" * 8 + ",1,0"
    back = read_blocks(path)
    assert back["dx"].tolist() == [0.0, 0.1235]
    assert back["used"].tolist() == [True, False]


def test_an_empty_table_of_blocks_and_a_foreign_one(tmp_path):
    path = tmp_path / "details/blocks.csv"
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
