"""The width of spots, from 2 to 16 px, and what is too little for one."""

from __future__ import annotations

import numpy as np
import pytest
from array_pixels import ArrayPixels

from unglow.detection.spot_width import LEAST_SPOTS, measure_width


def make_spots(fwhm, count=12, brightness=20.0, level=0.0):
    """An image of white noise of variance 1 with spots, and where these are, (x, y)."""
    rng = np.random.default_rng(5)
    image = rng.normal(level, 1.0, (500, 600))
    xy = rng.uniform(50, 450, (count, 2))
    rows, cols = np.indices(image.shape)
    for x, y in xy:
        away = (cols - x) ** 2 + (rows - y) ** 2
        image += brightness * np.exp(-4 * np.log(2) * away / fwhm**2)
    return image.astype(np.float32), xy


@pytest.mark.parametrize("fwhm", [2.0, 3.0, 5.0, 8.0, 12.0])
def test_width_is_that_of_the_spots_on_any_level(fwhm):
    image, xy = make_spots(fwhm, level=40.0)
    width = measure_width(ArrayPixels(image), xy, np.ones(len(xy)))
    assert width == pytest.approx(fwhm, rel=0.1)


def test_px_without_data_and_the_edge_of_the_image_change_little():
    image, xy = make_spots(4.0)
    image[:, 300:330] = np.nan
    width = measure_width(ArrayPixels(image[30:]), xy - [0, 30], np.ones(len(xy)))
    assert width == pytest.approx(4.0, rel=0.2)


def test_only_the_most_significant_spots_count():
    image, xy = make_spots(3.0, count=45)
    nowhere = np.random.default_rng(6).uniform(0, 500, (60, 2))
    snr = np.r_[np.full(45, 9.0), np.full(60, 4.0)]
    width = measure_width(ArrayPixels(image), np.concatenate([xy, nowhere]), snr)
    assert width == pytest.approx(3.0, rel=0.1)


def test_few_spots_have_no_width():
    image, xy = make_spots(3.0)
    few = xy[: LEAST_SPOTS - 1]
    assert measure_width(ArrayPixels(image), few, np.ones(len(few))) is None
