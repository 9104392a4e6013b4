"""Matching the blur of a pair: known widths are found, equal images stay as they are."""

from __future__ import annotations

import numpy as np
import pytest
from array_pixels import ArrayPixels
from made_cells import bin_pair, count_pair
from made_search import make_scene
from scipy import ndimage

from unglow.core.windows import Window
from unglow.detection.completeness import add_spots
from unglow.detection.images import Images as Pixels
from unglow.detection.snr import significance
from unglow.photometry.gain.estimate import Evidence
from unglow.photometry.gain.scale import ScaleSettings
from unglow.photometry.imaging import Blur, NoiseModel, blur_image
from unglow.photometry.sharpness import compare, estimate_matched, take_matched_cells
from unglow.photometry.spectra import choose_textured, measure
from unglow.transform import Quantiles, Transform

pytestmark = pytest.mark.slow

SIDE = 512
GAIN = 1.3
TOPS = 4000.0, 4000.0


def pair(seed, post_px=0.0, pre_px=0.0, post_noise=4.0, pre_noise=4.0, stained=False):
    """Grainy texture, blurred in one image or the other, with white noise."""
    rng = np.random.default_rng(seed)
    scene = ndimage.gaussian_filter(rng.normal(size=(SIDE, SIDE)), 1.3, mode="wrap")
    scene = 300 + 60 * scene / scene.std()
    images = []
    for gain, width, sigma in ((GAIN, post_px, post_noise), (1.0, pre_px, pre_noise)):
        soft = np.fft.ifft2(ndimage.fourier_gaussian(np.fft.fft2(scene), width)).real
        images.append(gain * soft + rng.normal(0, sigma, scene.shape))
    if stained:
        x, y = rng.uniform(10, SIDE - 10, (2, 300))
        spots = np.zeros(scene.shape)
        np.add.at(spots, (y.astype(int), x.astype(int)), rng.uniform(500, 4000, len(x)))
        images[0] += ndimage.gaussian_filter(spots, 1.5)
    post, pre = (np.rint(image) for image in images)
    return post.astype(np.uint16), pre.astype(np.float32)


def same_place():
    shape = SIDE, SIDE
    return Transform("ok", shape, shape, matrix=np.eye(3), error_px=Quantiles(0.0, 0.0))


def cells(post, pre):
    return bin_pair(post, pre, TOPS)


def sharpness_of(post, pre, post_noise=4.0, pre_noise=4.0):
    noise = NoiseModel(post_noise**2, 0.0, pre_noise**2, 0.0)
    read = (lambda w: post[w.slices]), (lambda w: pre[w.slices])
    return compare(
        measure(read, choose_textured(cells(post, pre)), TOPS, noise, same_place()), GAIN
    )


@pytest.mark.parametrize("width", [0.5, 0.8, 1.2])
@pytest.mark.parametrize("image", ["post", "pre"])
def test_a_known_blur_is_found_and_the_other_image_is_to_be_blurred(width, image):
    found = sharpness_of(*pair(1, **{f"{image}_px": width}))
    sign = 1 if image == "post" else -1
    assert found.width_px == pytest.approx(sign * width, abs=0.06)
    assert abs(found.width_px - sign * width) < 4 * found.error_px + 0.03
    assert found.blurred == ("pre" if image == "post" else "post")
    assert found.blur == Blur(found.blurred, abs(found.width_px))
    assert found.held_out < 0.98


def test_images_of_equal_sharpness_are_left_alone():
    for seed in range(20):
        found = sharpness_of(*pair(seed))
        assert found.blurred is None, (seed, found)
        assert abs(found.width_px) < 0.3, (seed, found)


@pytest.mark.parametrize(
    "change",
    [{"post_noise": 20.0}, {"pre_noise": 20.0}, {"stained": True}],
    ids=["noisy post", "noisy pre", "stain"],
)
def test_neither_noise_nor_stain_looks_like_blur(change):
    noise = {k: v for k, v in change.items() if k != "stained"}
    found = sharpness_of(*pair(3, **change), **noise)
    assert found.blurred is None
    changed = sharpness_of(*pair(3, post_px=0.8, **change), **noise)
    assert changed.blurred == "pre"
    assert changed.width_px == pytest.approx(0.8, abs=0.15)


