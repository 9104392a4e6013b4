"""Completeness: limits that follow from known noise, and regressions on known shares."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from array_pixels import ArrayPixels
from made_search import make_scene

from unglow.core.windows import Window
from unglow.detection.coarse_grid import CoarseGrid
from unglow.detection.completeness import measure_completeness, spot_volume
from unglow.detection.section_mask import Section
from unglow.detection.settings import DetectSettings
from unglow.detection.source_extraction import HALO
from unglow.photometry.imaging import NoiseModel
from unglow.transform import Transform

SHAPE = 1100, 1024
SIGMA = 5.0
NOWHERE = np.zeros((0, 2))


def scene(sigma=SIGMA, top=1000.0, seed=0):
    """A flat section whose difference is white noise of post, sigma in its left half.

    In the right half it is twice that, which the noise model knows by the level.
    """
    random = np.random.default_rng(seed)
    level = np.full(SHAPE, 100.0)
    level[:, SHAPE[1] // 2 :] = 400.0
    noise = random.standard_normal(SHAPE) * sigma * np.sqrt(level / 100)
    left = noise.astype(np.float32)
    post = (level + left).astype(np.float32)
    pre = level.astype(np.float32)
    noise = NoiseModel(0.0, sigma**2 / 100, 0.0, 0.0, least=0.0)
    more = {"saturation": (top, top), "settings": DetectSettings(min_snr=4.0)}
    return make_scene(post, pre, left, noise=noise, **more)


WHOLE = Section.from_mask(np.ones(SHAPE, bool), 0)


def expected(sigma, threshold=5.0):
    """Peak of a spot whose filtered brightness is ``threshold`` times its noise."""
    taps = DetectSettings().taps
    spot = taps / taps.max()
    return threshold * sigma * (taps**2).sum() / (taps * spot).sum() ** 2


def found(pair=None, section=WHOLE, known=NOWHERE, key="a", workers=1):
    return measure_completeness(pair or scene(), section, known, 5.0, key, workers=workers)


@lru_cache
def once():
    return found()


def test_limits_are_where_known_noise_puts_them():
    entry = once().to_json()
    assert entry["injected"] > 1000
    # half of the section each: 50 % in all is between the limits of the halves
    low, high = expected(SIGMA), expected(2 * SIGMA)
    assert low < entry["peak_50"]["value"] < high
    by_x = {}
    for region in entry["regions"]:
        by_x.setdefault(tuple(region["x"]), []).append(region["peak_50"]["value"])
    left, _, right = (np.mean(v) for _, v in sorted(by_x.items()))
    # the peak of a filtered spot is looked for among the px around it, which favours it a little
    assert left == pytest.approx(low, rel=0.1)
    assert right == pytest.approx(high, rel=0.1)
    # 90 % of normal noise lie above -1.28
    assert entry["peak_90"]["value"] == pytest.approx(high * (1 + 1.28 / 5), rel=0.1)
    assert entry["flux_50"]["value"] == pytest.approx(
        entry["peak_50"]["value"] * spot_volume(DetectSettings()), rel=1e-3
    )
    assert 0 < entry["peak_50"]["error"] < 0.15 * entry["peak_50"]["value"]
    assert sum(step["injected"] for step in entry["curve"]) == entry["injected"]
    json.dumps(entry, allow_nan=False)


def test_the_same_pair_gives_the_same_spots_whatever_the_workers():
    first = once().to_json()
    assert found(workers=3).to_json() == first
    assert found(key="b").to_json() != first


def test_nothing_is_put_next_to_candidates_or_outside_of_the_section():
    mask = np.zeros(SHAPE, bool)
    mask[:, :600] = True
    y, x = np.mgrid[0 : SHAPE[0] : 8, 0:300:8]
    known = np.stack([x.ravel(), y.ravel()], axis=1).astype(float)
    trials = found(section=Section.from_mask(mask, 0), known=known).trials
    assert len(trials) > 100
    assert trials.x.max() < 600
    assert np.count_nonzero(trials.x < 290) == 0


def test_spots_above_the_maximum_of_the_camera_are_cut_off():
    """With a maximum just above the right half's level no spot there can be found."""
    pair = scene(top=405.0)
    post = np.minimum(pair.post.read(FRAME), 405)
    left = post - pair.pre.read(FRAME)
    trials = found(replace(pair, post=ArrayPixels(post), difference=ArrayPixels(left))).trials
    bright = trials.peak > 3 * expected(2 * SIGMA)
    right = trials.x > SHAPE[1] // 2 + 10
    assert trials.found[bright & ~right].mean() > 0.95
    assert trials.found[bright & right].mean() < 0.1


FRAME = Window.from_shape(SHAPE)


def test_of_a_large_image_no_more_than_a_fifth_is_searched_each_window_within_a_chunk():
    shape = 4096, 4096
    zeros = ArrayPixels(np.full(shape, 100, np.uint8))
    pair = replace(
        scene(),
        post=zeros,
        pre=zeros,
        difference=ArrayPixels(np.zeros(shape, np.int8)),
        transform=Transform("ok", shape, shape, matrix=np.eye(3)),
    )
    result = found(pair, Section.from_mask(np.ones((64, 64), bool), 6))
    assert 12 <= result.windows <= 0.2 * (4096 / 512) ** 2 + 1
    for along in (result.trials.x, result.trials.y):
        assert along.size > 2000
        assert (np.abs(along % 512 - 255.5) < 256 - HALO).all()


def test_without_a_section_there_is_nothing_to_say():
    assert found(section=Section.from_mask(np.zeros(SHAPE, bool), 0)) is None


def test_a_spot_that_the_error_of_the_map_explains_is_not_found():
    pair = scene()
    rng = np.random.default_rng(3)
    rough = (pair.pre.read(FRAME) + rng.normal(0, 40, SHAPE)).astype(np.float32)
    still, moved = (
        found(replace(pair, pre=ArrayPixels(rough), error=CoarseGrid.constant(px))).trials
        for px in (0.0, 1.0)
    )
    bright = still.peak > np.quantile(still.peak, 0.8)
    assert still.found[bright].all()
    assert moved.found[bright].mean() < 0.6
