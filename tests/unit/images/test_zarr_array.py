"""Zarr arrays of other programs: pixels as the zarr library reads them, within bounds."""

from __future__ import annotations

import itertools
import json
import os
import pickle
import re
import resource
import zipfile

import google_crc32c
import numcodecs
import numpy as np
import pytest
import zarr
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, GzipCodec, ShardingCodec, ZstdCodec

from unglow import cli
from unglow.core.errors import InputError
from unglow.core.windows import Window
from unglow.images.raw_images import not_stored, open_reader, read_header
from unglow.images.zarr_array import Node, open_array

PIXELS = np.random.default_rng(1).integers(0, 6000, (3, 90, 130)).astype("u2")
SHAPES = {"shape": PIXELS.shape, "chunks": (2, 40, 50)}


def check_as_zarr_reads_it(array, group, name="0"):
    """Compare shape, codecs and every chunk with what the library says."""
    ours, whole = open_array(Node(group).child(name)), array[:]
    assert (ours.shape, ours.chunks) == (array.shape, array.chunks)
    names = [type(codec).__name__.lower().removesuffix("codec") for codec in array.compressors]
    assert list(ours.compressors) == names
    steps = (range(0, n, c) for n, c in zip(ours.shape, ours.chunks, strict=True))
    for start in itertools.product(*steps):
        ends = zip(start, ours.chunks, ours.shape, strict=True)
        part = tuple(slice(n, min(n + c, end)) for n, c, end in ends)
        assert np.array_equal(ours.read_part(part), whole[part], equal_nan=whole.dtype.kind == "f")


@pytest.mark.parametrize("location", ["start", "end"])
def test_the_index_of_a_shard_is_at_either_end(tmp_path, location):
    sharding = ShardingCodec(
        chunk_shape=(1, 40, 50), codecs=[BytesCodec(), ZstdCodec()], index_location=location
    )
    array = zarr.create(
        store=tmp_path / "0", shape=PIXELS.shape, chunks=(2, 80, 100), dtype="u2", zarr_format=3,
        codecs=[sharding],
    )  # fmt: skip
    array[:] = PIXELS
    check_as_zarr_reads_it(array, tmp_path)
    path = tmp_path / "0" / "c" / "0" / "0" / "0"
    content = bytearray(path.read_bytes())
    content[10 if location == "start" else -10] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="Digest mismatch"):
        open_array(Node(tmp_path, "0/")).read_part((0, slice(0, 5), slice(0, 5)))


def image(path, edit=None, chunk=None):
    """Write an OME-Zarr image of version 0.4, with edited metadata or a chunk of other bytes."""
    group = zarr.open_group(str(path), mode="w", zarr_format=2)
    array = group.create_array("0", shape=(90, 130), chunks=(40, 50), dtype="u2",
                               compressors=numcodecs.Zlib())  # fmt: skip
    array[:] = PIXELS[0]
    group.attrs["multiscales"] = [{"axes": ["y", "x"], "datasets": [{"path": "0"}]}]
    document = path / "0" / ".zarray"
    document.write_text(json.dumps(json.loads(document.read_text()) | (edit or {})))
    if chunk is not None:
        (path / "0" / "0.0").write_bytes(chunk)
    return path


BOMB = bytes(300_000_000)
BOMBS = [
    *(numcodecs.GZip(), numcodecs.Zlib(), numcodecs.BZ2()),
    *(numcodecs.Zstd(), numcodecs.Blosc("zstd")),
]


def check_bomb(path, chunk, bomb):
    """Put a bomb in the place of a chunk: reading it takes no memory, and is damage."""
    header = read_header(path)
    chunk.write_bytes(bomb)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    said = "is damaged: rows 50 to 59, columns 60 to 69"
    with open_reader(header) as reader, pytest.raises(InputError, match=said):
        reader.read(Window(50, 60, 60, 70))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000


@pytest.mark.parametrize("codec", BOMBS)
def test_a_chunk_that_expands_to_more_than_its_size_is_damaged(tmp_path, codec):
    config = {key: value for key, value in codec.get_config().items() if key != "checksum"}
    path = image(tmp_path / "S.zarr", {"compressor": config})
    check_bomb(path, path / "0" / "1.1", codec.encode(BOMB))


