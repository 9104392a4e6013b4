"""Pooled counts: what their intervals cover, and where they come from."""

import numpy as np
import pytest
from scipy import stats

from unglow.core.poisson import poisson_interval
from unglow.reporting.groups import density_of, is_group, is_in_summary, pool_groups, t_quantile


def test_quantiles_are_those_of_scipy():
    for freedom in (1, 2, 3, 4, 7, 30, 1000):
        assert t_quantile(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), rel=0.002)


def test_one_pair_has_the_poisson_interval_and_pairs_that_differ_a_wider_one():
    low, high = poisson_interval(40)
    assert density_of([40], [2.0]) == (20.0, low / 2, high / 2, None)
    assert density_of([0, 0], [1.0, 1.0])[1::2] == (0.0, None)
    equal, unlike = density_of([38, 40, 42], [2.0] * 3), density_of([10, 40, 70], [2.0] * 3)
    assert equal[0] == unlike[0] == 20.0
    assert equal[3] == 1.0
    assert unlike[3] == pytest.approx(2 * 30**2 / 40 / 2)
    assert unlike[1] < equal[1] < 20 < equal[2] < unlike[2]


def test_intervals_cover_where_pairs_differ():
    """Counts as if they were of one pair cover a third of the time, these more than nine in ten."""
    random = np.random.default_rng(5)
    hits, naive = 0, 0
    for _ in range(600):
        areas = random.uniform(0.7, 1.3, 8)
        counts = random.poisson(200 * random.gamma(11, 1 / 11, 8) * areas)
        _, low, high, _ = density_of(counts.tolist(), areas.tolist())
        hits += low <= 200 <= high
        ends = stats.chi2.ppf((0.025, 0.975), (2 * counts.sum(), 2 * counts.sum() + 2)) / 2
        naive += ends[0] <= 200 * areas.sum() <= ends[1]
    assert 0.91 <= hits / 600 <= 0.98
    assert naive / 600 < 0.5


def test_rows_are_pooled_by_group_dye_and_variant():
    def row(group, dye="D", **more):
        searched = {"candidates": 9, "searched": (3_000_000, None), "status": "ok"}
        return {"dye": dye, "group": group, "replicate": "1"} | searched | more

    rows = [row("a"), row("a"), row("a", "E"), row("b", control="true"), row("", status="failed")]
    found = {(p["by"], p["group"], p["dye"], p["control"]): p for p in pool_groups(rows)}
    assert set(found) == {
        *(("group", "a", "D", ""), ("group", "a", "E", ""), ("group", "b", "D", "true")),
        *(("replicate", "1", "D", ""), ("replicate", "1", "E", "")),
        ("replicate", "1", "D", "true"),
    }
    assert found["group", "a", "D", ""]["pairs"] == 2
    assert (found["group", "a", "D", ""]["unit"], found["group", "a", "D", ""]["area"]) == (
        "Mpx",
        6,
    )
    assert pool_groups([{"dye": "D", "status": "ok"}]) == []


def test_columns_that_make_groups_are_reported_by_their_names():
    assert [is_group(c) for c in ("group", "group_x", "treatment", "replicate")] == [True] * 4
    assert [is_group(c) for c in ("date", "order", "groups", "gain")] == [False] * 4
    columns = "date", "order", "group_x", "gain"
    assert [is_in_summary(c) for c in columns] == [True, True, True, False]
