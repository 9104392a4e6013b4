"""The search as a whole, on images whose noise and spots are known; files; refusals."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from array_pixels import ArrayPixels
from made_search import make_scene
from scipy.ndimage import gaussian_filter

from unglow.core.windows import Window
from unglow.detection.coarse_grid import CoarseGrid, estimate_background, estimate_error
from unglow.detection.search import NEGATIVES, search
from unglow.detection.section_mask import Section, section_mask
from unglow.detection.settings import DetectSettings
from unglow.detection.snr import significance
from unglow.detection.source_photometry import NAMES, join_flags, write_csv, write_geojson
from unglow.photometry.imaging import GainMap
from unglow.stages.detect import geojson_properties
from unglow.transform import Quantiles, Transform
from unglow.transform.displacement import Displacement

SHAPE = (300, 340)
SIGMA = 3.0
TRANSFORM = Transform("ok", SHAPE, SHAPE, matrix=np.eye(3))
EVERYWHERE = Section.from_mask(np.ones(SHAPE, np.bool_), 0)


def spot(x, y, peak, sigma=1.5):
    row, col = np.indices(SHAPE)
    return peak * np.exp(-((col - x) ** 2 + (row - y) ** 2) / (2 * sigma**2))


def images(seed=0, spots=(), level=100.0, sigma=SIGMA):
    """Post and pre of an even section; whole px of pre fall on those of post."""
    rng = np.random.default_rng(seed)
    post, pre = (rng.normal(level, sigma, SHAPE).astype(np.float32) for _ in range(2))
    for one in spots:
        post += spot(*one).astype(np.float32)
    return post, pre


def scene(post, pre, gain=1.0, left=None, **more):
    left = post - np.float32(gain) * pre if left is None else left
    return make_scene(post, pre, left, variance=SIGMA**2, gain=gain, **more)


WHOLE = Window.from_shape(SHAPE)
SPOTS = [(60.3, 50.2, 40.0), (200.0, 150.0, 25.0), (300.6, 250.4, 60.0)]


@pytest.mark.parametrize("gain", [0.5, 1.0, 2.0])
def test_the_ratio_of_noise_alone_has_the_spread_of_one(gain):
    seen = significance(scene(*images(sigma=SIGMA), gain=gain, left=None), WHOLE)
    inner = seen.snr[10:-10, 10:-10] - np.mean(seen.snr[10:-10, 10:-10])
    assert np.std(inner) == pytest.approx(1.0, abs=0.03)


def test_the_gain_of_a_place_is_that_of_its_light():
    # m = 1 + 0.3 t along x: of pre's noise, more counts on the right than on the left
    light = GainMap(SHAPE, np.array([[1.0, 0.3], [0.0, 0.0]]), (0.7, 1.3), 0.0)
    post, pre = images()
    even = post - light.evaluate_window(WHOLE) * pre
    seen = significance(replace(scene(post, pre, left=even - even.mean()), gain_map=light), WHOLE)
    plain = significance(scene(post, pre, left=even - even.mean()), WHOLE)
    for column in (20, 300):
        m = 1 + 0.3 * (2 * column / (SHAPE[1] - 1) - 1)
        ratio = plain.snr[20:-20, column] / seen.snr[20:-20, column]
        assert ratio == pytest.approx(math.sqrt((1 + m**2) / 2), rel=1e-4)
    assert light.line(0.7, 2.0, 5.0) == (1.4, 3.5)


def test_the_ratio_of_a_spot_is_what_the_filter_makes_of_it():
    settings = DetectSettings()
    flat = np.full(SHAPE, 100, np.float32)
    seen = significance(scene(flat + spot(60, 50, 40).astype("f4"), flat), WHOLE)
    taps = settings.taps
    weights = np.outer(taps, taps)
    reach = settings.reach
    stamp = spot(60, 50, 40)[50 - reach : 51 + reach, 60 - reach : 61 + reach]
    expected = (weights * stamp).sum() / (SIGMA * math.sqrt(2 * (weights**2).sum()))
    assert seen.snr[50, 60] == pytest.approx(expected, rel=1e-5)


def test_px_that_are_missing_are_left_out_of_the_filter_and_half_of_it_has_to_be_there():
    post, pre = images()
    pre[:, :100] = np.nan
    seen = significance(scene(post, pre), WHOLE)
    assert np.isnan(seen.snr[:, :99]).all()
    assert np.isfinite(seen.snr[20:-20, 105:-1]).all()
    assert (seen.reasons[:, :100] == 1).all()
    assert (seen.reasons[:, 100:] == 0).all()
    edge = np.nanstd(seen.snr[:, 100:103])
    assert edge == pytest.approx(1.0, abs=0.15)


def test_saturated_pre_is_left_out_and_saturated_post_only_where_it_is_no_signal():
    post, pre = images()
    pre[100:110, 100:110] = 255
    post[100:110, 100:110] = 255  # a grain
    post[200:206, 200:206] = 255  # a microbe
    seen = significance(scene(post, pre, saturation=(255, 255)), WHOLE)
    assert (seen.reasons[100:110, 100:110] == 2).all()
    assert np.isnan(seen.snr[105, 105])
    assert (seen.reasons[200:206, 200:206] == 0).all()
    assert seen.snr[203, 203] > 50


def test_an_error_of_the_map_takes_significance_from_edges_and_none_from_even_places():
    edge = (np.where(np.arange(SHAPE[1]) < 170, 50, 150) * np.ones((SHAPE[0], 1))).astype("f4")
    post, pre = edge, np.roll(edge, 1, axis=1)
    ignored = significance(scene(post, pre), WHOLE).snr
    counted = significance(scene(post, pre, error=CoarseGrid.constant(1.0)), WHOLE)
    assert np.nanmax(np.abs(ignored[:, 160:180])) > 20
    assert np.nanmax(np.abs(counted.snr[:, 160:180])) <= math.sqrt(2) + 0.1
    np.testing.assert_array_equal(counted.snr[:, 20:150], ignored[:, 20:150])
    assert counted.noise_share[150, 170] < 0.5
    assert counted.noise_share[150, 100] == 1


def test_what_the_error_of_the_map_may_explain_is_not_counted_on_either_side():
    edge = (np.where(np.arange(SHAPE[1]) < 170, 50, 150) * np.ones((SHAPE[0], 1))).astype("f4")
    post, pre = images(level=0.0)
    post += (edge + spot(171, 150, 300.0) + spot(171, 60, -300.0) + spot(60, 200, 90.0)).astype(
        "f4"
    )
    found = search(scene(post, pre + edge, error=CoarseGrid.constant(1.0)), EVERYWHERE, workers=1)
    flags = {
        round(float(one["y"])): join_flags(one["flags"])
        for one in found.list_candidates()
        if one["snr"] > 20
    }
    assert flags == {150: "misregistered", 200: ""}
    report = found.report(None)
    off = [join_flags(one["flags"]) == "misregistered" for one in found.list_candidates()]
    assert report["candidates"] == len(off) - sum(off)
    assert max(ratio for _, _, ratio in report["brightest_negatives"]) < 10


def test_where_the_error_is_too_large_or_not_known_nothing_is_looked_for():
    values = np.full((8, 9), 0.1, np.float32)
    values[:, 6:] = 9.0
    values[4:, :] = np.nan
    error = CoarseGrid(values, 64.0, -64.0)
    seen = significance(scene(*images(), error=error), WHOLE)
    over = error.evaluate_window(WHOLE)
    np.testing.assert_array_equal(seen.reasons == 3, ~(over <= 3.0))
    assert (seen.reasons[:190, :250] == 0).all()
    assert (seen.reasons[260:, :] == 3).all()


def test_the_error_of_a_field_is_read_between_its_control_points():
    values = np.arange(20, dtype=np.float32).reshape(4, 5)
    field = Displacement(100, np.zeros((2, 4, 5)), values)
    error = estimate_error(replace(TRANSFORM, displacement=field))
    window = Window(0, 101, 0, 101)
    over = error.evaluate_window(window)
    assert over[0, 0] == values[1, 1]
    assert over[100, 100] == values[2, 2]
    assert over[50, 100] == (values[1, 2] + values[2, 2]) / 2
    x, y = np.array([100, 3]), np.array([50, 77])
    np.testing.assert_array_equal(error.evaluate(x, y), over[y, x])
    part = Window(30, 60, 40, 90)
    np.testing.assert_array_equal(error.evaluate_window(part), over[part.slices])
    plain = replace(TRANSFORM, error_px=Quantiles(0.02, 0.05))
    assert (estimate_error(plain).evaluate_window(window) == np.float32(0.05)).all()
    assert not estimate_error(replace(TRANSFORM, error_px=Quantiles())).has_values


def test_what_is_left_of_the_background_is_reported_by_medians_whatever_is_stained():
    col = np.indices((512, 640))[1]
    slope = (0.5 + col / 640).astype(np.float32)
    image = slope.copy()
    image[200:216, 200:216] += 300  # stain
    image[:, :100] = np.nan
    level = estimate_background(ArrayPixels(image, levels=5))
    assert level.values.shape == (4, 5)
    found = level.evaluate_window(Window.from_shape(image.shape))
    assert np.abs(found - slope)[:, 192:576].max() < 0.02
    assert np.isfinite(found).all()
    part = Window(77, 300, 150, 411)
    np.testing.assert_array_equal(level.evaluate_window(part), found[part.slices])


def test_an_image_smaller_than_a_block_has_one_level_and_one_without_data_has_none():
    small = estimate_background(ArrayPixels(np.full((50, 60), 2.5, np.float32)))
    assert (small.evaluate_window(Window(0, 50, 0, 60)) == 2.5).all()
    strip = estimate_background(ArrayPixels(np.full((50, 600), 2.5, np.float32)))
    assert (strip.evaluate_window(Window(0, 50, 0, 600)) == 2.5).all()
    assert (strip.evaluate(np.array([0, 599]), np.array([0, 49])) == 2.5).all()
    nothing = estimate_background(ArrayPixels(np.full((50, 60), np.nan, np.float32)))
    assert (nothing.evaluate_window(Window(0, 50, 0, 60)) == 0).all()


def crowd(seed, spots, lifted=0.0):
    """A difference of noise with a disc of spots, or all of the disc lifted; and where it is."""
    rng = np.random.default_rng(seed)
    rows, cols = np.indices((1280, 1280))
    inside = np.hypot(rows - 640, cols - 640) < 200
    image = rng.normal(0, 3, inside.shape) + lifted * gaussian_filter(inside.astype(float), 40)
    light = np.zeros(inside.shape)
    at = rng.choice(np.flatnonzero(inside), spots)
    light.ravel()[at] = rng.uniform(30, 90, spots) * 2 * np.pi * 25
    return (image + gaussian_filter(light, 5)).astype(np.float32), inside


def test_a_crowd_does_not_lift_the_level_on_the_section():
    image, inside = crowd(3, spots=400)
    section = Section.from_mask(np.ones((160, 160), np.bool_), 3)
    pixels, whole = ArrayPixels(image, levels=4), Window.from_shape(image.shape)
    plain = estimate_background(pixels).evaluate_window(whole)
    assert plain[inside].max() > 10
    level = estimate_background(pixels, section=section).evaluate_window(whole)
    assert level[inside].max() < 1.5
    made = make_scene(image, np.zeros_like(image), image, variance=4.5)
    dark = [
        search(
            replace(made, background=CoarseGrid.constant(0.0) if one is None else one),
            section, workers=1,
        ).sides.counts_above[1][50]
        for one in (None, estimate_background(pixels), estimate_background(pixels, None, section))
    ]  # fmt: skip
    assert dark[1] > 20
    assert dark[2] <= dark[0] + 3


@pytest.mark.parametrize(("spots", "lifted"), [(0, 0.0), (12, 0.0), (0, 20.0), (12, 20.0)])
def test_a_level_that_is_no_crowd_is_kept_to_the_bit(spots, lifted):
    image, _ = crowd(4, spots, lifted)
    section = Section.from_mask(np.ones((160, 160), np.bool_), 3)
    pixels = ArrayPixels(image, levels=4)
    found = estimate_background(pixels, section=section)
    np.testing.assert_array_equal(found.values, estimate_background(pixels).values)


def test_what_is_not_on_the_section_is_no_crowd_and_a_few_blocks_have_no_scatter():
    image, _ = crowd(3, spots=400)
    pixels = ArrayPixels(image, levels=4)
    mask = np.zeros((160, 160), np.bool_)
    for size in (0, 60):
        mask[:size, :size] = True
        found = estimate_background(pixels, section=Section.from_mask(mask, 3))
        np.testing.assert_array_equal(found.values, estimate_background(pixels).values)


def test_a_level_that_is_left_makes_nothing_significant():
    post, pre = images(9)
    plain = search(scene(post, pre), EVERYWHERE, workers=1)
    made = scene(post + np.float32(2.0), pre)
    level = replace(made, background=estimate_background(made.difference))
    assert len(search(made, EVERYWHERE, workers=1).found) > 5 * len(plain.found)
    repaired = search(level, EVERYWHERE, workers=1)
    assert len(repaired.found) == pytest.approx(len(plain.found), abs=10)


def test_spots_are_found_measured_and_distinguished_from_noise():
    found = search(scene(*images(1, SPOTS)), EVERYWHERE, workers=1)
    listed = found.list_candidates()
    assert len(listed) == len(SPOTS)
    for row, (x, y, peak) in zip(listed, SPOTS, strict=True):
        assert math.hypot(row["x"] - x, row["y"] - y) < 0.4
        assert row["peak"] == pytest.approx(peak, abs=4 * SIGMA)
        whole = 2 * math.pi * 1.5**2 * peak
        assert row["flux"] == pytest.approx(whole, abs=4 * float(row["flux_err"]) + 0.02 * whole)
        assert row["flags"] == 0
        assert row["pre"] == pytest.approx(100, abs=SIGMA)
        assert row["post"] > 100 + peak / 4
        assert math.isnan(row["edge_px"])
    assert (listed["fdr"] <= 0.05).all()
    assert 4 < found.threshold < 10


def test_spots_on_autofluorescence_count_by_what_they_stand_out_from_it():
    post, pre = images(1, SPOTS)
    post[:, :250] += 9.0  # about 10 standard deviations of the filtered difference
    found = search(scene(post, pre), EVERYWHERE, workers=1)
    listed = found.list_candidates()
    assert [join_flags(f) for f in listed["flags"]] == ["extended", "extended", ""]
    assert found.report(None)["candidates"] == 3
    assert (listed["snr"] - listed["above"])[:2] == pytest.approx(14.0)
    assert listed["above"][2] == listed["snr"][2]


def test_the_error_of_a_flux_is_its_spread_over_noise():
    spots = [(x, y, 40.0) for x in range(20, 330, 25) for y in range(20, 290, 25)]
    listed = search(scene(*images(3, spots)), EVERYWHERE, workers=1).list_candidates()
    listed = listed[listed["snr"] > 10]
    assert len(listed) == len(spots)
    ratio = np.std(listed["flux"]) / np.mean(listed["flux_err"])
    assert ratio == pytest.approx(1.0, abs=0.2)
    off = listed["x"] - np.rint((listed["x"] - 20) / 25) * 25 - 20
    assert np.std(off / listed["x_err"]) == pytest.approx(1.0, abs=0.35)


@pytest.mark.parametrize(("tile", "workers"), [(64, 1), (97, 2), (150, 3)])
def test_neither_tiles_nor_workers_change_a_byte(tmp_path, tile, workers):
    spots = [(x, y, p) for x, y, p in np.random.default_rng(5).uniform(
        (0, 0, 5), (340, 300, 60), (80, 3))]  # fmt: skip
    post, pre = images(4, spots)
    pre[:, 335:] = np.nan
    post[40:44, 40:44] = 400
    values = np.random.default_rng(6).uniform(0.01, 1.5, (9, 9)).astype(np.float32)
    made = scene(post, pre, saturation=(400.0, 1e9), error=CoarseGrid(values, 60.0, -60.0))
    texts = []
    for side, count in ((4096, 1), (tile, workers)):
        found = search(made, EVERYWHERE, workers=count, tile=side)
        write_csv(tmp_path / "c.csv", found.list_candidates())
        found.search_counts.save(tmp_path / "details/search.npz")
        made_of = [(tmp_path / name).read_bytes() for name in ("c.csv", "details/search.npz")]
        texts.append((*made_of, found.report((0.5, 0.5))))
    assert texts[0][0].count(b"\n") > 40
    assert texts[0] == texts[1]


def test_the_most_significant_sources_of_the_negated_difference_are_listed():
    holes = [(60.0, 80.0, -80.0), (200.0, 150.0, -60.0), (300.0, 40.0, -40.0)]
    report = search(scene(*images(3, holes)), EVERYWHERE, workers=1, tile=64).report(None)
    listed = report["brightest_negatives"]
    assert [(x, y) for x, y, _ in listed[:3]] == [(x, y) for x, y, _ in holes]
    ratios = [ratio for _, _, ratio in listed]
    assert ratios == sorted(ratios, reverse=True)
    assert len(ratios) <= NEGATIVES


def test_too_many_sources_leave_the_most_significant_ones_whatever_the_tiles():
    spots = [(x, y, 10.0 + x / 10) for x in range(20, 330, 25) for y in range(20, 290, 25)]
    made = scene(*images(3, spots))
    everything = search(made, EVERYWHERE, workers=1)
    few = [search(made, EVERYWHERE, workers=1, tile=t, most=30) for t in (60, 4096)]
    assert few[0].found.tobytes() == few[1].found.tobytes()
    assert len(few[0].found) == 30
    assert few[0].numbers["dropped"] == len(everything.found) - 30
    assert few[0].threshold > everything.threshold
    least = np.sort(everything.found["snr"])[-30]
    assert few[0].found["snr"].min() == least


def test_too_many_sources_far_above_all_thresholds_leave_no_list_that_can_be_believed():
    spots = [(x, y, 900.0) for x in range(20, 330, 25) for y in range(20, 290, 25)]
    few = search(scene(*images(3, spots)), EVERYWHERE, workers=1, most=30)
    assert few.found["above"].min() > 50
    assert few.threshold is None


def test_candidates_off_the_section_are_listed_and_not_counted():
    mask = np.ones((150, 170), np.bool_)
    mask[:, :60] = False  # the first 120 px of the image
    section = Section.from_mask(mask, 1)
    found = search(scene(*images(1, SPOTS)), section, workers=1)
    listed = found.list_candidates()
    report = found.report((0.5, 0.5))
    assert [join_flags(f) for f in listed["flags"]] == ["outside", "", ""]
    assert (report["candidates"], report["not_counted"]) == (2, 1)
    assert report["searched_px"] == 298 * 219  # but the outermost px, which have no slope
    assert list(np.round(listed["edge_px"])) == [-60, 80, 181]
    counts = found.search_counts
    assert (counts.side_px, counts.searched.shape) == (8, (38, 43))
    assert counts.searched_px == report["searched_px"]
    assert (counts.searched[1:37, 15:42] == 64).all()
    assert (counts.searched[:, :15] == 0).all()
    assert (counts.searched[0, 15:42] == 7 * 8).all()
    assert (counts.searched[37, 15:42] == 3 * 8).all()
    assert counts.bright.sum() == found.sides.counts_above[0][0]


def test_a_textured_section_on_glass_is_found_to_a_pixel_or_two():
    rng = np.random.default_rng(7)
    row, col = np.indices((400, 420))
    inside = np.hypot(row - 200, col - 210) < 150
    texture = 60 + 20 * np.kron(rng.normal(size=(100, 105)), np.ones((4, 4)))
    image = np.where(inside, np.maximum(texture, 5), 0) + rng.normal(2, 0.3, inside.shape)
    image[row < 30] = np.nan
    mask = section_mask(image.astype(np.float32))
    wrong = mask != (inside & (row >= 30))
    assert np.count_nonzero(wrong) < 3 * 2 * math.pi * 150
    assert mask[200, 210]


def test_a_corner_of_glass_at_the_edge_of_the_data_is_glass():
    random = np.random.default_rng(10)
    image = random.normal(20, 2, (400, 400))
    y, x = np.mgrid[:400, :400]
    round_ = np.hypot(y - 190, x - 190) < 150
    image[round_] = random.uniform(60, 200, np.count_nonzero(round_))
    image[330:] = image[:, 330:] = np.nan
    mask = section_mask(image.astype(np.float32))
    assert not mask[300:330, 300:330].any()
    inside = np.hypot(y - 190, x - 190) < 140
    assert mask[inside & np.isfinite(image)].all()


def test_glass_whose_noise_is_smooth_like_a_texture_is_recognised_by_its_darkness():
    rng = np.random.default_rng(7)
    row, col = np.indices((400, 420))
    inside = row > 120 + 0.2 * col
    noise = gaussian_filter(rng.normal(size=inside.shape), 1.5) * 1.5 * np.sqrt(4 * np.pi)
    image = np.where(inside, 300 + 50 * noise, np.maximum(7 + 5 * noise, 0))
    mask = section_mask(image.astype(np.float32))
    assert np.count_nonzero(mask != inside) < 3 * 420


def test_tissue_as_dim_as_glass_between_bright_cells_is_section():
    rng = np.random.default_rng(9)
    row, col = np.indices((400, 420))
    inside = np.hypot(row - 200, col - 210) < 150
    cells = np.zeros(inside.shape)
    places = rng.uniform(0, 400, (500, 2)).astype(int)
    cells[tuple(places[inside[tuple(places.T)]].T)] = 1.0
    image = 250 + 9000 * gaussian_filter(cells, 2.0) + rng.normal(0, 2, inside.shape)
    mask = section_mask(image.astype(np.float32))
    assert np.count_nonzero(mask != inside) < 0.1 * inside.sum()


def noisy(bright, glare=0.0):
    """Draw what is bright on noise under uneven light, ``glare`` of that in its corners."""
    row, col = np.indices(bright.shape)
    light = 1 - glare * np.hypot(row - 200, col - 210) / 290
    noise = np.random.default_rng(11).normal(0, 30, bright.shape)
    return ((100 + bright) * light + noise).astype(np.float32)


@pytest.mark.parametrize(("level", "glare"), [(400, 0.0), (150, 0.4), (100, 0.4)])
def test_a_dim_section_on_noisy_glass_under_uneven_light_is_found(level, glare):
    row, col = np.indices((400, 420))
    inside = np.hypot(row - 190, (col - 230) * 0.6) < 60
    mask = section_mask(noisy(inside * (level + 0.2 * level * np.sin(row / 4)), glare))
    assert np.count_nonzero(mask != inside) < 0.15 * inside.sum()


@pytest.mark.parametrize("count", [20, 500, 5000])
def test_noisy_tissue_that_fills_the_image_is_section_between_bright_cells(count):
    spots = np.zeros((400, 420))
    places = np.random.default_rng(9).uniform(0, 1, (count, 2)) * spots.shape
    spots[tuple(places.astype(int).T)] = 1.0
    assert section_mask(noisy(9000 * gaussian_filter(spots, 2.0), 0.3)).all()


def test_an_image_without_glass_is_all_section():
    rng = np.random.default_rng(8)
    image = 60 + 20 * np.kron(rng.normal(size=(100, 105)), np.ones((4, 4)))
    assert section_mask(image.astype(np.float32)).all()
    assert section_mask(np.full((50, 50), 3, np.float32)).all()
    assert section_mask(np.full((50, 50), np.nan, np.float32)).all()


@pytest.fixture
def found():
    return search(scene(*images(1, SPOTS)), EVERYWHERE, workers=1)


def test_the_table_has_the_columns_that_are_promised(found, tmp_path):
    listed = found.list_candidates()
    write_csv(tmp_path / "candidates.csv", listed)
    with (tmp_path / "candidates.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    wanted = "id,x,y,x_err,y_err,peak,flux,flux_err,snr,area_px,a,b,theta,flags"
    assert ",".join(NAMES[:14]) == wanted
    assert list(rows[0]) == list(NAMES)
    assert [row["id"] for row in rows] == ["1", "2", "3"]
    assert float(rows[0]["x"]) == listed["x"][0]
    assert float(rows[0]["snr"]) == pytest.approx(listed["snr"][0], abs=0.005)
    assert rows[0]["edge_px"] == ""


def test_geojson_is_a_collection_of_detections_half_a_pixel_on(found, tmp_path):
    listed = found.list_candidates()
    said = geojson_properties(found.report(None))
    write_geojson(tmp_path / "c.geojson", listed, said)
    read = json.loads((tmp_path / "c.geojson").read_text())
    assert read["type"] == "FeatureCollection"
    assert read["properties"]["candidates"] == 3
    assert read["properties"]["fdr"] <= 0.05
    first = read["features"][0]
    assert first["geometry"] == {
        "type": "Point",
        "coordinates": [round(listed["x"][0] + 0.5, 3), round(listed["y"][0] + 0.5, 3)],
    }
    assert first["properties"]["objectType"] == "detection"
    assert first["properties"]["measurements"]["Signal to noise"] == round(
        float(listed["snr"][0]), 2
    )
    write_geojson(tmp_path / "none.geojson", listed[:0], {"reason": "No match."})
    assert json.loads((tmp_path / "none.geojson").read_text())["features"] == []