@pytest.mark.parametrize("encoding", ["default", "v2"])
@pytest.mark.parametrize("codecs", [BloscCodec(), (BloscCodec(), Crc32cCodec()), ZstdCodec()])
@pytest.mark.parametrize("sharded", [False, True])
def test_format_3_has_no_bombs(tmp_path, codecs, sharded, encoding):
    path = tmp_path / "S.zarr"
    group = zarr.open_group(str(path), mode="w", zarr_format=3)
    array = group.create_array(
        "0", shape=PIXELS.shape[1:], chunks=(20, 25), shards=(40, 50) if sharded else None,
        dtype="u2", compressors=codecs, chunk_key_encoding={"name": encoding},
    )  # fmt: skip
    array[:] = PIXELS[0]
    group.attrs["ome"] = {"multiscales": [{"axes": ["y", "x"], "datasets": [{"path": "0"}]}]}
    with open_reader(read_header(path)) as reader:
        assert np.array_equal(reader.read(Window(0, 90, 0, 130))[0], PIXELS[0])
    bomb = numcodecs.Zstd().encode(BOMB) if codecs == ZstdCodec() else BOMBS[-1].encode(BOMB)
    if isinstance(codecs, tuple):
        bomb += google_crc32c.value(bomb).to_bytes(4, "little")
    at = (1, 1) if sharded else (2, 2)
    if sharded:  # the bomb, and what of all its chunks is there
        index = np.array([[0, len(bomb)]] * 4, "<u8").tobytes()
        bomb += index + google_crc32c.value(index).to_bytes(4, "little")
    name = f"c/{at[0]}/{at[1]}" if encoding == "default" else f"{at[0]}.{at[1]}"
    assert (path / "0" / name).is_file()
    check_bomb(path, path / "0" / name, bomb)


