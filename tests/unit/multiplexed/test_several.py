"""The scale of a marker with several backgrounds: what is subtracted, and what is said of it."""

from __future__ import annotations

import numpy as np
import pytest

from unglow.multiplexed.several import estimate_several
from unglow.photometry.cell_moments import CellMoments

GAINS, SIDE = (0.9, 0.6), 64
ALONE = "interpolate: exposure times are not known, or the backgrounds are of one cycle."


def cells_of(post, pre):
    made = CellMoments.create((4 * SIDE, 4 * SIDE), (1e5, 1e5))
    made.count[:], made.post[:], made.pre[:] = 16, post, pre
    return made


def scale_of(similar, expected, method="fit", *, noise=3.0):
    """Scale of a marker without signal; the second background has a part of the first in it."""
    random = np.random.default_rng(1)
    first, other, *seen = (random.normal(size=(SIDE, SIDE)) for _ in range(5))
    first = 500 + 100 * first
    second = similar * first + (1 - similar) * (500 + 100 * other)
    post = GAINS[0] * first + GAINS[1] * second + 20 + 2 * seen[2]
    cells = {
        name: cells_of(post, one + noise * own)
        for name, one, own in zip(("AF", "AF_end"), (first, second), seen, strict=False)
    }
    return estimate_several(cells, dict.fromkeys(cells, 16 * noise**2), expected, method)


@pytest.mark.parametrize(
    ("expected", "is_said", "is_doubt"),
    [
        ((0.97, 0.6), False, False),  # within 5 % of all gains, and the interval
        ((0.99, 0.6), True, False),
        ((0.83, 0.6), False, False),
        ((0.81, 0.6), True, False),
        ((0.9 * 1.45, 0.6 * 1.45), True, False),
        ((0.9 * 1.55, 0.6 * 1.55), True, True),
        ((0.9 / 1.45, 0.6 / 1.45), True, False),
        ((0.9 / 1.55, 0.6 / 1.55), True, True),
        ((1.3, 0.2), True, False),  # another background, but as much of both
    ],
)
def test_gains_that_exposure_times_do_not_promise_are_a_note_or_a_doubt(
    expected, is_said, is_doubt
):
    scale = scale_of(0.0, expected)
    assert (scale.status, scale.default) == ("ok", "fit")
    assert (len(scale.notes), len(scale.reasons)) == (is_said and not is_doubt, is_doubt)
    shown = ", ".join(f"{gain:.3g}" for gain in expected)
    for sentence in (*scale.notes, *scale.reasons):
        assert sentence == (
            "Fitted gains of AF, AF_end: 0.9, 0.6; exposure times and cycles let expect "
            f"{shown}. The fitted ones were used."
        )


def test_backgrounds_that_are_similar_are_reported_and_what_they_take_together():
    scale = scale_of(0.98, None, "interpolate")
    assert (scale.default, scale.reasons) == ("fit", (ALONE,))
    (note,) = scale.notes
    details = scale.default_result.details
    total, ends = details["subtracted_mean"], details["subtracted_mean_ci95"]
    assert total == pytest.approx(500 * sum(GAINS), rel=0.01)
    share = max(one["noise_share"] for one in details["gains"].values())
    assert 0.8 < share < 0.85
    assert note.startswith(f"AF and AF_end are too similar: {share:.0%} of the part of one that ")
    half = (ends[1] - ends[0]) / 2
    assert f"together ({total:.4g} ± {half:.2g} grey levels on average) is known all" in note
    doubled = scale_of(0.98, (1.8, 1.2)).reasons
    assert len(doubled) == 1
    # neither gain is known, but their sum
    assert scale_of(0.98, (0.5, 1.0)).notes == (note,)
    assert len(scale_of(0.98, (0.5, 1.13)).notes) == 2
