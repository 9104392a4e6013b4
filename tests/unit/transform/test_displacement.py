"""The displacement field: exact where it must be, bounded, and tied to its file."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from unglow import transform
from unglow.core.archive import save_arrays
from unglow.core.errors import InputError
from unglow.core.windows import Window
from unglow.transform import Transform, displacement
from unglow.transform.displacement import Displacement
from unglow.transform.resample import warp_window

SHAPE = (300, 410)
RNG = np.random.default_rng(7)
SOURCE = RNG.integers(0, 60000, (320, 400)).astype(np.uint16)
MATRIX = np.array([[1.01, -0.03, 9.5], [0.02, 0.99, -6.25], [0, 0, 1.0]])


def wavy(spacing=32, amplitude=5.0, seed=1):
    rng = np.random.default_rng(seed)
    flat = Displacement.zeros(SHAPE, spacing)
    return Displacement(spacing, amplitude * rng.normal(size=flat.coefficients.shape))


def bent(found=None, matrix=MATRIX):
    return Transform(
        "ok", SHAPE, SOURCE.shape, matrix=matrix, displacement=found or wavy(), model="affine"
    )


def points(count=400, margin=0.0):
    return RNG.uniform(-margin, np.array(SHAPE[::-1]) - 1 + margin, (count, 2))


def test_constant_and_linear_control_points_give_constant_and_linear_fields():
    _, ny, nx = Displacement.zeros(SHAPE, 50).coefficients.shape
    row, col = np.indices((ny, nx))
    ramp = Displacement(
        50, np.stack([3.0 + 0 * row, 0.02 * 50 * (col - 1) - 0.01 * 50 * (row - 1)])
    )
    at = points()
    expected = np.column_stack([np.full(len(at), 3.0), 0.02 * at[:, 0] - 0.01 * at[:, 1]])
    np.testing.assert_allclose(ramp.evaluate(at), expected, atol=1e-12)
    np.testing.assert_allclose(ramp.jacobian(at)[:, 1], [[0.02, -0.01]] * len(at), atol=1e-12)


def test_knots_are_where_the_control_points_sit():
    flat = Displacement.zeros((65, 130), 64)
    assert flat.coefficients.shape == (2, 4, 6)
    np.testing.assert_array_equal(flat.knots[:2], [[-64, -64], [0, -64]])
    np.testing.assert_array_equal(flat.knots[[5, 6, -1]], [[256, -64], [-64, 0], [256, 128]])


@pytest.mark.parametrize("spacing", [32, 50])
def test_points_and_derivatives_agree(spacing):
    found = wavy(spacing)
    at, step = points(margin=-1), 1e-5
    for axis in range(2):
        move = np.eye(2)[axis] * step
        slope = (found.evaluate(at + move) - found.evaluate(at - move)) / (2 * step)
        np.testing.assert_allclose(found.jacobian(at)[:, :, axis], slope, atol=1e-6)


def test_a_finer_grid_holds_the_same_field():
    found = wavy(32)
    finer = found.finer(SHAPE)
    assert finer.spacing_px == 16
    assert finer.coefficients.shape[1:] == displacement.grid_shape(SHAPE, 16)
    at = points()
    np.testing.assert_allclose(finer.evaluate(at), found.evaluate(at), atol=1e-12)
    with pytest.raises(ValueError, match="cannot be halved"):
        wavy(25).finer(SHAPE)


def test_the_hull_of_the_control_points_bounds_every_window():
    found = wavy(32)
    row, col = np.indices(SHAPE)
    whole = found.evaluate(np.column_stack([col.flat, row.flat])).T.reshape(2, *SHAPE)
    for window in (Window(0, 300, 0, 410), Window(31, 33, 63, 97), Window(290, 300, 400, 410)):
        low, high = found.bounds(window)
        part = whole[:, *window.slices]
        assert (part.min(axis=(1, 2)) >= low).all()
        assert (part.max(axis=(1, 2)) <= high).all()
    low, high = found.bounds(Window(100, 101, 100, 101))
    assert (high - low < np.ptp(found.coefficients, axis=(1, 2))).all()


def test_beyond_the_frame_the_edge_goes_on():
    found = wavy(32)
    far = np.array([[-5000.0, 100], [1e7, 100], [200, -3], [200, 1e9]])
    last = 32.0 * (np.array(found.coefficients.shape[:0:-1]) - 3)
    np.testing.assert_array_equal(found.evaluate(far), found.evaluate(np.clip(far, 0, last)))
    assert np.abs(found.evaluate(points(margin=500))).max() <= np.abs(found.coefficients).max()


@pytest.mark.parametrize(
    "coefficients", [np.zeros((4, 5)), np.zeros((2, 3, 9)), np.full((2, 5, 5), np.nan)]
)
def test_impossible_fields_are_refused(coefficients):
    with pytest.raises(ValueError, match="a field needs"):
        Displacement(32, coefficients)


def test_a_field_of_zeros_changes_no_bit():
    plain = Transform("ok", SHAPE, SOURCE.shape, matrix=MATRIX)
    flat = bent(Displacement.zeros(SHAPE, 64))
    images = [
        warp_window(lambda w: SOURCE[w.slices], SOURCE.shape, t, Window.from_shape(SHAPE))
        for t in (plain, flat)
    ]
    np.testing.assert_array_equal(*(i.view(np.uint32) for i in images))


# ------------------------------------------------------------------------------------------- file


def test_transform_and_field_go_through_their_files(tmp_path):
    found = bent(Displacement(32, wavy().coefficients, np.full((4, 5), 0.25, np.float32)))
    found.save(tmp_path / "transform.json")
    assert {p.name for p in tmp_path.iterdir()} == {"transform.json", "details"}
    back = transform.load(tmp_path / "transform.json")
    at = points()
    np.testing.assert_array_equal(back.map(at), found.map(at))
    np.testing.assert_array_equal(back.displacement.error_px, found.displacement.error_px)
    entry = json.loads((tmp_path / "transform.json").read_text())["displacement"]
    assert entry["path"] == "details/displacement.npz"
    assert (entry["spacing_px"], entry["strips"], back.displacement.strips) == (32, None, None)
    assert entry["grid"] == list(found.displacement.coefficients.shape[1:])
    first = [(tmp_path / n).read_bytes() for n in ("transform.json", "details/displacement.npz")]
    back.save(tmp_path / "transform.json")
    assert first == [
        (tmp_path / n).read_bytes() for n in ("transform.json", "details/displacement.npz")
    ]
    assert back.model_name == "affine + field"


@pytest.mark.parametrize("name", ["details/other.npz", "", "../displacement.npz", "a" * 300])
def test_a_transform_with_another_path_of_its_field_is_named(tmp_path, name):
    path = tmp_path / "transform.json"
    bent(wavy()).save(path)
    content = json.loads(path.read_text())
    content["displacement"]["path"] = name
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=re.escape(str(path))):
        transform.load(path)


def test_no_field_has_a_file_too(tmp_path):
    displacement.save(tmp_path / "details/displacement.npz", None)
    assert displacement.load(tmp_path / "details/displacement.npz") is None


def damaged(path):
    path.write_bytes(path.read_bytes()[:-40])


def of_another(path):
    displacement.save(path, wavy(seed=2))


def without_points(path):
    displacement.save(path, None)


def foreign(path):
    save_arrays(path, {"a": np.zeros(3)})


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (
            lambda path: path.unlink(),
            "details/displacement.npz does not exist: run the registration",
        ),
        (damaged, "not a complete displacement field"),
        (foreign, "not a complete displacement field"),
        (of_another, "the field in details/displacement.npz is another one"),
        (without_points, "the field in details/displacement.npz is another one"),
    ],
)
def test_a_field_that_does_not_belong_there_is_named(tmp_path, harm, message):
    bent().save(tmp_path / "transform.json")
    harm(tmp_path / "details/displacement.npz")
    with pytest.raises(InputError, match=message):
        transform.load(tmp_path / "transform.json")
