"""Noise that is known, found again in variances inside cells."""

from __future__ import annotations

import numpy as np
import pytest
from made_cells import bin_pair
from scipy import ndimage

from unglow.core.records import to_record
from unglow.core.windows import Window
from unglow.images.stored_values import quantise
from unglow.photometry.cell_moments import CellMoments
from unglow.photometry.gain.estimate import Evidence, estimate
from unglow.photometry.gain.scale import Scale, ScaleSettings
from unglow.photometry.imaging import NoiseModel
from unglow.photometry.joint_histogram import JointStatistics
from unglow.photometry.noise_fit import fit_noise
from unglow.transform import Transform
from unglow.transform.resample import warp_window

GAIN, OFFSET = 1.5, 6.0
POST = 9.0, 0.8  # read-out variance and its growth with the level
PRE = 4.0, 0.5
MATRICES = {
    "same px": np.eye(3),
    "a shift of 0.3 px": np.array([[1, 0, 0.3], [0, 1, 0.3], [0, 0, 1.0]]),
    "turned": np.array([[0.9986, -0.0523, 9.1], [0.0523, 0.9986, -4.0], [0, 0, 1]]),
}


def texture(shape, matrix, grain):
    """Levels from 40 to 400 or so, smooth over ``grain`` px, at the px that a matrix sends to.

    Contrast comes in patches, as in real sections.
    """
    random = np.random.default_rng(3)
    coarse = 200 + 40 * random.standard_normal((90, 90))
    fine = 30 * random.standard_normal((300, 300))
    y, x = np.indices(shape).astype(float)
    u, v = (row[0] * x + row[1] * y + row[2] for row in matrix[:2])
    light = ndimage.map_coordinates(coarse, [v / 16 + 12, u / 16 + 12])
    patches = np.clip(np.sin(u / 40) * np.sin(v / 55), 0, 1)
    if grain:
        light += patches * ndimage.map_coordinates(fine, [v / grain + 12, u / grain + 12])
    return np.maximum(light, 40)


def samples(name, *, shape=(600, 500), stain=0.0, grain=0.0, seed=0, dtype=np.uint16):
    """Cells of a pair with known noise, and the map."""
    random = np.random.default_rng(seed)
    matrix = MATRICES[name]
    post = GAIN * texture(shape, matrix, grain) + OFFSET
    pre = texture((shape[0] + 40, shape[1] + 40), np.eye(3), grain)
    post += 60 * (random.random(shape) < stain)
    post, pre = (
        light + np.sqrt(read + shot * light) * random.standard_normal(light.shape)
        for light, (read, shot) in ((post, POST), (pre, PRE))
    )
    if np.dtype(dtype).kind == "u":
        post, pre = np.rint(post), np.rint(pre)
    post, pre = post.astype(dtype), pre.astype(dtype)
    transform = Transform("ok", shape, pre.shape, matrix=matrix)
    aligned = quantise(
        warp_window(lambda w: pre[w.slices], pre.shape, transform, Window.from_shape(shape))
    )
    return bin_pair(post, aligned, (float(post.max()), float(pre.max()))), transform


def ratios(model):
    """Found over true variance of post and pre, at three levels each."""
    post, pre = np.array([100, 300, 500.0]), np.array([80, 200, 320.0])
    rounding = 1 / 12
    return np.concatenate(
        [
            model.variance_post(post) / (POST[0] + rounding + POST[1] * post),
            model.variance_pre(pre) / (PRE[0] + rounding + PRE[1] * pre),
        ]
    )


@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("stain", [0.0, 0.001])
def test_both_noises_are_found_apart(name, stain):
    found = fit_noise(*_arguments(samples(name, stain=stain)))
    np.testing.assert_allclose(ratios(found.model), 1, atol=0.06)
    assert found.model.spread == pytest.approx(1, abs=0.05)


def _arguments(made):
    bins, transform = made
    return bins, GAIN, OFFSET, transform


