"""A gain map that no light explains is not used, and the pair is computed and judged without it."""

from __future__ import annotations

import numpy as np
import pytest
import tifffile

from unglow.photometry.cell_moments import CellMoments
from unglow.photometry.gain.estimate import Evidence, estimate
from unglow.photometry.gain.scale import Scale, ScaleSettings
from unglow.photometry.gain.shading import local_level
from unglow.photometry.joint_histogram import JointStatistics
from unglow.transform import Quantiles, Transform

SHAPE = (768, 768)
SETTINGS = ScaleSettings(("linear",))


def evidence(post, pre):
    ranges = [(float(v.min()), float(v.max())) for v in (post, pre)]
    statistics = JointStatistics.create(
        post_range=ranges[0], pre_range=ranges[1], grey_level=1, integer=True
    )
    bins = CellMoments.create(post.shape, (ranges[0][1], ranges[1][1]))
    for gathered in (statistics, bins):
        gathered.add(post.astype(np.float32), pre.astype(np.float32))
    error = Quantiles(0.05, 0.1)
    here = Transform("ok", post.shape, pre.shape, matrix=np.eye(3), error_px=error)
    return Evidence(statistics, bins, here)


def under_light(contrast, seed=0, gain=1.3):
    """Evidence of a pair whose light in post differs by a factor from left to right."""
    rng = np.random.default_rng(seed)
    y, x = np.indices(SHAPE) / (SHAPE[0] - 1)
    light = 60 + 25 * np.sin(767 * x / 9) * np.cos(767 * y / 7) + 10 * np.sin(767 * x / 60)
    uneven = contrast ** (x - 0.5)
    pre = rng.poisson(8 * light) / 8 + rng.normal(3, 0.5, SHAPE)
    post = rng.poisson(8 * gain * uneven * light) / 8 + rng.normal(8, 0.5, SHAPE)
    return evidence(*(np.clip(np.rint(v), 0, 1023) for v in (post, pre)))


def test_an_implausible_map_is_reported_and_not_used(tmp_path):
    scale = estimate(under_light(2.7), SETTINGS)
    refused = scale.default_result.details["gain_map_refused"]
    assert scale.default_result.gain_map is None
    assert scale.default_result.details["gain_map"] is None
    assert refused["range"][1] > 2.5 * refused["range"][0]
    (note,) = scale.notes
    assert "was not used" in note
    without = estimate(under_light(2.7), ScaleSettings(("linear",), gain_map="never"))
    assert (scale.default_result.gain, scale.default_result.offset) == (
        without.default_result.gain,
        without.default_result.offset,
    )
    scale.save(tmp_path / "scale.json")
    assert Scale.load(tmp_path / "scale.json").notes == scale.notes


def test_a_map_that_light_explains_is_used():
    scale = estimate(under_light(1.8), SETTINGS)
    assert scale.default_result.gain_map is not None
    assert scale.default_result.details["gain_map_refused"] is None
    assert (scale.notes, scale.reasons) == ((), ())


@pytest.mark.parametrize("planes", [(13,), (14,), (13, 14)])
def test_a_brain_in_two_colours_is_ok(shared_data, planes):
    folder = shared_data / "signal_autofluorescence"
    post, pre = (
        np.maximum.reduce([tifffile.imread(folder / path.format(z)) for z in planes])
        for path in ("crop_signal/ch000{}.tif", "crop_autofluorescence/ch100{}.tif")
    )
    scale = estimate(evidence(post, pre), SETTINGS)
    assert (scale.status, scale.reasons) == ("ok", ())
    assert scale.default_result.gain_map is None
    assert "was not used" in scale.notes[0]


@pytest.mark.parametrize("shape", [(640, 900), (64, 40)])
def test_the_local_level_follows_what_is_smooth_and_not_what_is_small(shape):
    rng = np.random.default_rng(3)
    y, x = np.indices(shape)
    smooth = 20 * np.sin(x / 300) + 10 * np.cos(y / 400)
    pre = 50 + 20 * np.sin(x / 8) * np.cos(y / 9)
    spots = np.where((x % 60 < 8) & (y % 60 < 8), 40.0, 0.0)
    post = 2 * pre + 5 + smooth + spots + rng.normal(0, 1, shape)
    bins = CellMoments.create(shape, (1e4, 1e4))
    bins.add(post.astype(np.float32), pre.astype(np.float32))
    level = local_level(bins, 2.0, 5.0).ravel()
    at = np.rint(bins.centres_xy).astype(int)
    left = smooth[at[:, 1], at[:, 0]] - level
    if len(level) < 64 * 4:
        assert np.abs(left).max() < 15
    else:
        assert np.median(np.abs(left)) < 2
        assert np.abs(left).max() < 8
