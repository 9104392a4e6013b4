"""Gains that are known, methods that must fail with a sentence, and scale.json."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from made_cells import count_pair

from unglow.photometry.gain import moffat
from unglow.photometry.gain.estimate import Evidence, estimate
from unglow.photometry.gain.scale import MethodResult, Scale, ScaleSettings
from unglow.photometry.joint_histogram import ratio_edges

RATIOS = ScaleSettings(("moffat", "percentile"))


def section(gain, *, offset=0.0, stain=0.0, shape=(600, 700), seed=0):
    """Statistics of a smooth section with shot noise; a share of the pixels is stained."""
    random = np.random.default_rng(seed)
    y, x = np.indices(shape)
    light = 60 * (1.3 + np.sin(x / 37) * np.cos(y / 53)) + 5
    added = random.exponential(40, shape) * (random.random(shape) < stain)
    post = np.clip(random.poisson((gain * light + added) * 8) / 8 + offset, 0, 65535)
    pre = random.poisson(light * 8) / 8
    post, pre = np.rint(post).astype(np.uint16), np.float32(np.round(pre * 32) / 32)
    return count_pair(post, pre, post_range=(0, 2000), pre_range=(0, 500))


@pytest.mark.parametrize("gain", [0.8, 1.3, 2.0, 3.0])
@pytest.mark.parametrize("stain", [0.0, 0.1])
def test_known_gains_are_found(gain, stain):
    scale = estimate(Evidence(section(gain, stain=stain)), RATIOS)
    assert scale.status == "ok"
    assert scale.default_result.gain == pytest.approx(gain, rel=0.02)
    assert scale.default_result.details["converged"]
    assert scale.default_result.offset == 0


def test_stain_moves_the_median_more_than_moffat():
    scale = estimate(Evidence(section(1.5, stain=0.3)), RATIOS)
    errors = {name: abs(result.gain / 1.5 - 1) for name, result in scale.methods.items()}
    assert errors["moffat"] < 0.02 < errors["percentile"]


def test_the_percentile_is_that_of_the_pixels():
    random = np.random.default_rng(3)
    post = random.integers(1, 200, (300, 300)).astype(np.uint8)
    pre = random.uniform(1, 200, post.shape).astype(np.float32)
    statistics = count_pair(post, pre, post_range=(0, 255), pre_range=(0, 255))
    settings = ScaleSettings(methods=["percentile"], percentile=30, default="percentile")
    expected = np.quantile(post / pre.astype(float), 0.3)
    gain = estimate(Evidence(statistics), settings).default_result.gain
    assert gain == pytest.approx(expected, rel=0.0012)  # a bin of the fine histogram


@pytest.mark.slow
def test_the_interval_holds_the_gain_as_often_as_it_says():
    inside, widths = 0, []
    only = ScaleSettings(methods=("moffat",))
    for seed in range(8):
        result = estimate(Evidence(section(1.5, seed=seed, shape=(512, 512))), only).methods
        low, high = result["moffat"].gain_ci95
        inside += low <= 1.5 <= high
        widths.append((high - low) / 1.5)
    assert inside >= 7
    assert max(widths) < 0.06


def test_a_small_image_has_no_interval():
    result = estimate(Evidence(section(1.5, shape=(120, 120))), RATIOS).default_result
    assert result.gain_ci95 is None
    assert result.gain == pytest.approx(1.5, rel=0.05)


def test_the_band_around_ratio_1_is_left_out_and_the_left_wing_mirrored():
    edges = ratio_edges()
    x = (edges[1:] + edges[:-1]) / 2
    counts = moffat.profile(x, 1000, 0.2, 0.05, 2.5).astype(np.int64)
    counts[np.abs(x) < 0.001] += 20_000
    fit = moffat.fit(np.pad(counts, 1), edges, (-1, 1))
    assert fit.smooth.max() > 2 * fit.smooth[fit.fitted].max()
    assert fit.converged
    assert fit.mu0 == pytest.approx(0.2, abs=fit.bin_width)
    assert fit.gain == pytest.approx(10**0.2, rel=0.01)
    assert not fit.fitted[np.abs(fit.centres) <= 3 * fit.bin_width].any()
    assert fit.centres[fit.fitted].max() == fit.mu0
    mirrored, _ = fit.mirror_bins()
    assert mirrored.min() >= fit.mu0


@pytest.mark.parametrize(
    ("post", "pre", "reason"),
    [
        (5, np.nan, "pre and post have no pixel in common."),
        (0, 5, "no pixel has signal in both images"),
        (5, 0.5, "no pixel has signal in both images"),
    ],
)
def test_nothing_to_work_with_is_said(post, pre, reason):
    images = np.full((50, 50), post, np.uint8), np.full((50, 50), pre, np.float32)
    statistics = count_pair(*images, post_range=(0, 9), pre_range=(0, 9))
    scale = estimate(Evidence(statistics), RATIOS)
    assert scale.status == "failed"
    for result in scale.methods.values():
        assert result.gain is None
        assert reason in result.reason


def test_a_single_ratio_needs_no_fit():
    statistics = count_pair(np.full((50, 50), 6, np.uint8), np.full((50, 50), 3, np.float32))
    scale = estimate(Evidence(statistics), RATIOS)
    assert (scale.status, scale.default) == ("ok", "moffat")
    assert [m.gain for m in scale.methods.values()] == pytest.approx([2, 2], rel=0.001)
    assert (scale.default_result.gain, scale.default_result.gain_ci95) == (2.0, None)


def test_one_failed_method_hands_over_to_the_next():
    settings = ScaleSettings(methods=("manual", "percentile"), default="manual")
    scale = estimate(Evidence(section(1.5)), settings)
    assert (scale.status, scale.default) == ("ok", "percentile")
    assert scale.default_result.gain == pytest.approx(1.5, rel=0.02)
    assert scale.methods["manual"].gain is None
    assert scale.reasons[-1] == "manual gave no gain, so percentile is used instead."


def test_a_manual_gain_is_taken_as_it_is():
    scale = estimate(Evidence(section(1.5)), ScaleSettings(RATIOS.methods, manual=1.25))
    assert list(scale.methods) == ["moffat", "percentile", "manual"]
    assert scale.methods["manual"].gain == 1.25
    assert scale.methods["manual"].gain_ci95 is None
    missing = estimate(Evidence(section(1.5)), ScaleSettings(methods=("moffat", "manual")))
    assert missing.methods["manual"].reason == "no manual gain is given for this pair."


def test_a_method_without_a_gain_that_is_not_used_is_a_note():
    scale = estimate(Evidence(section(1.5)), ScaleSettings(methods=("moffat", "manual")))
    assert (scale.status, scale.default, scale.reasons) == ("ok", "moffat", ())
    (note,) = scale.notes
    assert note == "manual, which is not used, gave no gain."
    assert note.numbers == "no manual gain is given for this pair."
    handed_over = estimate(Evidence(section(1.5)), ScaleSettings(("exposure", "manual", "moffat")))
    assert handed_over.default == "moffat"
    (reason,) = handed_over.reasons
    assert reason == "exposure gave no gain, so moffat is used instead."
    assert "manual: no manual gain" in reason.numbers
    assert handed_over.notes == ()


def test_scale_json_keeps_the_contract_and_equal_bytes(tmp_path):
    for name in ("a", "b"):
        settings = ScaleSettings(RATIOS.methods, manual=1.2)
        estimate(Evidence(section(1.3)), settings).save(tmp_path / f"{name}.json")
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    text = (tmp_path / "a.json").read_text()
    digits = {len(n.replace(".", "").strip("-0")) for n in re.findall(r"-?\d+\.\d+", text)}
    assert digits - {0, 1, 2, 3} <= {7, 8, 9}
    content = json.loads(text)
    assert content["default"] == "moffat"
    assert {"gain", "offset", "gain_ci95", "mu0", "mu", "beta", "pixels"} <= set(
        content["methods"]["moffat"]
    )
    scale = Scale.load(tmp_path / "a.json")
    assert scale.methods["manual"] == MethodResult(
        1.2, 0.0, None, {"pixels": 420000, "pixels_overlap": 420000}
    )
    scale.save(tmp_path / "c.json")
    assert (tmp_path / "c.json").read_bytes() == (tmp_path / "a.json").read_bytes()


def test_the_gain_of_controls_is_taken_with_an_interval_from_their_scatter():
    controls = [MethodResult(g, o, None) for g, o in ((1.2, 10.0), (1.25, 12.0), (1.3, 14.0))]
    settings = ScaleSettings(("moffat", "control"), default="control")
    evidence = Evidence(section(1.5), controls=(*controls, MethodResult.make_failed("no")))
    scale = estimate(evidence, settings)
    found = scale.default_result
    assert (scale.default, found.gain, found.offset) == ("control", 1.25, 12.0)
    assert found.details["controls"] == 3
    half = 4.303 * 0.05 * np.sqrt(4 / 3)
    assert found.gain_ci95 == pytest.approx((1.25 - half, 1.25 + half))
    one = MethodResult(1.2, 10.0, (1.1, 1.3))
    alone = estimate(Evidence(section(1.5), controls=(one,)), settings).default_result
    assert (alone.gain, alone.gain_ci95) == (1.2, (1.1, 1.3))
    none = estimate(Evidence(section(1.5)), settings)
    assert none.default == "moffat"
    assert "no unstained control" in none.methods["control"].reason
