"""Files of a search: read as they were written, equal for any tiles, damage named."""

from __future__ import annotations

import json

import numpy as np
import pytest

from unglow.core.errors import InputError, StoreError
from unglow.core.windows import Window, grid
from unglow.images.detection_results import (
    SearchCounts,
    count_per_square,
    make_empty_squares,
    read_candidates,
    read_report,
    square_px,
)

TABLE = """id,x,y,snr,flags,fdr
1,10.250,20.500,12.50,,0.0010
2,100.000,0.000,4.25,deblended+outside,
3,7.000,9.000,5.00,deblended,0.0400
"""


def test_columns_by_name(tmp_path):
    (tmp_path / "candidates.csv").write_text(TABLE)
    found = read_candidates(tmp_path / "candidates.csv")
    assert len(found) == 3
    assert found.xy.tolist() == [[10.25, 20.5], [100, 0], [7, 9]]
    assert found.snr.tolist() == [12.5, 4.25, 5.0]
    np.testing.assert_array_equal(found.fdr, [0.001, np.nan, 0.04])
    assert found.is_counted.tolist() == [True, False, True]
    few = read_candidates(tmp_path / "candidates.csv", ("x", "y", "area_px"))
    assert list(few.numbers) == ["x", "y"]
    assert few.xy.tolist() == found.xy.tolist()
    assert few.flags == ("", "deblended+outside", "deblended")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no column id, x, y, snr, flags"),
        ("id,x,y,snr\n", "has no column flags"),
        ("id,x,y,snr,flags\n1,2,3\n", "is damaged or was edited"),
        ("id,x,y,snr,flags\n1,2,3,many,\n", "is damaged or was edited"),
    ],
)
def test_what_is_no_table_is_named(tmp_path, text, message):
    path = tmp_path / "candidates.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=message) as error:
        read_candidates(path)
    assert str(path) in str(error.value)


def test_what_is_not_there_is_named(tmp_path):
    for read in (read_candidates, read_report):
        with pytest.raises(InputError, match="cannot be read"):
            read(tmp_path / "nothing")


def test_reports(tmp_path):
    path = tmp_path / "detection.json"
    path.write_text(json.dumps({"status": "failed", "reason": "No gain."}))
    assert read_report(path)["reason"] == "No gain."
    for text in ("{", "[]", '{"status": 3}'):
        path.write_text(text)
        with pytest.raises(InputError, match="is damaged"):
            read_report(path)


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
    SearchCounts.make_refused("the noise of S – 1 is not known.").save(tmp_path / "none")
    none = SearchCounts.load(tmp_path / "none")
    assert (none.reason, none.searched_px) == ("the noise of S – 1 is not known.", 0)
    for name in ("bright", "dark", "searched"):
        np.testing.assert_array_equal(getattr(read, name), getattr(made(), name))


def test_what_is_no_file_of_counts_is_named(tmp_path):
    path = tmp_path / "search.npz"
    for spoil in (lambda: path.write_bytes(b"PK"), lambda: np.savez(path, lowest=3.5)):
        spoil()
        with pytest.raises(StoreError, match=r"search\.npz is damaged"):
            SearchCounts.load(path)
