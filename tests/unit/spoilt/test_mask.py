"""The mask that a search leaves out: whole blocks, and what lies next to them."""

import numpy as np
import pytest

from unglow.core.windows import Window
from unglow.spoilt.places import NEAR_PX, SpoiltMask


@pytest.fixture
def mask():
    blocks = np.zeros((4, 5), np.bool_)
    blocks[1, 2] = blocks[3, 4] = True
    return SpoiltMask(blocks, 32)


def whole(mask):
    return np.kron(mask.blocks, np.ones((32, 32), np.bool_))


@pytest.mark.parametrize("window", [Window(0, 128, 0, 160), Window(31, 70, 60, 101)])
def test_px_of_spoilt_blocks_are_spoilt(mask, window):
    np.testing.assert_array_equal(mask.mask_window(window), whole(mask)[window.slices])
    assert mask.touches(window)
    assert not mask.touches(Window(0, 32, 0, 160))


def test_beyond_the_image_px_are_as_its_last_ones(mask):
    assert mask.mask_window(Window(100, 140, 130, 170))[-1, -1]
    assert not mask.mask_window(Window(-10, 5, -10, 5)).any()


def test_a_coarse_level_has_the_first_of_its_px(mask):
    np.testing.assert_array_equal(
        mask.mask_window(Window(0, 128, 0, 160), 4), whole(mask)[::4, ::4]
    )


def test_near_is_what_is_at_most_so_far_along_either_axis(mask):
    rows, cols = np.mgrid[:128, :160]
    px = whole(mask)
    near = np.zeros_like(px)
    for down in range(-NEAR_PX, NEAR_PX + 1):
        for across in range(-NEAR_PX, NEAR_PX + 1):
            at = np.clip(rows + down, 0, 127), np.clip(cols + across, 0, 159)
            near |= px[at]
    np.testing.assert_array_equal(mask.is_near(cols.ravel(), rows.ravel()), near.ravel())
    np.testing.assert_array_equal(mask.mask_near(Window(0, 128, 0, 160)), near)
    assert not mask.mask_near(Window(0, 10, 0, 160)).any()
