"""Cells of co-registered pixels: exact moments, the same bytes for any split into blocks."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from unglow.core.windows import grid
from unglow.photometry.cell_moments import CellMoments

ARRAYS = ("count", "post", "pre", "post_var", "pre_var", "cov", "gradient")


def images(shape, seed=1, dtype=np.uint8):
    rng = np.random.default_rng(seed)
    post = rng.integers(0, 200, shape).astype(dtype)
    pre = (rng.integers(0, 200 * 32, shape) / 32).astype(np.float32)
    pre[: shape[0] // 3, : shape[1] // 4] = np.nan
    return post, pre


def gathered(post, pre, block=None, tops=(199, 199)):
    bins = CellMoments.create(post.shape, tops)
    for window in grid(post.shape, block or post.shape):
        bins.add(post[window.slices], pre[window.slices], (window.y0, window.x0))
    return bins


def saved(bins, path):
    bins.save(path)
    return path.read_bytes()


def test_moments_are_those_of_the_pixels_of_each_cell():
    post, pre = images((37, 50))
    bins = gathered(post, pre, tops=(190, 195))
    assert bins.every == 1
    assert bins.count.shape == (9, 12)
    for i, j in np.ndindex(9, 12):
        cell = slice(4 * i, 4 * i + 4), slice(4 * j, 4 * j + 4)
        a, b = post[cell].astype(float), pre[cell].astype(float)
        use = (a < 190) & (b < 195)
        along = b[2:] - b[:-2], b[:, 2:] - b[:, :-2]
        slopes = sum(np.nanmean((d / 2) ** 2) for d in along if np.isfinite(d).any()) or np.nan
        assert bins.gradient[i, j] == pytest.approx(slopes, rel=1e-6, nan_ok=True)
        assert bins.count[i, j] == use.sum()
        assert bins.centres_xy[i * 12 + j].tolist() == [4 * j + 1.5, 4 * i + 1.5]
        if not use.any():
            assert all(np.isnan(getattr(bins, name)[i, j]) for name in ARRAYS[1:6])
            continue
        a, b = a[use], b[use]
        expected = a.mean(), b.mean(), a.var(), b.var(), ((a - a.mean()) * (b - b.mean())).mean()
        found = [getattr(bins, name)[i, j] for name in ARRAYS[1:6]]
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-4)


def test_the_gradient_is_that_of_a_plane_and_of_its_noise():
    y, x = np.mgrid[:40, :40]
    plane = (3 * x - 2 * y + 100).astype(np.float32)
    bins = gathered(np.zeros((40, 40), np.uint8), plane, tops=(9, 999))
    np.testing.assert_array_equal(bins.gradient, 13)
    noise = np.random.default_rng(2).normal(100, 2, (800, 800)).astype(np.float32)
    bins = gathered(np.zeros((800, 800), np.uint8), noise, tops=(9, 999))
    assert bins.gradient.mean() == pytest.approx(4.0, rel=0.02)  # half the variance on each axis
    assert bins.pre_var.mean() == pytest.approx(4.0 * 15 / 16, rel=0.02)


@pytest.mark.parametrize("shape", [(400, 300), (2100, 2200), (5, 4000)])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_any_split_into_blocks_gives_the_same_bytes(tmp_path, shape, dtype):
    post, pre = images(shape, dtype=dtype)
    if dtype == np.float32:
        post, pre = post * np.float32(np.pi), pre * np.float32(1.1)
    whole = saved(gathered(post, pre), tmp_path / "a.npz")
    for block in ((64, 64), (2048, 2048), (4, 128), (1024, 12)):
        assert saved(gathered(post, pre, block), tmp_path / "b.npz") == whole
    shared = CellMoments.create(shape, (199, 199))
    with ThreadPoolExecutor(4) as pool:
        for window in grid(shape, (256, 64)):
            blocks = post[window.slices], pre[window.slices]
            pool.submit(shared.add, *blocks, (window.y0, window.x0))
    assert saved(shared, tmp_path / "b.npz") == whole


@pytest.mark.parametrize(
    ("shape", "every", "cells"),
    [
        ((2048, 2048), 1, (512, 512)),
        ((2048, 2052), 2, (256, 256)),
        ((8192, 8192), 4, (512, 512)),
        ((30000, 25000), 14, (536, 446)),
        ((3, 5000), 1, (0, 1250)),
    ],
)
def test_large_images_are_sampled_and_the_lattice_follows_from_the_shape(shape, every, cells):
    bins = CellMoments.create(shape, (255, 255))
    assert bins.every == every
    assert bins.count.shape == cells
    assert bins.count.size <= 1 << 18
    assert not bins.count.any()
    assert np.isnan(bins.pre).all()
    centres = bins.centres_xy
    assert centres.shape == (bins.count.size, 2)
    if len(centres):
        assert centres.min() >= 1.5
        assert (centres.max(axis=0) <= np.array(shape)[::-1] - 2.5).all()


def test_a_sampled_cell_holds_the_pixels_around_its_centre():
    post, pre = images((2048, 2300))
    bins = gathered(post, pre, (512, 256))
    assert bins.every == 2
    for at in (0, 777, bins.count.size - 1):
        x, y = (bins.centres_xy[at] - 1.5).astype(int)
        cell = post[y : y + 4, x : x + 4].astype(float)
        use = (cell < 199) & (pre[y : y + 4, x : x + 4] < 199)
        assert bins.count.flat[at] == use.sum()
        if use.any():
            assert bins.post.flat[at] == pytest.approx(cell[use].mean(), rel=1e-6)


def test_blocks_that_cut_through_cells_are_refused():
    bins = CellMoments.create((100, 101), (9, 9))
    block = np.zeros((8, 8), np.uint8), np.zeros((8, 8), np.float32)
    for origin in ((2, 0), (0, 6), (96, 0), (-4, 0)):
        with pytest.raises(ValueError, match="cuts through cells"):
            bins.add(*block, origin)
    with pytest.raises(ValueError, match="not blocks of one shape"):
        bins.add(block[0], block[1][:4])
    odd = np.zeros((4, 5), np.uint8), np.zeros((4, 5), np.float32)
    bins.add(*odd, (96, 96))  # the image ends there
    assert bins.count.sum() == 16
