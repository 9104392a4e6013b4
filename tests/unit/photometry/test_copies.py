"""One exposure in the place of two is reported, in whatever form; two exposures are not."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage

from unglow.core.windows import ArrayPixels, Window
from unglow.io.stored_values import quantise
from unglow.photometry.cell_moments import CellMoments
from unglow.photometry.gain.warnings import copy_warnings, is_copy
from unglow.registration.register import register
from unglow.transform.resample import warp_window

SHAPE = (512, 640)


def light(seed=0, mean=60.0):
    rng = np.random.default_rng(seed)
    rough = ndimage.gaussian_filter(rng.normal(size=SHAPE), 3)
    wide = ndimage.gaussian_filter(rng.normal(size=SHAPE), 30)
    return mean * np.clip(1 + 0.35 * rough / rough.std() + 0.3 * wide / wide.std(), 0, None)


def exposed(level, seed, electrons=8.0, read=0.5):
    rng = np.random.default_rng([seed, 7])
    noisy = rng.poisson(level * electrons) / electrons + rng.normal(5, read, level.shape)
    return np.clip(np.rint(noisy), 0, 65535)


def cells(post, pre):
    bins = CellMoments.create(post.shape, (float(np.nanmax(post)) + 1, float(np.nanmax(pre)) + 1))
    bins.add(post.astype(np.float32), pre.astype(np.float32))
    return bins


@pytest.mark.parametrize("gain", [1.0, 0.4, 0.8, 1.7, 12.5])
@pytest.mark.parametrize("offset", [0.0, 7.0])
def test_a_copy_with_another_gain_and_offset_is_one(gain, offset):
    image = exposed(light(), 1)
    assert is_copy(cells(np.rint(gain * image + offset), image), integer=True)
    assert is_copy(cells(image, np.rint(gain * image + offset)), integer=True)


def test_a_copy_under_other_light_is_one():
    image = exposed(light(), 1)
    uneven = 1 + 0.2 * np.sin(np.arange(SHAPE[1]) / 200)
    assert is_copy(cells(np.rint(image * uneven), image), integer=True)


def test_a_copy_of_real_numbers_is_one():
    image = exposed(light(), 1) / 255
    assert is_copy(cells(1.3 * image + 0.01, image), integer=False)
    other = exposed(light(), 2) / 255
    assert not is_copy(cells(1.3 * other + 0.01, image), integer=False)


@pytest.mark.parametrize("shift", [(0, 0), (7, -12), (-30, 5)])
def test_a_copy_that_is_shifted_by_whole_px_is_one_after_registration(shift):
    image = exposed(light(), 1)
    post, pre = image.astype(np.uint16), np.roll(image, shift, (0, 1)).astype(np.uint16)
    found = register(ArrayPixels(post), ArrayPixels(pre)).transform
    assert not found.has_failed
    aligned = warp_window(lambda w: pre[w.slices], pre.shape, found, Window.from_shape(post.shape))
    assert is_copy(cells(post, quantise(aligned)), integer=True)


@pytest.mark.parametrize("gain", [0.4, 1.0, 1.9])
@pytest.mark.parametrize("electrons", [2.0, 8.0, 200.0])
def test_two_exposures_are_not_one(gain, electrons):
    scene = light()
    post, pre = exposed(gain * scene, 3, electrons, 0.3), exposed(scene, 4, electrons, 0.3)
    assert not is_copy(cells(post, pre), integer=True)


def test_dark_images_say_nothing():
    dark = np.zeros(SHAPE)
    assert not is_copy(cells(dark, dark), integer=True)


def test_two_exposures_of_few_grey_levels_are_not_called_a_copy():
    scene = light()
    post, pre = (np.floor(exposed(scene, seed, 8.0, 0.3) / 16) for seed in (3, 4))
    assert is_copy(cells(post, pre), integer=True)
    (warning,) = copy_warnings(cells(post, pre), integer=True)
    assert "or both have too few grey levels to show their noise" in warning
    image = exposed(light(), 1)
    (warning,) = copy_warnings(cells(image, image), integer=True)
    assert "one is probably a copy of the other" in warning
