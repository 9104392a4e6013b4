"""Candidates of two lists side by side."""

from __future__ import annotations

import json

import numpy as np
import pytest

from unglow.comparison.candidates import compare_candidates, match


def test_lists_are_matched_one_to_one_and_the_nearest_first():
    a = np.array([[10.0, 10.0], [11.0, 10.0], [50.0, 50.0], [90.0, 5.0]])
    b = np.array([[90.0, 7.5], [11.2, 10.0], [50.5, 50.0], [12.0, 10.0], [0.0, 0.0]])

    matched = match(a, b, 2.0)

    # (11, 10) has the nearest; what is left for (10, 10) is just within the radius
    assert matched.pairs.tolist() == [[0, 3], [1, 1], [2, 2]]
    assert matched.lost.tolist() == [3]
    assert matched.new.tolist() == [0, 4]


def test_every_candidate_is_in_one_place():
    rng = np.random.default_rng(3)
    a = rng.uniform(0, 200, (300, 2))
    b = np.concatenate([a[:250] + rng.normal(0, 0.3, (250, 2)), rng.uniform(0, 200, (40, 2))])

    matched = match(a, b, 1.5)

    assert sorted([*matched.pairs[:, 0], *matched.lost]) == list(range(len(a)))
    assert sorted([*matched.pairs[:, 1], *matched.new]) == list(range(len(b)))
    apart = np.hypot(*(a[matched.pairs[:, 0]] - b[matched.pairs[:, 1]]).T)
    assert apart.max() <= 1.5
    # no two that were left over are partners
    left = a[matched.lost][:, None] - b[matched.new][None]
    assert np.hypot(left[..., 0], left[..., 1]).min(initial=np.inf) > 1.5


def test_empty_lists_have_no_partners():
    none, some = np.zeros((0, 2)), np.zeros((3, 2))
    for a, b in ((none, none), (none, some), (some, none)):
        matched = match(a, b)
        assert matched.pairs.shape == (0, 2)
        assert (len(matched.lost), len(matched.new)) == (len(a), len(b))


COLUMNS = "id,x,y,x_err,y_err,flux,flux_err,snr,flags"


def listed(place, rows, threshold=5.0):
    """Write candidates (x, y, flux, snr, flags); the path of the list."""
    place.mkdir(parents=True)
    lines = [f"{n},{x},{y},0.3,0.3,{flux},10,{snr},{flags}"
             for n, (x, y, flux, snr, flags) in enumerate(rows)]  # fmt: skip
    (place / "candidates.csv").write_text("\n".join([COLUMNS, *lines]) + "\n")
    report = {"status": "ok", "threshold_snr": threshold, "settings": {"fwhm_px": 3}}
    (place / "detection.json").write_text(json.dumps(report))
    return place / "candidates.csv"


ROWS = [(20.0 * n, 30.0, 100.0 + n, 8.0 + n, "") for n in range(40)]


def test_clear_ones_that_are_lost_or_new_are_distinguished_from_those_at_the_limit(tmp_path):
    faint, other = (5.0, 300.0, 50.0, 5.9, ""), (60.0, 300.0, 50.0, 5.2, "")
    outside = (100.0, 400.0, 500.0, 99.0, "outside")
    a = listed(tmp_path / "a", [*ROWS, faint, outside], threshold=4.0)
    found = compare_candidates(a, listed(tmp_path / "b", [*ROWS, other]))
    assert (found.verdict, found.excess) == ("equal", 0)
    assert found.sentence == (
        "candidates: 1 lost (at the limit of significance), 1 new (at the limit of significance), "
        "40 matched"
    )
    found = compare_candidates(a, listed(tmp_path / "c", [*ROWS[3:], (0.0, 700.0, 9, 30.0, "")]))
    assert found.verdict == "different"
    assert found.sentence == "candidates: 4 lost (3 clear), 1 new (clear), 37 matched"
    assert found.points[0] == ("lost", 40.0, 30.0, 10.0)
    assert found.points[-1] == ("new", 0.0, 700.0, 30.0)
    numbers = ("lost", "lost_clear", "new", "new_clear", "matched")
    assert [found.numbers[name] for name in numbers] == [4, 3, 1, 1, 37]


def test_places_and_fluxes_of_the_same_candidates_are_compared(tmp_path):
    a = listed(tmp_path / "a", ROWS)
    nearly = [(x + 0.1, y, 1.02 * flux, snr, flags) for x, y, flux, snr, flags in ROWS]
    found = compare_candidates(a, listed(tmp_path / "b", nearly))
    assert found.verdict == "equal"
    assert found.numbers["flux_ratio"] == pytest.approx(1.02)
    assert found.numbers["place_median_px"] == pytest.approx(0.1)
    twice = [(x, y, 2 * flux, snr, flags) for x, y, flux, snr, flags in ROWS]
    found = compare_candidates(a, listed(tmp_path / "c", twice))
    assert found.verdict == "different"
    assert "100 % of them measured otherwise (typical flux 2 times" in found.sentence


def test_lists_without_what_newer_ones_have_are_read(tmp_path):
    a, b = (listed(tmp_path / name, ROWS[:n]) for name, n in (("a", 40), ("b", 39)))
    for path in (a, b):
        path.with_name("detection.json").unlink()
        rows = [line.split(",") for line in path.read_text().splitlines()]
        kept = [[row[0], row[1], row[2], row[7], row[8]] for row in rows]
        path.write_text("\n".join(",".join(row) for row in kept) + "\n")
    assert compare_candidates(a, b).sentence == "candidates: 1 lost (clear), 39 matched"
    empty = [listed(tmp_path / name, []) for name in ("c", "d")]
    found = compare_candidates(*empty)
    assert (found.verdict, found.sentence) == ("equal", "candidates: 0 matched")
