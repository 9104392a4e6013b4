"""What pixels mean: tiles, strips and chunks that are not stored have no data; grey levels."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tifffile
import zarr
from array_pixels import ArrayPixels
from partial_images import drop

from unglow.core.errors import InputError
from unglow.core.records import RecordError
from unglow.core.windows import Window
from unglow.images import stored_values as module
from unglow.images.raw_images import not_stored, open_reader, read_header
from unglow.images.stored_values import MissingTiles, StoredPixels

PIXELS = np.random.default_rng(3).integers(1, 200, (2, 90, 130)).astype(np.uint8)


def found(path, channels=(0,), **plane):
    with open_reader(read_header(path, **plane)) as reader:
        return not_stored(reader, channels)


def grid(*rows):
    """A grid from rows of text, # for what is missing."""
    return np.array([[cell == "#" for cell in row] for row in rows])


def made(missing, unit=(32, 48), shape=(90, 130)):
    return MissingTiles.from_grid(missing, unit, shape, "a.tif", "tiles")


def test_tiles_are_found_and_neighbours_are_one_rectangle(tmp_path):
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, PIXELS[0], tile=(32, 48))
    assert found(path) is None
    drop(path, [1, 2, 4, 5, 6])
    gaps = found(path)
    assert (gaps.file, gaps.unit, gaps.count, gaps.units) == ("a.tif", "tiles", 5, 9)
    # what lies beyond the image (90 x 130) does not count
    assert set(gaps.rectangles) == {Window(0, 64, 48, 130), Window(64, 90, 0, 48)}
    assert gaps.share == pytest.approx((64 * 82 + 26 * 48) / (90 * 130))


def test_strips_of_the_wanted_channel_alone_count(tmp_path):
    path = tmp_path / "a.tif"
    tifffile.imwrite(
        path, PIXELS, rowsperstrip=16, planarconfig="separate", photometric="minisblack"
    )
    drop(path, [2, 6 + 5])  # each sample has six strips
    gaps = found(path, (0,))
    assert (gaps.unit, gaps.rectangles) == ("strips", (Window(32, 48, 0, 130),))
    assert found(path, (1,)).rectangles == (Window(80, 90, 0, 130),)
    assert found(path, (0, 1)).count == 2


def test_a_channel_or_a_plane_that_lacks_a_tile_makes_it_missing(tmp_path):
    path = tmp_path / "a.tif"
    tifffile.imwrite(
        path, PIXELS, tile=(32, 48), photometric="minisblack", metadata={"axes": "ZYX"}
    )
    drop(path, [4], page=1)
    assert found(path, z=0) is None
    assert (
        found(path, z=1).rectangles == found(path, z="max").rectangles == (Window(32, 64, 48, 96),)
    )


def zarr_image(place, version, axes="yx", shards=None):
    pixels = PIXELS if axes == "cyx" else PIXELS[0]
    group = zarr.open_group(str(place), mode="w", zarr_format=version)
    lead = (1,) * (len(axes) - 2)
    array = group.create_array(
        "0",
        shape=pixels.shape,
        dtype="u1",
        chunks=(*lead, 32, 48),
        shards=None if shards is None else (*lead, *shards),
    )
    array[:] = pixels
    scale = [{"type": "scale", "scale": [1.0] * len(axes)}]
    multiscale = {
        "axes": [{"name": a, "type": "channel" if a == "c" else "space"} for a in axes],
        "datasets": [{"path": "0", "coordinateTransformations": scale}],
        "version": "0.4",
    }
    group.attrs.update(
        {"multiscales": [multiscale]} if version == 2 else {"ome": {"multiscales": [multiscale]}}
    )
    return place


@pytest.mark.parametrize(("version", "key"), [(2, "0.{}.{}"), (3, "0/c/0/{}/{}")])
def test_chunks_are_found_in_either_format(tmp_path, version, key):
    path = zarr_image(tmp_path / "a.ome.zarr", version, "cyx")
    assert found(path, (0, 1)) is None
    names = {2: "0/0.{}.{}", 3: key}
    (path / names[version].format(1, 2)).unlink()
    (path / names[version].format(1, 1)).unlink()
    (path / "0" / "notes.txt").write_text("no chunk")
    gaps = found(path, (0,))
    assert (gaps.unit, gaps.count, gaps.units) == ("chunks", 2, 9)
    assert gaps.rectangles == (Window(32, 64, 48, 130),)
    assert found(path, (1,)) is None
    assert found(path, (1, 0)).rectangles == gaps.rectangles


