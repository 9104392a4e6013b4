"""The linear method: known gains and offsets, stain, glass, noise, and honest refusals."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import tifffile
from made_cells import make_evidence
from scipy import ndimage

from unglow.photometry.cell_moments import CellMoments
from unglow.photometry.cells import Cells, find_aligned_cells
from unglow.photometry.gain.estimate import Evidence, estimate
from unglow.photometry.gain.scale import Scale, ScaleSettings
from unglow.photometry.gain.shading import local_level
from unglow.transform import Transform
from unglow.transform.displacement import Displacement

SHAPE = (640, 800)
LINEAR = ScaleSettings(("linear",))


def identity(shape=SHAPE, **more):
    return Transform("ok", shape, shape, matrix=np.eye(3), **more)


@cache
def ranks(shape, seed, fine):
    """Smooth texture, from 0 to 1."""
    rng = np.random.default_rng(seed)
    texture = ndimage.gaussian_filter(rng.normal(size=shape), fine)
    texture += 2 * ndimage.gaussian_filter(rng.normal(size=shape), 10 * fine) * 10
    return texture.ravel().argsort().argsort().reshape(shape) / texture.size


def scene(shape=SHAPE, seed=0, low=20.0, high=120.0, fine=3.0):
    """Light of a section: smooth texture between two levels."""
    return low + (high - low) * ranks(shape, seed, fine)


def recorded(light, offset, rng, electrons=8.0, read=0.5, top=255):
    level = rng.poisson(light * electrons) / electrons + rng.normal(offset, read, light.shape)
    return np.clip(np.rint(level), 0, top)


def pair(gain, offsets=(3.0, 8.0), seed=0, stain=0.0, glass=0.0, **camera):
    """Evidence of a pair; offsets of (pre, post), shares of stained section and of glass."""
    rng = np.random.default_rng([seed, 1])
    light = scene(seed=seed)
    light[:, : round(glass * SHAPE[1])] = 0
    added = np.zeros(SHAPE)
    if stain:
        field = ndimage.gaussian_filter(rng.normal(size=SHAPE), 12)
        added[field > np.quantile(field, 1 - stain)] = 1
        added *= rng.exponential(40, SHAPE)
    pre = recorded(light, offsets[0], rng, **camera)
    post = recorded(gain * light + added, offsets[1], rng, **camera)
    return make_evidence(post, pre)


def linear_of(given):
    return estimate(given, LINEAR).methods["linear"]


def inside(value, interval):
    return interval[0] <= value <= interval[1]


@pytest.mark.parametrize("gain", [0.8, 1.0, 1.3, 2.0])
@pytest.mark.parametrize("offsets", [(0.0, 0.0), (1.0, 2.0), (3.0, 8.0), (20.0, 5.0)])
def test_gain_and_offset_are_found_within_half_a_percent_and_half_a_level(gain, offsets):
    result = linear_of(pair(gain, offsets))
    offset = offsets[1] - gain * offsets[0]
    assert result.gain == pytest.approx(gain, rel=0.003)
    assert result.offset == pytest.approx(offset, abs=0.3)
    assert inside(gain, result.gain_ci95)
    assert inside(offset, result.offset_ci95)
    assert np.diff(result.gain_ci95)[0] / 2 < 0.005 * gain
    assert 0.9 < result.details["spread"] < 1.15


@pytest.mark.slow
@pytest.mark.parametrize("stain", [0.1, 0.33])
def test_stain_on_a_third_of_the_section_changes_little(stain):
    for seed in range(3):
        result = linear_of(pair(1.3, seed=seed, stain=stain))
        assert result.gain == pytest.approx(1.3, rel=0.005)
        assert result.offset == pytest.approx(8 - 1.3 * 3, abs=0.5)
        assert result.details["cells_used"] < (1 - stain / 2) * result.details["cells"]


@pytest.mark.parametrize("offsets", [(0.0, 0.0), (0.3, 0.3), (3.0, 8.0)])
@pytest.mark.parametrize("gain", [0.8, 3.0])
def test_glass_neither_rules_the_line_nor_bends_it_where_it_is_clipped(gain, offsets):
    result = linear_of(pair(gain, offsets, glass=0.7))
    assert result.gain == pytest.approx(gain, rel=0.004)
    assert result.offset == pytest.approx(offsets[1] - gain * offsets[0], abs=0.3)


def test_noise_in_pre_does_not_pull_the_gain_down():
    rng = np.random.default_rng(33)
    light = scene(seed=3, low=60, high=90)
    pre, post = (np.rint(f * light + rng.normal(50, 8, SHAPE)) for f in (1, 1.5))
    bins = make_evidence(post, pre)
    x, y = bins.bins.pre.ravel().astype(float), bins.bins.post.ravel().astype(float)
    plain = np.cov(x, y)[0, 1] / x.var()
    assert plain < 1.5 * 0.97
    assert linear_of(bins).gain == pytest.approx(1.5, rel=0.006)


def test_equal_images_have_gain_one_and_no_offset():
    pre = recorded(scene(), 3.0, np.random.default_rng(0))
    result = linear_of(make_evidence(pre, pre))
    assert result.gain == pytest.approx(1, abs=1e-6)
    assert result.offset == pytest.approx(0, abs=1e-4)


def test_cells_where_the_map_is_off_are_left_out():
    good = pair(1.3)
    field = Displacement(160, np.zeros((2, 7, 8)), np.full((7, 8), 0.1, np.float32))
    field.error_px[:, :5] = 1.5
    placed = Evidence(good.stats, good.bins, identity(displacement=field))
    chosen = find_aligned_cells(placed.bins, placed.transform)
    cells = Cells.from_moments(placed.bins, chosen, placed.transform)
    assert 0.2 < len(cells) / (SHAPE[0] * SHAPE[1] / 16) < 0.7
    assert cells.xy[:, 0].min() > 160 * 3
    assert linear_of(placed).details["cells"] == len(cells)


REFUSED = {
    "too little texture": lambda light, rng: (light * 0 + 50, light * 0 + 70),
    "only 99 cells": lambda light, rng: (
        np.where(np.indices(SHAPE).max(axis=0) < 40, light, np.nan),
        1.3 * light,
    ),
    "post does not grow with pre": lambda light, rng: (light, 200 - light),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_gives_no_gain_is_refused_with_a_sentence(reason):
    rng = np.random.default_rng(1)
    pre, post = REFUSED[reason](scene(), rng)
    noisy = (
        np.where(np.isnan(v), np.nan, np.rint(v + rng.normal(0, 2, SHAPE))) for v in (post, pre)
    )
    result = linear_of(make_evidence(*noisy))
    assert result.gain is None
    assert reason in result.reason
    assert result.reason.endswith(".")


def test_another_method_stands_in_for_a_refusal():
    rng = np.random.default_rng(1)
    flat = make_evidence(rng.poisson(70, SHAPE), rng.poisson(50, SHAPE))
    scale = estimate(flat, ScaleSettings())
    assert scale.default == "moffat"
    assert "linear gave no gain, so moffat is used instead." in scale.reasons


def test_offsets_are_no_doubt_about_the_linear_method():
    given = pair(1.3, (10.0, 60.0))
    assert estimate(given, ScaleSettings()).reasons == ()
    ratio = estimate(given, ScaleSettings(("moffat",)))
    assert any("Use the linear method" in reason.help for reason in ratio.reasons)


SQUARE = (768, 768)


def under_light(contrast, seed=0, gain=1.3):
    """Evidence of a pair whose light in post differs by a factor from left to right."""
    rng = np.random.default_rng(seed)
    y, x = np.indices(SQUARE) / (SQUARE[0] - 1)
    light = 60 + 25 * np.sin(767 * x / 9) * np.cos(767 * y / 7) + 10 * np.sin(767 * x / 60)
    uneven = contrast ** (x - 0.5)
    pre = rng.poisson(8 * light) / 8 + rng.normal(3, 0.5, SQUARE)
    post = rng.poisson(8 * gain * uneven * light) / 8 + rng.normal(8, 0.5, SQUARE)
    return make_evidence(*(np.clip(np.rint(v), 0, 1023) for v in (post, pre)))


@pytest.mark.slow
def test_an_implausible_map_is_reported_and_not_used(tmp_path):
    scale = estimate(under_light(2.7), LINEAR)
    refused = scale.default_result.details["gain_map_refused"]
    assert scale.default_result.gain_map is None
    assert scale.default_result.details["gain_map"] is None
    assert refused["range"][1] > 2.5 * refused["range"][0]
    assert "light_kept" in [note.key for note in scale.notes]
    without = estimate(under_light(2.7), ScaleSettings(("linear",), gain_map="never"))
    used, plain = scale.default_result, without.default_result
    assert (used.gain, used.offset) == (plain.gain, plain.offset)
    scale.save(tmp_path / "scale.json")
    assert Scale.load(tmp_path / "scale.json").notes == scale.notes


def test_a_map_that_light_explains_is_used():
    scale = estimate(under_light(1.8), LINEAR)
    used, found = scale.default_result.gain_map, scale.default_result.details["gain_map"]
    assert (found["degree"], found["sha256"]) == (2, used.digest)
    assert found["range"] == pytest.approx(used.limits, rel=1e-8)
    assert scale.default_result.details["gain_map_refused"] is None
    assert (scale.notes, scale.reasons) == ((), ())


@pytest.mark.parametrize("planes", [(13,), (14,), (13, 14)])
def test_a_brain_in_two_colours_is_ok(shared_data, planes):
    folder = shared_data / "signal_autofluorescence"
    post, pre = (
        np.maximum.reduce([tifffile.imread(folder / path.format(z)) for z in planes])
        for path in ("crop_signal/ch000{}.tif", "crop_autofluorescence/ch100{}.tif")
    )
    scale = estimate(make_evidence(post, pre), LINEAR)
    assert (scale.status, scale.reasons) == ("ok", ())
    assert scale.default_result.gain_map is None
    assert scale.notes[0].key == "light_kept"


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
    level = local_level(bins, 2.0, 5.0)
    at = np.rint(bins.centres_xy).astype(int)
    left = smooth[at[:, 1], at[:, 0]] - level.ravel()
    if level.size < 64 * 4:
        assert np.abs(left).max() < 15
    else:
        assert np.median(np.abs(left)) < 2
        assert np.abs(left).max() < 8
        rest = bins.post.astype(float) - (2.0 * bins.pre.astype(float) + 5.0)
        assert (level[16:32, 32:48] == np.median(rest[8:40, 24:56])).all()
