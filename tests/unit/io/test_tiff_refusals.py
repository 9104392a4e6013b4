"""What cannot be read is refused with one sentence that names file, fault and remedy."""

from __future__ import annotations

import os
import re
import shutil
import struct

import numpy as np
import pytest
import tifffile

from unglow.core.errors import InputError
from unglow.core.windows import Window
from unglow.io.tiff import open_reader, read_header

IMAGE = np.random.default_rng(0).integers(0, 255, (64, 80)).astype(np.uint8)


def refusal(path, **choice):
    with pytest.raises(InputError) as caught:
        read_header(path, **choice)
    text = str(caught.value)
    assert text.startswith(f"'{path}'")
    assert text.endswith(".")
    assert "\n" not in text
    return text.removeprefix(f"'{path}' ")


def written(tmp_path, image=IMAGE, **options):
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, image, **options)
    return path


def test_missing(tmp_path):
    assert refusal(tmp_path / "a.tif") == (
        "does not exist: check its name in the sample sheet or the raw directory."
    )


def test_dangling_link(tmp_path):
    path = tmp_path / "a.tif"
    path.symlink_to(tmp_path / "gone.tif")
    assert refusal(path) == (
        f"is a link to '{tmp_path / 'gone.tif'}', which does not exist: fix the link or put the "
        "image there."
    )


def test_link_to_itself(tmp_path):
    path = tmp_path / "a.tif"
    path.symlink_to(path)
    assert "cannot be read (Too many levels of symbolic links)" in refusal(path)


def test_directory(tmp_path):
    path = tmp_path / "a.tif"
    path.mkdir()
    assert refusal(path) == "is a directory: name the TIFF file itself."


def test_pipe_is_not_waited_for(tmp_path):
    path = tmp_path / "a.tif"
    os.mkfifo(path)
    assert refusal(path) == "is not a regular file: name a TIFF file."


def test_permission(tmp_path):
    path = written(tmp_path)
    path.chmod(0)
    user = os.geteuid()
    try:
        if user == 0:  # root may read everything, nobody may not
            os.seteuid(65534)
        assert refusal(path) == "may not be read by this user: change its permissions."
    finally:
        os.seteuid(user)


def test_empty(tmp_path):
    path = tmp_path / "a.tif"
    path.touch()
    assert refusal(path) == "is empty (0 bytes): copy it again from its source."


