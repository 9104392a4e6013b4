"""Every codec that is streamed gives what tifffile gives, with any predictor, layout and order."""

from __future__ import annotations

import lzma
import sys

import numpy as np
import pytest
import tifffile

from unglow.core.errors import InputError
from unglow.core.windows import Window
from unglow.images.tiff import open_reader, read_header, segments
from unglow.images.tiff.segments import WINDOW_LIMIT
from unglow.images.tiff.stream_decoders import lzma_window, zstd_window

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

CODECS = ("zlib", "lzma", "zstd")
SHAPE = (90, 70)


@pytest.fixture
def tiny(monkeypatch):
    """Stream strips of a few kB, in pieces of a few rows."""
    monkeypatch.setattr(segments, "STREAM_BYTES", 1000)
    monkeypatch.setattr(segments, "PIECE_BYTES", 700)
    monkeypatch.setattr(segments, "CHUNK_BYTES", 400)


def picture(dtype, samples=1, shape=SHAPE):
    rng = np.random.default_rng(3)
    y, x = np.mgrid[: shape[0], : shape[1]]
    made = []
    for k in range(samples):
        values = 100 + 80 * np.sin(x / 9 + k) * np.cos(y / 7) + rng.normal(0, 2, shape)
        values[20:40] = 50 + k
        made.append(values * (150 if np.dtype(dtype).itemsize == 2 else 1))
    return np.stack(made).astype(dtype)


def check(path, expected, step=13):
    """Read bands from top to bottom, then a window further up, against (channels, rows, cols)."""
    header = read_header(path)
    assert header.streams
    rows, cols = header.shape
    with open_reader(header) as reader:
        for y in range(0, rows, step):
            window = Window(y, min(y + step, rows), 0, cols)
            got = reader.read(window)
            np.testing.assert_array_equal(got, expected[:, y : y + step])
        np.testing.assert_array_equal(
            reader.read(Window(5, 60, 3, 50), [0]), expected[:1, 5:60, 3:50]
        )
    return header


def supported(codec, dtype, predictor):
    kind = np.dtype(dtype).kind
    return not (predictor == 3 and kind != "f") and not (predictor == 2 and kind == "f")


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("byteorder", ["<", ">"])
@pytest.mark.parametrize("planar", [None, "contig", "separate"])
def test_streams_give_what_tifffile_gives(tmp_path, tiny, codec, byteorder, planar):
    for dtype in ("uint8", "uint16", "int16", "float32", "float64"):
        for predictor in (None, 2, 3):
            if not supported(codec, dtype, predictor):
                continue
            data = picture(dtype, 1 if planar is None else 3)
            stored = data[0] if planar is None else data
            if planar == "contig":
                stored = np.moveaxis(data, 0, -1)
            path = tmp_path / f"{dtype}{predictor}.tif"
            tifffile.imwrite(
                path,
                stored,
                photometric="minisblack" if planar is None else "rgb",
                planarconfig=planar,
                compression=codec,
                predictor=predictor,
                byteorder=byteorder,
                rowsperstrip=SHAPE[0],
            )
            np.testing.assert_array_equal(tifffile.imread(path), stored)
            header = check(path, data)
            assert header.parts == (3 if planar == "separate" else 1)


