"""The scale of a marker with several backgrounds: what is subtracted, and what is said of it."""

from __future__ import annotations

import numpy as np
import pytest

from unglow.multiplexed.several import estimate_several
from unglow.photometry.cell_moments import CellMoments

GAINS, SIDE = (0.9, 0.6), 64
ALONE = "interpolate: exposure times are not known, or the backgrounds are of one cycle."


def scale_of(similar, expected, method="fit", *, noise=3.0):
    """Scale of a marker without signal; the second background has a part of the first in it."""
    random = np.random.default_rng(1)
    first, other, *seen = (random.normal(size=(SIDE, SIDE)) for _ in range(5))
    first = 500 + 100 * first
    second = similar * first + (1 - similar) * (500 + 100 * other)
    post = GAINS[0] * first + GAINS[1] * second + 20 + 2 * seen[2]
    cells = {n: CellMoments.create((4 * SIDE, 4 * SIDE), (1e5, 1e5)) for n in ("AF", "AF_end")}
    for made, light, own in zip(cells.values(), (first, second), seen, strict=False):
        made.count[:], made.post[:], made.pre[:] = 16, post, light + noise * own
    return estimate_several(cells, dict.fromkeys(cells, 16 * noise**2), expected, method)


@pytest.mark.parametrize(
    ("expected", "is_said", "is_doubt"),
    [
        # within 5 % of all gains and the interval, or beyond
        *(((gain, 0.6), gain in (0.81, 0.99), False) for gain in (0.81, 0.83, 0.97, 0.99)),
        # less than 1.5 times as much, or more
        *(((0.9 * f, 0.6 * f), True, f in (0.64, 1.55)) for f in (0.64, 0.69, 1.45, 1.55)),
        ((1.3, 0.2), True, False),
    ],
)
def test_gains_that_exposure_times_do_not_promise_are_a_note_or_a_doubt(
    expected, is_said, is_doubt
):
    scale = scale_of(0.0, expected)
    sentence = (
        "Fitted gains of AF, AF_end: 0.9, 0.6; exposure times and cycles let expect "
        f"{expected[0]:.3g}, {expected[1]:.3g}. The fitted ones were used."
    )
    assert scale.notes == ((sentence,) if is_said and not is_doubt else ())
    assert scale.reasons == ((sentence,) if is_doubt else ())


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
    assert scale_of(0.98, (0.5, 1.0)).notes == (note,)  # neither gain is known, but their sum
    assert len(scale_of(0.98, (0.5, 1.13)).notes) == 2
