"""Noise, blur and gain maps: equal in any window; a map is fitted where light is uneven alone."""

from __future__ import annotations

import re
from dataclasses import astuple, replace

import numpy as np
import pytest
from made_cells import bin_pair
from scipy import ndimage

from unglow.core.errors import StoreError
from unglow.core.windows import Window, grid
from unglow.photometry import imaging
from unglow.photometry.cells import Cells, find_aligned_cells
from unglow.photometry.difference import difference, subtract_evened
from unglow.photometry.difference_histogram import BackgroundMedians
from unglow.photometry.gain import linear, shading
from unglow.photometry.gain.robust import Limits
from unglow.photometry.gain.scale import MethodResult, Scale
from unglow.photometry.imaging import (
    Blur,
    GainMap,
    NoiseModel,
    Sharpness,
    blur_image,
    gaussian_taps,
)
from unglow.transform import Transform

SHAPE = (600, 760)


def some_map(limits=(0.8, 1.25)):
    coefficients = np.zeros((4, 4))
    coefficients[[0, 0, 2, 1], [0, 1, 0, 2]] = 1, 0.1, -0.05, 0.03
    return GainMap(SHAPE, coefficients, limits, 5.0)


def test_the_polynomial_is_that_of_its_coefficients():
    found = some_map()
    rows, cols = SHAPE
    x, y = np.array([0.0, 100.5, 759.0]), np.array([0.0, 599.0, 250.25])
    u, v = 2 * x / (cols - 1) - 1, 2 * y / (rows - 1) - 1
    expected = 1 + 0.1 * u - 0.05 * (3 * v**2 - 1) / 2 + 0.03 * v * (3 * u**2 - 1) / 2
    np.testing.assert_allclose(found.evaluate(np.stack([x, y], axis=1)), expected, rtol=1e-12)
    tight = some_map((0.99, 1.01)).evaluate(np.stack([x, y], axis=1))
    np.testing.assert_allclose(tight, np.clip(expected, 0.99, 1.01))


@pytest.mark.parametrize("block", [(64, 64), (600, 5), (7, 760), (1, 1000)])
def test_a_pixel_is_the_same_in_any_window(block):
    found = some_map()
    whole = found.evaluate_window(Window.from_shape(SHAPE))
    y, x = np.indices(SHAPE)
    points = np.stack([x.ravel(), y.ravel()], axis=1)
    np.testing.assert_allclose(whole.ravel(), found.evaluate(points), rtol=1e-6)
    for window in grid(SHAPE, block):
        np.testing.assert_array_equal(found.evaluate_window(window), whole[window.slices])


def test_the_difference_scales_light_and_not_the_offset_of_the_camera():
    found = some_map()
    rng = np.random.default_rng(0)
    pre = rng.uniform(20, 90, SHAPE).astype(np.float32)
    pre[5, 7] = np.nan
    relative = found.evaluate_window(Window.from_shape(SHAPE)).astype(np.float64)
    post = relative * (1.5 * pre - 3) + 5  # c1 is -3, c0 is 5
    post = np.nan_to_num(post).astype(np.float32)
    whole = subtract_evened(post, pre, 1.5, 2.0, found, Window.from_shape(SHAPE))
    assert np.isnan(whole[5, 7])
    assert np.nanmax(np.abs(whole)) < 1e-4
    assert np.nanmax(np.abs(difference(post, pre, 1.5, 2.0))) > 5
    for window in grid(SHAPE, (128, 100)):
        part = subtract_evened(post[window.slices], pre[window.slices], 1.5, 2.0, found, window)
        np.testing.assert_array_equal(part, whole[window.slices])


def test_gain_and_offset_where_light_is_stronger():
    # post = m * (1.5 * pre - 3) + 5, so that where m is 1 the offset is 2
    gain, offset = some_map().line(np.array([1.0, 2.0, 0.5]), 1.5, 2.0)
    assert gain.tolist() == [1.5, 3.0, 0.75]
    assert offset.tolist() == [2.0, -1.0, 3.5]


@pytest.mark.parametrize(
    "arrays",
    [
        {"parameters": [2, 600, 760, 0.8, 1.25, 5], "coefficients": np.eye(4)},
        {"parameters": [1, 600, 760, 0.8, 1.25], "coefficients": np.eye(4)},
        {"parameters": [1, 600, 760, 0.8, 1.25, 5]},
        {"parameters": 1.0, "coefficients": np.eye(4)},
    ],
)
def test_a_file_of_another_version_or_kind_is_named(tmp_path, arrays):
    path = tmp_path / "gain_map.npz"
    np.savez(path, **arrays)
    with pytest.raises(StoreError, match=rf"^{re.escape(str(path))} is damaged"):
        imaging.load_gain_map(path)