def test_planes_of_a_projection_each_keep_a_decoder(tmp_path, tiny):
    stack = np.stack([picture("uint8")[0] // (k + 1) for k in range(4)])
    path = tmp_path / "a.ome.tif"
    tifffile.imwrite(
        path, stack, compression="zstd", rowsperstrip=SHAPE[0], metadata={"axes": "ZYX"}
    )
    header = read_header(path, z="max")
    assert header.streams
    assert header.parts == 4
    assert header.others_bytes == 3 * header.kept_bytes > 0
    with open_reader(header) as reader:
        for y in range(0, SHAPE[0], 30):
            got = reader.read(Window(y, y + 30, 0, SHAPE[1]))
            np.testing.assert_array_equal(got[0], stack.max(axis=0)[y : y + 30])


# ---- damage -------------------------------------------------------------------------------------


def strip_of(path):
    with tifffile.TiffFile(path) as tif:
        page = tif.pages.first
        return page.dataoffsets[0], page.databytecounts[0]


def read_whole(path):
    header = read_header(path)
    assert header.streams
    with open_reader(header) as reader:
        reader.read(Window.from_shape(header.shape))


@pytest.mark.parametrize(
    ("codec", "kept"), [*((codec, share) for codec in CODECS for share in (0.3, 0.9)), ("zlib", -2)]
)
def test_a_strip_that_is_cut_short_is_one_sentence(tmp_path, tiny, codec, kept):
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, picture("uint16")[0], compression=codec, rowsperstrip=SHAPE[0])
    with tifffile.TiffFile(path, mode="r+b") as tif:
        tag = tif.pages.first.tags["StripByteCounts"]
        tag.overwrite(int(tag.value[0] * kept) if kept > 0 else tag.value[0] + kept)
    with pytest.raises(InputError) as caught:
        read_whole(path)
    sentence = str(caught.value)
    assert sentence.startswith(f"'{path}' is damaged: strip 0 (rows 0 to 89) cannot be decoded (")
    assert kept > 0 or "the compressed stream ends early" in sentence
    assert sentence.endswith("); copy it again from its source or write it again.")


@pytest.mark.parametrize("codec", CODECS)
def test_bytes_overwritten_far_down_are_noticed(tmp_path, tiny, codec):
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, picture("uint16")[0], compression=codec, rowsperstrip=SHAPE[0])
    offset, count = strip_of(path)
    data = bytearray(path.read_bytes())
    at = offset + count * 3 // 4
    # as it is written, Zstandard has no checksum: a few bytes may pass for others
    end = offset + count if codec == "zstd" else at + 40
    data[at:end] = bytes(end - at)
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"strip 0 \(rows 0 to 89\) cannot be decoded"):
        read_whole(path)


def test_a_wrong_checksum_of_zstd_is_noticed(tmp_path, tiny):
    image = picture("uint16")[0]
    options = {zstd.CompressionParameter.checksum_flag: 1}
    packed = bytearray(zstd.compress(image.tobytes(), options=options))
    packed[-1] ^= 1
    path = with_strip(tmp_path, image, bytes(packed))
    with pytest.raises(InputError, match="cannot be decoded"):
        read_whole(path)


# ---- windows ------------------------------------------------------------------------------------


def with_strip(tmp_path, image, packed, compression="zstd"):
    """Write a file of one strip whose bytes are given."""
    path = tmp_path / "strip.tif"
    tifffile.imwrite(
        path,
        iter([packed]),
        shape=image.shape,
        dtype=image.dtype,
        photometric="minisblack",
        compression=compression,
        rowsperstrip=image.shape[0],
    )
    return path


def packed_with(log, data):
    """Compress bytes with Zstandard and a window of 2^log bytes."""
    compressor = zstd.ZstdCompressor(options={zstd.CompressionParameter.window_log: log})
    return compressor.compress(data) + compressor.flush()


def test_frames_in_a_row_are_one_strip(tmp_path, tiny):
    image = picture("uint8")[0]
    halves = [zstd.compress(part.tobytes()) for part in (image[:40], image[40:])]
    check(with_strip(tmp_path, image, b"".join(halves)), image[None])


@pytest.mark.parametrize("preset", [0, 6, 9])
def test_the_dictionary_of_lzma_is_in_its_header(preset):
    sizes = {0: 1 << 18, 6: 1 << 23, 9: 1 << 26}
    assert lzma_window(lzma.compress(bytes(1000), preset=preset)[:64]) == sizes[preset]


ZSTD, XZ = b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\0\0\4\2\0\x80"
NO_HEADERS = (b"", ZSTD, ZSTD + b"\xe0\0\0", XZ, b"x" * 64)


@pytest.mark.parametrize("read", [zstd_window, lzma_window])
@pytest.mark.parametrize("head", NO_HEADERS)
def test_what_is_no_header_has_no_window(read, head):
    assert read(head) is None


def test_the_window_counts_and_one_as_large_as_the_strip_is_not_streamed(tmp_path):
    image = np.zeros((3000, 3000), np.uint8)
    found = {}
    for log in (18, 22, 27):
        found[log] = read_header(with_strip(tmp_path, image, packed_with(log, image.tobytes())))
    assert [found[log].streams for log in (18, 22, 27)] == [True, True, False]
    assert found[22].decode_bytes - found[18].decode_bytes == (1 << 22) - (1 << 18)
    assert found[27].decode_bytes > image.nbytes
    assert WINDOW_LIMIT >= 1 << 27


def test_a_frame_that_asks_for_more_than_the_first_one_said_is_refused(tmp_path):
    image = np.zeros((3000, 3000), np.uint8)
    parts = packed_with(12, image[:100].tobytes()), packed_with(25, image[100:].tobytes())
    path = with_strip(tmp_path, image, b"".join(parts))
    with pytest.raises(InputError, match=r"strip\.tif"):
        read_whole(path)
