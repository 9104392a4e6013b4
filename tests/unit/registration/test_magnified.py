"""Pairs of other magnifications: found and exact, or refused; and what pixel sizes say of them."""

from __future__ import annotations

from functools import cache

import cv2
import numpy as np
import pytest
from array_pixels import ArrayPixels
from made_scenes import render, similarity
from msgspec import structs
from scipy.ndimage import gaussian_filter

from unglow.core.windows import Coarser, Window, halve
from unglow.phantom import PhantomSpec
from unglow.phantom.render import Renderer
from unglow.registration.pair import searches
from unglow.registration.register import RegisterSettings, UserHints, register
from unglow.registration.shared_map import SharedMap, take_over
from unglow.registration.verdict import MIN_SIGNIFICANCE, check_headers
from unglow.transform import Transform, apply_matrix, convert_levels, to_level0
from unglow.transform.displacement import Displacement, Strips
from unglow.transform.landmarks import Landmarks
from unglow.transform.resample import warp_window

SETTINGS = RegisterSettings()
OCTAVES = {0.25: -2, 0.6: -1, 1.8: 1, 4.0: 2}


@cache
def made(scale):
    """Return post, pre and the true map; the coarser image is the mean of a finer one."""
    octaves = OCTAVES[scale]
    shape = (420 << abs(octaves),) * 2
    matrix = similarity(23.0, scale / 2.0**octaves, (25.0, -18.0), shape, shape)
    post, pre = render(matrix, shape, gain=1.3, spots=30), render(np.eye(3), shape)
    for _ in range(abs(octaves)):
        post, pre = (halve(post), pre) if octaves > 0 else (post, halve(pre))
    truth = convert_levels(matrix, max(0, octaves), max(0, -octaves))
    return np.rint(post).astype(np.uint16), np.rint(pre).astype(np.uint16), truth


def errors(found, truth, shape):
    rows, cols = np.mgrid[0 : shape[0] : 37, 0 : shape[1] : 37]
    points = np.column_stack([cols.ravel(), rows.ravel()]).astype(float)
    there = apply_matrix(truth, points)
    seen = ((there >= 0) & (there <= np.array(found.pre_shape)[::-1] - 1)).all(axis=1)
    return np.hypot(*(found.map(points) - there)[seen].T)


@pytest.mark.parametrize("scale", OCTAVES)
def test_a_pair_of_another_magnification_is_found_and_exact(scale):
    post, pre, truth = made(scale)
    images = ArrayPixels(post), ArrayPixels(pre)
    found = register(*images, SETTINGS, expected_scale=scale * 1.04)
    transform = found.transform
    assert transform.status == ("ok" if scale > 1 else "suspect"), transform.reasons
    assert transform.octaves == OCTAVES[scale]
    assert transform.scale == pytest.approx(scale, rel=1e-3)
    assert (transform.post_shape, transform.pre_shape) == (post.shape, pre.shape)
    assert np.quantile(errors(transform, truth, post.shape), 0.95) < 0.05 * max(1, scale)
    assert any(reason.key == "coarse_pre" for reason in transform.reasons) == (scale < 1)
    used = found.blocks[found.blocks["used"]]
    centres = np.column_stack([used["x"], used["y"]])
    off = transform.map(centres) - np.column_stack([used["pre_x"], used["pre_y"]])
    np.testing.assert_allclose(
        np.hypot(*off.T) / 2.0 ** OCTAVES[scale], np.hypot(used["dx"], used["dy"]), atol=1e-6
    )
    taken = take_over(*images, SharedMap("DAPI", transform), SETTINGS).transform
    assert taken.status == transform.status
    np.testing.assert_array_equal(taken.matrix, transform.matrix)
    assert taken.error_px.p95 < 0.4


