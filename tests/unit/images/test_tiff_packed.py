"""Samples that share bytes are read as tifffile reads them, and damage does not multiply them."""

from __future__ import annotations

import struct
import tracemalloc

import numpy as np
import pytest
import tifffile

from unglow.core.errors import InputError
from unglow.core.windows import Window
from unglow.images.tiff import open_reader, read_header

SHAPE = (71, 93)
CODECS = (None, "zlib", "lzw", "packbits", "lzma", "zstd")
LAYOUTS = ({"rowsperstrip": 16}, {"rowsperstrip": 71}, {"tile": (32, 48)})


def retagged(path, **values):
    """Change tags of the first page."""
    with tifffile.TiffFile(path, mode="r+b") as tif:
        for name, value in values.items():
            tif.pages.first.tags[name].overwrite(value)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_bilevel_pixels_in_every_codec(tmp_path, codec, layout):
    image = np.random.default_rng(0).random(SHAPE) > 0.4
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, image, photometric="minisblack", compression=codec, **layout)
    with open_reader(read_header(path)) as reader:
        assert reader.header.dtype == "uint8"
        np.testing.assert_array_equal(reader.read(Window.from_shape(SHAPE))[0], image)
        np.testing.assert_array_equal(reader.read(Window(9, 44, 5, 80))[0], image[9:44, 5:80])


def test_bits_that_begin_at_the_low_end_of_a_byte(tmp_path):
    image = np.random.default_rng(0).random((64, 80)) > 0.4
    path = tmp_path / "a.tif"
    stand_in = [(65266, "H", 1, 2, True)]  # tifffile does not write FillOrder
    tifffile.imwrite(path, image, photometric="minisblack", extratags=stand_in, rowsperstrip=16)
    entry = struct.pack("<HHI", 65266, 3, 1)
    path.write_bytes(path.read_bytes().replace(entry, struct.pack("<HHI", 266, 3, 1)))
    want = image.reshape(64, 10, 8)[:, :, ::-1].reshape(64, 80)  # written high end first
    with open_reader(read_header(path)) as reader:
        np.testing.assert_array_equal(reader.read(Window.from_shape(image.shape))[0], want)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_twelve_bits(tmp_path, layout):
    image = np.random.default_rng(1).integers(0, 1 << 12, SHAPE, dtype=np.uint16)
    path = tmp_path / "a.tif"
    try:
        tifffile.imwrite(path, image, bitspersample=12, photometric="minisblack", **layout)
    except NotImplementedError:
        pytest.skip("this imagecodecs reads packed integers, but does not write them")
    with open_reader(read_header(path)) as reader:
        np.testing.assert_array_equal(reader.read(Window.from_shape(SHAPE))[0], image)


@pytest.mark.parametrize("codec", CODECS)
def test_bytes_that_a_damaged_header_calls_bits_take_no_more_than_declared(tmp_path, codec):
    side = 2000
    image = np.random.default_rng(2).integers(0, 256, (side, side), dtype=np.uint8)
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, image, rowsperstrip=side, compression=codec)
    retagged(path, BitsPerSample=1)
    header = read_header(path)
    with open_reader(header) as reader:
        tracemalloc.start()
        got = reader.read(Window.from_shape(header.shape))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak <= got.nbytes + header.decode_bytes + 50_000  # objects of Python
    bits = np.unpackbits(image.reshape(-1)[: side * side // 8]).reshape(side, side)
    np.testing.assert_array_equal(got[0], bits)


def test_bits_that_are_missing_are_damage(tmp_path):
    image = np.zeros((64, 64), bool)
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, image, photometric="minisblack", compression="zlib", rowsperstrip=64)
    retagged(path, ImageLength=80, RowsPerStrip=80)
    header = read_header(path)
    with open_reader(header) as reader, pytest.raises(InputError, match="128 of its decoded bytes"):
        reader.read(Window.from_shape(header.shape))
