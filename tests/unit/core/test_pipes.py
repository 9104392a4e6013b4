"""Pipes in the place of files, also in the midst of a run: refused, never waited for."""

from __future__ import annotations

import os
import signal
from types import SimpleNamespace

import numpy as np
import pytest
import tifffile
import zarr

from unglow import cli
from unglow.core.digests import Published
from unglow.core.errors import ChangedError, InputError
from unglow.core.files import read_file
from unglow.images import raw_images
from unglow.images.raw_file import RawFile, fingerprint
from unglow.images.tiff import read_header
from unglow.images.tiff.opening import open_raw
from unglow.images.tiff.read_header import resolve
from unglow.images.tiff.reader import TiffReader
from unglow.images.tiff.segments import _read_heads
from unglow.transform.landmarks import read_landmarks
from unglow.transform.matrix import read_initial
from unglow.workflow.verify import check_file

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
        list(_read_heads(replaced.plane.planes[0][0]))
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


@pytest.fixture
def chunk(tmp_path):
    """A chunk of an OME-Zarr image, in whose place there is a pipe."""
    group = zarr.open_group(str(tmp_path / "S.zarr"), mode="w", zarr_format=2)
    group.create_array("0", data=np.zeros((40, 50), np.uint8), chunks=(20, 50))
    group.attrs["multiscales"] = [{"axes": ["y", "x"], "datasets": [{"path": "0"}]}]
    path = tmp_path / "S.zarr" / "0" / "1.0"
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    return path


def test_a_chunk_that_is_one_is_refused(chunk):
    with pytest.raises(InputError, match=r"1\.0 is not a regular file"):
        raw_images.read_header(chunk.parents[1])


@pytest.mark.parametrize("name", ["zarr.json", ".zattrs", "0/.zarray"])
def test_metadata_that_are_one_are_refused(chunk, name):
    path = chunk.parents[1] / name
    for one in (chunk, path):
        one.unlink(missing_ok=True)
    os.mkfifo(path)
    with pytest.raises(InputError, match=r"S\.zarr"):
        raw_images.read_header(chunk.parents[1])


@pytest.mark.parametrize("name", ["config/samples.tsv", "raw/A/markers.csv"])
def test_a_table_that_is_one_is_a_sentence(tmp_path, monkeypatch, capsys, name):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / name
    for directory in (path.parent, tmp_path / "raw" / "A"):
        directory.mkdir(parents=True, exist_ok=True)
    image = np.zeros((2, 40, 50), np.uint8)
    tifffile.imwrite(tmp_path / "raw" / "A" / "a.ome.tif", image, metadata={"axes": "CYX"})
    os.mkfifo(path)
    assert cli.main(["survey"]) != 0
    assert "it is not a regular file" in " ".join("".join(capsys.readouterr()).split())


def test_a_sheet_without_end_takes_no_memory(tmp_path, monkeypatch, capsys):
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "samples.tsv").symlink_to("/dev/zero")
    monkeypatch.chdir(tmp_path)
    assert cli.main(["survey"]) != 0
    assert "samples.tsv cannot be read (it is not a regular file)" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["scale.json", "blocks.csv", "x.npz", "a.png"])
def test_a_result_that_is_one_cannot_be_read(tmp_path, name):
    path = tmp_path / name
    os.mkfifo(path)
    published = Published(digests={path: "0" * 64})
    assert "cannot be read (it is not a regular file)" in check_file(path, published).message


def test_a_list_of_digests_that_is_one_is_not_waited_for(tmp_path):
    (tmp_path / "details/digests").mkdir(parents=True)
    path = tmp_path / "details/digests" / "a.sha256"
    os.mkfifo(path)
    published = Published.from_files([path])
    assert "is not a whole list of digests" in check_file(path, published).message


def test_a_small_file_has_a_bound(tmp_path):
    path = tmp_path / "large.csv"
    path.write_bytes(bytes(3_000_000))
    assert len(read_file(path, 3_000_000)) == 3_000_000
    with pytest.raises(OSError, match="it has more than 2 MB"):
        read_file(path, 2_000_000)
