"""Moffat profiles fitted in one go against scipy's fit of one after the other."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.optimize import curve_fit

from unglow.photometry.gain import moffat
from unglow.photometry.gain.moffat import fit_profiles, profile
from unglow.photometry.joint_histogram import ratio_edges

EDGES = ratio_edges()
X = (EDGES[1:] + EDGES[:-1]) / 2
# The first four have a peak to find.
SHAPES = {
    "moffat": lambda mu, width, random: profile(X, 1.0, mu, width, random.uniform(1, 8)),
    "normal": lambda mu, width, random: np.exp(-0.5 * ((X - mu) / width) ** 2),
    "stained": lambda mu, width, random: (
        np.exp(-np.abs(X - mu) / width) * (1 + 5 * np.maximum(X - mu, 0) / width)
    ),
    "two peaks": lambda mu, width, random: (
        np.exp(-0.5 * ((X - mu) / width) ** 2)
        + np.exp(-0.5 * ((X - mu - random.uniform(1, 4) * width) / width) ** 2)
    ),
    "flat": lambda mu, width, random: 1.0 * (np.abs(X - mu) < width),
    "noise": lambda mu, width, random: (
        random.exponential(1, len(X)) ** 2 * (np.abs(X - mu) < width)
    ),
    "broad": lambda mu, width, random: (
        np.exp(-0.5 * ((X - mu) / width / 10) ** 2) * (np.abs(X - mu) < width)
    ),
}


def wings(shape, count, seed=0):
    """Draw histograms of some shape: few or many ratios, narrow or wide."""
    random = np.random.default_rng(seed)
    for _ in range(count):
        share = SHAPES[shape](random.uniform(-0.6, 0.6), 10 ** random.uniform(-2.2, -0.4), random)
        ratios = random.poisson(share / share.sum() * 10 ** random.uniform(2.6, 6.5))
        low, high = X[np.flatnonzero(ratios)[[0, -1]]]
        yield np.pad(ratios, 1), (low, high), random.uniform(-0.5, 0.5)


def problem(fit):
    """Return points, start and bounds of a fit as scipy takes them, but with all four numbers."""
    mirrored_x, mirrored_y = fit.mirror_bins()
    x = np.concatenate([fit.centres[fit.fitted], mirrored_x])
    y = np.concatenate([fit.smooth[fit.fitted], mirrored_y])
    low, high = fit.centres[[0, -1]]
    start = [1.0, fit.mu0, min(max(fit.mu0 - low, 0.1) / 3, high - low), 2.5]
    return x, y / y.max(), start, ([0, low, 1e-6, 1], [np.inf, high, high - low, 20])


def by_scipy(fit, **tolerances):
    x, y, start, bounds = problem(fit)
    found, _ = curve_fit(profile, x, y, start, bounds=bounds, max_nfev=5000, **tolerances)
    return found, squares(x, y, found)


def squares(x, y, parameters):
    return float(((profile(x, *parameters) - y) ** 2).sum())


@pytest.mark.parametrize("shape", SHAPES)
def test_no_fit_of_scipy_is_better(shape):
    apart = []
    for ratios, span, phase in wings(shape, 25):
        fit = moffat.fit(ratios, EDGES, span, phase)
        x, y, _, (low, high) = problem(fit)
        assert fit.converged == (len(x) >= 5)
        if not fit.converged:
            continue
        mine = np.array([fit.amplitude / fit.smooth[fit.fitted].max(), fit.mu, fit.alpha, fit.beta])
        assert (mine >= np.array(low) - 1e-12).all()
        assert (mine <= np.array(high) + 1e-12).all()
        theirs, cost = by_scipy(fit)
        assert squares(x, y, mine) <= cost * (1 + 1e-9)
        apart.append(abs(fit.mu - theirs[1]))
    assert len(apart) > 20
    assert np.median(apart) < 1e-8
    assert max(apart) < 1e-6


@pytest.mark.parametrize("shape", list(SHAPES)[:2])
def test_a_fit_is_that_of_scipy_where_that_goes_on_to_the_end(shape):
    for ratios, span, phase in wings(shape, 6, seed=1):
        fit = moffat.fit(ratios, EDGES, span, phase)
        theirs, _ = by_scipy(fit, ftol=1e-13, xtol=1e-13, gtol=1e-13, jac="3-point")
        assert fit.mu == pytest.approx(theirs[1], abs=1e-9)
        assert (fit.alpha, fit.beta) == pytest.approx(theirs[2:], rel=1e-5)
        assert fit.amplitude / fit.smooth[fit.fitted].max() == pytest.approx(theirs[0], rel=1e-6)


def test_fits_do_not_depend_on_the_others():
    span = (-1.0, 1.0)
    draws = [
        (ratios, phase) for shape in SHAPES for ratios, _, phase in wings(shape, 3) if ratios.any()
    ]
    alone = [moffat.fit(ratios, EDGES, span, phase).mu for ratios, phase in draws]
    np.testing.assert_allclose(moffat.peaks(draws, EDGES, span), alone, rtol=0, atol=1e-9)
    backwards = moffat.peaks(reversed(draws), EDGES, span)[::-1]
    np.testing.assert_allclose(backwards, alone, rtol=0, atol=1e-9)


def test_one_histogram_without_ratios_refuses_all():
    (good, span, _), *_ = wings("normal", 1)
    with pytest.raises(ValueError, match="only 0 pixels have a ratio"):
        moffat.peaks([(good, 0.0), (np.zeros_like(good), 0.0)], EDGES, span)


def fitted(x, y, start=(0.0, 1.0, 2.5), low=(-3.0, 1e-6, 1.0), high=(3.0, 6.0, 20.0)):
    rows = [np.array([values], dtype=np.float64) for values in (x, y, start, low, high)]
    found = fit_profiles(*rows)
    return bool(found.converged[0]), found.parameters[0]


def test_bounds_hold_what_would_leave_them():
    x = np.linspace(-3, 3, 61)
    for sought, at in (((0.5, 3.0, 40.0), 3), ((0.5, 9.0, 15.0), 2), ((4.0, 1.0, 2.0), 1)):
        y = profile(x, 7.0, *sought) + 0.02 * np.cos(7 * x)
        good, found = fitted(x, y)
        assert good
        assert found[at] == pytest.approx((3.0, 6.0, 20.0)[at - 1], rel=1e-12)
        start, bounds = [7.0, 0.0, 1.0, 2.5], ([0, -3, 1e-6, 1], [np.inf, 3, 6, 20])
        theirs, _ = curve_fit(profile, x, y, start, bounds=bounds, max_nfev=2000)
        assert squares(x, y, found) <= squares(x, y, theirs) * (1 + 1e-9)


def test_missing_points_do_not_count():
    x = np.linspace(-3, 3, 61)
    y = profile(x, 7.0, 0.5, 0.8, 2.0) + 0.1 * np.sin(9 * x)
    _, expected = fitted(x[20:], y[20:])
    for value in (0.0, 1e6, np.nan, np.inf):
        good, found = fitted(np.where(x < x[20], np.nan, x), np.where(x < x[20], value, y))
        assert good
        np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [np.nan, np.inf, 1e200])
def test_points_that_no_profile_fits_are_not_converged_nor_an_error(value):
    x = np.linspace(-3, 3, 61)
    y = profile(x, 7.0, 0.5, 0.8, 2.0)
    good, _ = fitted(x, np.where(np.arange(61) == 30, value, y))
    assert not good
    for others in (np.full(61, np.nan), np.full(61, 1e5)):
        good, _ = fitted(others, y)
        assert not good


@pytest.mark.filterwarnings("error")
def test_few_points_and_nothing_are_no_error():
    x, y = np.array([0.1, 0.2, 0.3]), np.array([1.0, 2.0, 1.0])
    for count, value in itertools.product(range(4), (0.0, 1.0)):
        fitted(x[:count], value * y[:count])
    empty = np.zeros((0, 3))
    assert (
        fit_profiles(np.zeros((0, 9)), np.zeros((0, 9)), empty, empty, empty).parameters.size == 0
    )


@pytest.mark.filterwarnings("error")
def test_the_highest_bin_stands_where_there_is_nothing_to_fit():
    # all ratios in the band around 1, which is excluded; and two bins next to it
    ratios = np.zeros(len(EDGES) + 1, dtype=np.int64)
    ratios[len(ratios) // 2 - 2 : len(ratios) // 2 + 2] = 1000
    fit = moffat.fit(ratios, EDGES, (-0.0005, 0.0005))
    assert fit.mu == pytest.approx(fit.mu0, abs=1e-12)
    assert fit.converged or np.isnan([fit.alpha, fit.beta, fit.amplitude]).all()