@pytest.mark.parametrize(
    ("first", "what"),
    [
        (b"\xff\xd8\xff\xe0\0\x10JFIF", "a JPEG image"),
        (b"\x89PNG\r\n\x1a\n", "a PNG image"),
        (b"PK\x03\x04abcd", "a ZIP archive"),
        (b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
        (b"<!DOCTYPE html><html>", "a web page"),
        (b"version https://git-lfs.github.com/spec/v1", "a Git LFS pointer, not the image itself"),
    ],
)
def test_another_format_under_the_name_of_tiff(tmp_path, first, what):
    path = tmp_path / "a.tif"
    path.write_bytes(first + bytes(100))
    assert refusal(path) == (
        f"is not a TIFF file: it looks like {what}; convert it to TIFF or take it out of the raw "
        "images."
    )


def test_zeros_and_garbage(tmp_path):
    path = tmp_path / "a.tif"
    path.write_bytes(bytes(1000))
    assert refusal(path) == (
        "is not a TIFF file: it starts with zeros only; copy it again from its source."
    )
    path.write_bytes(b"garbage" * 100)
    assert refusal(path) == (
        "is not a TIFF file: its first bytes are of no known kind; convert it to TIFF or take it "
        "out."
    )


def test_only_the_first_bytes(tmp_path):
    path = written(tmp_path)
    path.write_bytes(path.read_bytes()[:7])
    assert refusal(path) == ("is cut short: it has 7 bytes in all; copy it again from its source.")
    path.write_bytes(b"I")
    assert refusal(path).startswith("is not a TIFF file")


@pytest.mark.parametrize("options", [{}, {"rowsperstrip": 8}, {"tile": (16, 16)}])
@pytest.mark.parametrize("compression", [None, "zlib"])
@pytest.mark.parametrize("missing", [1, 1000])
def test_cut_short(tmp_path, options, compression, missing):
    path = written(tmp_path, compression=compression, **options)
    with tifffile.TiffFile(path) as tif:
        page = tif.pages.first
        end = max(a + b for a, b in zip(page.dataoffsets, page.databytecounts, strict=True))
    path.write_bytes(path.read_bytes()[: end - missing])
    assert refusal(path) == (
        f"is cut short: {missing} bytes are missing at its end (it has {end - missing}); copy it "
        "again from its source."
    )


def test_cut_short_before_a_directory_at_the_end(tmp_path):
    path = tmp_path / "a.tif"
    path.write_bytes(struct.pack("<2sHI", b"II", 42, 5000) + bytes(992))
    assert refusal(path) == (
        "is cut short: its first directory should be at byte 5000, but the file has 1000 bytes, so "
        "at least 4002 bytes are missing; copy it again from its source."
    )


def test_no_directory(tmp_path):
    path = tmp_path / "a.tif"
    path.write_bytes(struct.pack("<2sHI", b"II", 42, 0) + bytes(100))
    assert "has a broken header (no first directory)" in refusal(path)


def overwrite(path, **tags):
    with tifffile.TiffFile(path, mode="r+b") as tif:
        for name, value in tags.items():
            tif.pages.first.tags[name].overwrite(value)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("big", [False, True])
@pytest.mark.parametrize("back_to", [0, 2])
def test_directories_in_a_circle(tmp_path, order, big, back_to):
    options = {"photometric": "minisblack", "metadata": None, "bigtiff": big, "byteorder": order}
    path = written(tmp_path, np.stack([IMAGE] * 3), **options)
    with tifffile.TiffFile(path) as tif:
        places = [page.offset for page in tif.pages]
        tags = len(tif.pages[2].tags)
    with path.open("r+b") as file:
        file.seek(places[2] + (8 + 20 * tags if big else 2 + 12 * tags))
        file.write(struct.pack(order + ("Q" if big else "I"), places[back_to]))
    assert refusal(path, z=0) == (
        "has a broken header (its directories follow one another in a circle, back to byte "
        f"{places[back_to]}): copy it again from its source or write it again."
    )


def test_nothing_was_ever_written(tmp_path):
    path = written(tmp_path, tile=(32, 48))
    overwrite(path, TileOffsets=(0,) * 4, TileByteCounts=(0,) * 4)
    assert refusal(path) == (
        "holds no pixel data (every offset or byte count is 0): writing it was probably "
        "interrupted; write it again."
    )


def test_table_of_wrong_length(tmp_path):
    path = written(tmp_path, tile=(32, 48))
    overwrite(path, TileByteCounts=(10, 10))
    assert refusal(path) == (
        "has a broken header: 4 offsets and 2 byte counts for 4 tiles; copy it again from its "
        "source or write it again."
    )


def test_strip_that_cannot_hold_its_pixels(tmp_path):
    path = written(tmp_path, rowsperstrip=16)
    with tifffile.TiffFile(path) as tif:
        counts = list(tif.pages.first.databytecounts)
        offset = tif.pages.first.dataoffsets[2]
    counts[2] = 7
    overwrite(path, StripByteCounts=tuple(counts))
    assert refusal(path) == (
        f"is damaged: strip 2 (rows 32 to 47) has 7 bytes at offset {offset} for 1280 bytes of "
        "pixels; copy it again from its source or write it again."
    )


def test_ink(tmp_path):
    path = written(tmp_path, np.zeros((8, 9, 4), np.uint8), photometric="separated")
    assert refusal(path) == (
        "holds ink (CMYK) values, not light: export it as grey or RGB of 8, 16 or 32 bits."
    )


def test_complex(tmp_path):
    path = written(tmp_path, np.zeros((8, 9), np.complex64))
    assert refusal(path).startswith("holds complex numbers: ")


def test_unknown_compression(tmp_path):
    path = written(tmp_path, compression="zlib")
    overwrite(path, Compression=34676)
    assert re.match(r"is compressed in a way that cannot be decoded here \(.*34676", refusal(path))


def test_volume_in_a_page(tmp_path):
    path = written(
        tmp_path,
        np.zeros((4, 32, 32), np.uint8),
        volumetric=True,
        photometric="minisblack",
        tile=(2, 16, 16),
    )
    assert "volume" in refusal(path) or "planes" in refusal(path)


def test_old_jpeg(shared_data):
    text = refusal(shared_data / "tiff_variety" / "ojpeg-tile.tif")
    assert text.startswith("is compressed with old-style JPEG, which no current tool reads")


# ---- damage in the middle -----------------------------------------------------------------------


def read_all(path):
    with open_reader(read_header(path)) as reader:
        return reader.read(Window.from_shape(reader.header.shape))


def damage(path, segment, change):
    with tifffile.TiffFile(path) as tif:
        start = tif.pages.first.dataoffsets[segment]
        size = tif.pages.first.databytecounts[segment]
    data = bytearray(path.read_bytes())
    data[start : start + size] = change(bytes(data[start : start + size]))
    path.write_bytes(data)


def zeros(data):
    half = len(data) // 2
    return data[:half] + bytes(len(data) - half)


@pytest.mark.parametrize("codec", ["zlib", "zstd", "lzw", "jpeg", "lzma"])
def test_a_damaged_strip_is_named_and_the_others_can_be_read(tmp_path, codec):
    smooth = (np.add.outer(np.arange(64), np.arange(80)) + IMAGE // 16).astype(np.uint8)
    path = written(tmp_path, smooth, compression=codec, rowsperstrip=16)
    whole = read_all(path)
    damage(path, 2, zeros)
    with open_reader(read_header(path)) as reader:
        np.testing.assert_array_equal(reader.read(Window(0, 32, 0, 80)), whole[:, :32])
        np.testing.assert_array_equal(reader.read(Window(48, 64, 0, 80)), whole[:, 48:])
        with pytest.raises(InputError) as caught:
            reader.read(Window(40, 64, 0, 80))
    start = f"'{path}' is damaged: strip 2 (rows 32 to 47) cannot be decoded ("
    assert str(caught.value).startswith(start)
    assert str(caught.value).endswith("; copy it again from its source or write it again.")


def test_a_damaged_tile_is_named(tmp_path):
    path = written(tmp_path, compression="zlib", tile=(32, 48))
    damage(path, 3, zeros)
    with pytest.raises(InputError, match=r"tile 3 \(rows 32 to 63, columns 48 to 79\) cannot be"):
        read_all(path)


def test_a_large_jpeg_inside_a_small_tile_is_not_allocated(tmp_path):
    path = written(tmp_path, compression="jpeg", tile=(32, 48))

    def huge(data):
        at = data.index(b"\xff\xc0")
        return data[: at + 5] + b"\xff\x00\xff\x00" + data[at + 9 :]

    damage(path, 1, huge)
    with pytest.raises(InputError, match=r"tile 1 .*its JPEG stream says 65280 x 65280 px"):
        read_all(path)


def test_a_large_jpeg_2000_inside_a_small_tile_is_not_allocated(tmp_path):
    path = written(tmp_path, compression="jpeg2000", tile=(32, 48))

    def huge(data):
        at = data.index(b"\xff\x4f\xff\x51")
        return data[: at + 8] + struct.pack(">I", 1048624) + data[at + 12 :]

    damage(path, 1, huge)
    with pytest.raises(InputError, match=r"tile 1 .*its JPEG 2000 stream says 32 x 1048624 px"):
        read_all(path)
    damage(path, 1, lambda data: bytes(len(data)))
    with pytest.raises(InputError, match=r"tile 1 .*no JPEG 2000 stream starts there"):
        read_all(path)


def test_a_file_that_changes_under_way(tmp_path):
    path = written(tmp_path)
    header = read_header(path)
    tifffile.imwrite(path, IMAGE[:-1])
    with pytest.raises(InputError, match="has changed since its header was read: start the run"):
        open_reader(header)


def test_a_file_that_shrinks_while_it_is_read(tmp_path):
    path = written(tmp_path, compression="zlib", rowsperstrip=16)
    with open_reader(read_header(path)) as reader:
        os.truncate(path, path.stat().st_size - 50)
        with pytest.raises(InputError, match=r"strip 3 \(rows 48 to 63\).*50 of its bytes are"):
            reader.read(Window.from_shape(reader.header.shape))


def test_odd_names(tmp_path):
    for name in ("mit Leerzeichen.tif", "µm – 日本.tif", "no suffix", "wrong.png"):
        path = tmp_path / name
        shutil.copy(written(tmp_path), path)
        np.testing.assert_array_equal(read_all(path)[0], IMAGE)


def test_samples_arranged_in_no_known_way_are_refused(tmp_path):
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, np.zeros((20, 30, 3), np.uint8), photometric="rgb")
    with tifffile.TiffFile(path, mode="r+b") as tif:
        tif.pages.first.tags["PlanarConfiguration"].overwrite(7)
    with pytest.raises(InputError, match=r"PlanarConfiguration 7\); copy it again"):
        read_header(path)
