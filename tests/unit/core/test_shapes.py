"""Masks and small images in OpenCV against scipy.ndimage, to the bit."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage

from unglow.core import shapes

RANDOM = np.random.default_rng(5)
IMAGE = (RANDOM.normal(size=(211, 174)).cumsum(axis=0) * 30 + 5000).astype(np.float32)
ROUGH = ndimage.gaussian_filter(RANDOM.normal(size=(2, 190, 233)), (0, 3, 3))
MASKS = {
    "patches": ROUGH[0] > 0.02,
    "most": ROUGH[1] > -0.15,
    "speckles": RANDOM.random((97, 131)) > 0.6,
    "a px": np.arange(35).reshape(5, 7) == 0,
    "all but one": np.arange(35).reshape(5, 7) != 17,
    "everything": np.ones((12, 9), np.bool_),
    "nothing": np.zeros((12, 9), np.bool_),
    "a line": np.ones((1, 40), np.bool_),
}
every_mask = pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)


@pytest.mark.parametrize("sigma", [1.0, 3.0, 6.0])
@pytest.mark.parametrize("shape", [(211, 174), (5, 9), (1, 30), (1, 1)])
def test_a_blur_is_that_of_scipy(sigma, shape):
    image = IMAGE[: shape[0], : shape[1]]
    found = shapes.blur(image, sigma)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, ndimage.gaussian_filter(image, sigma, mode="nearest"))


@every_mask
@pytest.mark.parametrize("px", [1, 2, 9])
def test_masks_grow_and_shrink_as_in_scipy(mask, px):
    pairs = (
        (shapes.grow(mask, px), ndimage.binary_dilation(mask, iterations=px)),
        (shapes.shrink(mask, px), ndimage.binary_erosion(mask, iterations=px, border_value=1)),
        (shapes.close_gaps(mask, px), ndimage.binary_closing(mask, iterations=px)),
    )
    for found, expected in pairs:
        assert found.dtype == np.bool_
        np.testing.assert_array_equal(found, expected)


@every_mask
def test_holes_are_filled_and_pieces_taken_away_as_in_scipy(mask):
    np.testing.assert_array_equal(shapes.fill_holes(mask), ndimage.binary_fill_holes(mask))
    labels, count = ndimage.label(mask)
    sizes = np.bincount(labels.ravel(), minlength=count + 1)
    sizes[0] = 0
    for least in (0.5, 1, 7, 7.5, 100):
        found = shapes.drop_small_pieces(mask, least)
        np.testing.assert_array_equal(found, sizes[labels] >= least)


@every_mask
def test_distances_are_those_of_scipy(mask):
    if mask.all():
        return
    found = shapes.measure_distance(mask)
    assert found.dtype == np.float32
    expected = ndimage.distance_transform_edt(mask).astype(np.float32)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("shape", [(1000, 1000), (300, 3300), (120, 8192)])
def test_distances_over_a_whole_image_are_those_of_scipy(shape):
    mask = np.ones(shape, np.bool_)
    mask[7, 11] = mask[-5, -90] = False
    expected = ndimage.distance_transform_edt(mask).astype(np.float32)
    found = shapes.measure_distance(mask)
    near = expected < 2000
    np.testing.assert_array_equal(found[near], expected[near])
    np.testing.assert_allclose(found, expected, rtol=1.2e-7)


def test_values_between_px_are_those_of_scipy():
    y, x = RANDOM.uniform(-3, 220, (2, 5000))
    y[:200], x[100:300] = np.rint(y[:200]), np.rint(x[100:300])
    expected = ndimage.map_coordinates(
        IMAGE, [y, x], order=1, mode="nearest", prefilter=False, output=np.float32
    )
    found = shapes.interpolate(IMAGE, y, x)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, expected)
    unknown = np.full((4, 5), np.nan, np.float32)
    assert np.isnan(shapes.interpolate(unknown, y, x)).all()
    assert shapes.interpolate(IMAGE, y[:0], x[:0]).shape == (0,)
    row = IMAGE[:1]
    assert (shapes.interpolate(row, y[:50], x[:50] * 0 + 3) == row[0, 3]).all()
