"""Tables and reports of candidates are read as they were written, and doubted where they differ."""

from __future__ import annotations

import json

import numpy as np
import pytest

from unglow.core.errors import InputError
from unglow.io.detection_results import read_candidates, read_report

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
