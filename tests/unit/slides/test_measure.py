"""Gains, offsets and residual shifts of the markers of a slide, all known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from made_slide import (
    GAINS,
    MOVE,
    OFFSETS,
    SHAPE,
    autofluorescence,
    channels,
    moved,
    pixels,
    slide,
    write,
)

from unglow.images.slide_plan import Channel, Slide
from unglow.photometry.gain.scale import ScaleSettings
from unglow.results.slide_files import usable
from unglow.slides.measure import measure_slide
from unglow.slides.slide import Sample
from unglow.slides.slide_scale import cycle_states
from unglow.transform import Transform

LINEAR = ScaleSettings(("linear",), gain_map="never")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    path = tmp_path_factory.mktemp("slide") / "s.ome.tif"
    return slide(path), [write(path, pixels())]


@pytest.fixture(scope="module")
def measured(made):
    return measure_slide(*made, moved(), LINEAR)


def test_every_marker_has_its_gain_offset_and_no_shift(measured):
    for name, gain in GAINS.items():
        one = measured[name]
        assert one.scale.status == "ok"
        assert one.scale.reasons == ()
        assert one.scale.default_result.gain == pytest.approx(gain, rel=0.02)
        assert one.scale.default_result.offset == pytest.approx(OFFSETS[name], abs=8)
        assert one.shift.blocks >= 4
        assert one.shift.length_px < 0.1 + 3 * one.shift.error_px
        assert one.expected_gain == one.scale.default_result.details["expected_gain"]
        assert one.statistics.n["pixels"] == SHAPE[0] * SHAPE[1]


def test_neither_threads_nor_markers_at_a_time_change_anything(made, measured):
    other = measure_slide(*made, moved(), LINEAR, workers=3, markers_at_a_time=2)
    for name, one in measured.items():
        assert one.scale.to_json() == other[name].scale.to_json()
        assert one.shift == other[name].shift
        for key, array in one.statistics.arrays.items():
            np.testing.assert_array_equal(array, other[name].statistics.arrays[key])


def test_a_map_that_is_off_shows_in_the_marker_itself(made):
    found = measure_slide(*made, moved(0, 0), LINEAR)
    shift = found["C"].shift
    assert (shift.x_px, shift.y_px) == pytest.approx(MOVE, abs=0.1)
    assert any("against this marker" in reason for reason in found["C"].scale.reasons)
    assert found["A"].scale.reasons == ()
    wide = measure_slide(*made, moved(0, 0), LINEAR, suspect_px=2.0)
    assert not any("against this marker" in reason for reason in wide["C"].scale.reasons)


@pytest.mark.parametrize(
    ("exposure", "methods", "is_doubt", "words"),
    [
        (170.0, ("linear",), False, "expected 1.7."),
        (220.0, ("linear",), False, "expected 2.2."),
        (240.0, ("linear",), True, "expected 2.4."),
        (95.0, ("linear",), True, "expected 0.95."),
        (170.0, ("exposure",), True, "1.7 was subtracted (method exposure)."),
    ],
)
def test_a_gain_that_exposure_times_do_not_promise_is_a_note_where_it_is_used_and_near(
    made, exposure, methods, is_doubt, words
):
    wrong = [replace(one, exposure=exposure) if one.name == "A" else one for one in channels()]
    found = measure_slide(
        slide(made[0].images[0], tuple(wrong)), made[1], moved(), ScaleSettings(methods)
    )
    notes, others = found["A"].scale.notes, found["A"].scale.reasons
    if is_doubt:
        notes, others = others, notes
    (reason,) = (one for one in notes if "exposure" in one)
    assert reason.numbers.endswith(words)
    assert not any("exposure" in one for one in others)
    for about in (found["B"].scale.reasons, found["B"].scale.notes):
        assert not any("exposure" in one for one in about)
    if methods == ("exposure",):
        result = found["A"].scale.default_result
        assert (result.gain, result.offset) == (1.7, 0.0)


def test_without_exposure_times_that_method_says_so(made):
    unknown = tuple(replace(one, exposure=None) for one in channels())
    one = slide(made[0].images[0], unknown)
    found = measure_slide(one, made[1], moved(), ScaleSettings(("exposure",)))
    assert found["A"].scale.status == "failed"
    assert "exposure times" in found["A"].scale.reasons[0]


def test_a_cycle_without_a_map_fails_its_markers_alone(made):
    maps = {(1, 2): Transform("failed", SHAPE, SHAPE, ("No.",))}
    found = measure_slide(*made, maps, LINEAR)
    assert (found["C"].scale.status, found["C"].scale.reasons) == ("failed", ("No.",))
    assert found["A"].scale.status == "ok"


def test_large_slides_are_measured_on_windows_spread_over_them():
    sample = Sample.from_shape((30000, 5000))
    assert len(sample.windows) == 64
    assert sample.extent == (4096, 3976)
    first, corner = sample.windows[9]
    assert corner == (512, 512)
    points = sample.to_slide(np.array([[512.0, 512.0], [700.5, 600.25]]))
    np.testing.assert_array_equal(points[0], (first.x0, first.y0))
    np.testing.assert_array_equal(points[1] - points[0], (188.5, 88.25))
    assert max(w.y1 for w, _ in sample.windows) <= 30000
    whole = Sample.from_shape((700, 900))
    assert whole.extent == (700, 900)
    assert sum(w.size for w, _ in whole.windows) == 700 * 900


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """A slide of blanks in cycles 1 and 5, and of a marker in cycle 2 that shows both."""
    random = np.random.default_rng(4)
    first, last = autofluorescence(seed=2)[8:-8, 8:-8], autofluorescence(seed=3)[8:-8, 8:-8]
    spots = np.clip(random.normal(0, 1, SHAPE) - 2, 0, None) * 900
    light = [first, 0.9 * first + 0.6 * last + 20 + spots, last]
    image = np.rint([random.normal(one, np.sqrt(one) / 2) for one in light]).astype("uint16")
    path = tmp_path_factory.mktemp("two") / "s.ome.tif"
    made = (
        Channel("AF", 0, 0, 1, 100.0, removed=True),
        Channel("M", 0, 1, 2, 150.0, ("AF", "AF_end")),
        Channel("AF_end", 0, 2, 5, 100.0, removed=True),
    )
    one = Slide("s", (path,), made, {1: "AF", 2: "M", 5: "AF_end"})
    maps = {move: next(iter(moved(0, 0).values())) for move in one.moves}
    return one, [write(path, image)], maps


def test_gains_of_two_backgrounds_and_what_exposure_times_let_expect(two):
    scale = measure_slide(*two, LINEAR)["M"].scale
    assert (scale.status, scale.default) == ("ok", "fit")
    gains = {name: one["gain"] for name, one in scale.default_result.details["gains"].items()}
    assert gains == pytest.approx({"AF": 0.9, "AF_end": 0.6}, abs=0.01)
    assert scale.default_result.gain == pytest.approx(1.5, abs=0.01)
    assert scale.default_result.offset == pytest.approx(20, abs=4)
    assert [w for _, w in scale.default_result.weights] == pytest.approx([0.6, 0.4], abs=0.01)
    expected = scale.methods["interpolate"].details["gains"]  # 150 / 100, and a quarter of the way
    assert [one["gain"] for one in expected.values()] == pytest.approx([1.125, 0.375])
    assert any("expected 1.12, 0.375" in note.numbers for note in scale.notes)
    other = measure_slide(*two, LINEAR, workers=3, markers_at_a_time=2)["M"].scale
    assert other.to_json() == scale.to_json()


def test_interpolated_gains_are_subtracted_on_request_with_a_doubt_where_the_fit_disagrees(two):
    scale = measure_slide(*two, LINEAR, several="interpolate")["M"].scale
    assert scale.default == "interpolate"
    assert (scale.default_result.gain, scale.default_result.offset) == (1.5, 0.0)
    assert scale.methods["fit"].details["gains"]["AF"]["gain"] == pytest.approx(0.9, abs=0.01)
    assert any("The expected ones were used." in reason.numbers for reason in scale.reasons)


def test_without_one_of_its_backgrounds_a_marker_fails_or_goes_on_with_the_rest(two):
    maps = {**two[2], (1, 5): Transform("failed", SHAPE, SHAPE, ("No.",))}
    states = cycle_states(two[0], maps, 1.0)
    rest, _ = usable(two[0], states)
    scale = measure_slide(rest, two[1], maps, LINEAR)["M"].scale
    assert (scale.status, scale.default) == ("ok", "linear")
    assert measure_slide(two[0], two[1], maps, LINEAR)["M"].scale.reasons == ("No.",)
