"""Results of a review: shares and densities with exact intervals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from unglow.review.counts import ReviewCounts, binomial_interval, density, describe_region
from unglow.review.decisions import Decision, Listed, Review
from unglow.review.polygons import Polygon
from unglow.review.regions import Region


@pytest.mark.parametrize(
    ("k", "n"),
    [(0, 1), (1, 1), (0, 20), (20, 20), (7, 9), (50, 100), (1, 3000), (150_000, 200_000)],
)
def test_the_interval_of_a_share_is_that_of_clopper_and_pearson(k, n):
    expected = stats.binomtest(k, n).proportion_ci(0.95, method="exact")
    assert binomial_interval(k, n) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_no_trials_have_no_share():
    with pytest.raises(ValueError, match="0 of 0"):
        binomial_interval(0, 0)


def review(*decisions):
    xy = np.array([[1.0, 1], [5, 5], [6, 5], [9, 9]])
    made = [Decision(n, 0, 0, d, candidates="x") for n, d in enumerate(decisions, 1) if d]
    return Review.match(made, Listed(np.arange(1, 5), xy, "x"))


def test_purity_is_of_those_accepted_or_rejected():
    counts = ReviewCounts.from_review(review("accepted", "rejected", "unsure", "accepted"))
    share = {"purity": 0.666667, "purity_ci95": [0.0942993, 0.991596]}
    numbers = {"reviewed": 4, "accepted": 2, "rejected": 1, "unsure": 1, "without_candidate": 0}
    assert counts.to_json() == numbers | share
    nothing = ReviewCounts.from_review(review("", "", "unsure"))
    assert (nothing.reviewed, nothing.purity, nothing.purity_ci95) == (1, None, None)


def test_density_of_a_region():
    box = np.array([[3.5, 3.5], [8.5, 3.5], [8.5, 8.5], [3.5, 8.5]])
    region = Region("analyse", "left", (Polygon.from_rings([box]),))
    counted = np.array([True, True, False, True])
    result = describe_region(region, review("accepted", "accepted"), counted, 25, (200.0, 100.0))
    assert result["name"] == "left"
    assert result["candidates"]["count"] == 1
    assert result["accepted"] == {"count": 1, **density(1, 25, (200.0, 100.0))}
    assert result["accepted"]["area"] == 0.5
    assert result["accepted"]["unit"] == "mm2"
    assert result["accepted"]["density"] == 2.0
    assert density(3, 10**6, None)["density"] == 3.0
    assert density(3, 10**6, None)["density_ci95"] == [0.618672, 8.76727]
    assert density(3, 0, None)["density"] is None