@pytest.mark.parametrize("seed", [6, 8])
def test_an_undeformed_pair_of_double_magnification_gets_no_field(seed):
    """The rim of its section is softer in one image, which is no deformation."""
    spec = PhantomSpec(
        shape=(700, 900), rotation_deg=1, scale=1.005, shift_px=(12, -9), rgb=False, seed=seed
    )
    renderer = Renderer(spec)
    post, pre = (renderer.pixels(i, Window.from_shape(renderer.shape(i))) for i in ("post", "pre"))
    pre = cv2.resize(pre, None, fx=2, fy=2, interpolation=cv2.INTER_LINEAR)
    found = register(ArrayPixels(post), ArrayPixels(pre), SETTINGS, expected_scale=2.0).transform
    assert (found.status, found.octaves, found.displacement) == ("ok", 1, None)
    rows, cols = np.mgrid[0 : post.shape[0] : 12, 0 : post.shape[1] : 12].astype(float)
    points = np.column_stack([cols.ravel(), rows.ravel()])
    points = points[renderer.scene.coverage(*points.T.copy()) > 0.95]
    there = apply_matrix(convert_levels(renderer.map.matrix, 0, -1), points)
    off = np.hypot(*(found.map(points) - there).T) / found.scale
    assert np.quantile(off, 0.95) < found.error_px.p95 < 0.03


def test_without_pixel_sizes_it_is_found_when_nothing_else_is():
    post, pre, truth = made(1.8)
    found = register(ArrayPixels(post), ArrayPixels(pre), SETTINGS).transform
    assert found.status == "ok", found.reasons
    assert np.quantile(errors(found, truth, post.shape), 0.95) < 0.1
    limited = structs.replace(SETTINGS, max_scale=1.25)
    refused = register(ArrayPixels(post), ArrayPixels(pre), limited).transform
    assert refused.status == "failed"
    assert "0.80 to 1.25" in refused.reasons[0].numbers
    assert "max_scale" in refused.reasons[0].numbers


def test_pixel_sizes_that_lie_do_not_keep_the_map_from_being_found():
    post, pre, truth = made(1.8)
    found = register(ArrayPixels(post), ArrayPixels(pre), SETTINGS, expected_scale=0.5).transform
    assert np.quantile(errors(found, truth, post.shape), 0.95) < 0.1
    (reason,) = check_headers(((0.5, 0.5), (1.0, 1.0)), found, SETTINGS)
    assert "0.50 times as large in pre. In the images it is 1.80" in reason.numbers


def test_landmarks_lead_to_another_magnification():
    post, pre, truth = made(4.0)
    places = np.array([[60.0, 70], [330, 80], [310, 320], [90, 300]])
    clicks = apply_matrix(truth, places) + np.array([[9, -7], [-8, 5], [6, 8], [-5, -9]])
    hints = UserHints(landmarks=Landmarks(places, clicks, tuple("abcd")))
    found = register(ArrayPixels(post), ArrayPixels(pre), SETTINGS, hints=hints).transform
    assert (found.status, found.coarse_method) == ("ok", "landmarks"), found.reasons
    assert np.quantile(errors(found, truth, post.shape), 0.95) < 0.2


def test_unrelated_images_are_refused_at_every_magnification():
    post, pre = render(np.eye(3), (600, 600), 5), render(np.eye(3), (900, 900), 6)
    found = register(ArrayPixels(post), ArrayPixels(pre), SETTINGS, expected_scale=2.0).transform
    assert found.status == "failed"
    assert "0.20 to 5.00" in found.reasons[0].numbers
    assert found.significance < 9


def test_each_search_more_asks_for_more_significance():
    ordinary = list(searches(SETTINGS, None))
    assert ordinary[0] == (0, 1.25, MIN_SIGNIFICANCE)
    assert {octaves for octaves, *_ in ordinary} == {-2, -1, 0, 1, 2}
    needed = [least for *_, least in ordinary]
    assert needed == sorted(set(needed))
    assert [o for o, *_ in searches(SETTINGS, 0.3)][:2] == [-2, 0]
    assert [o for o, *_ in searches(SETTINGS, 1.1)] == [o for o, *_ in ordinary]
    assert len(list(searches(structs.replace(SETTINGS, max_scale=1.25), 0.3))) == 1
    # every scale up to the largest is within reach of some search
    for scale in np.exp(np.linspace(np.log(0.2), np.log(5.0), 200)):
        assert any(2.0**k / r <= scale * 1.001 <= 2.0**k * r * 1.002 for k, r, _ in ordinary)


