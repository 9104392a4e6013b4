"""What cannot be read is refused with one sentence that names file, fault and remedy."""

from __future__ import annotations

import os
import re
import shutil
import struct
import tracemalloc
from functools import partial
from pathlib import Path

import imagecodecs
import numpy as np
import pytest
import tifffile
from reading_tiff import read_all, refusal

from unglow.core.errors import InputError
from unglow.core.windows import Window
from unglow.images.tiff import open_reader, read_header

IMAGE = np.random.default_rng(0).integers(0, 255, (64, 80)).astype(np.uint8)


def written(tmp_path, image=IMAGE, **options):
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, image, **options)
    return path


def put(content):
    """Return what writes bytes to a path."""
    return lambda path: path.write_bytes(content)


def link_to(name):
    return lambda path: path.symlink_to(path.with_name(name))


def directory_at(place, size):
    """Return what writes a file whose first directory is said to be at ``place``."""
    return put(struct.pack("<2sHI", b"II", 42, place) + bytes(size - 8))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: None, "does not exist: check its name in the sample sheet or the raw"),
        (link_to("gone.tif"), "is a link to '.*/gone.tif', which does not exist: fix the link"),
        (link_to("a.tif"), r"cannot be read \(Too many levels of symbolic links\)"),
        (Path.mkdir, "is a directory: name the TIFF file itself"),
        (os.mkfifo, "is not a regular file: name a TIFF file"),  # it is not waited for
        (Path.touch, r"is empty \(0 bytes\): copy it again from its source"),
        (put(b"\xff\xd8\xff\xe0\0\x10JFIF"), "is not a TIFF file: it looks like a JPEG image"),
        (put(b"PK\x03\x04abcd"), "is not a TIFF file: it looks like a ZIP archive"),
        (put(b"<!DOCTYPE html><html>"), "is not a TIFF file: it looks like a web page"),
        (put(b"version https://git-lfs.github.com/spec/v1"), "is .* a Git LFS pointer, not the im"),
        (put(bytes(1000)), "is not a TIFF file: it starts with zeros only"),
        (put(b"garbage" * 100), "is not a TIFF file: its first bytes are of no known kind"),
        (put(b"I"), "is not a TIFF file"),
        (put(b"II*\0\x08\0\0"), "is cut short: it has 7 bytes in all"),
        (directory_at(5000, 1000), "is cut short: .*at byte 5000, .*has 1000 bytes.*4002"),
        (directory_at(0, 108), r"has a broken header \(no first directory\)"),
    ],
)
def test_what_is_in_the_place_of_a_tiff_file_is_named(tmp_path, make, words):
    make(tmp_path / "a.tif")
    assert re.match(words, refusal(tmp_path / "a.tif"))


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


@pytest.mark.parametrize(
    ("tags", "words"),
    [
        ({"TileOffsets": (0,) * 4, "TileByteCounts": (0,) * 4}, "holds no pixel data"),
        ({"TileByteCounts": (10, 10)}, "has a broken header: 4 offsets and 2 byte counts"),
    ],
)
def test_tables_that_cannot_be_are_named(tmp_path, tags, words):
    path = written(tmp_path, tile=(32, 48))
    overwrite(path, **tags)
    assert re.match(words, refusal(path))


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


VOLUME = {"volumetric": True, "photometric": "minisblack", "tile": (2, 16, 16)}


@pytest.mark.parametrize(
    ("image", "options", "words"),
    [
        (np.zeros((8, 9, 4), np.uint8), {"photometric": "separated"}, r"holds ink \(CMYK\) values"),
        (np.zeros((8, 9), np.complex64), {}, "holds complex numbers: "),
        (np.zeros((4, 32, 32), np.uint8), VOLUME, ".*(volume|planes)"),
    ],
)
def test_what_is_not_intensities_is_named(tmp_path, image, options, words):
    assert re.match(words, refusal(written(tmp_path, image, **options)))


def test_unknown_compression(tmp_path):
    path = written(tmp_path, compression="zlib")
    overwrite(path, Compression=34676)
    assert re.match(r"is compressed in a way that cannot be decoded here \(.*34676", refusal(path))


def test_old_jpeg(shared_data):
    text = refusal(shared_data / "tiff_variety" / "ojpeg-tile.tif")
    assert text.startswith("is compressed with old-style JPEG, which no current tool reads")


# ---- damage in the middle -----------------------------------------------------------------------


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


@pytest.mark.parametrize(
    ("codec", "mark", "at", "size", "words"),
    [
        ("jpeg", b"\xff\xc0", 5, b"\xff\x00\xff\x00", "JPEG stream says 65280 x 65280 px"),
        (
            *("jpeg2000", b"\xff\x4f\xff\x51", 8, struct.pack(">I", 1048624)),
            "JPEG 2000 stream says 32 x 1048624 px",
        ),
    ],
)
def test_a_large_image_inside_a_small_tile_is_not_allocated(tmp_path, codec, mark, at, size, words):
    path = written(tmp_path, compression=codec, tile=(32, 48))

    def huge(data):
        place = data.index(mark) + at
        return data[:place] + size + data[place + 4 :]

    damage(path, 1, huge)
    with pytest.raises(InputError, match=f"tile 1 .*its {words}"):
        read_all(path)


