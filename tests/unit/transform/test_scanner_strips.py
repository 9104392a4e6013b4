"""Strips of a scanner in a displacement field: where they begin, what they add, their file."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from made_stores import write_store

from unglow import transform
from unglow.core.windows import Window, grid
from unglow.images.zarr import open_store, plan_layout
from unglow.stages.align import AlignedStore
from unglow.transform import Transform, apply_matrix
from unglow.transform.displacement import Displacement, Strips
from unglow.transform.resample import source_window, warp_window

SHAPE = (300, 410)
MATRIX = np.array([[1.001, 0.02, 3.0], [-0.02, 0.999, 5.0], [0, 0, 1.0]])
SEAMS = [100.0, 222.25]
OFFSETS = [[1.0, 0.5], [-2.0, 0.25], [0.5, -1.5]]
KINDS = [(image, along) for image in ("post", "pre") for along in ("rows", "columns")]


#: Of no strips as well, where the test is about the field.
ALL_KINDS = [None, *KINDS]


def strips(image="post", along="rows", seams=SEAMS, offsets=OFFSETS, matrix=MATRIX):
    frame = matrix if image == "pre" else np.eye(3)
    return Strips(image, along, frame, np.array(seams), np.array(offsets))


def wavy(found=None, amplitude=1.0):
    coefficients = np.random.default_rng(1).normal(
        0, amplitude, Displacement.zeros(SHAPE, 32).coefficients.shape
    )
    return Displacement(32, coefficients, strips=found)


def bent(found, matrix=MATRIX):
    return Transform("ok", SHAPE, SHAPE, matrix=matrix, displacement=found, model="affine")


def points(count=2000):
    return np.random.default_rng(2).uniform(0, np.array(SHAPE[::-1]) - 1, (count, 2))


# ---------------------------------------------------------------------------------------- strips


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"image": "raw"}, "along rows or columns of post or pre, not rows of raw"),
        ({"frame": np.eye(2)}, r"finite frame of shape \(3, 3\)"),
        ({"seams": np.array([1.0, np.nan])}, r"finite seams of shape \(2,\)"),
        ({"offsets": np.zeros((2, 2))}, r"finite offsets of shape \(3, 2\)"),
        ({"seams": np.array([5.0, 5.0])}, "have to increase"),
        ({"image": "post"}, "need the identity as their frame"),
        ({"seams": np.zeros(0), "offsets": np.ones((1, 2))}, "nothing to displace"),
    ],
)
def test_impossible_strips_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        replace(strips("pre"), **change)


def test_a_strip_begins_at_its_seam():
    at = np.array([[7.0, 99.999], [7, 100], [7, 222], [7, 222.25], [7, 1e9], [7, -1e9]])
    expected = np.array(OFFSETS)[[0, 1, 1, 2, 2, 0]]
    np.testing.assert_array_equal(strips().evaluate(at, np.zeros_like(at)), expected)
    columns = strips(along="columns")
    np.testing.assert_array_equal(columns.evaluate(at[:, ::-1], np.zeros_like(at)), expected)
    # what the field displaces does not move seams of post
    np.testing.assert_array_equal(strips().evaluate(at, np.full_like(at, 50.0)), expected)


def test_seams_of_pre_lie_where_the_rest_of_the_map_puts_a_point():
    shift = np.array([[1, 0, 10.0], [0, 1, -20], [0, 0, 1]])
    found = strips("pre", matrix=shift)
    at = np.array([[0.0, 120], [0, 119.5], [0, 119.5]])
    displaced = np.array([[0, 0], [0, 0], [9, 0.5]])
    np.testing.assert_array_equal(found.project(at, displaced), [100, 99.5, 100])
    np.testing.assert_array_equal(found.evaluate(at, displaced), np.array(OFFSETS)[[1, 0, 1]])
    across = strips("pre", "columns", matrix=shift).project(at, displaced)
    np.testing.assert_array_equal(across, [10, 10, 19])


def test_distance_to_the_nearest_seam():
    at = np.array([0.0, 99, 100, 161, 161.5, 230.25])
    np.testing.assert_array_equal(strips().gap(at), [100, 1, 0, 61, 60.75, 8])
    none = strips(seams=[], offsets=[[0.0, 0]])
    np.testing.assert_array_equal(none.gap(at), np.full(6, np.inf))
    np.testing.assert_array_equal(none.evaluate(points(9), np.zeros((9, 2))), np.zeros((9, 2)))


# ----------------------------------------------------------------------------------------- field


@pytest.mark.parametrize(("image", "along"), KINDS)
def test_a_field_adds_its_strips(image, along):
    found, at = wavy(strips(image, along)), points()
    smooth = found.smooth.evaluate(at)
    assert found.smooth.strips is None
    np.testing.assert_array_equal(smooth, wavy().evaluate(at))
    np.testing.assert_array_equal(found.evaluate(at), smooth + found.strips.evaluate(at, smooth))
    assert len(np.unique(found.strips.evaluate(at, smooth), axis=0)) == 3
    np.testing.assert_array_equal(found.jacobian(at), found.smooth.jacobian(at))
    finer = found.finer(SHAPE)
    assert finer.strips is found.strips


@pytest.mark.parametrize(("image", "along"), KINDS)
def test_bounds_hold_with_strips(image, along):
    found = wavy(strips(image, along))
    for window in (Window(90, 130, 60, 240), Window(0, 1, 0, 1), Window(280, 300, 390, 410)):
        at = np.argwhere(np.ones(window.shape))[:, ::-1] + [window.x0, window.y0]
        low, high = found.bounds(window)
        displaced = found.evaluate(at)
        assert (displaced >= low - 1e-12).all()
        assert (displaced <= high + 1e-12).all()


def test_the_digest_distinguishes_strips_and_none_is_as_before():
    plain = wavy()
    assert plain.digest == wavy(None).digest == wavy(strips()).smooth.digest
    kinds = [wavy(strips(*kind, matrix=np.eye(3))).digest for kind in KINDS]
    moved = [
        wavy(strips(seams=[100.0, 222.0])).digest,
        wavy(strips(offsets=[[1.0, 0.5], [-2, 0.25], [0.5, -1.25]])).digest,
        wavy(strips("pre")).digest,
    ]
    assert len({plain.digest, *kinds, *moved}) == 8
    # fields that were written before there were strips still belong to their transforms
    flat = Displacement(32, np.zeros((2, 4, 4)))
    assert flat.digest == "1722ba30437befd00471b2963f41e3c64059f0b40919e4edce3aa9b36f9657db"


def test_inverse_map_crosses_seams_and_is_nowhere_in_a_gap():
    found = bent(wavy(strips(offsets=[[0, -2.0], [0, 2], [0, -2]]), 0.2))
    at = points()
    back = found.inverse_map(found.map(at))
    known = np.isfinite(back[:, 0])
    np.testing.assert_allclose(found.map(back[known]), found.map(at)[known], atol=1e-5)
    far = found.displacement.strips.gap(at[:, 1]) > 5
    np.testing.assert_allclose(back[far], at[far], atol=1e-5)
    assert far.sum() > 1500
    # between the first two strips, 4 px of pre are nobody's
    across = found.map(np.array([[200.0, 99.999], [200.0, 100]]))
    assert np.hypot(*np.diff(across, axis=0)[0]) == pytest.approx(4, abs=0.01)
    assert np.isnan(found.inverse_map(across.mean(axis=0)[None])).all()


# ------------------------------------------------------------------------------------------ warp


def plane():
    rows, cols = np.indices(SHAPE)
    return (0.5 * cols + 3.0 * rows).astype(np.float32)  # Catmull-Rom keeps planes


@pytest.mark.parametrize("perspective", [0.0, 2e-5])
@pytest.mark.parametrize("kind", ALL_KINDS)
def test_the_compiled_warp_follows_field_and_strips(kind, perspective):
    matrix = MATRIX.copy()
    matrix[2, 1] = perspective
    found = bent(wavy(kind and strips(*kind, matrix=matrix)), matrix)
    values = plane()
    out = warp_window(lambda w: values[w.slices], SHAPE, found, Window.from_shape(SHAPE))
    y, x = np.indices(SHAPE)
    at = np.column_stack([x.ravel(), y.ravel()]).astype(float)
    mapped = found.map(at)
    np.testing.assert_array_equal(
        mapped, apply_matrix(matrix, at) + found.displacement.evaluate(at)
    )
    inside = ((mapped > 2) & (mapped < np.array(SHAPE)[::-1] - 3)).all(axis=1)
    assert inside.mean() > 0.9
    expected = mapped @ [0.5, 3.0]
    np.testing.assert_allclose(out.ravel()[inside], expected[inside], rtol=0, atol=2e-3)
    outside = ((mapped < -0.5) | (mapped > np.array(SHAPE)[::-1] - 0.5)).any(axis=1)
    assert outside.any()
    assert np.isnan(out.ravel()[outside]).all()
    other = np.flatnonzero(inside)[:: len(at) // 500]
    ignored = apply_matrix(matrix, at[other]) + (wavy().evaluate(at[other]) if kind else 0)
    assert (np.abs(out.ravel()[other] - ignored @ [0.5, 3.0]) > 0.2).mean() > 0.8


@pytest.mark.parametrize("block", [(33, 47), (300, 7), (1, 410)])
@pytest.mark.parametrize("perspective", [0.0, 2e-5])
@pytest.mark.parametrize("kind", ALL_KINDS)
def test_any_tiling_of_a_warp_gives_the_same_bits(kind, perspective, block):
    matrix = MATRIX.copy()
    matrix[2, 0] = perspective
    found = bent(wavy(kind and strips(*kind, matrix=matrix)), matrix)
    source = np.random.default_rng(3).integers(0, 60000, SHAPE).astype(np.uint16)

    def read(window):
        return source[window.slices]

    whole = warp_window(read, SHAPE, found, Window.from_shape(SHAPE))
    assert np.isfinite(whole).mean() > 0.9
    for window in grid(SHAPE, block):
        part = warp_window(read, SHAPE, found, window)
        np.testing.assert_array_equal(part.view(np.uint32), whole[window.slices].view(np.uint32))


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_source_windows_hold_what_is_needed(kind):
    found = bent(wavy(kind and strips(*kind)))
    for window in grid(SHAPE, (40, 50)):
        at = np.argwhere(np.ones(window.shape))[:, ::-1] + [window.x0, window.y0]
        mapped = found.map(at)
        needed = source_window(found.matrix, found.displacement, window, SHAPE)
        last = np.array(SHAPE[::-1]) - 1
        low = np.clip(np.floor(mapped.min(axis=0)) - 1, 0, last)
        high = np.clip(np.floor(mapped.max(axis=0)) + 2, 0, last)
        assert (low >= [needed.x0, needed.y0]).all()
        assert (high < [needed.x1, needed.y1]).all()
        assert needed.size < 3 * 40 * 50


# ------------------------------------------------------------------------------------------ file


@pytest.mark.parametrize(("image", "along"), KINDS)
def test_strips_go_through_their_files(tmp_path, image, along):
    found = bent(wavy(strips(image, along)))
    found.save(tmp_path / "transform.json")
    back = transform.load(tmp_path / "transform.json")
    np.testing.assert_array_equal(back.map(points()), found.map(points()))
    entry = json.loads((tmp_path / "transform.json").read_text())["displacement"]
    assert entry["strips"] == found.displacement.strips.to_dict()
    assert entry["sha256"] == found.displacement.digest
    first = [(tmp_path / n).read_bytes() for n in ("transform.json", "details/displacement.npz")]
    back.save(tmp_path / "transform.json")
    assert first == [
        (tmp_path / n).read_bytes() for n in ("transform.json", "details/displacement.npz")
    ]


def test_aligned_pre_depends_on_the_strips(tmp_path):
    values = (np.indices(SHAPE)[0] * 3 + np.indices(SHAPE)[1] * 2).astype(np.uint16)
    attributes = {"grey_levels": "integer", "statistics": {"min": 0, "max": 60000}}
    stores = [
        write_store(tmp_path / name, values, attributes=attributes) for name in ("post", "pre")
    ]
    digests = []
    for name, found in (("torn", wavy(strips())), ("whole", wavy())):
        layout = plan_layout(SHAPE, "float32")
        AlignedStore(*stores, bent(found), layout, tmp_path / name).make(workers=2)
        attributes = json.loads((tmp_path / name / "zarr.json").read_text())["attributes"]
        digests.append(attributes["unglow"]["displacement"]["sha256"])
        assert digests[-1] == found.digest
        part = Window(90, 130, 50, 140)
        direct = warp_window(lambda w: values[w.slices], SHAPE, bent(found), part)
        assert np.nanmax(np.abs(open_store(tmp_path / name).read(part) - direct)) <= 1 / 64
    assert digests[0] != digests[1]
    images = [
        open_store(tmp_path / name).read(Window(90, 110, 50, 90)) for name in ("torn", "whole")
    ]
    # offsets (1, 0.5) and (-2, 0.25) on a plane of slopes 2 and 3, in 1/32 grey levels
    step = images[0] - images[1]
    np.testing.assert_allclose(step[:10], 3.5, atol=0.05)
    np.testing.assert_allclose(step[10:], -3.25, atol=0.05)
