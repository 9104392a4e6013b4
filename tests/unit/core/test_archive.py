"""Archives of arrays that hold something else than they say, or more than they may."""

from __future__ import annotations

import io
import os
import zipfile

import numpy as np
import pytest

from unglow.core import archive
from unglow.core.archive import load_arrays, save_arrays
from unglow.core.errors import StoreError
from unglow.photometry.difference_histogram import DifferenceHistogram


def npy(array):
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array)
    return stream.getvalue()


def written(path, content, how=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", how) as made:
        made.writestr("a.npy", content)


def header(shape):
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


SHAPES = ("(2, 1000000, 1000000)", "(2, -3, 4)", "(9,)")
CONTENTS = [header("(2, ")[:60], npy(np.array([{}], object)), b""]


@pytest.mark.parametrize("content", [*(header(s) + bytes(64) for s in SHAPES), *CONTENTS])
def test_an_array_that_is_not_what_it_says_is_refused(tmp_path, content):
    path = tmp_path / "a.npz"
    written(path, content)
    with pytest.raises(StoreError, match=r"a\.npz"):
        load_arrays(path)


def test_more_than_it_may_hold_is_refused_before_it_is_decoded(tmp_path, monkeypatch):
    path = tmp_path / "a.npz"
    save_arrays(path, {"a": np.zeros(5000)})
    assert load_arrays(path)["a"].size == 5000
    monkeypatch.setattr(archive.np.lib.format, "read_array", None)
    with pytest.raises(StoreError, match=r"a\.npz is damaged"):
        load_arrays(path, 30_000)


def test_other_codecs_and_a_damaged_table_are_refused(tmp_path):
    path = tmp_path / "a.npz"
    written(path, npy(np.zeros(9)), zipfile.ZIP_BZIP2)
    with pytest.raises(StoreError, match=r"a\.npz is damaged"):
        load_arrays(path)
    save_arrays(path, {"a": np.zeros(900)})
    whole = path.read_bytes()
    for lost in range(1, 9):  # the table lies elsewhere than its end says
        path.write_bytes(whole[:40] + whole[40 + lost :])
        with pytest.raises(StoreError, match=r"a\.npz is damaged"):
            load_arrays(path)


@pytest.mark.parametrize(
    "counts", [np.zeros(5), np.zeros((5, 1), np.int64), np.zeros(5, np.int32), np.array(3)]
)
def test_records_have_arrays_of_the_declared_type_and_shape(tmp_path, counts):
    path = tmp_path / "a.npz"
    found = DifferenceHistogram.create(-1, 1, 0.5)
    found.save(path)
    assert DifferenceHistogram.load(path).step == 0.5
    save_arrays(path, found.content() | {"counts": counts})
    with pytest.raises(StoreError, match=r"a\.npz is damaged"):
        DifferenceHistogram.load(path)


def test_a_pipe_in_its_place_is_not_waited_for(tmp_path):
    path = tmp_path / "a.npz"
    os.mkfifo(path)
    with pytest.raises(OSError, match=r"not a regular file.*a\.npz"):
        load_arrays(path)
