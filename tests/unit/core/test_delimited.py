"""Lines of tables: one that is endless is not read to its end."""

from __future__ import annotations

import csv
import io

import pytest

from unglow.core.contents import limit_lines


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
