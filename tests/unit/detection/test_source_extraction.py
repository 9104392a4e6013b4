"""Sources in a signal-to-noise image: where they are, and that no tiling changes them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage

from unglow.core.windows import Window, grid
from unglow.detection import source_extraction
from unglow.detection.source_extraction import DEBLENDED, EXTENDED, HALO, UNSPLIT, find

SHAPE = (420, 500)


def spot(image, x, y, peak, sigma=2.0):
    row, col = np.indices(image.shape)
    image += (peak * np.exp(-((col - x) ** 2 + (row - y) ** 2) / (2 * sigma**2))).astype("f4")


def empty():
    return np.zeros(SHAPE, np.float32)


def whole(image, threshold=3.5):
    window = Window.from_shape(image.shape)
    return find(image, threshold, window, window)


def tiled(image, tile, threshold=3.5):
    parts = []
    left = 0
    for core in grid(image.shape, (tile, tile)):
        window = core.grow(HALO).clip(image.shape)
        sources, px = find(np.ascontiguousarray(image[window.slices]), threshold, window, core)
        parts.append(sources)
        left += px
    joined = np.concatenate(parts)
    return joined[np.lexsort((joined["col"], joined["row"]))], left


def test_a_spot_is_found_where_it_is_with_its_shape():
    image = empty()
    spot(image, 200.3, 120.8, 50.0, sigma=2.5)
    (found,), _ = whole(image)
    assert found["x"] == pytest.approx(200.3, abs=0.03)
    assert found["y"] == pytest.approx(120.8, abs=0.03)
    assert (found["col"], found["row"]) == (200, 121)
    assert found["snr"] == image[121, 200]
    assert found["area"] == np.count_nonzero(image > 3.5)
    assert found["a"] == pytest.approx(found["b"], rel=0.05)
    assert found["flags"] == 0


def test_what_is_not_above_the_threshold_or_has_no_value_is_nothing():
    image = empty()
    spot(image, 100, 100, 3.4)
    spot(image, 300, 100, 40.0)
    image[80:120, 280:320] = np.nan
    assert len(whole(image)[0]) == 0


def test_spots_that_touch_are_distinguished_and_say_so():
    image = empty()
    spot(image, 200, 120, 40.0)
    spot(image, 208, 120, 30.0)
    found, _ = whole(image)
    assert [(s["col"], s["row"], s["flags"]) for s in found] == [
        (200, 120, DEBLENDED),
        (208, 120, DEBLENDED),
    ]


def crowded(seed):
    """Noise, single spots and crowds, all over an image."""
    rng = np.random.default_rng(seed)
    image = rng.normal(0, 1, SHAPE).astype("f4")
    for _ in range(60):
        spot(image, *rng.uniform((0, 0), (500, 420)), rng.uniform(5, 60), rng.uniform(1.2, 3))
    for _ in range(6):
        x, y = rng.uniform((0, 0), (500, 420))
        for _ in range(8):
            spot(image, *rng.normal((x, y), 7), rng.uniform(10, 40))
    return image


@pytest.mark.parametrize("tile", [64, 97, 200])
@pytest.mark.parametrize("seed", [1, 2])
def test_no_tiling_changes_a_bit(tile, seed):
    image = crowded(seed)
    once, extended_px = whole(image)
    assert (once["flags"] & DEBLENDED).any()
    again, left = tiled(image, tile)
    assert again.tobytes() == once.tobytes()
    assert left == extended_px


def test_in_a_structure_that_is_too_large_spots_are_found_above_it_and_flagged():
    image = empty()
    image[50:60, 20:480] = 6.0  # 460 px long
    spot(image, 250, 55, 40.0)
    spot(image, 350, 55, 3.0)  # stands out from 7 by 2 only
    spot(image, 100, 300, 40.0)
    found, extended_px = whole(image)
    assert [(s["col"], s["row"], s["snr"], s["above"], s["flags"]) for s in found] == [
        (250, 55, 46.0, 39.0, EXTENDED),
        (100, 300, 40.0, 40.0, 0),
    ]
    assert extended_px == 0
    for tile in (64, 150):
        again, left = tiled(image, tile)
        assert again.tobytes() == found.tobytes()
        assert left == 0


def test_what_stays_too_large_at_every_threshold_is_counted_in_px():
    image = empty()
    image[50:60, 20:480] = 1e6
    found, extended_px = whole(image)
    assert len(found) == 0
    assert extended_px == 10 * 460
    assert tiled(image, 100) == (pytest.approx(found), 4600)


def test_a_component_of_the_greatest_size_is_whole_in_every_tile_that_has_a_part_of_it():
    image = empty()
    image[100, 100 : 100 + HALO] = 5.0
    image[100, 100 + HALO - 1] = 9.0
    image[200, 100 : 100 + HALO + 1] = 5.0
    once, _ = whole(image)
    assert [(s["row"], s["area"]) for s in once] == [(100, HALO)]
    for tile in (30, 101, 163, 164, 165):
        assert tiled(image, tile)[0].tobytes() == once.tobytes()


def test_more_sources_than_sep_separates_are_left_together(monkeypatch):
    image = empty()
    spot(image, 200, 120, 40.0)
    spot(image, 208, 120, 30.0)
    spot(image, 100, 300, 30.0)
    limit = source_extraction.sep.get_sub_object_limit()
    source_extraction.sep.set_sub_object_limit(1)
    try:
        found, _ = whole(image)
    finally:
        source_extraction.sep.set_sub_object_limit(limit)
    assert [(s["col"], s["row"]) for s in found] == [(200, 120), (100, 300)]
    assert (found["flags"] & UNSPLIT).any()


def test_any_number_of_px_may_be_above_the_threshold():
    image = np.tile(np.float32([[9, 9, 0], [9, 9, 0], [0, 0, 0]]), (200, 200))
    found, _ = whole(image)
    assert len(found) == 200 * 200
    assert set(found["area"]) == {4}


@pytest.mark.parametrize(("smooth", "steps"), [(0.0, 64), (1.3, 64), (2.0, 2), (3.0, 64)])
def test_what_has_one_peak_is_the_same_whether_it_is_distinguished_or_not(smooth, steps):
    image = np.random.default_rng(7).normal(size=(400, 500))
    image = ndimage.gaussian_filter(image, smooth)
    image = (np.round(image / image.std() * 3 * steps) / steps).astype("f4")  # plateaus as well
    found = source_extraction.Components.from_image(image, 3.0)
    single = source_extraction._single(found)
    assert single.sum() > 100
    for family in np.flatnonzero(single):
        stamp = found.keep(np.arange(len(found)) == family).column()[0]
        assert np.count_nonzero(stamp == stamp.max()) == 1
    part = found.keep(single)
    one, many = (source_extraction._column_sources(part, 3.0, 0, levels)[0] for levels in (1, 32))
    assert len(one) == len(part)
    assert one.tobytes() == many.tobytes()