@pytest.mark.parametrize("codec", [None, *BOMBS])
def test_a_file_that_is_far_too_large_is_not_read(tmp_path, codec):
    """TensorStore would end the process where memory ends."""
    config = codec and {k: v for k, v in codec.get_config().items() if k != "checksum"}
    path = image(tmp_path / "S.zarr", {"compressor": config})
    chunk = path / "0" / "1.1"
    check_bomb(path, chunk, chunk.read_bytes() + BOMB)
    os.truncate(path / "0" / ".zarray", 300_000_000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InputError, match=r"S\.zarr"):
        read_header(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000


def test_blosc_inside_other_codecs_is_refused(tmp_path):
    """What it claims would be seen only when it is unpacked."""
    zarr.create_array(tmp_path / "0", **SHAPES, dtype="u2", compressors=(BloscCodec(), GzipCodec()))
    with pytest.raises(InputError, match="export it with Blosc alone"):
        open_array(Node(tmp_path, "0/"))


class Payload:
    """What runs a command when it is unpickled."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (str(self.mark),)


def test_nothing_of_an_image_is_unpickled(tmp_path, monkeypatch, capsys):
    mark = tmp_path / "mark"
    edit = {"dtype": "|O", "filters": [{"id": "pickle", "protocol": 4}], "compressor": None}
    for role in ("pre", "post"):
        (tmp_path / "raw" / "A").mkdir(parents=True, exist_ok=True)
        objects = pickle.dumps(np.full((40, 50), Payload(mark), object))
        image(tmp_path / "raw" / "A" / f"{role}_X.zarr", edit, objects)
    monkeypatch.chdir(tmp_path)
    assert cli.main(["survey"]) == 1
    assert 'Unsupported zarr dtype: "|O"): export it' in capsys.readouterr().out
    assert not mark.exists()


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        ({"filters": [{"id": "pickle"}]}, r"not read \(filters are not supported\): export it"),
        ({"compressor": {"id": "lzma"}}, r'not read \("lzma" is not registered\): export it'),
        ({"dtype": "<U8"}, r'not read \(Unsupported zarr dtype: "<U8"\): export it'),
        ({"dtype": "<c8", "fill_value": None}, "holds complex64, not plain numbers"),
        ({"dtype": [["a", "<u2"]]}, "is not an OME-Zarr image that can be read"),
        ({"shape": [-3, 130]}, "is not an OME-Zarr image that can be read"),
        ({"shape": [10**9, 10**9]}, r"2e\+09 GB of pixels, but its files have \d+ bytes"),
    ],
)
def test_metadata_that_are_not_read_are_one_sentence(tmp_path, edit, said):
    with pytest.raises(InputError, match=said):
        read_header(image(tmp_path / "S.zarr", edit))


@pytest.mark.parametrize("path", ["../other.zarr/0", "/etc", ""])
def test_an_array_lies_inside_its_image(tmp_path, path):
    store = image(tmp_path / "S.zarr")
    image(tmp_path / "other.zarr")
    group = zarr.open_group(str(store), mode="a")
    group.attrs["multiscales"] = [{"axes": ["y", "x"], "datasets": [{"path": path}]}]
    with pytest.raises(InputError, match="of an array leaves its image"):
        read_header(store)


def test_links_in_a_circle_are_one_sentence(tmp_path):
    """Two links to the folder that they are in: 2^40 paths, if all were followed."""
    store = image(tmp_path / "S.zarr")
    for name in ("a", "b"):
        (store / "0" / name).symlink_to(store / "0")
    with pytest.raises(InputError, match=r"cannot be listed .*symbolic links"):
        read_header(store)


@pytest.mark.parametrize("obstacle", ["pipe", "device", "loop"])
def test_what_is_no_file_is_not_read(tmp_path, obstacle):
    """Pixels of a pipe would never come, and those of a device would never end."""
    path = image(tmp_path / "S.zarr")
    header = read_header(path)
    chunk = path / "0" / "1.1"
    chunk.unlink()
    if obstacle == "pipe":
        os.mkfifo(chunk)
    else:
        chunk.symlink_to("/dev/zero" if obstacle == "device" else chunk)
    for attempt in (lambda: read_header(path), lambda: open_reader(header)):
        with pytest.raises(
            InputError, match=r"cannot be listed .*(1\.1 is not a regular file|symbolic links)"
        ):
            attempt()


def zip_image(path, way, folder):
    """Put an image into a ZIP file, as RFC-9 has it: its metadata first."""
    with zipfile.ZipFile(path, "w", way) as archive:
        for file in sorted(folder.rglob("*"), key=lambda f: (f.name not in JSON, f)):
            if file.is_file():
                archive.write(file, file.relative_to(folder))
    return path


JSON = ("zarr.json", ".zarray", ".zattrs", ".zgroup")


@pytest.mark.parametrize("way", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("name", ["S.ozx", "S.ome.zarr.zip"])
def test_images_in_a_zip_file_are_those_of_the_folder(tmp_path, way, version, name):
    folder = tmp_path / "S.zarr"
    group = zarr.open_group(str(folder), mode="w", zarr_format=version)
    shards = {"shards": (1, 80, 100)} if version == 3 else {}
    array = group.create_array("0", shape=PIXELS.shape, chunks=(1, 40, 50), dtype="u2", **shards)
    array[:] = PIXELS
    levels = {"multiscales": [{"axes": ["c", "y", "x"], "datasets": [{"path": "0"}]}]}
    group.attrs.update({"ome": levels} if version == 3 else levels)
    path = zip_image(tmp_path / name, way, folder)
    header, plain = read_header(path), read_header(folder)
    assert (header.shape, header.unit, len(header.channels)) == ((90, 130), (40, 50), 3)
    largest = max(f.stat().st_size for f in folder.rglob("0/**/*") if f.name not in JSON)
    unpacked = header.decode_bytes - plain.decode_bytes
    assert (unpacked >= largest) if way == zipfile.ZIP_DEFLATED else (unpacked == 0)
    with open_reader(header) as reader:
        assert np.array_equal(reader.read(Window.from_shape(header.shape)), PIXELS)
        assert not_stored(reader, [0, 1, 2]) is None


@pytest.mark.parametrize("damage", ["cut", "empty", "noise", "pipe", "other"])
def test_a_damaged_zip_file_is_named(tmp_path, damage):
    path = zip_image(tmp_path / "S.ozx", zipfile.ZIP_STORED, image(tmp_path / "S.zarr"))
    whole = path.read_bytes()
    path.unlink()
    if damage == "pipe":
        os.mkfifo(path)
    elif damage == "other":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a.txt", "text")
    else:
        path.write_bytes({"cut": whole[:-30], "empty": b"", "noise": b"noise" * 99}[damage])
    with pytest.raises(InputError, match=re.escape(str(path))):
        read_header(path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_zip_file_with_a_file_twice_can_be_unpacked(tmp_path):
    """As zarr's ZipStore writes one, if attributes are set after a group is made."""
    path = tmp_path / "S.ozx"
    with zarr.storage.ZipStore(path, mode="w") as store:
        group = zarr.group(store=store, zarr_format=3)
        group.create_array("0", data=PIXELS[0], chunks=(40, 50))
        group.attrs["ome"] = {"multiscales": [{"axes": ["y", "x"], "datasets": [{"path": "0"}]}]}
    with pytest.raises(InputError, match=r"S\.ozx"):
        read_header(path)
    folder = tmp_path / "S.ome.zarr"
    with zipfile.ZipFile(path) as archive:
        archive.extractall(folder)
    with open_reader(read_header(folder)) as reader:
        assert np.array_equal(reader.read(Window(0, 90, 0, 130))[0], PIXELS[0])


@pytest.mark.parametrize("shards", [None, (2, 80, 100)])
@pytest.mark.parametrize("lost", [[], [(0, 0)], [(1, 2), (2, 1)], list(np.ndindex(3, 3))])
def test_chunks_that_are_not_stored_are_found(tmp_path, shards, lost):
    group = zarr.open_group(str(tmp_path / "S.zarr"), mode="w", zarr_format=3)
    array = group.create_array(
        "0", shape=PIXELS.shape, chunks=(1, 40, 50), shards=shards, dtype="u2", fill_value=9
    )
    array[:] = PIXELS
    group.attrs["ome"] = {"multiscales": [{"axes": ["c", "y", "x"], "datasets": [{"path": "0"}]}]}
    expected = np.zeros((3, 3, 3), np.bool_)
    for row, col in lost:
        expected[1, row, col] = True
        array[1, row * 40 : row * 40 + 40, col * 50 : col * 50 + 50] = 9
    with open_reader(read_header(tmp_path / "S.zarr")) as reader:
        assert np.array_equal(reader.find_missing([0, 1, 2]), expected)
        assert np.array_equal(reader.read(Window(0, 90, 0, 130)), array[:])
