"""The noise model: what it says of single px."""

from __future__ import annotations

import json

import numpy as np
import pytest

from unglow.photometry.imaging import NoiseModel


def test_variance_grows_with_the_level_of_each_image():
    model = NoiseModel(post_read=2.0, post_shot=0.5, pre_read=1.0, pre_shot=0.25)
    post = np.array([[0, 10], [100, 200]], np.uint16)
    found = model.variance_post(post)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, [[2, 7], [52, 102]])
    np.testing.assert_array_equal(model.variance_pre(np.float32([4, np.nan])), [2, np.nan])


def test_no_px_has_less_than_the_noise_of_rounding():
    model = NoiseModel(post_read=-50.0, post_shot=0.5, pre_read=0.0, pre_shot=0.0)
    found = model.variance_post(np.array([0, 100, 104], np.uint8))
    np.testing.assert_allclose(found, [1 / 12, 1 / 12, 2], rtol=1e-6)
    assert model.variance_pre(np.zeros(1, np.float32))[0] == pytest.approx(1 / 12)


def test_json_there_and_back():
    model = NoiseModel(-1.5, 0.125, 0.3, 0.2, least=0.0)
    entry = json.loads(json.dumps({**model.to_json(), "cells": 9}))
    assert NoiseModel.from_json(entry) == model
