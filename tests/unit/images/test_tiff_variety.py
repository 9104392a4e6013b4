"""Every way to store pixels gives what tifffile gives, window by window."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tifffile
from reading_tiff import assert_same

from unglow.core.windows import Window, grid
from unglow.images.tiff import ChannelInfo, open_reader, read_header

SHAPE = (71, 93)  # divides by no strip or tile


def picture(dtype, samples=1, shape=SHAPE):
    """(samples, rows, cols) with structure, noise and the whole range of integers."""
    rng = np.random.default_rng(7)
    y, x = np.mgrid[: shape[0], : shape[1]]
    base = np.sin(x / 9) * np.cos(y / 7)
    planes = np.stack([base * (s + 1) / samples for s in range(samples)])
    planes += rng.normal(0, 0.02, planes.shape)
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        return (planes * 1000).astype(dtype)
    info = np.iinfo(dtype)
    unit = (planes - planes.min()) / np.ptp(planes)
    return (float(info.min) + unit * (float(info.max) * 0.999 - float(info.min))).astype(dtype)


DTYPES = [f"{sign}int{bits}" for sign in ("u", "") for bits in (8, 16, 32, 64)]
DTYPES += ["float16", "float32", "float64"]
LAYOUTS = {
    "strips": {"rowsperstrip": 16},
    "single strip": {"rowsperstrip": SHAPE[0]},
    "tiles": {"tile": (32, 48)},
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("byteorder", ["<", ">"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_dtype(tmp_path, dtype, byteorder, layout):
    want = picture(dtype)
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, want[0], byteorder=byteorder, **LAYOUTS[layout])
    header = assert_same(path, want)
    assert (header.layout, header.dtype) == (layout, dtype)
    assert header.big_endian == (byteorder == ">")
    assert header.channels == (ChannelInfo("0"),)
    assert header.preferred == ("windows" if layout == "tiles" else "rows")


CODECS = [
    ("uint8", "lzw", None),
    ("uint8", "packbits", None),
    ("uint8", "jpeg", None),
    ("uint8", "jpeg2000", None),
    ("uint16", "jpeg2000", None),
    ("uint16", "lzw", True),
    ("uint16", "zlib", True),
    ("uint16", "zstd", None),
    ("uint16", "lzma", None),
    ("int16", "zstd", True),
    ("float32", "zlib", True),
    ("float32", "lzw", 3),
    ("float64", "zstd", 3),
]


@pytest.mark.parametrize("planar", ["grey", "contig", "separate"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("dtype", "codec", "predictor"), CODECS)
def test_codec(tmp_path, dtype, codec, predictor, layout, planar):
    samples = 1 if planar == "grey" else 3
    want = picture(dtype, samples)
    data = np.moveaxis(want, 0, -1) if planar == "contig" else want
    path = tmp_path / "a.tif"
    tifffile.imwrite(
        path,
        data[0] if planar == "grey" else data,
        compression=codec,
        predictor=predictor,
        photometric="minisblack" if planar == "grey" else "rgb",
        planarconfig=None if planar == "grey" else planar,
        **LAYOUTS[layout],
    )
    if codec == "jpeg":
        back = tifffile.imread(path)
        want = np.moveaxis(back, -1, 0) if planar == "contig" else back.reshape(want.shape)
    header = assert_same(path, want)
    assert header.planar == (planar == "separate")
    assert header.separate == (planar != "contig")
    assert [c.name for c in header.channels] == (["0"] if planar == "grey" else list("RGB"))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_predictor_and_byte_order(tmp_path, layout):
    for dtype, predictor in (("uint16", 2), ("float32", 3), ("float64", 3)):
        want = picture(dtype, 3)
        path = tmp_path / f"{dtype}.tif"
        tifffile.imwrite(
            path,
            np.moveaxis(want, 0, -1),
            byteorder=">",
            compression="zlib",
            predictor=predictor,
            photometric="rgb",
            **LAYOUTS[layout],
        )
        assert_same(path, want)


def test_bigtiff_and_rgba(tmp_path):
    want = picture("uint8", 4)
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, np.moveaxis(want, 0, -1), bigtiff=True, photometric="rgb", tile=(16, 16))
    header = assert_same(path, want)
    assert header.bigtiff
    assert [c.name for c in header.channels] == list("RGBA")
    assert [c.alpha for c in header.channels] == [False, False, False, True]
    assert "the alpha channel is never taken for signal" in header.notes


def test_unspecified_extra_samples_are_channels(tmp_path):
    want = picture("uint16", 5)
    path = tmp_path / "a.tif"
    tifffile.imwrite(
        path, np.moveaxis(want, 0, -1), photometric="minisblack", planarconfig="contig"
    )
    header = assert_same(path, want)
    assert header.channels == tuple(ChannelInfo(str(i)) for i in range(5))


def test_jpeg_in_ycbcr_with_subsampling(tmp_path):
    data = np.moveaxis(picture("uint8", 3, (160, 130)), 0, -1)
    path = tmp_path / "a.tif"
    tifffile.imwrite(
        path, data, compression="jpeg", photometric="ycbcr", subsampling=(2, 2), tile=(64, 64)
    )
    header = assert_same(path, np.moveaxis(tifffile.imread(path), -1, 0))
    assert header.compression == "JPEG"


def palette(tmp_path, colours, bits=8):
    index = np.random.default_rng(0).integers(0, 2**bits, SHAPE).astype(np.uint8)
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, index, photometric="palette", colormap=colours)
    return path, index


@pytest.mark.parametrize("bits", [8, 16])
def test_palette_of_colours(tmp_path, bits):
    colours = np.random.default_rng(1).integers(0, 2**bits, (3, 256)).astype(np.uint16)
    path, index = palette(tmp_path, colours * 257 if bits == 8 else colours)
    header = assert_same(path, colours.astype(f"uint{bits}")[:, index])
    assert header.dtype == f"uint{bits}"
    assert [c.name for c in header.channels] == list("RGB")
    assert "palette colours are decoded to RGB" in header.notes


def test_grey_palette_is_one_channel(tmp_path):
    ramp = np.arange(255, -1, -1, dtype=np.uint16) * 256
    path, index = palette(tmp_path, np.stack([ramp] * 3))
    header = assert_same(path, (255 - index)[None])
    assert len(header.channels) == 1


@pytest.mark.parametrize(("dtype", "top"), [("uint8", 255), ("uint16", 65535), ("int16", -1)])
def test_white_is_zero_is_inverted(tmp_path, dtype, top):
    data = picture(dtype)
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, data[0], photometric="miniswhite", rowsperstrip=9)
    header = assert_same(path, (top - data.astype(np.int64)).astype(dtype))
    assert "WhiteIsZero values are inverted: bright is high" in header.notes


def test_sparse_tiles_read_as_zero(tmp_path):
    data = picture("uint8")[0].copy()
    data[:32] = 0
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, data, tile=(32, 48))
    with tifffile.TiffFile(path, mode="r+b") as tif:
        for name in ("TileOffsets", "TileByteCounts"):
            tag = tif.pages.first.tags[name]
            tag.overwrite((0, 0, *tag.value[2:]))
    header = assert_same(path, data[None])
    assert header.problems == ("2 of 6 tiles are not stored: there are no data there",)


def test_threads_read_the_same(tmp_path):
    want = picture("uint16", 3, (400, 300))
    path = tmp_path / "a.tif"
    for options in ({"tile": (64, 64)}, {"rowsperstrip": 50}):
        tifffile.imwrite(
            path, np.moveaxis(want, 0, -1), compression="zlib", photometric="rgb", **options
        )
        windows = list(grid((400, 300), (37, 300)))
        start = threading.Barrier(4)

        def read(i, windows=windows, start=start):
            start.wait()
            return [reader.read(w) for w in windows[i::4]]

        with open_reader(read_header(path)) as reader, ThreadPoolExecutor(4) as pool:
            for i, blocks in enumerate(pool.map(read, range(4))):
                for window, block in zip(windows[i::4], blocks, strict=True):
                    np.testing.assert_array_equal(block, want[(slice(None), *window.slices)])


def test_window_and_channels_are_checked(tmp_path):
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, picture("uint8")[0])
    with open_reader(read_header(path)) as reader:
        with pytest.raises(ValueError, match="leaves the image"):
            reader.read(Window(0, 72, 0, 10))
        with pytest.raises(ValueError, match="channels \\[1\\] of 1"):
            reader.read(Window(0, 2, 0, 10), [1])
        assert reader.read(Window(5, 5, 0, 10)).shape == (1, 0, 10)
