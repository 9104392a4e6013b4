"""Views of images: overviews and crops for figures, and the cache of chunks."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import cv2
import numpy as np
import pytest
from array_pixels import ArrayPixels
from made_stores import write_store

from unglow.core.windows import Window
from unglow.images.zarr import StoreLayout
from unglow.images.zarr.reader import (
    ChunkCache,
    Overview,
    brightest,
    crop,
    find_fitting_level,
    overview,
    read_same_pixels,
    texture_near,
)


def pixels(rows=1000, cols=3000, levels=5):
    y, x = np.mgrid[:rows, :cols]
    return ArrayPixels((x + 10.0 * y).astype(np.float32), levels)


def test_an_overview_fits_and_knows_where_its_pixels_lie():
    image = pixels()
    assert find_fitting_level(image, 1200) == 2
    view = overview(image)
    assert view.image.shape == (250, 750)
    x = view.to_level0(np.arange(750.0))
    np.testing.assert_allclose(view.image[0] - 10 * view.to_level0(np.zeros(1)), x)


def test_crops_are_nan_beyond_the_image():
    part = crop(pixels(), (2, 998), 8)
    assert part.shape == (8, 8)
    assert np.isnan(part[:, :2]).all()
    assert np.isnan(part[6:]).all()
    assert part[0, 2] == 10 * 994


def test_the_other_image_is_shown_at_the_same_pixels():
    out = read_same_pixels(pixels(600, 400), (250, 750), 2)
    assert out.shape == (250, 750)
    assert np.isfinite(out[:150, :100]).all()
    assert np.isnan(out[150:]).all()
    assert np.isnan(out[:, 100:]).all()


def test_the_brightest_places_are_apart_and_in_order():
    image = np.zeros((200, 300), np.float32)
    image[50, 60], image[50, 70], image[150, 250] = 9, 8, 7
    image[0, 0], image[100, 30] = np.nan, np.nan
    image[100, 31] = 99  # next to missing data
    found = brightest(Overview(image, 1), 2, apart_px=64)
    assert found == [(120.5, 100.5), (500.5, 300.5)]


def test_texture_is_found_where_it_is():
    image = np.zeros((100, 100), np.float32)
    smooth = cv2.GaussianBlur(np.random.default_rng(0).normal(0, 60, (20, 20)), (0, 0), 2)
    image[40:60, 40:60] = np.maximum(25 + smooth, 0)
    image[60:, :60] = np.random.default_rng(1).poisson(1.0, (40, 60))  # noise is nothing to see
    image[:, 90:] = 25  # an edge is less to see than texture
    image[0, 0] = np.nan
    view = Overview(image, 2)
    inside, edge, nothing, corner = texture_near(
        view, np.array([(200, 200), (360, 40), (80, 200), (0, 0)], np.float64), 64
    )
    assert inside > edge > 0
    assert edge == pytest.approx(5 * 16 / 16**2)
    assert (nothing, corner) == (0, 0)
    (noise,) = texture_near(view, np.array([(120.0, 320.0)]), 64)
    assert abs(noise) < 0.25 * edge
    lost = Overview(np.full((5, 5), np.nan, np.float32), 0)
    assert texture_near(lost, np.array([(2.0, 2.0)])).tolist() == [0]


class Counted(ArrayPixels):
    """An image that counts how often it is read."""

    reads = 0

    def read(self, window, level=0):
        self.reads += 1
        return super().read(window, level)


@pytest.fixture
def store(tmp_path):
    image = np.random.default_rng(2).integers(0, 60000, (300, 340)).astype(np.uint16)
    layout = StoreLayout(image.shape, "uint16", (64, 64), (128, 128), 2)
    return write_store(tmp_path / "a.ome.zarr", image, layout)


def test_windows_are_those_of_the_store(store):
    cache = ChunkCache(store, kept=5, side=64)
    assert (cache.shape, cache.levels) == (store.shape, store.levels)
    corners = np.random.default_rng(5).integers(0, 1000, (60, 2)).tolist()

    def same(k):
        level, (y, x) = k % 2, corners[k]
        rows, cols = cache.level_shape(level)
        y, x = y % rows, x % cols
        window = Window(y, min(rows, y + 70), x, min(cols, x + 50))
        return np.array_equal(cache.read(window, level), store.read(window, level))

    with ThreadPoolExecutor(3) as pool:
        assert all(pool.map(same, range(60)))
    everything = Window.from_shape(store.shape)
    np.testing.assert_array_equal(cache.read(everything), store.read(everything))
    assert cache.read(Window(0, 0, 0, 9)).shape == (0, 9)


@pytest.mark.parametrize(
    ("kept", "steps"),
    [
        (
            1,
            [
                (Window(0, 32, 0, 32), 1),
                (Window(5, 64, 32, 64), 1),
                (Window(128, 130, 192, 210), 2),
                (Window(129, 130, 200, 203), 2),
                (Window(0, 1, 0, 1), 3),
            ],
        ),
        (
            4,
            [
                (Window(60, 70, 60, 70), 4),
                (Window(10, 128, 30, 100), 4),
                (Window(0, 5, 130, 140), 5),  # the chunk at the top left goes, seen longest ago
                (Window(64, 65, 0, 128), 5),
                (Window(0, 1, 0, 1), 6),
                (Window(0, 130, 0, 210), 7),  # large: read directly, and nothing is dropped for it
                (Window(0, 1, 0, 1), 7),
            ],
        ),
    ],
)
def test_chunks_that_were_read_last_are_not_decoded_again(kept, steps):
    image = Counted(np.arange(130 * 210).reshape(130, 210))
    cache = ChunkCache(image, kept, side=64)
    for window, reads in steps:
        found = cache.read(window).copy()
        np.testing.assert_array_equal(found, ArrayPixels(image._levels[0]).read(window))
        assert image.reads == reads


def test_a_window_of_kept_chunks_is_a_copy():
    image = np.zeros((64, 64))
    cache = ChunkCache(ArrayPixels(image), kept=1, side=32)
    cache.read(Window(0, 9, 0, 9))[:] = 1
    assert not image.any()
    assert not cache.read(Window(0, 9, 0, 9)).any()
