"""Pipes in the place of files, also in the midst of a run: refused, never waited for."""

from __future__ import annotations

import os
import signal
from types import SimpleNamespace

import numpy as np
import pytest
import tifffile

from unglow.core.errors import ChangedError, InputError
from unglow.io.tiff import read_header
from unglow.io.tiff.opening import open_raw
from unglow.io.tiff.read_header import resolve
from unglow.io.tiff.reader import TiffReader
from unglow.io.tiff.stream_decoders import _heads
from unglow.transform.initial_matrix import read_initial
from unglow.transform.landmarks import read_landmarks
from unglow.workflow.stages.plan import fingerprint
from unglow.workflow.stages.raw_file import RawFile

FRAME = SimpleNamespace(shape=(40, 50))


@pytest.fixture(autouse=True)
def soon():
    """End a test that waits for the other end of a pipe."""

    def late(*_):
        raise AssertionError("a pipe was waited for")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def replaced(tmp_path):
    """What was known of an image, whose place a pipe has taken since."""
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, np.zeros((40, 50), np.uint8), photometric="minisblack")
    header = read_header(path)
    known = SimpleNamespace(
        header=header,
        plane=resolve(str(path), {"series": None, "z": None, "t": None}),
        fingerprint=fingerprint(header),
        raw=RawFile(header, fingerprint(header)),
    )
    path.unlink()
    os.mkfifo(path)
    return known


def test_every_reader_of_an_image_refuses_it(replaced):
    with pytest.raises(InputError, match="is not a regular file"):
        TiffReader(replaced.plane)
    with pytest.raises(InputError, match="is not a regular file"):
        list(_heads(replaced.plane.planes[0][0]))
    with pytest.raises(InputError, match="is not a regular file"):
        open_raw(replaced.header.path)


def test_an_image_that_became_one_was_replaced(replaced):
    with pytest.raises(ChangedError, match="was changed, replaced or cut"):
        replaced.raw.check()
    state = RawFile(replaced.header, replaced.fingerprint)
    with pytest.raises(ChangedError, match="was changed, replaced or cut"):
        state.check()


def test_help_by_hand_that_is_one_is_refused(tmp_path):
    path = tmp_path / "a.landmarks.csv"
    os.mkfifo(path)
    with pytest.raises(InputError, match="it is not a regular file"):
        read_landmarks([path], FRAME, FRAME)
    with pytest.raises(InputError, match="it is not a regular file"):
        read_initial(path, FRAME, FRAME)
