"""The figures of candidates, from stores, table and report of a pair."""

from __future__ import annotations

import numpy as np
import pytest
from made_stores import write_store

from unglow.core.windows import Window
from unglow.figures import candidate_checks
from unglow.figures.candidate_checks import draw_gallery
from unglow.figures.drawing import draw_figures
from unglow.figures.figure_inputs import Differences, FigureInputs, draw_refusal
from unglow.figures.style import save_png
from unglow.images.detection_results import Candidates, SearchCounts
from unglow.photometry.difference_histogram import DifferenceHistogram
from unglow.photometry.gain.scale import MethodResult, Scale
from unglow.results.figure_table import CANDIDATES, FIGURES
from unglow.transform import Transform

SHAPE = (300, 420)
NAMES = ("candidates", "purity", "gallery")
COUNTS = SearchCounts(3.5, *np.zeros((2, 0), np.int64), np.full((34, 48), 70), 9)


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    place = tmp_path_factory.mktemp("pair")

    def store(name, image):
        return write_store(place / f"{name}.zarr", image, pixel_size_um=(0.5, 0.5))

    random = np.random.default_rng(0)
    post = random.poisson(80, SHAPE).astype(np.uint16)
    left = np.float32(post - np.float32(78.5))
    histogram = DifferenceHistogram.create(-100, 100, 1 / 32)
    histogram.add(left)
    return {
        "post": store("post", post),
        "aligned": store("aligned", np.full(SHAPE, 78.5, np.float32)),
        "scale": Scale("moffat", {"moffat": MethodResult(1.0, 0.0, None)}),
        "transform": Transform("ok", SHAPE, SHAPE, matrix=np.eye(3)),
        "spoilt": (),
        "differences": Differences({"moffat": store("d", left)}, {"moffat": histogram}, "moffat"),
    }


def draw(pair, found, detection, counts, made):
    """Draw the figures of candidates alone."""
    known = pair | {"candidates": found, "detection": detection, "search_counts": counts}
    draw_figures(FigureInputs({}, **known), made, "S D")


@pytest.fixture(autouse=True)
def candidates_only(monkeypatch):
    rows = [row for row in FIGURES["figures"] if row.category == CANDIDATES]
    monkeypatch.setitem(FIGURES, "figures", rows)


def listed(snr, flags=None):
    snr = np.array(snr, float)
    place = np.arange(len(snr))
    numbers = {"x": 20.0 + 7 * place, "y": 30.0 + place, "snr": snr, "fdr": 0.01 + 0 * snr}
    return Candidates(numbers, tuple(flags or [""] * len(snr)))


def report(count, threshold):
    return {
        "status": "ok",
        "settings": {"fdr": 0.05, "min_snr": 3.5},
        "candidates": count,
        "not_counted": 0,
        "fdr": 0.01 if threshold else None,
        "fdr_control": None,
        "is_control": False,
        "threshold_snr": threshold,
        "area_mm2": 0.03,
        "density_per_mm2": 100.0,
        "density_ci95_per_mm2": [90.0, 110.0],
        "searched_px": 126_000,
        "masked_px": {"no_data": 0, "saturated": 0, "misregistered": 0},
        "completeness": None,
        "by_threshold": [
            {"snr": t, "candidates": count, "negative": 1, "fdr": 0.01} for t in (4.0, 4.25, 4.5)
        ],
    }


def targets(place):
    return {name: place / f"{name}.png" for name in NAMES}


def test_the_best_and_the_nearest_to_the_threshold_are_chosen():
    snr = np.random.default_rng(1).permutation(np.arange(4.0, 64.0))
    flags = ["outside" if s == 63 else "" for s in snr]
    best, borderline = candidate_checks.choose_stamps(listed(snr, flags))
    assert snr[best].tolist() == list(range(62, 38, -1))
    assert snr[borderline].tolist() == list(range(4, 28))
    best, borderline = candidate_checks.choose_stamps(listed([5, 9, 7]))
    assert (best.tolist(), borderline.tolist()) == ([1, 2, 0], [])


def test_stamps_hold_what_was_subtracted_and_nothing_beyond_the_image(pair, monkeypatch, tmp_path):
    seen = []
    real = draw_gallery
    monkeypatch.setattr(
        candidate_checks,
        "draw_gallery",
        lambda best, *a, **k: seen.extend(best) or real(best, *a, **k),
    )
    draw(pair, listed([9.0]), report(1, 4.0), COUNTS, targets(tmp_path))
    (stamp,) = seen
    assert stamp.post.shape == (39, 39)
    assert stamp.post[19, 19] == pair["post"].read(Window.from_shape(SHAPE))[30, 20]
    assert stamp.background[19, 19] == pytest.approx(78.5)
    assert stamp.difference[19, 19] == pytest.approx(stamp.post[19, 19] - 78.5)
    edge = listed([9.0])
    edge.numbers["x"][:] = 0
    draw(pair, edge, report(1, 4.0), COUNTS, targets(tmp_path))
    assert np.isnan(seen[1].post[:, :19]).all()
    assert np.isfinite(seen[1].post[:, 19:]).all()


def test_a_pair_that_was_not_searched_says_why_in_each_place(pair, tmp_path):
    reason = "moffat found no gain."
    failed = {"status": "failed", "reason": reason}
    draw(pair, listed([]), failed, SearchCounts.make_refused(reason), targets(tmp_path))
    save_png(draw_refusal("S D", reason), tmp_path / "expected.png")
    for path in targets(tmp_path).values():
        assert path.read_bytes() == (tmp_path / "expected.png").read_bytes()


def test_a_pair_without_candidates_has_figures_and_no_gallery(pair, tmp_path):
    draw(pair, listed([]), report(0, None), COUNTS, targets(tmp_path))
    reason = "There are no candidates: no threshold has so few false ones as is wanted."
    save_png(draw_refusal("S D: gallery of candidates", reason, None), tmp_path / "expected.png")
    made = {name: path.read_bytes() for name, path in targets(tmp_path).items()}
    assert made["gallery"] == (tmp_path / "expected.png").read_bytes()
    assert len(made["candidates"]) > 10_000
    assert made["purity"] != made["gallery"]
