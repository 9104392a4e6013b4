"""Overviews and crops for figures."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from unglow.core.windows import ArrayPixels
from unglow.io.zarr.overviews import (
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


def test_a_coarsest_level_that_is_too_large_is_taken_all_the_same():
    assert find_fitting_level(pixels(levels=2), 100) == 1


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
