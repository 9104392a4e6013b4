"""What a header says about memory: what is kept between reads, and why it is as much as it is."""

from __future__ import annotations

import numpy as np
import pytest
import tifffile
from made_headers import header as promised

from unglow.images.tiff import read_header, remedy

SIDE = 3000


def whole(path, dtype="uint8", **options):
    """Return the header of an image whose pixels are there, 27 MB for each byte of a sample."""
    image = np.zeros((3, SIDE, SIDE), dtype)
    if options.get("planarconfig") != "separate":
        image = np.moveaxis(image, 0, -1)
    tifffile.imwrite(path, image, photometric="rgb", **options)
    return read_header(path)


def test_plain_rows_and_tiles_keep_nothing(tmp_path):
    for options in ({"rowsperstrip": SIDE}, {"rowsperstrip": 16}, {"tile": (256, 256)}):
        header = promised(tmp_path / "a.tif", (SIDE, SIDE, 3), np.uint8, **options)
        assert header.raw == ("rowsperstrip" in options)
        assert header.kept_bytes == header.others_bytes == 0
        assert remedy(header) is None


def test_the_last_strip_is_kept_of_every_channel_that_is_stored_apart(tmp_path):
    path = tmp_path / "a.tif"
    header = whole(path, compression="zlib", planarconfig="separate", rowsperstrip=500)
    assert not header.streams
    assert header.kept_bytes == 500 * SIDE
    assert header.parts == 3
    assert header.others_bytes == 2 * 500 * SIDE
    together = whole(path, compression="zlib", rowsperstrip=500)
    assert (together.kept_bytes, together.parts) == (3 * 500 * SIDE, 1)


@pytest.mark.parametrize(
    ("codec", "dtype", "mb"),
    [("jpeg2000", "uint8", 162), ("lzw", "uint16", 54), ("packbits", "uint16", 55)],
)
def test_one_strip_that_cannot_be_streamed_is_named(tmp_path, codec, dtype, mb):
    path = tmp_path / "a.tif"
    header = whole(path, dtype, compression=codec, rowsperstrip=SIDE)
    assert not header.streams
    assert header.decode_bytes == pytest.approx(mb * 1e6, rel=0.01)
    assert remedy(header) == (
        f"'{path}' is stored as one strip of 3000 x 3000 px in {codec.upper()}, and it has to be "
        f"decoded whole, which takes {mb} MB: write it again in tiles, for example with "
        "'bfconvert -noflat -bigtiff -tilex 512 -tiley 512 -compression zlib OLD.tif NEW.ome.tif'"
    )


@pytest.mark.parametrize("codec", ["zlib", "zstd", "lzma"])
def test_a_strip_that_is_streamed_needs_no_remedy(tmp_path, codec):
    header = whole(tmp_path / "a.tif", compression=codec, rowsperstrip=SIDE)
    assert header.streams
    assert header.decode_bytes < 40e6
    assert remedy(header) is None


def test_many_channels_apart_each_need_a_decoder(tmp_path):
    path = tmp_path / "a.ome.tif"
    image = np.zeros((8, SIDE, SIDE), np.uint8)
    options = {"compression": "lzma", "rowsperstrip": SIDE, "metadata": {"axes": "CYX"}}
    tifffile.imwrite(path, image, **options)
    header = read_header(path)
    assert header.parts == 8
    total = (header.decode_bytes + header.others_bytes) / 1e6
    assert f"which takes {total:.0f} MB" in remedy(header)


def test_large_tiles_are_named_as_such(tmp_path):
    path = tmp_path / "a.tif"
    image = np.zeros((SIDE, 2 * SIDE, 3), np.uint8)
    tifffile.imwrite(
        path, image, photometric="rgb", compression="jpeg2000", tile=(SIDE // 16 * 16, 2992)
    )
    header = read_header(path)
    assert "stored as tiles of 2992 x 2992 px in JPEG2000, and each has to" in remedy(header)
