"""Which cells have no signal: shares that are known, and weights that follow from them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from unglow.photometry.gain.without_signal import first_shares, weigh


def settled(residuals):
    shares = first_shares()
    for _ in range(100):
        weights, shares = weigh(residuals, shares)
    return weights, shares


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
def test_the_share_of_cells_with_signal_is_found(share):
    random = np.random.default_rng(3)
    count = 40_000
    has = random.random(count) < share
    residuals = random.normal(size=count) + np.where(has, random.uniform(3, 100, count), 0)
    weights, shares = settled(residuals)
    assert shares.sum() == pytest.approx(1)
    assert weights.mean() == pytest.approx(shares[0], abs=0.01)
    assert weights.mean() == pytest.approx(1 - share, abs=0.06)
    assert weights[residuals > 8].max(initial=0) < 1e-3
    # the mean of what has no signal is that of the noise
    assert abs(weights @ residuals / weights.sum()) < 0.05


def test_what_is_far_from_all_has_no_weight_and_is_no_error():
    residuals = np.concatenate([np.random.default_rng(0).normal(size=5000), [-1e6, -9, 41, 1e9]])
    weights, _ = settled(residuals)
    assert (weights[-4:] < 1e-3).all()
    assert weights[np.abs(residuals) < 1].min() > 0.5


def test_weights_follow_from_the_densities_of_the_parts():
    z = np.array([-7.98, -1.02, 0, 0.52, 1.98, 3.06, 5.5, 14.02, 31.98, 33, 39.98])
    weights, shares = weigh(z, first_shares())
    octave = 2 ** (np.arange(0.5, 16) / 16)
    parts = [norm.pdf(z)]
    parts += [norm.pdf(z[:, None] - octave * 2.0**n).mean(axis=1) for n in range(-1, 5)]
    parts += [(z > 32) / 8, np.full(len(z), 1 / 48)]
    np.testing.assert_allclose(weights, shares[0] * parts[0] / (shares @ parts), rtol=2e-3)