def test_a_missing_shard_and_a_missing_entry_of_one_are_found(tmp_path):
    path = zarr_image(tmp_path / "a.ome.zarr", 3, shards=(64, 96))
    assert found(path) is None
    array = zarr.open_array(str(path / "0"), mode="r+")
    with zarr.config.set({"array.write_empty_chunks": False}):
        array[32:64, :48] = 0  # the fill value: the writer leaves the chunk out of its shard
    assert found(path).rectangles == (Window(32, 64, 0, 48),)
    (path / "0/c/1/1").unlink()
    gaps = found(path)
    assert (gaps.count, gaps.units) == (2, 9)
    assert set(gaps.rectangles) == {Window(32, 64, 0, 48), Window(64, 90, 96, 130)}
    shard = path / "0/c/0/0"
    content = bytearray(shard.read_bytes())
    content[-6] ^= 255
    shard.write_bytes(content)
    with pytest.raises(InputError, match=r"a\.ome\.zarr' is damaged"):
        found(path)


def test_rectangles_cover_what_is_missing_exactly():
    rng = np.random.default_rng(1)
    missing = rng.random((40, 30)) < 0.4
    gaps = MissingTiles.from_grid(missing, (1, 1), missing.shape, "a.tif", "tiles")
    covered = np.zeros(missing.shape, int)
    for one in gaps.rectangles:
        covered[one.slices] += 1
    assert np.array_equal(covered, missing)
    assert len(gaps.rectangles) < missing.sum()
    assert np.array_equal(gaps.mask(Window(3, 20, 5, 28)), missing[3:20, 5:28])


def test_it_goes_through_the_attributes_of_a_store():
    gaps = made(grid(".#.", "...", "#.."))
    attributes = json.loads(json.dumps({"not_stored": gaps.to_json()}))
    assert attributes["not_stored"]["rectangles_px"] == [[0, 48, 32, 96], [64, 0, 90, 48]]
    assert MissingTiles.from_attributes(attributes) == gaps
    assert MissingTiles.from_attributes({}) is None
    assert gaps.description == "2 of 9 tiles of a.tif are not stored"


@pytest.mark.parametrize("change", [{"count": "two"}, {"rectangles_px": [[1, 2, 3]]}, {"of": None}])
def test_a_damaged_attribute_is_refused(change):
    gaps = made(grid(".#.", "...", "#..")).to_json() | change
    with pytest.raises(RecordError, match=f"^{next(iter(change))}"):
        MissingTiles.from_attributes({"not_stored": gaps})


def test_px_that_are_not_stored_are_nan_on_every_level():
    gaps = made(grid("...", ".#.", "..."))  # rows 32 to 63, columns 48 to 95
    image = StoredPixels(ArrayPixels(PIXELS[0], 3), gaps)
    assert (image.shape, image.levels) == ((90, 130), 3)
    window = Window(30, 70, 40, 100)
    block = image.read(window)
    inside = np.zeros((90, 130), bool)
    inside[32:64, 48:96] = True
    assert block.dtype == np.float32
    assert np.array_equal(np.isnan(block), inside[window.slices])
    assert np.array_equal(block[~np.isnan(block)], PIXELS[0][window.slices][~inside[window.slices]])
    odd = MissingTiles.from_grid(grid("#"), (31, 47), (90, 130), "a.tif", "tiles")
    coarse = StoredPixels(ArrayPixels(PIXELS[0], 3), odd).read(Window(0, 22, 0, 32), 2)
    # a coarse px is without data if one of its px is
    assert np.array_equal(np.argwhere(np.isnan(coarse)).max(axis=0), [7, 11])
    assert np.isnan(coarse[:8, :12]).all()


def test_rectangles_grow_over_their_surroundings():
    gaps = made(grid("...", ".#.", "..."))
    (part,) = gaps.clip_to(Window(20, 90, 0, 130), grown=7)
    assert part == Window(25 - 20, 71 - 20, 41, 103)
    assert not list(gaps.clip_to(Window(71, 90, 0, 130), grown=7))


@pytest.mark.parametrize(
    ("factor", "dtype", "step"),
    [(1, np.uint8, 1), (257, np.uint16, 257), (16, np.uint16, 16), (0.25, np.float32, 0.25)],
)
def test_the_step_is_that_of_the_levels_that_occur(factor, dtype, step):
    levels = np.random.default_rng(2).poisson(9.0, (300, 400))
    image = (levels * factor).astype(dtype)
    assert module.measure_step(ArrayPixels(image)) == pytest.approx(step)


def test_real_numbers_and_constants_have_no_step():
    noise = np.random.default_rng(2).normal(0, 1, (90, 80)).astype(np.float32)
    noise[:30] = np.nan
    assert module.measure_step(ArrayPixels(noise)) == 0
    assert module.measure_step(ArrayPixels(np.full((90, 80), 7, np.uint8))) == 0
