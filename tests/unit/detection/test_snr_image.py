"""The signal-to-noise ratio as a store: the px that are searched, whatever shards and tiles."""

from __future__ import annotations

import math

import numpy as np
import pytest
from made_search import make_scene

from unglow.core.windows import Window
from unglow.detection.coarse_grid import CoarseGrid
from unglow.detection.snr import significance
from unglow.images.zarr import StoreLayout, StoreWriter, open_store
from unglow.stages.snr import fill, ratio_over

SHAPE = (300, 340)


@pytest.fixture(scope="module")
def scene():
    rng = np.random.default_rng(0)
    post, pre = (rng.normal(100, 3, SHAPE).astype(np.float32) for _ in range(2))
    post[140:144, 200:204] += 60
    pre[:, :20] = np.nan
    pre[50:60, 50:60] = 255
    errors = np.random.default_rng(1).uniform(0.01, 4.0, (9, 9)).astype(np.float32)
    error = CoarseGrid(errors, 60.0, -60.0)
    return make_scene(post, pre, error=error, saturation=(math.inf, 255.0))


def layout(shards):
    return StoreLayout(SHAPE, "float32", (min(64, shards), min(64, shards)), (shards, shards), 3)


def store(scene, path, shards, tile, workers):
    with StoreWriter(
        path, layout(shards), name="snr", pixel_size_um=None, attributes={}, workers=workers
    ) as writer:
        fill(scene, writer, workers=workers, tile=tile)
        writer.publish()
    return open_store(path)


def test_it_is_the_ratio_to_a_256th_with_nothing_where_there_is_none(scene):
    exact = significance(scene, Window.from_shape(SHAPE)).snr
    image = ratio_over(scene, Window.from_shape(SHAPE))
    np.testing.assert_array_equal(np.isnan(image), np.isnan(exact))
    assert np.isnan(image[:, :19]).all()
    assert np.nanmax(np.abs(image - exact)) <= 1 / 512
    assert (np.nan_to_num(image) * 256 % 1 == 0).all()
    assert np.nanmax(image) == image[138:146, 198:206].max() > 20


@pytest.mark.parametrize(("shards", "tile", "workers"), [(512, 97, 1), (512, 512, 2), (128, 64, 3)])
def test_neither_shards_nor_tiles_nor_workers_change_a_px(scene, tmp_path, shards, tile, workers):
    found = store(scene, tmp_path / "snr.ome.zarr", shards, tile, workers)
    exact = ratio_over(scene, Window.from_shape(SHAPE))
    np.testing.assert_array_equal(found.read(Window.from_shape(SHAPE)), exact)
    if shards == 512:
        assert found.digest == store(scene, tmp_path / "other.ome.zarr", 512, 200, 1).digest
    assert found.level_shape(2) == (75, 85)
    level = found.read(Window.from_shape((75, 85)), 2)
    assert np.isnan(level[:, :4]).all()
    assert np.isfinite(level[40:, 40:]).any()


@pytest.mark.parametrize("level", [0.0, 2.5, 5.0])
def test_ratios_beyond_a_level_are_those_of_all(scene, level):
    window = Window(10, 290, 5, 330)
    exact = significance(scene, window)
    found = significance(scene, window, level=level)
    near = np.abs(exact.snr) <= level
    assert (np.abs(found.snr[near]) <= level).all()
    for name in ("snr", "noise_share"):
        every, some = getattr(exact, name), getattr(found, name)
        np.testing.assert_array_equal(some[~near], every[~near])
        assert (some != every).any()


@pytest.mark.parametrize(
    ("values", "is_flat"),
    [([[0.1]], True), ([[0.1, 0.1], [np.nan, 0.1005]], True), ([[np.nan]], True),
     ([[0.1, 0.2]], False), ([[0.0, 0.0]], True)],
)  # fmt: skip
def test_a_map_of_one_value_is_flat(values, is_flat):
    assert CoarseGrid(np.array(values, np.float32)).is_flat == is_flat
