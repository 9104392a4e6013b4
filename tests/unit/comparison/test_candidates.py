from __future__ import annotations

import numpy as np

from unglow.comparison.candidates import match


def test_lists_are_matched_one_to_one_and_the_nearest_first():
    a = np.array([[10.0, 10.0], [11.0, 10.0], [50.0, 50.0], [90.0, 5.0]])
    b = np.array([[90.0, 7.5], [11.2, 10.0], [50.5, 50.0], [12.0, 10.0], [0.0, 0.0]])

    matched = match(a, b, 2.0)

    # (11, 10) has the nearest; what is left for (10, 10) is just within the radius
    assert matched.pairs.tolist() == [[0, 3], [1, 1], [2, 2]]
    assert matched.lost.tolist() == [3]
    assert matched.new.tolist() == [0, 4]


def test_every_candidate_is_in_one_place():
    rng = np.random.default_rng(3)
    a = rng.uniform(0, 200, (300, 2))
    b = np.concatenate([a[:250] + rng.normal(0, 0.3, (250, 2)), rng.uniform(0, 200, (40, 2))])

    matched = match(a, b, 1.5)

    assert sorted([*matched.pairs[:, 0], *matched.lost]) == list(range(len(a)))
    assert sorted([*matched.pairs[:, 1], *matched.new]) == list(range(len(b)))
    apart = np.hypot(*(a[matched.pairs[:, 0]] - b[matched.pairs[:, 1]]).T)
    assert apart.max() <= 1.5
    # no two that were left over are partners
    left = a[matched.lost][:, None] - b[matched.new][None]
    assert np.hypot(left[..., 0], left[..., 1]).min(initial=np.inf) > 1.5


def test_empty_lists_have_no_partners():
    none, some = np.zeros((0, 2)), np.zeros((3, 2))
    for a, b in ((none, none), (none, some), (some, none)):
        matched = match(a, b)
        assert matched.pairs.shape == (0, 2)
        assert (len(matched.lost), len(matched.new)) == (len(a), len(b))
