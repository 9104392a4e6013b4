"""A pair that fails because of its magnification hears what is searched, and what headers say."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter, zoom

from unglow.core.windows import ArrayPixels
from unglow.registration.register import RegisterSettings, register
from unglow.registration.verdict import against_headers

SETTINGS = RegisterSettings()


def test_what_is_searched_is_said():
    rng = np.random.default_rng(2)
    scene = gaussian_filter(rng.normal(size=(500, 500)), 2) * 400 + 300
    post, pre = scene[:250, :250], zoom(scene[:250, :250], 2, order=1)
    images = (np.rint(v + rng.normal(0, 2, v.shape)).clip(0).astype(np.uint16) for v in (post, pre))
    found = register(*map(ArrayPixels, images), RegisterSettings(max_scale=1.25)).transform
    assert found.status == "failed"
    assert "0.80 to 1.25" in found.reasons[0]
    assert "max_scale" in found.reasons[0]


@pytest.mark.parametrize(
    ("post", "pre", "words"),
    [
        ((0.5, 0.5), (0.25, 0.25), ["0.5 um per px for post and 0.25 for pre", "2.00 times"]),
        ((0.3, 0.3), (0.45, 0.45), ["0.67 times as large in pre", "max_scale: 1.58"]),
    ],
)
def test_pixel_sizes_that_differ_by_more_than_is_searched_are_said(post, pre, words):
    told = magnified(post, pre, SETTINGS)
    assert all(word in told for word in words)
    assert ("set max_scale" in told) == ("max_scale" in words[-1])


@pytest.mark.parametrize(
    ("post", "pre"), [(None, (0.5, 0.5)), ((0.5, 0.5), None), ((0.5, 0.5), (0.45, 0.45))]
)
def test_pixel_sizes_that_are_alike_or_unknown_are_not_said(post, pre):
    assert magnified(post, pre, SETTINGS) is None
