"""The cache of chunks: the pixels of its image, and each chunk decoded once in a row."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from made_stores import write_store

from unglow.core.windows import ArrayPixels, Window
from unglow.io.zarr import StoreLayout
from unglow.io.zarr.reader import ChunkCache


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
