"""Polygons on the pixel grid: by the centres of px, the same in every window."""

from __future__ import annotations

import math

import numpy as np
import pytest

from unglow.core.windows import Window, grid
from unglow.review import polygons
from unglow.review.polygons import Polygon


def ring(*points):
    return np.array(points, np.float64)


def crossing_rule(rings, col, row):
    """Point in polygon by the plain rule, one ray to the left."""
    inside = False
    for points in rings:
        for (ax, ay), (bx, by) in zip(points, np.roll(points, -1, axis=0), strict=True):
            if min(ay, by) <= row < max(ay, by):
                inside ^= ax + (row - ay) / (by - ay) * (bx - ax) <= col
    return inside


def test_a_rectangle_holds_the_px_that_qupath_shows_in_it():
    # corners of px 2 to 5, rows 1 to 3, which is 0.5 less from their centres
    square = Polygon.from_rings([ring((1.5, 0.5), (5.5, 0.5), (5.5, 3.5), (1.5, 3.5))])
    mask = square.over(Window(0, 6, 0, 8))
    expected = np.zeros((6, 8), bool)
    expected[1:4, 2:6] = True
    assert np.array_equal(mask, expected)
    assert square.box == Window(1, 4, 2, 6)


def test_two_that_share_a_side_share_no_px():
    left = Polygon.from_rings([ring((0, 0), (4, 0), (4, 4), (0, 4))])
    right = Polygon.from_rings([ring((4, 0), (9, 0), (9, 4), (4, 4))])
    whole = Window(0, 6, 0, 10)
    assert not (left.over(whole) & right.over(whole)).any()
    assert np.count_nonzero(left.over(whole) | right.over(whole)) == 4 * 9


@pytest.mark.parametrize("seed", range(8))
def test_px_follow_the_crossing_rule_in_every_window(seed):
    rng = np.random.default_rng(seed)
    rings = [rng.uniform(-6, 40, (n, 2)) for n in rng.integers(3, 14, 3)]
    if seed % 2:  # on centres of px as well
        rings = [np.round(r) for r in rings]
    shape = (33, 37)
    expected = [[crossing_rule(rings, c, r) for c in range(shape[1])] for r in range(shape[0])]
    shape_of = Polygon.from_rings(rings)
    assert np.array_equal(shape_of.over(Window.from_shape(shape)), np.array(expected))
    for window in grid(shape, (7, 10)):
        assert np.array_equal(shape_of.over(window), np.array(expected)[window.slices])
    row, col = np.indices(shape).reshape(2, -1)
    some = rng.permutation(row.size)[:200]
    assert np.array_equal(shape_of.holds(col[some], row[some]), np.array(expected).ravel()[some])
    assert not shape_of.holds(np.zeros(0, np.int64), np.zeros(0, np.int64)).any()


def test_few_crossings_are_held_together(monkeypatch):
    angle = np.linspace(0, 2 * math.pi, 500, endpoint=False)
    circle = Polygon.from_rings(
        [np.stack([60 + 50 * np.cos(angle), 60 + 50 * np.sin(angle)], axis=1)]
    )
    whole = circle.over(Window(0, 120, 0, 120))
    row, col = np.indices((120, 120)).reshape(2, -1)
    assert whole.sum() == pytest.approx(math.pi * 2500, rel=0.01)
    monkeypatch.setattr(polygons, "_AT_ONCE", 10)
    assert np.array_equal(circle.over(Window(0, 120, 0, 120)), whole)
    assert np.array_equal(circle.holds(col, row), whole.ravel())