@pytest.mark.parametrize(
    ("post", "pre", "words"),
    [
        ((0.5, 0.5), (0.05, 0.05), ["0.5 um per px for post and 0.05 for pre", "10.00 times"]),
        ((0.3, 0.3), (0.45, 0.45), ["0.67 times as large in pre", "max_scale: 1.58"]),
    ],
)
def test_pixel_sizes_that_differ_by_more_than_is_searched_are_said(post, pre, words):
    settings = structs.replace(SETTINGS, max_scale=1.25)
    (reason,) = check_headers((post, pre), Transform("failed", (9, 9), (9, 9)), settings)
    assert all(word in reason.numbers + reason.help for word in words)
    assert ("set max_scale" in reason.help) == ("max_scale" in words[-1])


@pytest.mark.parametrize(
    ("post", "pre"), [(None, (0.5, 0.5)), ((0.5, 0.5), None), ((0.5, 0.5), (0.45, 0.45))]
)
def test_pixel_sizes_that_are_equal_or_unknown_are_not_mentioned(post, pre):
    for found in (
        Transform("failed", (9, 9), (9, 9)),
        Transform("ok", (9, 9), (9, 9), matrix=np.eye(3), scale=1.0),
    ):
        assert check_headers((post, pre), found, SETTINGS) == []


def test_a_coarser_view_is_the_pyramid_whether_it_is_stored_or_not():
    image = np.random.default_rng(1).integers(0, 999, (203, 317)).astype(np.uint16)
    stored, bare = Coarser(ArrayPixels(image, 4), 2), Coarser(ArrayPixels(image), 2)
    assert stored.shape == bare.shape == (50, 79)
    assert (stored.levels, bare.levels) == (2, 1)
    for level in (0, 1):
        window = Window(3, 20, 5, 31)
        np.testing.assert_allclose(stored.read(window, level), bare.read(window, level), rtol=1e-6)


@pytest.mark.parametrize("levels", [(0, 2), (2, 0)])
@pytest.mark.parametrize("image", ["post", "pre"])
def test_a_field_says_the_same_in_px_of_a_level(levels, image):
    rng = np.random.default_rng(2)
    matrix = similarity(5, 1.1, (3, 4), (900, 900))
    frame = np.eye(3) if image == "post" else matrix
    strips = Strips(image, "rows", frame, np.array([310.0, 620.0]), rng.normal(size=(3, 2)))
    smooth = 20 * gaussian_filter(rng.normal(size=(2, 10, 10)), (0, 2, 2))
    field = Displacement(128, smooth, np.ones((10, 10), np.float32), strips)
    whole = Transform("ok", (900, 900), (1000, 1000), matrix=matrix, displacement=field)
    seen = whole.convert_levels(*levels)
    points = rng.uniform(150, 750, (500, 2))
    up_post, up_pre = (to_level0(k) for k in levels)
    there = apply_matrix(up_pre, seen.map(apply_matrix(np.linalg.inv(up_post), points)))
    off = np.hypot(*(there - whole.map(points)).T)
    assert np.quantile(off, 0.99) < (5e-3 if levels[0] else 1e-9)
    assert seen.displacement.error_px.max() == pytest.approx(2.0 ** -levels[0])
    back = seen.displacement.convert_levels(*(-k for k in levels))
    np.testing.assert_allclose(back.coefficients, field.coefficients, atol=1e-2)


def test_a_finer_pre_is_averaged_onto_post():
    """White noise of a pre four times as fine becomes its mean over 16 px, not a sample."""
    rng = np.random.default_rng(3)
    pre = rng.normal(100, 16, (2048, 2048)).astype(np.float32)
    found = Transform("ok", (512, 512), pre.shape, matrix=to_level0(2), scale=4.0)
    seen = found.resampling_map
    image = Coarser(ArrayPixels(pre), max(0, found.octaves))
    warped = warp_window(image.read, image.shape, seen, Window.from_shape((512, 512)))
    assert warped.std() == pytest.approx(16 / 4, rel=0.02)
    np.testing.assert_allclose(warped, halve(halve(pre)), atol=1e-3)
    assert warped.mean() == pytest.approx(pre.mean(), abs=1e-3)
    assert found.resampling_map.convert_levels(0, 0).octaves == 2
    same = Transform("ok", (9, 9), (9, 9), matrix=np.eye(3), scale=1.4)
    assert same.resampling_map is same
