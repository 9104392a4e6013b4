"""Regions that people drew: what lies in those to exclude is not searched, others are counted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from made_search import make_scene

from unglow.core.windows import Window
from unglow.detection.completeness import measure_completeness
from unglow.detection.search import search
from unglow.detection.section_mask import Section
from unglow.detection.snr import EXCLUDED, significance
from unglow.detection.source_photometry import join_flags
from unglow.review.polygons import Polygon, Region, Regions, density, mask_over
from unglow.spoilt.places import SpoiltMask

SHAPE = (300, 340)
SIGMA = 3.0
SPOTS = [(x, y, 30.0) for x in range(30, 330, 25) for y in range(30, 290, 25)]
PIXEL_UM = (0.5, 0.5)


def outline(x0, y0, x1, y1):
    """The corners of px ``x0 <= x < x1`` and ``y0 <= y < y1``."""
    return np.array([[x0, y0], [x1, y0], [x1, y1], [x0, y1]], float) - 0.5


def region(kind, *corners, name="a"):
    return Region(kind, name, (Polygon.from_rings([outline(*corners)]),))


BUBBLE = region("exclude", 90, 70, 190, 160)
LEFT = region("analyse", 0, 0, 140, 300, name="left")
FAR = region("analyse", 900, 900, 950, 950, name="far")
DRAWN = Regions((BUBBLE,), (LEFT, FAR))


def scene(excluded=(), spots=SPOTS, seed=2):
    rng = np.random.default_rng(seed)
    post, pre = (rng.normal(100, SIGMA, SHAPE).astype(np.float32) for _ in range(2))
    row, col = np.indices(SHAPE)
    for x, y, peak in spots:
        post += (peak * np.exp(-((col - x) ** 2 + (row - y) ** 2) / 4.5)).astype(np.float32)
    return make_scene(post, pre, variance=SIGMA**2, excluded=excluded)


WHOLE = Section.from_mask(np.ones(SHAPE, np.bool_), 0)


def found(regions=None, **more):
    drawn = () if regions is None else regions.exclude
    section = replace(WHOLE, excluded=drawn)
    return search(scene(drawn), section, regions=regions, **{"workers": 1, "tile": 128} | more)


@pytest.fixture(scope="module")
def without():
    return found()


@pytest.fixture(scope="module")
def drawn():
    return found(DRAWN)


def inside(rows):
    """Which of the listed sources lie in the bubble."""
    return BUBBLE.holds_points(np.stack([rows["x"], rows["y"]], axis=1))


def test_nothing_is_listed_in_what_is_left_out_and_nothing_changes_far_from_it(without, drawn):
    listed = drawn.found
    assert inside(without.found).sum() > 12
    assert not inside(listed).any()
    # what lies further away than the filters reach is measured as before
    away = ~region("exclude", 70, 50, 210, 180).holds_points(
        np.stack([listed["x"], listed["y"]], axis=1)
    )
    before = {row.tobytes() for row in without.found}
    assert away.sum() > 60
    assert all(row.tobytes() in before for row in listed[away])


def test_the_area_is_without_what_is_left_out(without, drawn):
    after, before = drawn.report(PIXEL_UM), without.report(PIXEL_UM)
    assert after["masked_px"] == {**before["masked_px"], "excluded": 100 * 90}
    # and without the px next to it, which have no slope, as at the end of the image
    rim = before["searched_px"] - 100 * 90 - after["searched_px"]
    assert 360 <= rim <= 2 * (100 + 90)
    assert after["area_mm2"] == pytest.approx(after["searched_px"] * 0.25e-6, rel=1e-5)
    assert after["candidates"] < before["candidates"]
    assert "regions" not in before


def test_regions_to_analyse_have_counts_and_densities_of_their_own(drawn):
    regions = drawn.report(PIXEL_UM)["regions"]
    listed = drawn.list_candidates()
    count = int((listed["x"] < 139.5).sum())
    ratio = significance(scene((BUBBLE,)), Window.from_shape(SHAPE)).snr
    px = int(np.isfinite(ratio[:, :140]).sum())
    assert regions == [
        {"name": "left", "candidates": count, "searched_px": px, **density(count, px, PIXEL_UM)},
        {"name": "far", "candidates": 0, "searched_px": 0, **density(0, 0, PIXEL_UM)},
    ]
    assert count > 30


@pytest.mark.parametrize("tile", [64, 300])
def test_tiles_do_not_change_a_byte(drawn, tile):
    whole = found(DRAWN, tile=tile, workers=2)
    assert whole.found.tobytes() == drawn.found.tobytes()
    assert whole.report(PIXEL_UM) == drawn.report(PIXEL_UM)


def test_a_source_at_the_edge_is_measured_on_what_is_left_and_says_so():
    # the bubble ends one px right of the first spot's centre, and four right of the second's
    spots = [(88.0, 100.0, 60.0), (85.0, 140.0, 60.0), (60.0, 100.0, 60.0)]
    result = search(
        scene((BUBBLE,), spots),
        replace(WHOLE, excluded=(BUBBLE,)),
        regions=Regions((BUBBLE,)),
        workers=1,
    )
    bright = result.found[result.found["snr"] > 8]
    flagged = {(int(row["col"]), int(row["row"])): join_flags(int(row["flags"])) for row in bright}
    assert len(flagged) == 3
    assert {x for x, _ in flagged} < set(range(57, 90))
    assert flagged[min(flagged)] == ""
    assert "incomplete" in flagged[max(flagged)]


def test_an_excluded_px_has_no_ratio_and_its_neighbours_have_one():
    ratio = significance(scene((BUBBLE,)), Window.from_shape(SHAPE))
    left_out = mask_over((BUBBLE,), Window.from_shape(SHAPE))
    assert np.array_equal(ratio.reasons == EXCLUDED, left_out)
    assert np.isnan(ratio.snr[left_out]).all()
    assert np.isfinite(ratio.snr[110, 80:89]).all()


def test_no_spot_is_put_into_what_is_left_out():
    half = region("exclude", 0, 0, 170, 300)
    pair, section = scene((half,)), replace(WHOLE, excluded=(half,))
    tried = measure_completeness(pair, section, np.zeros((0, 2)), 5.0, "a", workers=1)
    assert tried is not None
    assert len(tried.trials) > 20
    assert tried.trials.x.min() >= 169.5


def test_dark_places_next_to_what_may_be_dirt_raise_no_threshold():
    dark = [(x, y, -30.0) for x in (135, 150, 165, 180) for y in (135, 150, 165)]
    pair = scene(spots=[*SPOTS[::3], *dark])
    blocks = np.zeros((10, 11), np.bool_)
    blocks[4:6, 4:6] = True
    known = replace(pair, unclear=SpoiltMask(blocks, 32))
    misled, result = (search(one, WHOLE, workers=1) for one in (pair, known))
    assert misled.threshold is None or misled.threshold > 2 * result.threshold
    assert result.threshold < 6
    listed = result.list_candidates()
    inside = known.unclear.is_near(listed["col"], listed["row"])
    assert [
        "stain_or_dirt" in join_flags(flags) for flags in listed["flags"].tolist()
    ] == inside.tolist()
    assert result.report(PIXEL_UM)["candidates"] == len(listed) > 30


def test_what_lies_next_to_a_spoilt_place_is_listed_and_neither_counted_nor_searched():
    blocks = np.zeros((10, 11), np.bool_)
    blocks[3, 2] = True
    spoilt, whole = SpoiltMask(blocks, 32), Window.from_shape(SHAPE)
    pair = replace(scene(), spoilt=spoilt)
    result = search(pair, WHOLE, regions=Regions((), (LEFT,)), workers=1)
    listed, report = result.list_candidates(), result.report(PIXEL_UM)
    near = spoilt.is_near(listed["col"], listed["row"])
    assert 3 < near.sum() == report["not_counted"]
    assert [
        "beside_spoilt" in join_flags(flags) for flags in listed["flags"].tolist()
    ] == near.tolist()
    assert report["regions"][0]["candidates"] == ((listed["x"] < 139.5) & ~near).sum()
    searched = np.isfinite(significance(pair, whole).snr) & ~spoilt.mask_near(whole)
    assert report["searched_px"] == searched.sum()
