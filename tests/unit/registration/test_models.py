"""Robust global models on made-up matches."""

from __future__ import annotations

import re

import numpy as np
import pytest

from unglow.registration.models import choose_model, find_consensus, fit, fit_robust
from unglow.registration.phase_correlation import Matches
from unglow.registration.quality import (
    agreement,
    compute_confirmed_reach,
    compute_uncovered_share,
    nearest,
)
from unglow.registration.settings import MODELS, RegisterSettings
from unglow.registration.verdict import Evidence, list_rejections, list_warnings
from unglow.transform import apply_matrix, inside_frame

RNG = np.random.default_rng(8)
POST = RNG.uniform(0, 30000, (300, 2))
TRUTHS = {
    "translation": np.array([[1, 0, 120.5], [0, 1, -33.25], [0, 0, 1.0]]),
    "similarity": np.array([[0.99, -0.05, 800], [0.05, 0.99, -400], [0, 0, 1.0]]),
    "affine": np.array([[1.0, -0.05, 800], [0.045, 0.98, -400], [0, 0, 1.0]]),
    "homography": np.array([[1.0, -0.05, 800], [0.045, 0.98, -400], [1e-7, -2e-7, 1.0]]),
}


@pytest.mark.parametrize("model", MODELS)
def test_each_model_is_exact_on_its_own_matches(model):
    matrix = fit(model, POST, apply_matrix(TRUTHS[model], POST), np.ones(300))
    off = apply_matrix(matrix, POST) - apply_matrix(TRUTHS[model], POST)
    assert np.abs(off).max() < 1e-6


def test_mirrored_similarity():
    truth = np.array([[0.9, 0.1, 5], [0.1, -0.9, 7], [0, 0, 1.0]])
    matrix = fit("similarity", POST, apply_matrix(truth, POST), np.ones(300))
    np.testing.assert_allclose(matrix[:2, :2], truth[:2, :2], atol=1e-9)


@pytest.mark.parametrize("model", MODELS)
def test_wrong_matches_do_no_harm(model):
    pre = apply_matrix(TRUTHS[model], POST) + RNG.normal(0, 0.05, POST.shape)
    pre[::2] += RNG.uniform(-128, 128, (150, 2))
    start = find_consensus(POST, pre, 60.0 if model in ("affine", "homography") else 4.0)
    matrix, weights = fit_robust(model, POST, pre, start)
    off = np.hypot(*(apply_matrix(matrix, POST) - apply_matrix(TRUTHS[model], POST)).T)
    assert np.median(off) < 0.03
    wrong = np.hypot(*(pre - apply_matrix(TRUTHS[model], POST)).T) > 1
    assert weights[wrong].max() == 0


def test_consensus_of_noise_is_small_and_repeatable():
    pre = POST + RNG.uniform(-128, 128, POST.shape)
    first, again = find_consensus(POST, pre, 4.0), find_consensus(POST, pre, 4.0)
    assert first.sum() < 10
    np.testing.assert_array_equal(first, again)
    assert not find_consensus(POST[:2], pre[:2], 4.0).any()


@pytest.mark.parametrize("model", MODELS)
def test_auto_finds_the_simplest_model_that_explains(model):
    pre = apply_matrix(TRUTHS[model], POST) + RNG.normal(0, 0.05, POST.shape)
    held = np.arange(300) % 5 == 0
    name, _ = choose_model(POST, pre, np.ones(300, dtype=bool), held)
    assert name == model


def test_held_out_matches_have_no_influence():
    pre = apply_matrix(TRUTHS["affine"], POST)
    held = np.arange(300) % 5 == 0
    one = choose_model(POST, pre, np.ones(300, dtype=bool), held, ("affine",))[1]
    pre[held] += 1.0
    other = choose_model(POST, pre, np.ones(300, dtype=bool), held, ("affine",))[1]
    np.testing.assert_array_equal(one, other)


def test_agreement_follows_the_map_or_the_neighbours():
    pre = POST.copy()
    bent = POST[:, 0] > 20000
    pre[bent] += 15.0  # a part that moved as a whole
    lost = np.zeros(300, dtype=bool)
    lost[::10] = True
    pre[lost] += RNG.uniform(30, 120, (30, 2))
    good = agreement(Matches(POST, pre, np.ones(300)), np.eye(3))
    assert good[~lost & ~bent].all()
    assert good[~lost & bent].mean() > 0.9
    assert good[lost].mean() < 0.2