def test_a_file_holds_a_map_or_none(tmp_path):
    path = tmp_path / "gain_map.npz"
    imaging.save_gain_map(path, some_map())
    read = imaging.load_gain_map(path)
    assert read.digest == some_map().digest
    assert (read.shape, read.limits, read.dark) == (SHAPE, (0.8, 1.25), 5.0)
    assert [type(n) for n in read.shape] == [int, int]
    assert some_map((0.8, 1.2)).digest != read.digest
    imaging.save_gain_map(path, None)
    assert imaging.load_gain_map(path) is None


def fitted(amplitude, *, gain=1.3, offsets=(3.0, 8.0), seed=0, shape=(768, 768)):
    """Line, map and the true relative gain of a pair under uneven light."""
    rng = np.random.default_rng(seed)
    y, x = np.indices(shape)
    v, u = 2 * y / (shape[0] - 1) - 1, 2 * x / (shape[1] - 1) - 1
    true = 1 + amplitude * np.cos(1.7 * u + 0.4) * np.cos(1.7 * v - 0.3)
    light = 60 + 35 * np.sin(x / 9) * np.cos(y / 7) + 15 * np.sin(x / 60)
    light[:, :100] = 0  # glass
    pre = rng.poisson(8 * light) / 8 + rng.normal(offsets[0], 0.5, shape)
    post = rng.poisson(8 * gain * true * light) / 8 + rng.normal(offsets[1], 0.5, shape)
    post, pre = (np.clip(np.rint(v), 0, 255).astype(np.float32) for v in (post, pre))
    bins = bin_pair(post, pre)
    here = Transform("ok", shape, shape, matrix=np.eye(3))
    cells = Cells.from_moments(bins, find_aligned_cells(bins, here), here)
    limits = Limits(0.0, *bins.tops, 1.0)
    plain = linear.fit(cells, limits)
    found = shading.find(cells, limits, plain, shape)
    return found, true, (post, pre)


def test_uneven_light_is_found_with_both_offsets():
    found, true, (post, pre) = fitted(0.2)
    assert found.held_out < 0.5
    window = Window.from_shape(true.shape)
    inside = pre > 20
    ratio = found.map.evaluate_window(window)[inside] * found.line.gain / (1.3 * true[inside])
    assert np.abs(ratio - 1).max() < 0.01
    assert np.quantile(np.abs(ratio - 1), 0.95) < 0.004
    assert found.map.dark == pytest.approx(8.0, abs=1.0)
    assert found.line.offset == pytest.approx(8 - 3 * found.line.gain, abs=0.5)
    left = subtract_evened(post, pre, found.line.gain, found.line.offset, found.map, window)
    medians = BackgroundMedians.create(true.shape)
    medians.add(left, (0, 0))
    assert np.median(np.abs(medians.medians)) < 0.15
    assert np.abs(medians.medians).max() < 1
    # where these change, results do: the ``version`` of the stage has to be raised
    values = (found.held_out, found.line.gain, found.line.offset, found.map.dark,
              *found.map.limits, *astuple(found.line.half))  # fmt: skip
    expected = (0.18905871106, 1.3790879801, 3.8754937618, 7.2989122521, 0.85037206901,
                1.1292054691, 0.00096932024527, 0.057088755732, 0.00035065740048,
                0.018988496233)  # fmt: skip
    assert values == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("seed", range(3))
def test_even_light_gets_no_map(seed):
    assert fitted(0.0, seed=seed)[0] is None


def test_medians_of_squares_are_those_of_the_pixels(tmp_path):
    rng = np.random.default_rng(4)
    image = (np.rint(rng.normal(0, 3, (200, 330)) * 32) / 32).astype(np.float32)
    image[:64, :40] = np.nan  # more than half of the first square
    image[64:128, :30] = np.nan
    whole = BackgroundMedians.create(image.shape)
    whole.add(image, (0, 0))
    assert whole.medians.shape == (4, 6)
    for i, j in np.ndindex(4, 6):
        square = image[64 * i : 64 * i + 64, 64 * j : 64 * j + 64]
        if np.isnan(square).mean() > 0.5:
            assert np.isnan(whole.medians[i, j])
        else:
            assert whole.medians[i, j] == np.nanmedian(square)
    for block in ((64, 128), (128, 330), (256, 64)):
        parts = BackgroundMedians.create(image.shape)
        for window in grid(image.shape, block):
            parts.add(image[window.slices], (window.y0, window.x0))
        for made, name in ((whole, "a"), (parts, "b")):
            made.save(tmp_path / name)
        assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    read = BackgroundMedians.load(tmp_path / "a")
    np.testing.assert_array_equal(read.medians, whole.medians)
    with pytest.raises(ValueError, match="cuts through squares"):
        whole.add(image[:32], (32, 0))


