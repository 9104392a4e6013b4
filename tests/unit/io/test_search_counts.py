"""Counts of a search as a file: whole or named as damaged, the same for any tiles."""

from __future__ import annotations

import numpy as np
import pytest

from unglow.core.errors import StoreError
from unglow.core.windows import Window, grid
from unglow.io.detection_results import (
    SearchCounts,
    count_per_square,
    make_empty_squares,
    square_px,
)


@pytest.mark.parametrize("shape", [(300, 340), (7, 5), (1, 97), (48, 48), (491, 490)])
@pytest.mark.parametrize("tile", [13, 64, 1000])
def test_squares_hold_the_same_px_whatever_the_tiles(shape, tile):
    searched = np.random.default_rng(0).random(shape) < 0.7
    side = square_px(shape)
    total = make_empty_squares(shape)
    for window in grid(shape, (tile, tile)):
        total += count_per_square(searched[window.slices], window, shape)
    assert max(total.shape) <= 48
    for (row, col), count in np.ndenumerate(total):
        place = np.s_[row * side : (row + 1) * side, col * side : (col + 1) * side]
        assert count == np.count_nonzero(searched[place])
    np.testing.assert_array_equal(
        total, count_per_square(searched, Window.from_shape(shape), shape)
    )


def made():
    return SearchCounts(3.5, np.arange(5), np.arange(5)[::-1], np.full((3, 4), 2**40), 17)


def test_a_file_holds_all_of_it_with_equal_bytes(tmp_path):
    for name in "ab":
        made().save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    read = SearchCounts.load(tmp_path / "a")
    assert (read.lowest, read.side_px, read.reason) == (3.5, 17, "")
    assert read.searched_px == 12 * 2**40
    for name in ("bright", "dark", "searched"):
        np.testing.assert_array_equal(getattr(read, name), getattr(made(), name))


def test_a_refusal_keeps_its_reason(tmp_path):
    SearchCounts.make_refused("the noise of S – 1 is not known.").save(tmp_path / "search.npz")
    read = SearchCounts.load(tmp_path / "search.npz")
    assert (read.reason, read.searched_px) == ("the noise of S – 1 is not known.", 0)


def test_what_is_no_file_of_counts_is_named(tmp_path):
    path = tmp_path / "search.npz"
    path.write_bytes(b"PK")
    with pytest.raises(StoreError, match=r"search.npz is damaged"):
        SearchCounts.load(path)
    np.savez(path, lowest=3.5)
    with pytest.raises(StoreError, match=r"search.npz is damaged"):
        SearchCounts.load(path)