def evidence(**changes):
    fields = {
        "measured": 100,
        "agreeing": 95,
        "overlap": 0.9,
        "uncovered": 0.02,
        "scale": 1.01,
        "shear": 1.001,
        "margin": 20.0,
    }
    return Evidence(**(fields | changes))


@pytest.mark.parametrize(
    ("changes", "refused", "doubtful"),
    [
        ({}, None, None),
        ({"scale": 1.5}, "scale_beyond", None),
        ({"scale": float("nan")}, "scale_beyond", None),
        ({"shear": 1.3}, "sheared", None),
        ({"overlap": 0.1}, "small_overlap", None),
        ({"agreeing": 20}, "different", None),
        ({"measured": 8, "agreeing": 8}, "few_blocks", None),
        ({"agreeing": 50}, None, "few_agree"),
        ({"uncovered": 0.3}, None, "uncovered"),
        ({"margin": 1.05}, None, "rival"),
        ({"scale": 1.245}, None, "scale_limit"),
        ({"scale": 0.802}, None, "scale_limit"),
        ({"shear": 1.08}, None, "stretched"),
    ],
)
def test_verdicts(changes, refused, doubtful):
    case, settings = evidence(**changes), RegisterSettings(max_scale=1.25)
    rejected = list_rejections(case, settings)
    doubts = [] if rejected else list_warnings(case, 0.1, settings)
    for reasons, wanted in ((rejected, refused), (doubts, doubtful)):
        assert [one.key for one in reasons] == ([wanted] if wanted else [])


@pytest.mark.parametrize("error", [float("inf"), float("nan")])
def test_an_error_that_is_not_known_is_no_number_of_px(error):
    (reason,) = list_warnings(evidence(), error, RegisterSettings())
    assert reason.key == "unknown_error"
    assert not re.search(r"\b(inf|nan)\b", f"{reason} {reason.numbers}")


def test_the_map_is_judged_by_its_error_and_not_by_the_noise_of_blocks():
    error = 4.96
    (reason,) = list_warnings(evidence(), error, RegisterSettings())
    assert reason.key == "map_error"
    assert f"off by about {error:.1f} px or more in 5 % of the section" in reason.numbers
    assert list_warnings(evidence(), 0.1, RegisterSettings()) == []


def test_uncovered_share():
    points = np.array([[0.0, 0], [10, 0], [100, 0], [200, 0]])
    assert compute_uncovered_share(points, np.array([[0.0, 0]]), 50) == 0.5
    assert compute_uncovered_share(points, np.zeros((0, 2)), 50) == 1.0


def test_a_frame_ends_half_a_pixel_beyond_its_outermost_centres():
    points = np.array([[-0.5, 0], [-0.6, 0], [9.5, 4.5], [9.6, 0], [0, 4.6], [np.nan, 0]])
    assert inside_frame(points, (5, 10)).tolist() == [True, False, True, False, False, False]


def test_a_block_confirms_the_map_around_it_or_in_a_share_of_the_section():
    section = np.array([[0.0, 0], [3000, 4000]])
    assert compute_confirmed_reach(section, 256) == pytest.approx(0.12 * 5000)
    assert compute_confirmed_reach(section / 10, 256) == 1.5 * 256
    assert compute_confirmed_reach(np.zeros((0, 2)), 256) == 1.5 * 256


@pytest.mark.parametrize(
    ("points", "among", "count"), [(70, 90, 7), (40, 5, 7), (0, 9, 2), (9, 0, 2)]
)
def test_the_nearest_come_in_order_of_distance_and_then_of_their_place(points, among, count):
    rng = np.random.default_rng(5)
    some, all_of_them = (rng.integers(0, 9, (n, 2)).astype(float) for n in (points, among))
    squares = ((some[:, None] - all_of_them) ** 2).sum(axis=2)
    expected = np.argsort(squares, axis=1, kind="stable")[:, :count]
    found = nearest(some, all_of_them, count)
    assert found.tolist() == expected.tolist()
    assert found.shape == (points, min(count, among))


def test_many_points_are_looked_at_in_parts():
    points = np.random.default_rng(6).random((1100, 2))  # 1.2 million distances
    assert nearest(points, points, 2)[:, 0].tolist() == list(range(1100))
