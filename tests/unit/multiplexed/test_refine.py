"""One background: a line of `linear` that allows for signal in many cells."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from made_cells import make_evidence

from unglow.multiplexed.several import refine
from unglow.photometry.gain.estimate import estimate
from unglow.photometry.gain.scale import ScaleSettings

SETTINGS = ScaleSettings(("linear", "moffat"), gain_map="never")
GAIN, OFFSET, NOISE = 1.35, -5.0, 25.0


def measure(change=1.0):
    """A marker whose cells, with faint flanks, cover a third of the section: scale and cells.

    In a square of the marker, light is changed by a factor.
    """
    random = np.random.default_rng(5)
    side = 600
    tissue = np.kron(random.uniform(200, 2000, (60, 60)), np.ones((10, 10)))
    y, x = np.mgrid[:side, :side]
    signal = np.zeros((side, side))
    for row, col in random.integers(0, side, (220, 2)):
        signal += 300 * np.exp(-((y - row) ** 2 + (x - col) ** 2) / 200)
    pre = tissue + random.normal(0, 5, tissue.shape)
    post = GAIN * tissue + OFFSET + signal + random.normal(0, 7, tissue.shape)
    post[64:192, 64:192] *= change
    evidence = make_evidence(np.rint(post), np.rint(pre))
    return estimate(evidence, SETTINGS), evidence.bins


@pytest.fixture(scope="module")
def measured():
    return measure()


def test_faint_flanks_of_cells_change_gain_and_offset_less(measured):
    scale, cells = measured
    before, after = (one.methods["linear"] for one in (scale, refine(scale, cells, NOISE)))
    assert after.gain == pytest.approx(GAIN, rel=5e-4)
    assert abs(after.offset - OFFSET) < 0.3 * abs(before.offset - OFFSET)
    for value, interval in ((GAIN, after.gain_ci95), (OFFSET, after.offset_ci95)):
        assert interval[0] < value < interval[1]
    assert after.details["cells"] == np.count_nonzero(cells.count == 16)
    assert 0 < after.details["cells_used"] < after.details["cells"]
    assert "gain_ci95_statistical" not in after.details


def test_a_place_of_other_light_is_left_out():
    scale, cells = measure(0.7)
    found = refine(scale, cells, NOISE).methods["linear"]
    assert found.gain == pytest.approx(GAIN, rel=1e-3)
    assert abs(found.offset - OFFSET) < 0.2  # 0.28 with them
    assert 32**2 <= found.details["cells_outlying"] < cells.count.size / 4
    whole = np.count_nonzero(cells.count == 16)
    assert found.details["cells"] + found.details["cells_outlying"] == whole


def test_other_methods_and_what_cannot_be_fitted_stay(measured):
    scale, cells = measured
    assert refine(scale, cells, NOISE).methods["moffat"] is scale.methods["moffat"]
    only = replace(scale, default="moffat", methods={"moffat": scale.methods["moffat"]})
    assert refine(only, cells, NOISE) is only
    flat = replace(cells, pre=np.full_like(cells.pre, 7))
    assert refine(scale, flat, NOISE) is scale


def test_a_gain_that_changes_over_the_section_stays(measured):
    scale, cells = measured
    uneven = replace(scale.methods["linear"], gain_map=object())
    uneven = replace(scale, methods={**scale.methods, "linear": uneven})
    assert refine(uneven, cells, NOISE) is uneven