LARGE = (2000, 3000)


@pytest.mark.parametrize(
    ("codec", "encode", "hostile"),
    [
        ("png", imagecodecs.png_encode, np.zeros(LARGE)),
        ("webp", partial(imagecodecs.webp_encode, lossless=True), np.zeros((*LARGE, 3))),
        ("lerc", imagecodecs.lerc_encode, np.zeros(LARGE)),
        ("jpegxl", imagecodecs.jpegxl_encode, np.zeros(LARGE)),
        ("jpegxl", imagecodecs.jpegxl_encode, np.zeros((99, 200, 300))),
        ("jpegxr", imagecodecs.jpegxr_encode, np.zeros((700, 700))),  # more hardly compresses
        ("lerc", imagecodecs.lerc_encode, 200),  # as many bands, one behind the other
    ],
)
def test_a_stream_larger_than_its_tile_is_refused_before_it_is_decoded(
    tmp_path, codec, encode, hostile
):
    rgb = (3,) if codec == "webp" else ()
    good = encode(np.zeros((32, 48, *rgb), np.uint8))
    bands = isinstance(hostile, int)
    bad = (
        encode(np.zeros((200, 300), np.uint8)) * hostile if bands else encode(hostile.astype("u1"))
    )
    path = tmp_path / "a.tif"
    options = {"photometric": "rgb" if rgb else "minisblack", "metadata": None, "tile": (32, 48)}
    tiles = iter([bad, good, good, good])
    tifffile.imwrite(path, tiles, shape=(64, 96, *rgb), dtype="u1", compression=codec, **options)
    with open_reader(read_header(path)) as reader:
        assert not reader.read(Window(32, 64, 0, 96)).any()
        tracemalloc.start()
        try:
            with pytest.raises(InputError, match=r"tile 0 .*its \w+ stream says .* samples"):
                reader.read(Window(0, 32, 0, 48))
            assert tracemalloc.get_traced_memory()[1] < 2e6
        finally:
            tracemalloc.stop()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("big", [False, True])
@pytest.mark.parametrize("number", [2, 100, 100_000])
def test_a_directory_that_is_named_below_many_times_is_refused(tmp_path, big, number):
    path = tmp_path / "a.tif"
    with tifffile.TiffWriter(path, bigtiff=big) as tif:
        tif.write(IMAGE, subifds=number, metadata=None)
        for _ in range(min(number, 4)):
            tif.write(IMAGE[::2, ::2], subfiletype=1)
    with tifffile.TiffFile(path, mode="r+b") as tif:
        below = tif.pages.first.tags[330]
        kind, content = "<u8" if big else "<u4", path.read_bytes()
        first = np.frombuffer(content, kind, 1, below.valueoffset)[0]
        with path.open("r+b") as file:
            file.seek(below.valueoffset)
            file.write(np.full(number, first, kind).tobytes())
    many, twice = "names too many others", "names one below it that was named before"
    words = many if number > 100 else twice
    assert refusal(path).startswith("has a broken header (its directory at byte ")
    assert words in refusal(path)


def test_a_directory_below_itself_is_refused(tmp_path):
    path = tmp_path / "a.tif"
    with tifffile.TiffWriter(path) as tif:
        tif.write(IMAGE, subifds=1, metadata=None)
        tif.write(IMAGE[::2, ::2], subfiletype=1)
    with tifffile.TiffFile(path, mode="r+b") as tif:
        page = tif.pages.first
        page.tags[330].overwrite((page.offset,), dtype=4)
    assert "names one below it that was named before" in refusal(path)


def test_a_pyramid_below_each_page_is_read(tmp_path):
    path = tmp_path / "a.tif"
    with tifffile.TiffWriter(path, bigtiff=True) as tif:
        for _ in range(3):
            tif.write(IMAGE, subifds=2, metadata=None)
            tif.write(IMAGE[::2, ::2], subfiletype=1)
            tif.write(IMAGE[::4, ::4], subfiletype=1)
    assert read_header(path, z=1).shape == IMAGE.shape


def test_a_tile_without_its_stream_is_named(tmp_path):
    path = written(tmp_path, compression="jpeg2000", tile=(32, 48))
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
    path = written(tmp_path, np.zeros((20, 30, 3), np.uint8), photometric="rgb")
    overwrite(path, PlanarConfiguration=7)
    assert "PlanarConfiguration 7); copy it again" in refusal(path)


@pytest.mark.parametrize("image_depth", [1, 16])
def test_the_depth_of_a_tile_does_not_multiply_what_is_decoded(tmp_path, image_depth):
    path = tmp_path / "deep.tif"
    tifffile.imwrite(path, np.stack([IMAGE] * 16), tile=(16, 16, 16), volumetric=True)
    with tifffile.TiffFile(path, mode="r+") as tif:
        tif.pages.first.tags["ImageDepth"].overwrite(image_depth)
    assert refusal(path).startswith("holds a volume in one page")
