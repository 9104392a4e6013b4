"""Large compressed strips are decoded row by row, once, in memory that does not grow with them."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import tifffile

from unglow.core.errors import InputError
from unglow.core.windows import Window
from unglow.images.tiff import open_reader, read_header
from unglow.images.tiff.segments import RowStream

SHAPE = (2100, 4100)


@pytest.fixture(scope="module")
def image():
    """8.6 MB of uint8: smooth, noisy and constant parts."""
    rng = np.random.default_rng(2)
    y, x = np.mgrid[: SHAPE[0], : SHAPE[1]]
    data = (60 + 50 * np.sin(x / 200) * np.cos(y / 150)).astype(np.uint8)
    data[400:900] += rng.integers(0, 40, (500, SHAPE[1]), dtype=np.uint8)
    data[1500:1900] = 7
    return data


def test_each_row_is_decoded_once(tmp_path, image, monkeypatch):
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, image, compression="zlib", rowsperstrip=SHAPE[0])
    read = RowStream.read
    rows = []

    def counting(stream, n):
        rows.append(n)
        return read(stream, n)

    monkeypatch.setattr(RowStream, "read", counting)
    with open_reader(read_header(path)) as reader:
        for y in range(0, SHAPE[0], 300):
            reader.read(Window(y, y + 300, 0, SHAPE[1]))
    assert sum(rows) == SHAPE[0]


def peak_of(reader, windows):
    """Return the most bytes that reading windows takes, results included."""
    tracemalloc.start()
    try:
        for window in windows:
            reader.read(window)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("codec", "kind"), [("zlib", "image"), ("zlib", "constant"), (None, "image")]
)
def test_memory_is_the_band_and_what_the_header_says(tmp_path, image, codec, kind):
    path = tmp_path / "a.tif"
    data = np.concatenate([image] * 4)
    if kind == "constant":
        data[:] = 7
    tifffile.imwrite(path, data, compression=codec, rowsperstrip=len(data))
    header = read_header(path)
    band = Window(0, 256, 0, SHAPE[1])
    with open_reader(header) as reader:
        reader.read(Window(0, 1, 0, 1))
        peak = peak_of(reader, (band.shift(y, 0) for y in range(0, len(data) - 256, 256)))
    assert peak <= band.size + header.decode_bytes < data.nbytes
    assert header.decode_bytes < 35_000_000


@pytest.mark.parametrize(
    ("dtype", "options"),
    [
        ("uint8", {"compression": "zstd", "rowsperstrip": 1900}),
        ("uint16", {"compression": "zstd", "rowsperstrip": 950, "byteorder": ">"}),
        ("uint16", {"compression": "zstd", "rowsperstrip": 950, "predictor": 2}),
        ("float32", {"compression": "zstd", "rowsperstrip": 470, "predictor": 3}),
        ("uint8", {"compression": "jpeg", "rowsperstrip": SHAPE[0]}),
        ("uint8", {"compression": "lzw", "rowsperstrip": 900}),
        ("uint8", {"compression": "lzw", "rowsperstrip": SHAPE[0]}),
        ("uint16", {"compression": "lzw", "rowsperstrip": SHAPE[0], "predictor": 2}),
        ("uint8", {"compression": "packbits", "rowsperstrip": SHAPE[0]}),
        ("uint8", {"compression": "zlib", "tile": (1024, 1024)}),
        ("uint16", {"compression": "zlib", "tile": (1024, 1024), "photometric": "miniswhite"}),
        ("uint16", {"tile": (1024, 1024)}),
    ],
)
def test_memory_of_whole_segments_is_what_the_header_says(tmp_path, image, dtype, options):
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, image.astype(dtype), **options)
    header = read_header(path)
    rows, cols = (256, SHAPE[1]) if header.layout != "tiles" else (1024, 1024)
    with open_reader(header) as reader:
        peak = peak_of(reader, (Window(y, y + rows, 0, cols) for y in (0, rows)))
    result = rows * cols * header.sample_bytes
    small = 200_000  # Python objects and rounding
    assert 0.7 * header.decode_bytes <= peak - result <= header.decode_bytes + small


def test_a_wrong_checksum_at_the_end_is_noticed(tmp_path, image):
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, image, compression="zlib", rowsperstrip=SHAPE[0])
    with tifffile.TiffFile(path) as tif:
        end = tif.pages.first.dataoffsets[0] + tif.pages.first.databytecounts[0]
    data = bytearray(path.read_bytes())
    data[end - 1] ^= 1
    path.write_bytes(data)
    with open_reader(read_header(path)) as reader:
        reader.read(Window(0, 900, 0, 10))
        with pytest.raises(InputError, match="incorrect data check"):
            reader.read(Window(900, 2100, 0, 10))
