"""Zarr arrays of other programs: pixels as the zarr library reads them, within bounds."""

from __future__ import annotations

import bz2
import gzip
import itertools
import json
import os
import pickle
import zlib

import numcodecs
import numpy as np
import pytest
import zarr
from zarr.codecs import (
    BloscCodec,
    BytesCodec,
    Crc32cCodec,
    GzipCodec,
    ShardingCodec,
    TransposeCodec,
    ZstdCodec,
)

from unglow import cli
from unglow.core.errors import InputError
from unglow.io.raw_images import read_header, survey_blocks
from unglow.io.zarr_array import open_array
from unglow.io.zarr_codecs import DECODERS

PIXELS = np.random.default_rng(1).integers(0, 6000, (3, 90, 130)).astype("u2")
SHAPES = {"shape": PIXELS.shape, "chunks": (2, 40, 50)}


def check_as_zarr_reads_it(array, group, name="0"):
    """Compare shape, codecs and every chunk with what the library says."""
    ours, whole = open_array(group, name), array[:]
    assert (ours.shape, ours.chunks) == (array.shape, array.chunks)
    assert ours.compressors == tuple(type(codec).__name__ for codec in array.compressors)
    steps = (range(0, n, c) for n, c in zip(ours.shape, ours.chunks, strict=True))
    for start in itertools.product(*steps):
        ends = zip(start, ours.chunks, ours.shape, strict=True)
        part = tuple(slice(n, min(n + c, end)) for n, c, end in ends)
        assert np.array_equal(ours.read_part(part), whole[part], equal_nan=whole.dtype.kind == "f")


@pytest.mark.parametrize(
    "compressor",
    [
        None,
        numcodecs.Blosc("lz4"),
        numcodecs.Zstd(),
        numcodecs.GZip(),
        numcodecs.Zlib(),
        numcodecs.LZ4(),
        numcodecs.BZ2(),
    ],
)
@pytest.mark.parametrize("dtype", ["<u2", ">u2", "f4"])
@pytest.mark.parametrize(("order", "separator"), [("C", "."), ("F", "/")])
def test_arrays_of_format_2_are_what_zarr_reads(tmp_path, compressor, dtype, order, separator):
    array = zarr.create_array(
        tmp_path / "0", **SHAPES, dtype=dtype, zarr_format=2, compressors=compressor, order=order,
        fill_value=7, chunk_key_encoding={"name": "v2", "separator": separator},
    )  # fmt: skip
    array[:, :80] = PIXELS[:, :80].astype(dtype)
    (tmp_path / "0" / separator.join("000")).unlink()
    check_as_zarr_reads_it(array, tmp_path)


@pytest.mark.parametrize("one", [numcodecs.Delta("<u2"), numcodecs.Shuffle(2)])
def test_filters_of_format_2_are_undone(tmp_path, one):
    array = zarr.create_array(
        tmp_path / "0", **SHAPES, dtype="<u2", zarr_format=2, filters=(one,),
        compressors=numcodecs.Zstd(),
    )  # fmt: skip
    array[:] = PIXELS
    check_as_zarr_reads_it(array, tmp_path)


@pytest.mark.parametrize(
    "codecs",
    [None, BloscCodec(), ZstdCodec(), GzipCodec(), (ZstdCodec(), Crc32cCodec()), Crc32cCodec()],
)
@pytest.mark.parametrize("endian", ["little", "big"])
@pytest.mark.parametrize("order", [None, (2, 0, 1)])
@pytest.mark.parametrize("shards", [None, (2, 80, 100)])
def test_arrays_of_format_3_are_what_zarr_reads(tmp_path, codecs, endian, order, shards):
    array = zarr.create_array(
        tmp_path / "0", **SHAPES, shards=shards, dtype="f4", zarr_format=3, compressors=codecs,
        serializer=BytesCodec(endian=endian), fill_value=np.nan,
        filters=None if order is None else TransposeCodec(order=order),
    )  # fmt: skip
    array[:, :80] = PIXELS[:, :80]
    check_as_zarr_reads_it(array, tmp_path)


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
    with pytest.raises(ValueError, match="its checksum is wrong"):
        open_array(tmp_path, "0").read_part((0, slice(0, 5), slice(0, 5)))


BOMB = bytes(30_000_000)
BOMBS = {
    "blosc": numcodecs.Blosc("zstd").encode(BOMB),
    "zstd": numcodecs.Zstd().encode(BOMB),
    "lz4": numcodecs.LZ4().encode(BOMB),
    "gzip": gzip.compress(BOMB),
    "zlib": zlib.compress(BOMB),
    "bz2": bz2.compress(BOMB),
}


@pytest.mark.parametrize("codec", BOMBS)
def test_nothing_is_decoded_to_more_than_its_size(codec):
    """What has no size in its header is decoded to one byte more, and the caller sees that."""
    try:
        assert len(DECODERS[codec](BOMBS[codec], 1000)) == 1001
    except ValueError as error:
        assert "a chunk of 30000000 bytes where there should be 1000" in str(error)  # noqa: PT017


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


def test_a_chunk_that_expands_to_more_than_its_size_is_damaged(tmp_path):
    header = read_header(image(tmp_path / "S.zarr", chunk=zlib.compress(BOMB[:3_000_000])))
    with pytest.raises(InputError, match=r"is damaged.*a chunk of 4001 bytes where .* 4000"):
        list(survey_blocks(header))
    header = read_header(image(tmp_path / "S.zarr", chunk=bytes(20_000)))
    with pytest.raises(InputError, match=r"is stored in 20000 bytes, but has at most 12096"):
        list(survey_blocks(header))


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
    assert "holds |O, not plain numbers: export it as grey levels" in capsys.readouterr().out
    assert not mark.exists()


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        ({"filters": [{"id": "pickle"}]}, "stored with the codec pickle, which is not read"),
        ({"filters": [{"id": "delta", "dtype": "|O"}]}, "the codec delta of another type"),
        ({"compressor": {"id": "lzma"}}, "stored with the codec lzma, .* one of blosc, zstd"),
        ({"dtype": "<U8"}, "holds <U8, not plain numbers"),
        ({"dtype": [["a", "<u2"]]}, "not plain numbers"),
        ({"shape": [1e9, 130]}, "an array of shape"),
        ({"chunks": [0, 50]}, "in chunks of"),
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
