"""The first look: blocks from all over the image, few and always the same."""

from __future__ import annotations

import numpy as np
import pytest
import tifffile

from unglow.images.raw_images import survey_blocks, survey_windows
from unglow.images.tiff import read_header


def header_of(tmp_path, shape, **options):
    path = tmp_path / "a.tif"
    rng = np.random.default_rng(0)
    tifffile.imwrite(path, rng.integers(0, 255, shape, dtype=np.uint8), **options)
    return read_header(path)


def test_tiles_are_sampled_inside_tiles_all_over(tmp_path):
    header = header_of(tmp_path, (3000, 2000), tile=(512, 512))
    windows = survey_windows(header, count=16, size=128)
    assert windows == survey_windows(header, count=16, size=128)
    assert len(windows) == 16
    for w in windows:
        assert w.shape == (128, 128)
        assert w.clip(header.shape) == w
        # one tile each, except where the last tile is cut by the edge
        assert w.y0 // 512 == (w.y1 - 1) // 512 or w.y1 == 3000
        assert w.x0 // 512 == (w.x1 - 1) // 512 or w.x1 == 2000
    quadrants = {(w.y0 >= 1500, w.x0 >= 1000) for w in windows}
    assert len(quadrants) == 4


@pytest.mark.parametrize("rowsperstrip", [1, 7, 64, 3000])
def test_strips_are_sampled_by_bands(tmp_path, rowsperstrip):
    header = header_of(tmp_path, (3000, 2000), rowsperstrip=rowsperstrip, compression="zlib")
    windows = survey_windows(header, count=8, size=128)
    assert len(windows) == 8
    assert windows == sorted(windows)
    high = min(128 * 128 // 2000, rowsperstrip)
    for w in windows:
        assert w.shape == (high, 2000)
        assert w.y0 // rowsperstrip == (w.y1 - 1) // rowsperstrip
    assert windows[0].y0 < 400
    assert windows[-1].y0 > 2600
    blocks = list(survey_blocks(header, count=8, size=128))
    image = tifffile.imread(header.path)
    for w, block in zip(windows, blocks, strict=True):
        np.testing.assert_array_equal(block[0], image[w.slices])


@pytest.mark.parametrize("options", [{}, {"tile": (16, 16)}, {"rowsperstrip": 5}])
@pytest.mark.parametrize("shape", [(1, 1), (3, 200), (200, 3), (90, 80)])
def test_small_images_are_covered_once(tmp_path, shape, options):
    header = header_of(tmp_path, shape, **options)
    seen = np.zeros(shape, int)
    for w in survey_windows(header):
        seen[w.slices] += 1
    assert (seen == 1).all()
    assert sum(b.size for b in survey_blocks(header)) == seen.size
