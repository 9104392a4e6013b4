"""Verdicts on real pixels: what counts as wrong, and pairs whose truth is known."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from real import verdicts
from real.cases import add_spots
from real.verdicts import Verdict, predict_found, report


def _verdict(status: str, *wrong: str) -> Verdict:
    return Verdict("a", "kind", status, "", wrong, 20, 1.0, 0.05, 0.1, 0.1, 0, 0.0, 0.0)


def test_found_spots_are_predicted_by_their_peaks() -> None:
    curve = [
        {"peak": 10.0, "injected": 50, "found": 0},
        {"peak": 20.0, "injected": 0, "found": 0},
        {"peak": 40.0, "injected": 50, "found": 50},
    ]
    assert predict_found(np.array([5.0, 20.0, 80.0]), {"curve": curve}) == pytest.approx(1.5)
    assert predict_found(np.array([5.0]), None) == 0


@pytest.mark.parametrize(
    ("found", "missed"),
    [
        ([_verdict("ok")] * 99 + [_verdict("ok", "gain")], 0),
        ([_verdict("ok")] * 9 + [_verdict("ok", "gain")], 1),
        ([_verdict("suspect", "map")] * 2 + [_verdict("suspect")], 0),
        ([_verdict("suspect", "map"), _verdict("suspect")], 1),
    ],
)
def test_aims_count_what_is_wrong_by_state(found: list[Verdict], missed: int) -> None:
    assert report(found) == missed


def test_spots_lie_where_they_are_said_to() -> None:
    image = np.full((300, 300), 100, np.uint16)
    stained, spots = add_spots(image, 4.0, np.random.default_rng(1), noise=10.0)
    x, y, peak = spots[-1]
    assert stained[round(y), round(x)] == pytest.approx(100 + peak, rel=0.15)
    assert len(spots) == 60
    assert not math.isnan(peak)


def test_nothing_is_done_without_real_images(capsys: pytest.CaptureFixture[str]) -> None:
    assert verdicts.run(SimpleNamespace(data=None)) == 0
    assert "real images" in capsys.readouterr().out
