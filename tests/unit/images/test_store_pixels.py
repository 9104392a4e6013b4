"""Pixels come back exactly, at every level, whatever the order and the threads."""

from __future__ import annotations

import hashlib
import json
import random

import numpy as np
import pytest
from made_stores import write_store

from unglow.core.windows import Window, halve_stored
from unglow.images.zarr import StoreLayout, verify


def whole(store, level=0):
    return store.read(Window.from_shape(store.level_shape(level)), level)


def noise(shape, dtype, seed=1):
    rng = np.random.default_rng(seed)
    if np.issubdtype(dtype, np.integer):
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
    return rng.normal(size=shape).astype(dtype)


def mean_of_four(image):
    """Halve with exact arithmetic: float64 for small integers, Python rounding half to even."""
    rows, cols = (n // 2 * 2 for n in image.shape)
    quads = np.stack([image[i:rows:2, j:cols:2] for i in (0, 1) for j in (0, 1)])
    if np.issubdtype(image.dtype, np.integer):
        return np.rint(quads.astype(np.float64).sum(axis=0) / 4).astype(image.dtype)
    with np.errstate(invalid="ignore"):
        count = (~np.isnan(quads)).sum(axis=0)
        return (np.nansum(quads.astype(np.float64), axis=0) / count).astype(image.dtype)


SMALL_SHARDS = {"chunks": (128, 128), "shards": (256, 256)}


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16", "uint32", "int32"])
@pytest.mark.parametrize("shape", [(1031, 777), (257, 513), (40, 3)])
def test_integers_are_exact_at_every_level(tmp_path, dtype, shape):
    image = noise(shape, dtype)
    layout = StoreLayout(shape, dtype, levels=min(4, min(shape).bit_length()), **SMALL_SHARDS)
    store = write_store(tmp_path / "a.ome.zarr", image, layout=layout)
    assert store.dtype == np.dtype(dtype)
    for level in range(store.levels):
        stored = whole(store, level)
        assert stored.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(stored, image)
        image = mean_of_four(image)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_floats_ignore_nan_at_every_level(tmp_path, dtype):
    image = np.round(noise((1031, 777), dtype) * 3200) / 32
    image[:300, :200] = np.nan
    image[np.random.default_rng(2).random(image.shape) < 0.3] = np.nan
    layout = StoreLayout(image.shape, dtype, levels=4, **SMALL_SHARDS)
    store = write_store(tmp_path / "a.ome.zarr", image, layout=layout)
    for level in range(store.levels):
        # Means are taken in float32 at each level: 2e-5 is a rounding step or two of a grey level
        # of 200, and a thousandth of the 1/32 that the pixels are rounded to.
        atol = 0 if level == 0 else 2e-5
        np.testing.assert_allclose(whole(store, level), image, rtol=0, atol=atol)
        image = mean_of_four(image)
    assert np.isnan(whole(store, 3)[:37, :25]).all()


def test_halving_rounds_half_to_even():
    block = np.array([[0, 0, 1, 1, 0, 3], [1, 1, 1, 3, 0, 0]])  # means 0.5, 1.5, 0.75
    for dtype in ("uint8", "int16", "uint32"):
        assert halve_stored(block.astype(dtype)).tolist() == [[0, 2, 1]]
    assert halve_stored(-block.astype(np.int32)).tolist() == [[0, -2, -1]]
    assert halve_stored(-block.astype(np.int16)).tolist() == [[0, -2, -1]]


def test_coarse_levels_of_several_shards(tmp_path):
    image = noise((300, 8400), "uint8")
    layout = StoreLayout(image.shape, "uint8", (64, 128), (64, 128), levels=4)
    assert layout.fine_levels == 0
    assert layout.level_shards(1) == (256, 2048)
    one = write_store(tmp_path / "1.ome.zarr", image, layout=layout)
    two = write_store(tmp_path / "2.ome.zarr", image, layout=layout, workers=2)
    for level in range(4):
        np.testing.assert_array_equal(whole(one, level), image)
        image = mean_of_four(image)
    assert one.digest == two.digest


@pytest.mark.parametrize("pixel_size", [None, (0.325, 0.65)])
def test_levels_lie_where_the_metadata_say(tmp_path, pixel_size):
    """A linear ramp has, at each level, exactly its value at the coordinates of the metadata."""
    shape = (1531, 2777)
    rows, cols = np.mgrid[: shape[0], : shape[1]].astype(np.float32)
    image = 7 + 0.5 * cols + 0.25 * rows
    store = write_store(tmp_path / "a.ome.zarr", image, pixel_size_um=pixel_size)
    ome = json.loads((store.path / "zarr.json").read_text())["attributes"]["ome"]
    datasets = ome["multiscales"][0]["datasets"]
    assert [d["path"] for d in datasets] == ["0", "1", "2", "3"]
    size_x, size_y = pixel_size or (1, 1)
    for level, dataset in enumerate(datasets):
        scale, translation = dataset["coordinateTransformations"]
        values = whole(store, level).astype(np.float64)
        j, i = np.mgrid[: values.shape[0], : values.shape[1]]
        y = (j * scale["scale"][0] + translation["translation"][0]) / size_y
        x = (i * scale["scale"][1] + translation["translation"][1]) / size_x
        expected = 7 + 0.5 * x + 0.25 * y
        assert np.abs(values - expected).max() <= 0.01 * 0.25
        assert translation["translation"][0] == pytest.approx((2**level - 1) / 2 * size_y)
    assert store.pixel_size_um == pixel_size
    units = [axis.get("unit") for axis in ome["multiscales"][0]["axes"]]
    assert units == (["micrometer"] * 2 if pixel_size else [None] * 2)


@pytest.mark.parametrize("seed", range(5))
def test_any_window_of_any_level(tmp_path, seed):
    image = noise((700, 900), "uint16", seed)
    layout = StoreLayout(image.shape, "uint16", levels=3, **SMALL_SHARDS)
    store = write_store(tmp_path / "a.ome.zarr", image, layout=layout)
    rng = random.Random(seed)
    for level in range(3):
        rows, cols = store.level_shape(level)
        expected = whole(store, level)
        for _ in range(30):
            y0, y1 = sorted(rng.choices(range(rows + 1), k=2))
            x0, x1 = sorted(rng.choices(range(cols + 1), k=2))
            window = Window(y0, y1, x0, x1)
            np.testing.assert_array_equal(store.read(window, level), expected[window.slices])


def test_window_outside_the_level(tmp_path):
    store = write_store(tmp_path / "a.ome.zarr", noise((70, 90), "uint8"))
    for window in (Window(0, 71, 0, 90), Window(-1, 5, 0, 5)):
        with pytest.raises(ValueError, match="leaves level 0"):
            store.read(window)


def files(path):
    return {
        str(f.relative_to(path)): hashlib.sha256(f.read_bytes()).hexdigest()
        for f in sorted(path.rglob("*"))
        if f.is_file()
    }


@pytest.mark.parametrize("dtype", ["uint16", "float32"])
def test_same_pixels_give_the_same_bytes(tmp_path, dtype):
    image = noise((1100, 900), dtype)
    layout = StoreLayout(image.shape, dtype, levels=4, **SMALL_SHARDS)
    variants = [(None, 1), (1, 1), (2, 2), (3, 2)]
    trees = []
    for number, (order, threads) in enumerate(variants):
        path = tmp_path / str(number) / "a.ome.zarr"
        write_store(path, image, layout=layout, order=order, workers=threads)
        trees.append(files(path))
    assert len(trees[0]) == 1 + 4 + 5 * 4 * 2 + 1 + 1
    assert all(tree == trees[0] for tree in trees)
    assert not list(tmp_path.rglob(".*"))


def test_digest_changes_with_one_pixel(tmp_path):
    image = noise((300, 400), "uint16")
    before = write_store(tmp_path / "a.ome.zarr", image)
    image[299, 399] ^= 1
    after = write_store(tmp_path / "b.ome.zarr", image)
    assert before.digest.startswith("sha256:")
    assert len(before.digest) == 7 + 64
    assert before.digest != after.digest
    assert verify(before.path) == verify(after.path) == []


@pytest.mark.parametrize(
    ("image", "window"),
    [
        (np.arange(100, dtype=np.uint8).reshape(10, 10), (0, 255, 0.099, 98.901)),
        (np.full((4, 4), 7, np.uint8), (0, 255, 7, 8)),
        (np.full((4, 4), 255, np.uint8), (0, 255, 254, 255)),
        (np.full((4, 4), np.nan, np.float32), (0, 1, 0, 1)),
        (np.array([[-2, np.nan], [-2, -2]], np.float32), (-2, -1, -2, -1)),
    ],
)
def test_display_window(tmp_path, image, window):
    write_store(tmp_path / "a.ome.zarr", image)
    ome = json.loads((tmp_path / "a.ome.zarr" / "zarr.json").read_text())["attributes"]["ome"]
    found = ome["omero"]["channels"][0]["window"]
    assert tuple(found[k] for k in ("min", "max", "start", "end")) == pytest.approx(window)
