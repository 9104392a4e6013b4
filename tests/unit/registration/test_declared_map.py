"""Images that are said to lie on each other (``model: none``): believed, and looked at."""

from __future__ import annotations

import numpy as np
import pytest
from array_pixels import ArrayPixels
from made_scenes import render

from unglow.registration.register import RegisterSettings, register
from unglow.transform import load

SHAPE = (512, 512)
NONE = RegisterSettings(model="none")


@pytest.fixture(scope="module")
def post():
    return render(np.eye(3), SHAPE, gain=1.3, spots=30)


def moved(x, y):
    """Return pre, in which everything lies further by (x, y) px."""
    return render(np.array([[1.0, 0, -x], [0, 1, -y], [0, 0, 1]]), SHAPE)


def run(post, pre, settings=NONE, **kwargs):
    return register(ArrayPixels(post, 2), ArrayPixels(pre, 2), settings, **kwargs).transform


def test_images_that_lie_on_each_other_are_taken_at_their_word(post, tmp_path):
    found = run(post, moved(0, 0))
    assert (found.status, found.model, found.coarse_method) == ("ok", "none", "declared")
    np.testing.assert_array_equal(found.matrix, np.eye(3))
    shift = found.residual_shift
    assert shift.length_px < 0.05
    assert shift.blocks > 20
    found.save(tmp_path / "transform.json")
    assert load(tmp_path / "transform.json").residual_shift == shift


def test_a_shift_is_measured_and_above_suspect_px_a_doubt(post):
    pre = moved(1.3, -0.6)
    near, strict = run(post, pre, RegisterSettings(model="none", suspect_px=2.0)), run(post, pre)
    for found in near, strict:
        shift = found.residual_shift
        assert (shift.x_px, shift.y_px) == pytest.approx((1.3, -0.6), abs=0.05)
        assert shift.error_px < 0.05
        np.testing.assert_array_equal(found.matrix, np.eye(3))
    assert (near.status, strict.status) == ("ok", "suspect")
    assert "off by 1.4" in strict.reasons[0].numbers
    assert "model: auto" in strict.reasons[0].help


def test_images_that_lie_elsewhere_or_have_other_sizes_are_refused(post):
    far = run(post, moved(25, 10))
    assert far.status == "failed"
    assert "model: auto" in far.reasons[0].help
    other = run(post, moved(0, 0)[:500])
    assert other.status == "failed"
    assert "512 x 512 px and pre 512 x 500 px" in other.reasons[0].numbers


def test_threads_change_nothing(post):
    pre = moved(0.4, 0.2)
    one, many = (run(post, pre, workers=n) for n in (1, 3))
    assert one.to_dict() == many.to_dict()