def test_a_gain_map_that_is_not_the_one_of_the_scale_is_refused(tmp_path):
    found = some_map()
    details = {"gain_map": {"degree": 3, "sha256": found.digest}}
    linear_result = MethodResult(1.5, 2.0, (1.4, 1.6), details, None, (1.0, 3.0), found)
    Scale("linear", {"linear": linear_result}).save(tmp_path / "scale.json")
    light = tmp_path / "gain_map.npz"
    imaging.save_gain_map(light, found)
    assert Scale.load(tmp_path / "scale.json", light).gain_map.digest == found.digest
    for other in (some_map((0.9, 1.1)), None):
        imaging.save_gain_map(light, other)
        with pytest.raises(StoreError, match=r"gain_map\.npz is damaged"):
            Scale.load(tmp_path / "scale.json", light)


def test_variance_grows_with_the_level_of_each_image():
    model = NoiseModel(post_read=2.0, post_shot=0.5, pre_read=1.0, pre_shot=0.25)
    post = np.array([[0, 10], [100, 200]], np.uint16)
    found = model.variance_post(post)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, [[2, 7], [52, 102]])
    np.testing.assert_array_equal(model.variance_pre(np.float32([4, np.nan])), [2, np.nan])


def test_no_px_has_less_than_the_noise_of_rounding():
    model = NoiseModel(post_read=-50.0, post_shot=0.5, pre_read=0.0, pre_shot=0.0)
    found = model.variance_post(np.array([0, 100, 104], np.uint8))
    np.testing.assert_allclose(found, [1 / 12, 1 / 12, 2], rtol=1e-6)
    assert model.variance_pre(np.zeros(1, np.float32))[0] == pytest.approx(1 / 12)


@pytest.mark.parametrize("width", [0.3, 0.5, 1.0, 2.0])
def test_weights_are_those_of_a_gaussian(width):
    taps = gaussian_taps(width)
    steps = np.arange(len(taps)) - len(taps) // 2
    assert taps.sum() == pytest.approx(1, abs=1e-12)
    np.testing.assert_array_equal(taps, taps[::-1])
    for w in (0.3, 1.0, 2.0):
        transfer = (taps * np.cos(steps * w)).sum()
        assert transfer == pytest.approx(np.exp(-0.5 * (width * w) ** 2), abs=0.01)


@pytest.mark.parametrize("width", [0.0, -1.0, 2.5])
def test_other_widths_are_refused(width):
    with pytest.raises(ValueError, match="is not between 0 and 2 px"):
        gaussian_taps(width)


def test_a_blurred_px_is_the_same_in_any_window_and_nothing_comes_of_no_data():
    rng = np.random.default_rng(0)
    image = rng.normal(100, 20, (150, 131)).astype(np.float32)
    image[40:60, 30:35] = np.nan
    image[100, 100] = np.nan
    blur = Blur("pre", 0.9)

    def read(window):
        return image[window.slices]

    whole = blur.blur_window(read, image.shape, Window.from_shape(image.shape))
    np.testing.assert_array_equal(np.isnan(whole), np.isnan(image))
    for block in ((64, 64), (150, 9), (7, 131), (33, 50)):
        for window in grid(image.shape, block):
            np.testing.assert_array_equal(
                blur.blur_window(read, image.shape, window), whole[window.slices]
            )
    flat = np.where(np.isnan(image), np.float32(np.nan), np.float32(7))
    found = blur_image(flat, blur.taps)
    np.testing.assert_allclose(found[~np.isnan(flat)], 7, rtol=1e-5)
    inner = ndimage.gaussian_filter(np.nan_to_num(image), 0.9)[110:140, 20:80]
    np.testing.assert_allclose(whole[110:140, 20:80], inner, atol=0.5)


def test_scale_json_keeps_what_was_found(tmp_path):
    measured = Sharpness(-0.81, 0.02, "post", 0.7, 120)
    scale = replace(Scale.make_failed("why"), sharpness=measured)
    scale.save(tmp_path / "scale.json")
    assert Scale.load(tmp_path / "scale.json").sharpness == measured
    assert scale.blur == Blur("post", 0.81)
    assert Scale.make_failed("why").blur is None
    assert replace(scale, sharpness=replace(measured, blurred=None)).blur is None
