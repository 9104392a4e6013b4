"""Windows, grids, halving, and the bounded pool."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from unglow.core.windows import Window, grid, halve, map_bounded


def test_a_grid_covers_every_pixel_once():
    seen = np.zeros((13, 29), int)
    for window in grid(seen.shape, (5, 8)):
        seen[window.slices] += 1
    assert (seen == 1).all()


def test_windows_grow_and_are_clipped():
    window = Window(0, 4, 10, 14).grow(3)
    assert window == Window(-3, 7, 7, 17)
    assert window.clip((5, 12)) == Window(0, 5, 7, 12)
    assert Window(20, 30, 0, 5).clip((10, 10)).size == 0


def test_halving_averages_and_drops_the_odd_edge():
    block = np.arange(15, dtype=np.uint8).reshape(3, 5)
    assert halve(block).tolist() == [[3.0, 5.0]]


def test_halving_ignores_missing_pixels_and_does_not_spread_them():
    block = np.array([[1, np.nan, np.nan, np.nan], [3, 5, np.nan, np.nan]], np.float32)
    result = halve(block)
    assert result[0, 0] == 3.0
    assert np.isnan(result[0, 1])
    apart = np.array([[np.inf, 1, np.nan, 2], [1, 1, 2, 2]], np.float64)
    assert halve(apart).tolist() == [[np.inf, 2.0]]


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_results_come_in_order_and_no_more_than_asked_are_in_flight(workers):
    running, most, lock = 0, 0, threading.Lock()

    def work(item):
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.001 * (5 - item % 5))
        with lock:
            running -= 1
        return item * item

    assert list(map_bounded(work, iter(range(20)), workers)) == [i * i for i in range(20)]
    assert most <= workers


def test_items_are_taken_only_when_there_is_room():
    taken = []

    def items():
        for i in range(10):
            taken.append(i)
            yield i

    results = map_bounded(lambda i: i, items(), 2)
    next(results)
    assert len(taken) <= 3


def test_the_first_error_ends_the_map():
    def work(item):
        if item == 3:
            raise ValueError("three")
        return item

    with pytest.raises(ValueError, match="three"):
        list(map_bounded(work, range(10), 2))
