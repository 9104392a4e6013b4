"""Pixels that make every ratio wrong are reported; ordinary ones are not."""

from __future__ import annotations

import numpy as np
import pytest

from unglow.photometry.gain.estimate import Evidence, estimate
from unglow.photometry.gain.scale import ScaleSettings
from unglow.photometry.gain.warnings import background_warnings, pixel_warnings
from unglow.photometry.joint_histogram import JointStatistics

GAIN = 1.3
RATIOS = ScaleSettings(("moffat", "percentile"))


def statistics(pedestal=0.0, *, top=255.0, dark=0.4):
    """Joint statistics of a section of grey levels 20 to 150 on a dark background."""
    rng = np.random.default_rng(1)
    texture = rng.uniform(20, 150, (512, 512)) * (rng.random((512, 512)) > dark)
    pre = np.rint(texture + rng.normal(0, 0.7, texture.shape) + pedestal).astype(np.float32)
    post = np.rint(GAIN * texture + rng.normal(0, 0.7, texture.shape) + pedestal)
    post = np.minimum(post, top).astype(np.float32)
    ranges = (float(post.min()), float(post.max())), (float(pre.min()), float(pre.max()))
    made = JointStatistics.create(
        post_range=ranges[0], pre_range=ranges[1], grey_level=1.0, integer=True
    )
    made.add(post, pre)
    return made


@pytest.mark.parametrize("dark", [0.0, 0.4, 0.9])
def test_noise_around_zero_raises_no_doubt(dark):
    scale = estimate(Evidence(statistics(dark=dark)), RATIOS)
    assert scale.reasons == ()
    assert scale.default_result.gain == pytest.approx(GAIN, rel=0.02)


@pytest.mark.parametrize(
    ("pedestal", "words"),
    [
        (-20, "The dark pixels of post lie near -20 and not near 0"),
        (40, "post grows 1.3 times as fast as pre while the gain is 1"),
        (60, "post grows 1.3 times as fast as pre while the gain is 1"),
    ],
)
def test_a_pedestal_makes_the_gain_doubtful(pedestal, words):
    scale = estimate(Evidence(statistics(pedestal)), RATIOS)
    assert scale.status == "ok"
    assert any(words in reason for reason in scale.reasons), scale.reasons


def test_a_small_pedestal_that_changes_little_raises_no_doubt():
    settings = ScaleSettings(methods=("percentile",), percentile=70)
    assert estimate(Evidence(statistics(4)), settings).reasons == ()


def test_a_gain_set_by_hand_is_not_compared():
    settings = ScaleSettings(methods=("manual",), manual=1.0, default="manual")
    assert estimate(Evidence(statistics(20)), settings).reasons == ()


def test_a_saturated_post_is_reported_with_its_share():
    (reason,) = estimate(Evidence(statistics(top=120.0)), RATIOS).reasons
    assert "of the post pixels have its largest value (120)" in reason


def test_few_pixels_at_the_top_of_an_image_below_an_offset_are_no_saturation():
    """Where all values of pre are negative no pixel has a ratio; some have the largest value."""
    stats = statistics(-155.0)
    assert stats.n["post_at_maximum"] > 0.05 * stats.n["ratio"]
    assert pixel_warnings(stats, GAIN, "linear") == []


def test_one_image_twice_has_gain_one():
    image = np.arange(400, dtype=np.float32).reshape(20, 20)
    made = JointStatistics.create(
        post_range=(0, 399), pre_range=(0, 399), grey_level=1.0, integer=True
    )
    made.add(image, image)
    result = estimate(Evidence(made), ScaleSettings(methods=("moffat",))).default_result
    assert (result.gain, result.offset, result.gain_ci95) == (1.0, 0.0, None)


@pytest.mark.parametrize(
    ("spread", "words"),
    [
        (None, []),
        (2.9, []),
        (4.84, ["scatters 4.8 times as much as noise explains"]),
    ],
)
def test_a_background_that_is_another_one_is_doubtful(spread, words):
    warnings = background_warnings(spread)
    assert len(warnings) == len(words)
    assert all(word in sentence for word, sentence in zip(words, warnings, strict=True))
