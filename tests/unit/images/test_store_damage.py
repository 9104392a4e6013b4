"""What is missing or damaged is an error that names the shard, never a fill value."""

from __future__ import annotations

import re
import shutil

import numpy as np
import pytest
from made_stores import write_store

from unglow.core.errors import StoreError
from unglow.core.windows import Window
from unglow.images.zarr import StoreLayout, open_store, shards, verify

LAYOUT = StoreLayout((600, 500), "uint16", (128, 128), (256, 256), levels=3)
SHARD = "0/c/1/1"
INSIDE = Window(256, 512, 256, 500)
ELSEWHERE = Window(0, 256, 0, 500)


@pytest.fixture(scope="module")
def pristine(tmp_path_factory):
    path = tmp_path_factory.mktemp("store") / "a.ome.zarr"
    image = np.random.default_rng(0).integers(0, 4096, LAYOUT.shape, dtype=np.uint16)
    return write_store(path, image, LAYOUT).path


@pytest.fixture
def path(pristine, tmp_path):
    return shutil.copytree(pristine, tmp_path / "a.ome.zarr")


def flip(position):
    def damage(file):
        data = bytearray(file.read_bytes())
        data[position] ^= 0x10
        file.write_bytes(data)

    return damage


def cut(keep):
    return lambda file: file.write_bytes(file.read_bytes()[:keep])


def hide_chunk(file):
    """Rewrite the shard without its first chunk: Zarr would read zeros."""
    import zarr

    row, col = file.parts[-2:]
    array = zarr.open_array(file.parents[2], mode="r+", config={"write_empty_chunks": False})
    array[int(row) * 256 : int(row) * 256 + 128, int(col) * 256 : int(col) * 256 + 128] = 0


CHECKSUM = r"is damaged (Stored and computed checksum do not match)"
FOUND_ON_OPENING = [
    (lambda file: file.unlink(), "is missing"),
    (cut(0), "is empty"),
    (cut(10), "has only 10 bytes"),
    (cut(-1), CHECKSUM),
]
FOUND_ON_READING = [
    *FOUND_ON_OPENING,
    (flip(1000), CHECKSUM),
    (flip(-10), CHECKSUM),
    (hide_chunk, "lacks a chunk"),
]


@pytest.mark.parametrize(("damage", "reason"), FOUND_ON_OPENING)
@pytest.mark.parametrize("shard", [SHARD, "1/c/0/0", "2/c/0/0"])
def test_opening_names_the_shard_and_the_remedy(path, damage, reason, shard):
    damage(path / shard)
    with pytest.raises(StoreError) as caught:
        open_store(path)
    assert str(caught.value) == (
        f"{path}: shard {shard} {reason}; delete {path}/zarr.json and rerun the workflow to make "
        "the store again"
    )


@pytest.mark.parametrize(("damage", "reason"), FOUND_ON_READING)
def test_reading_names_the_shard(path, damage, reason):
    store = open_store(path)
    before = store.read(ELSEWHERE)
    damage(path / SHARD)
    with pytest.raises(StoreError, match=rf"shard {SHARD} {re.escape(reason)}; delete .*rerun"):
        store.read(INSIDE)
    np.testing.assert_array_equal(store.read(ELSEWHERE), before)


@pytest.mark.parametrize(("damage", "reason"), FOUND_ON_READING)
def test_verify_lists_every_damaged_shard(path, damage, reason):
    damage(path / SHARD)
    damage(path / "0/c/2/0")
    problems = verify(path)
    assert [p.split(": ")[1].split(";")[0] for p in problems] == [
        f"shard {SHARD} {reason}",
        f"shard 0/c/2/0 {reason}",
    ]


def test_bytes_as_written_that_do_not_decompress_lacked_memory(path, monkeypatch):
    """Blosc fails in the same way without memory: the remedy is not to delete the store."""
    import imagecodecs

    def without_memory(*_, **__):
        raise imagecodecs.BloscError("blosc_decompress_ctx returned -1")

    monkeypatch.setattr(imagecodecs, "blosc_decode", without_memory)
    with pytest.raises(MemoryError, match="a chunk with the right checksum: blosc_decompress"):
        open_store(path).read(INSIDE)


def test_a_chunk_of_another_size_is_refused_before_it_is_decoded(path):
    store = open_store(path)
    small = shards.encode_chunk(np.zeros((64, 64), np.uint16), (64, 64), 0)
    index = np.array([[k * len(small), len(small)] for k in range(4)], "<u8").tobytes()
    (path / SHARD).write_bytes(4 * small + shards._append_checksum(index))
    with pytest.raises(StoreError, match=f"{SHARD} .* of 8192 bytes where there should be 32768"):
        store.read(INSIDE)


def test_verify_finds_sound_shards_of_another_store(path):
    shutil.copy(path / "0/c/0/0", path / SHARD)  # same size, other pixels: 256 x 244 of 256 x 256
    (problem,) = verify(path)
    assert "the digest differs" in problem


def test_opening_compares_the_sizes(path):
    shutil.copy(path / "0/c/0/1", path / SHARD)  # sound, but not as large as what was published
    with pytest.raises(StoreError, match=r"its shards have \d+ bytes in all where \d+ were"):
        open_store(path)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda file: file.unlink(), r"file 1/zarr\.json cannot be read; delete .*rerun"),
        (cut(100), r"file 1/zarr\.json cannot be read"),
        (
            lambda file: file.write_text(file.read_text().replace("uint16", "int16")),
            r"file 1/zarr\.json does not fit the layout in the root's zarr\.json",
        ),
    ],
)
def test_the_document_of_a_level(path, damage, message):
    store = open_store(path)
    damage(path / "1" / "zarr.json")
    with pytest.raises(StoreError, match=message):
        store.read(Window(0, 1, 0, 1), 1)
    (problem,) = verify(path)
    assert re.search(message, problem)


def test_attributes_that_somebody_gives_a_level_do_no_harm(path):
    before = open_store(path).read(Window(0, 9, 0, 9), 1)
    file = path / "1" / "zarr.json"
    file.write_text(file.read_text().replace('"attributes": {}', '"attributes": {"seen": true}'))
    assert '"seen"' in file.read_text()
    np.testing.assert_array_equal(open_store(path).read(Window(0, 9, 0, 9), 1), before)
    assert verify(path) == []


def test_a_file_that_the_system_refuses(path):
    store = open_store(path)
    (path / SHARD).unlink()
    (path / SHARD).symlink_to(path / SHARD)
    with pytest.raises(StoreError, match=rf"shard {SHARD} cannot be read \(Too many levels of"):
        store.read(INSIDE)


def test_a_missing_directory_of_shards(path):
    shutil.rmtree(path / "1" / "c")
    with pytest.raises(StoreError, match="shard 1/c/0/0 is missing"):
        open_store(path)


def test_stray_files_do_no_harm(path):
    (path / "0" / "c" / ".DS_Store").touch()
    (path / "0" / "c" / "0" / ".nfs0001").touch()
    assert open_store(path).read(INSIDE).shape == INSIDE.shape


def test_no_store_at_all(tmp_path):
    for function in (open_store, verify):
        with pytest.raises(StoreError, match=r"x\.ome\.zarr"):
            function(tmp_path / "x.ome.zarr")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", r"zarr\.json cannot be read"),
        ("[]", "not a store that unglow wrote"),
        ('{"zarr_format": 3, "node_type": "group", "attributes": {}}', "not a store that unglow"),
    ],
)
def test_not_ours(path, text, message):
    (path / "zarr.json").write_text(text)
    with pytest.raises(StoreError, match=message):
        open_store(path)