def test_texture_out_of_register_is_distinguished_from_noise():
    """Cells of a map that is 0.5 px off: what is left of texture grows with the gradient."""
    bins, transform = samples("same px", grain=3.0)
    shifted = CellMoments.create(bins.shape, bins.tops)
    random = np.random.default_rng(1)
    light = texture(bins.shape, np.array([[1, 0, 0.5], [0, 1, 0], [0, 0, 1.0]]), 3.0)
    post = GAIN * light + OFFSET
    post += np.sqrt(POST[0] + POST[1] * post) * random.standard_normal(post.shape)
    pre = texture(bins.shape, np.eye(3), 3.0)
    pre += np.sqrt(PRE[0] + PRE[1] * pre) * random.standard_normal(pre.shape)
    shifted.add(np.rint(post).astype(np.uint16), np.rint(pre).astype(np.float32))
    aligned, off = (fit_noise(some, GAIN, OFFSET, transform) for some in (bins, shifted))
    assert aligned.registration < 0.03
    # 0.5 px along x: 0.25 px^2 along one of two axes
    assert 0.04 < off.registration < 0.25
    total = np.array([300.0])
    noise = [
        f.model.variance_post(total) + GAIN**2 * f.model.variance_pre(total / GAIN)
        for f in (aligned, off)
    ]
    # against twice as much in the median cell if texture were taken for noise
    assert noise[1][0] == pytest.approx(noise[0][0], rel=0.1)


def test_a_pre_image_without_noise_of_its_own_is_distinguished_from_post():
    bins, transform = samples("turned")
    shape = bins.shape
    random = np.random.default_rng(4)
    pre = texture(shape, transform.matrix, 0.0)
    post = GAIN * pre + OFFSET
    post += np.sqrt(POST[0] + POST[1] * post) * random.standard_normal(shape)
    bins = bin_pair(post.astype(np.float32), pre.astype(np.float32), bins.tops)
    model = fit_noise(bins, GAIN, OFFSET, transform, integer=False).model
    np.testing.assert_allclose(ratios(model)[:3], 1, atol=0.06)
    assert (model.variance_pre(np.array([80, 200, 320])) < 2).all()


def test_too_few_cells_are_refused():
    with pytest.raises(ValueError, match=r"only \d+ cells of 4 x 4 px"):
        fit_noise(*_arguments(samples("same px", shape=(40, 40))))


def test_real_numbers_have_no_noise_of_rounding():
    bins, transform = samples("turned", dtype=np.float32)
    found = fit_noise(bins, GAIN, OFFSET, transform, integer=False)
    assert found.model.least == 0
    np.testing.assert_allclose(ratios(found.model), 1, atol=0.06)


def test_flat_images_have_the_noise_of_rounding_at_least():
    shape = (200, 200)
    images = np.full(shape, 90, np.uint8), np.full(shape, 60, np.float32)
    bins = bin_pair(*images, (255.0, 255.0))
    found = fit_noise(bins, 1.5, 0.0, Transform("ok", shape, shape, matrix=np.eye(3)))
    np.testing.assert_allclose(found.model.variance_post(np.array([90])), 1 / 12, rtol=1e-3)
    np.testing.assert_allclose(found.model.variance_pre(np.array([60])), 1 / 12, rtol=1e-3)


def test_noise_that_px_share_spreads_means_more_than_white_noise():
    bins, transform = samples("same px")
    assert fit_noise(bins, GAIN, OFFSET, transform).model.spread < 1.05
    shared = CellMoments.create(bins.shape, bins.tops)
    random = np.random.default_rng(6)
    light = texture(bins.shape, np.eye(3), 0.0)
    post, pre = (
        level + 8 * ndimage.gaussian_filter(random.standard_normal(bins.shape), 1.5) / 0.19
        for level in (GAIN * light + OFFSET, light)
    )
    shared.add(post.astype(np.uint16), pre.astype(np.float32))
    assert fit_noise(shared, GAIN, OFFSET, transform).model.spread > 1.5


def test_scale_json_holds_the_noise_of_the_default_method(tmp_path):
    bins, transform = samples("turned")
    statistics = JointStatistics.create(
        post_range=(0, 65535), pre_range=(0, 65535), grey_level=1, integer=True
    )
    manual = ScaleSettings(methods=("manual",), manual=GAIN, default="manual")
    scale = estimate(Evidence(statistics, bins, transform), manual)
    scale.save(tmp_path / "scale.json")
    entry = Scale.load(tmp_path / "scale.json").default_result.details["noise"]
    expected = fit_noise(bins, GAIN, 0.0, transform).model
    assert to_record(entry, NoiseModel).post_shot == pytest.approx(expected.post_shot, rel=1e-5)
    small, transform = samples("turned", shape=(40, 40))
    without = estimate(Evidence(statistics, small, transform), manual)
    assert "noise" not in without.default_result.details
    assert any(r.key == "noise_unknown" and r.numbers.startswith("only") for r in without.reasons)
