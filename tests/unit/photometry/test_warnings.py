"""Pixels that make every ratio wrong are reported; ordinary ones are not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from array_pixels import ArrayPixels
from made_cells import bin_pair, count_pair
from scipy import ndimage

from unglow.core.reasons import explain, from_json, split_notes, to_json
from unglow.core.windows import Window
from unglow.images.stored_values import quantise
from unglow.photometry.gain.estimate import Evidence, estimate
from unglow.photometry.gain.scale import ScaleSettings
from unglow.photometry.gain.warnings import (
    background_warnings,
    copy_warnings,
    is_copy,
    level_warnings,
    pixel_warnings,
)
from unglow.registration.register import register
from unglow.results.pair import judge
from unglow.transform.resample import warp_window

GAIN = 1.3
RATIOS = ScaleSettings(("moffat", "percentile"))


def statistics(pedestal=0.0, *, top=255.0, dark=0.4, cut=None):
    """Joint statistics of a section of grey levels 20 to 150 on a dark background."""
    rng = np.random.default_rng(1)
    texture = rng.uniform(20, 150, (512, 512)) * (rng.random((512, 512)) > dark)
    pre = np.rint(texture + rng.normal(0, 0.7, texture.shape) + pedestal).astype(np.float32)
    post = np.rint(GAIN * texture + rng.normal(0, 0.7, texture.shape) + pedestal)
    post = np.minimum(post, top).astype(np.float32)
    if cut is not None:  # the image is exported with a higher black level
        pre = np.maximum(pre - cut, 0)
    return count_pair(post, pre)


@pytest.mark.parametrize("dark", [0.0, 0.4, 0.9])
def test_noise_around_zero_raises_no_doubt(dark):
    scale = estimate(Evidence(statistics(dark=dark)), RATIOS)
    assert scale.reasons == ()
    assert scale.default_result.gain == pytest.approx(GAIN, rel=0.02)


@pytest.mark.parametrize(
    ("pedestal", "words"),
    [
        (-20, "They are near -20."),
        (40, "post grows 1.3 times as fast as pre; the gain is 1"),
        (60, "post grows 1.3 times as fast as pre; the gain is 1"),
    ],
)
def test_a_pedestal_makes_the_gain_doubtful(pedestal, words):
    scale = estimate(Evidence(statistics(pedestal)), RATIOS)
    assert scale.status == "ok"
    assert any(words in reason.numbers for reason in scale.reasons), scale.reasons


def test_a_small_pedestal_that_changes_little_raises_no_doubt():
    settings = ScaleSettings(methods=("percentile",), percentile=70)
    assert estimate(Evidence(statistics(4)), settings).reasons == ()
    # of more than two grey levels, where the gain is off by more than a tenth
    gains = [(3, 1.0), (4, 1.19), (4, 1.15)]
    assert [len(pixel_warnings(statistics(p), g, "moffat")) for p, g in gains] == [0, 0, 1]


def test_a_gain_set_by_hand_is_not_compared():
    settings = ScaleSettings(methods=("manual",), manual=1.0, default="manual")
    assert estimate(Evidence(statistics(20)), settings).reasons == ()


@pytest.mark.parametrize("dark", [0.0, 0.4])
@pytest.mark.parametrize(("cut", "count"), [(None, 0), (-10, 0), (25, 1), (80, 1)])
def test_a_pre_that_lost_its_darkest_levels_is_named(dark, cut, count):
    warnings = level_warnings(statistics(dark=dark, cut=cut))
    assert [one.key for one in warnings] == ["pre_dark_end"] * count


def test_what_follows_from_a_pre_that_lost_its_darkest_levels_is_not_said():
    (lost,) = level_warnings(statistics(cut=25))
    swapped = to_json([explain("swapped", dark=30, bright=1, ends=7.0)])
    detection = {"status": "ok", "reasons": swapped}
    for reasons in ((lost,), ()):
        scale = replace(estimate(Evidence(statistics()), RATIOS), reasons=reasons)
        state, said, _ = judge(None, None, scale, detection)
        assert (state, said) == ("suspect", [lost] if reasons else from_json(swapped))


def test_cells_that_a_dark_pre_does_not_show_are_no_lost_levels():
    rng = np.random.default_rng(2)
    pre = np.rint(np.maximum(rng.normal(0.3, 0.5, (512, 512)), 0)).astype(np.float32)
    post = np.rint(2 * pre + rng.normal(5, 1, pre.shape) + 90 * (rng.random(pre.shape) < 0.2))
    assert level_warnings(count_pair(post.astype(np.float32), pre)) == []


def test_a_saturated_post_is_reported_with_its_share():
    cut = statistics(top=120.0)
    (reason,) = estimate(Evidence(cut), RATIOS).reasons
    assert reason == "The stained image is probably saturated, and the gain too low."
    assert reason.numbers == "27 % of its pixels have its largest value (120)."
    (reason,) = pixel_warnings(cut, GAIN, "linear")
    assert "its difference there too low" in reason


def test_few_pixels_at_the_top_of_an_image_below_an_offset_are_no_saturation():
    """Where all values of pre are negative no pixel has a ratio; some have the largest value."""
    stats = statistics(-155.0)
    assert stats.n["post_at_maximum"] > 0.05 * stats.n["ratio"]
    assert pixel_warnings(stats, GAIN, "linear") == []


@pytest.mark.parametrize(
    ("spread", "words"),
    [(None, []), (2.9, []), (4.84, ["scatters 4.8 times as much as noise explains"])],
)
def test_a_background_that_is_another_one_is_noted(spread, words):
    warnings = background_warnings(spread)
    assert split_notes(warnings) == ([], warnings)
    assert len(warnings) == len(words)
    assert all(word in one.numbers for word, one in zip(words, warnings, strict=True))


SHAPE = (512, 640)


def light(seed=0, mean=60.0):
    rng = np.random.default_rng(seed)
    rough = ndimage.gaussian_filter(rng.normal(size=SHAPE), 3)
    wide = ndimage.gaussian_filter(rng.normal(size=SHAPE), 30)
    return mean * np.clip(1 + 0.35 * rough / rough.std() + 0.3 * wide / wide.std(), 0, None)


def exposed(level, seed, electrons=8.0, read=0.5):
    rng = np.random.default_rng([seed, 7])
    noisy = rng.poisson(level * electrons) / electrons + rng.normal(5, read, level.shape)
    return np.clip(np.rint(noisy), 0, 65535)


def cells(post, pre):
    tops = float(np.nanmax(post)) + 1, float(np.nanmax(pre)) + 1
    return bin_pair(post.astype(np.float32), pre.astype(np.float32), tops)


@pytest.mark.parametrize("gain", [1.0, 0.4, 0.8, 1.7, 12.5])
@pytest.mark.parametrize("offset", [0.0, 7.0])
def test_a_copy_with_another_gain_and_offset_is_one(gain, offset):
    image = exposed(light(), 1)
    assert is_copy(cells(np.rint(gain * image + offset), image), integer=True)
    assert is_copy(cells(image, np.rint(gain * image + offset)), integer=True)


def test_a_copy_under_other_light_is_one():
    image = exposed(light(), 1)
    uneven = 1 + 0.2 * np.sin(np.arange(SHAPE[1]) / 200)
    assert is_copy(cells(np.rint(image * uneven), image), integer=True)


def test_a_copy_of_real_numbers_is_one():
    image = exposed(light(), 1) / 255
    assert is_copy(cells(1.3 * image + 0.01, image), integer=False)
    other = exposed(light(), 2) / 255
    assert not is_copy(cells(1.3 * other + 0.01, image), integer=False)


@pytest.mark.parametrize("shift", [(0, 0), (7, -12), (-30, 5)])
def test_a_copy_that_is_shifted_by_whole_px_is_one_after_registration(shift):
    image = exposed(light(), 1)
    post, pre = image.astype(np.uint16), np.roll(image, shift, (0, 1)).astype(np.uint16)
    found = register(ArrayPixels(post), ArrayPixels(pre)).transform
    assert not found.has_failed
    aligned = warp_window(lambda w: pre[w.slices], pre.shape, found, Window.from_shape(post.shape))
    assert is_copy(cells(post, quantise(aligned)), integer=True)


@pytest.mark.parametrize("gain", [0.4, 1.0, 1.9])
@pytest.mark.parametrize("electrons", [2.0, 8.0, 200.0])
def test_two_exposures_are_not_one(gain, electrons):
    scene = light()
    post, pre = exposed(gain * scene, 3, electrons, 0.3), exposed(scene, 4, electrons, 0.3)
    assert not is_copy(cells(post, pre), integer=True)


def test_dark_images_say_nothing():
    dark = np.zeros(SHAPE)
    assert not is_copy(cells(dark, dark), integer=True)


def test_two_exposures_of_few_grey_levels_are_not_called_a_copy():
    scene = light()
    post, pre = (np.floor(exposed(scene, seed, 8.0, 0.3) / 16) for seed in (3, 4))
    assert is_copy(cells(post, pre), integer=True)
    (warning,) = copy_warnings(cells(post, pre), integer=True)
    assert "a copy, or too few grey levels" in warning
    image = exposed(light(), 1)
    (warning,) = copy_warnings(cells(image, image), integer=True)
    assert "one is probably a copy of the other" in warning
