"""What files from outside hold: the declared shape of JSON, and lines of tables."""

from __future__ import annotations

import csv
import io
import json

import pytest

from unglow.core.contents import check_shape, limit_lines

SHAPE = {
    "name": str,
    "gain": (None, float),
    "size": [int, int],
    "reasons": [str, ...],
    "flag?": bool,
    "levels": {...: [float, float]},
}
GOOD = {"name": "a", "gain": 1, "size": [3, 4], "reasons": [], "levels": {"x": [0, 0.5]}, "more": 0}


@pytest.mark.parametrize("change", [{}, {"gain": None}, {"flag": True}, {"reasons": ["a", "b"]}])
def test_what_fits_passes(change):
    check_shape(json.loads(json.dumps(GOOD | change)), SHAPE)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": 1}, "'name' is not a text"),
        ({"gain": "1"}, "'gain' is not a finite number"),
        ({"gain": True}, "'gain' is not a finite number"),
        ({"gain": float("nan")}, "'gain' is not a finite number"),
        ({"gain": 10**400}, "'gain' is not a finite number"),
        ({"size": [3]}, "'size' has 1 items and not 2"),
        ({"size": [3.0, 4]}, "an item of 'size' is not an integer"),
        ({"size": {"a": 1}}, "'size' is not a list"),
        ({"reasons": "ab"}, "'reasons' is not a list"),
        ({"flag": 0}, "'flag' is not true or false"),
        ({"levels": []}, "'levels' is not an object"),
        ({"levels": {"x": [1, None]}}, "an item of 'x' is not a finite number"),
    ],
)
def test_what_does_not_fit_is_named(change, message):
    with pytest.raises(ValueError, match=message):
        check_shape(GOOD | change, SHAPE)


def test_a_missing_key_and_another_kind_of_content_are_named():
    with pytest.raises(ValueError, match="'name' is missing"):
        check_shape({}, SHAPE)
    with pytest.raises(ValueError, match="its content is not an object"):
        check_shape([], SHAPE)


def test_an_endless_line_is_refused_before_it_is_read():
    stream = io.StringIO("a,b\n1,2\n" + "\0" * 5_000_000)
    rows = csv.reader(limit_lines(stream), strict=True)
    assert [next(rows), next(rows)] == [["a", "b"], ["1", "2"]]
    with pytest.raises(csv.Error, match="a line is too long"):
        next(rows)
    assert stream.tell() < 1_100_000


def test_lines_in_quotation_marks_stay_one_cell():
    stream = io.StringIO('a\n"x\ny"\n', newline="")
    assert list(csv.reader(limit_lines(stream), strict=True)) == [["a"], ["x\ny"]]
