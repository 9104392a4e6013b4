"""One background: a line that allows for signal in many cells. Several: what is said of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from made_cells import make_evidence

from unglow.photometry.cell_moments import CellMoments
from unglow.photometry.gain.estimate import estimate
from unglow.photometry.gain.scale import ScaleSettings
from unglow.slides.several import estimate_several, refine

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


GAINS, SIDE = (0.9, 0.6), 64


def scale_of(similar, expected, method="fit"):
    """Scale of a marker without signal; the second background has a part of the first in it."""
    random = np.random.default_rng(1)
    first, other, *seen = (random.normal(size=(SIDE, SIDE)) for _ in range(5))
    first = 500 + 100 * first
    second = similar * first + (1 - similar) * (500 + 100 * other)
    post = GAINS[0] * first + GAINS[1] * second + 20 + 2 * seen[2]
    cells = {n: CellMoments.create((4 * SIDE, 4 * SIDE), (1e5, 1e5)) for n in ("AF", "AF_end")}
    for made, light, own in zip(cells.values(), (first, second), seen, strict=False):
        made.count[:], made.post[:], made.pre[:] = 16, post, light + 3 * own
    return estimate_several(cells, dict.fromkeys(cells, 144), expected, method)


@pytest.mark.parametrize(
    ("expected", "said"),
    [
        # within 5 % of all gains and the interval, or beyond
        *(((g, 0.6), "notes" if g in (0.81, 0.99) else "") for g in (0.81, 0.83, 0.97, 0.99)),
        *(((0.9 * f, 0.6 * f), "notes") for f in (0.69, 1.45)),
        *(((0.9 * f, 0.6 * f), "reasons") for f in (0.64, 1.55)),
        ((1.3, 0.2), "notes"),
    ],
)
def test_gains_that_exposure_times_do_not_promise_are_a_note_or_a_doubt(expected, said):
    scale = scale_of(0.0, expected)
    numbers = (
        f"Fitted for AF, AF_end: 0.9, 0.6; expected {expected[0]:.3g}, {expected[1]:.3g}. "
        "The fitted ones were used."
    )
    assert [one.numbers for one in scale.notes] == [numbers] * (said == "notes")
    assert [one.numbers for one in scale.reasons] == [numbers] * (said == "reasons")


def test_backgrounds_that_are_similar_are_reported_and_what_they_take_together():
    scale = scale_of(0.98, None, "interpolate")
    assert (scale.default, scale.reasons[0][:35]) == ("fit", "interpolate: exposure times are not")
    (note,) = scale.notes
    details = scale.default_result.details
    total, ends = details["subtracted_mean"], details["subtracted_mean_ci95"]
    assert total == pytest.approx(500 * sum(GAINS), rel=0.01)
    share = max(one["noise_share"] for one in details["gains"].values())
    assert note.startswith("The backgrounds AF and AF_end are too similar")
    assert note.numbers.startswith(f"{share:.0%} of the part of one that the others lack")
    assert f"take {total:.4g} ± {ends[1] - total:.2g} grey levels on average, wh" in note.numbers
    assert scale_of(0.98, (0.5, 1.0)).notes == (note,)  # neither gain is known, but their sum
    assert len(scale_of(0.98, (0.5, 1.13)).notes) == 2