def test_a_noise_model_that_is_wrong_does_little_harm():
    post, pre = pair(4, pre_px=0.8)
    found = sharpness_of(post, pre, post_noise=1.0, pre_noise=9.0)
    assert found.width_px == pytest.approx(-0.8, abs=0.1)


def test_too_little_to_look_at_gives_nothing():
    post, pre = pair(0)
    pre[100:, :] = np.nan
    assert sharpness_of(post, pre) is None
    assert sharpness_of(post[:40, :40], pre[:40, :40]) is None


@pytest.mark.parametrize("image", ["post", "pre"])
def test_cells_are_those_of_matching_images_whatever_the_blocks(image):
    rng = np.random.default_rng(5)
    shape = 560, 700
    post = rng.integers(50, 200, shape).astype(np.uint16)
    pre = rng.uniform(50, 200, shape).astype(np.float32)
    pre[200:220, 300:320] = np.nan
    post[300, 300] = 4000  # saturated
    blur = Blur(image, 1.0)
    made = take_matched_cells(cells(post, pre), (ArrayPixels(post), ArrayPixels(pre)), blur)
    whole = {"post": np.where(post == 4000, np.nan, post).astype(np.float32), "pre": pre}
    whole[image] = blur_image(whole[image], blur.taps)
    expected = cells(whole["post"], whole["pre"])
    full = made.count == 16
    assert 0.9 < full.mean() < 1
    for name in ("post", "pre", "post_var", "cov"):
        np.testing.assert_array_equal(getattr(made, name)[full], getattr(expected, name)[full])
    assert not full[300 // 4, 300 // 4]


def test_gain_is_nearer_and_the_difference_understood_once_the_images_match():
    post, pre = pair(6, post_px=1.2)
    evidence = Evidence(count_pair(post, pre), cells(post, pre), same_place())
    images = ArrayPixels(post), ArrayPixels(pre)
    matched = estimate_matched(evidence, images, ScaleSettings(("linear",)))
    never = estimate_matched(evidence, images, ScaleSettings(("linear",), match_blur="never"))
    assert never.sharpness is None
    assert never.blur is None
    assert matched.blur.image == "pre"
    # the texture is as fine as the blur, which makes gain and first noise model far off
    assert abs(matched.default_result.gain - GAIN) < 0.5 * abs(never.default_result.gain - GAIN)
    spread, without = (s.default_result.details["noise"]["spread"] for s in (matched, never))
    assert spread < 1.3 < without


@pytest.mark.parametrize("image", ["post", "pre", None])
def test_the_signal_to_noise_ratio_of_matched_noise_is_1(image):
    rng = np.random.default_rng(7)
    post, pre = (rng.normal(500, 10, (400, 400)).astype(np.float32) for _ in range(2))
    blur = Blur(image, 1.0) if image else None
    seen = {"post": post, "pre": pre}
    if blur is not None:
        seen[image] = blur_image(seen[image], blur.taps)
    left = seen["post"] - seen["pre"]
    scene = make_scene(post, pre, left, variance=100.0, saturation=(1e4, 1e4), blur=blur)
    whole = significance(scene, Window(20, 380, 20, 380)).snr
    assert np.nanstd(whole) == pytest.approx(1, abs=0.03)
    part = Window(100, 190, 50, 300)
    np.testing.assert_array_equal(significance(scene, part).snr, whole[part.shift(-20, -20).slices])
    core = Window(100, 300, 100, 300)
    spot = np.array([200.0]), np.array([200.0]), np.array([300.0])
    pixels = Pixels.read(scene, core)
    add_spots(pixels, core, spot, scene, rng)
    added = pixels.pixels[2] - scene.difference.read(core)
    light = pixels.pixels[0] - scene.post.read(core)
    assert light.max() > 200
    expected = blur_image(light, blur.taps) if image == "post" else light
    np.testing.assert_allclose(added, expected, atol=1e-3)
