"""How far two maps lie apart, and whether their own errors explain it."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from unglow.core.errors import UnglowError
from unglow.photometry import imaging
from unglow.photometry.gain.scale import MethodResult, Scale
from unglow.photometry.imaging import GainMap, Sharpness
from unglow.registration.block_table import BLOCK_DTYPE, write_blocks
from unglow.results.comparison.measures import compare_gains, compare_maps
from unglow.transform import Transform
from unglow.transform.displacement import Displacement, Strips
from unglow.transform.transform import Quantiles

SHAPE = (600, 900)


def saved(place, shift=(0.0, 0.0), error=0.05, **more):
    """Save a map that moves by ``shift``; the path of its file."""
    place.mkdir()
    matrix = np.array([[1, 0, 3 + shift[0]], [0, 1, 4 + shift[1]], [0, 0, 1.0]])
    found = Transform("ok", SHAPE, (620, 930), matrix=matrix, model="translation",
                      error_px=Quantiles(error / 2, error), **more)  # fmt: skip
    found.save(place / "transform.json")
    return place / "transform.json"


def field(height=0.0, strips=None):
    """A field that is ``height`` px at one knot in the middle, and fades around it."""
    flat = Displacement.zeros(SHAPE, 100)
    coefficients = flat.coefficients.copy()
    coefficients[0, 4, 5] = height
    return Displacement(100, coefficients, strips=strips)


def edited(path, **changes):
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize(("step", "verdict"), [(0.05, "equal"), (0.09, "different")])
def test_a_shift_is_judged_by_both_errors(tmp_path, step, verdict):
    paths = saved(tmp_path / "a"), saved(tmp_path / "b", (0.6 * step, 0.8 * step), 0.03)
    found = compare_maps(*paths)
    assert found.verdict == verdict
    for key in ("map_median_px", "map_p95_px", "map_max_px"):
        assert found.numbers[key] == pytest.approx(step)
    assert found.numbers["map_error_px"] == pytest.approx(np.hypot(0.05, 0.03))
    assert found.excess == pytest.approx(step / np.hypot(0.05, 0.03))


def test_fields_are_part_of_maps_and_the_worst_place_is_reported(tmp_path):
    paths = [saved(tmp_path / n, displacement=field(h)) for n, h in (("a", 0.1), ("b", 1.6))]
    found = compare_maps(*paths)
    truth = field(1.5).evaluate(np.array([[400.0, 300.0]]))[
        0, 0
    ]  # knots begin one before the frame
    assert found.verdict == "different"
    assert found.numbers["map_max_px"] == pytest.approx(truth, rel=0.01)
    where = found.numbers["map_max_x"], found.numbers["map_max_y"]
    assert where == pytest.approx((400, 300), abs=8)
    assert found.numbers["map_median_px"] < 0.05


def test_strips_are_part_of_maps(tmp_path):
    steps = np.array([[0.0, 0.0], [0.5, 0.0]])
    strips = Strips("post", "rows", np.eye(3), np.array([450.0]), steps)
    found = compare_maps(
        saved(tmp_path / "a", displacement=field()),
        saved(tmp_path / "b", displacement=field(strips=strips)),
    )
    assert found.numbers["map_max_px"] == pytest.approx(0.5)
    assert found.numbers["map_max_y"] >= 450
    assert found.numbers["map_median_px"] == 0


def test_a_field_that_both_share_need_not_be_there(tmp_path):
    paths = (
        saved(tmp_path / "a", displacement=field(2)),
        saved(tmp_path / "b", (0.2, 0), displacement=field(2)),
    )
    (paths[0].parent / "details/displacement.npz").unlink()
    assert compare_maps(*paths).numbers["map_p95_px"] == pytest.approx(0.2)
    (tmp_path / "c").mkdir()
    other = saved(tmp_path / "c" / "d", displacement=field(1))
    with pytest.raises(UnglowError, match=r"displacement\.npz"):
        compare_maps(paths[0], other)


def test_only_the_section_counts(tmp_path):
    """Far from all blocks, two maps may say what they like."""
    turned = np.array([[1, 1e-4, 3], [0, 1, 4], [0, 0, 1.0]])  # off by 0.06 px at the bottom
    a, b = saved(tmp_path / "a"), saved(tmp_path / "b")
    edited(b, matrix=turned.tolist())
    assert compare_maps(a, b).numbers["map_max_px"] == pytest.approx(0.06, abs=0.001)
    blocks = np.zeros(50, BLOCK_DTYPE)
    random = np.random.default_rng(2)
    blocks["x"], blocks["y"] = random.uniform(50, 850, 50), random.uniform(20, 150, 50)
    blocks["used"] = True
    write_blocks(a.parent / "details/blocks.csv", blocks)
    assert compare_maps(a, b).numbers["map_max_px"] < 0.03


def test_an_unknown_error_is_not_an_error_of_zero(tmp_path):
    a, b = saved(tmp_path / "a", error=np.nan), saved(tmp_path / "b", (0.2, 0))
    assert compare_maps(a, b).numbers["map_error_px"] == pytest.approx(0.05)
    found = compare_maps(a, saved(tmp_path / "c", (0.2, 0), error=np.nan))
    assert found.verdict == "unknown"
    assert "its error is unknown" in found.sentence
    edited(b, matrix="none")
    with pytest.raises(UnglowError, match=r"b/transform\.json"):
        compare_maps(a, b)


def test_without_a_map_there_is_nothing_to_measure(tmp_path):
    ok = saved(tmp_path / "ok")
    for name in ("f", "g"):
        (tmp_path / name).mkdir()
        Transform("failed", SHAPE, SHAPE, ("No match.",)).save(tmp_path / name / "transform.json")
    f, g = (tmp_path / name / "transform.json" for name in ("f", "g"))
    assert compare_maps(f, g).verdict == "equal"
    found = compare_maps(ok, f)
    assert (found.verdict, found.sentence) == ("different", "no map in B: No match")
    assert compare_maps(f, ok).sentence == "no map in A: No match"
    edited(ok, post_shape=[10, 10])
    assert "post has 10 x 10 against" in compare_maps(ok, saved(tmp_path / "c")).sentence


def saved_scale(place, methods, default="linear"):
    place.mkdir()
    Scale(default, methods).save(place / "scale.json")
    return place / "scale.json"


def linear(gain=1.3, offset=2.0, details=None):
    around = (gain - 0.004, gain + 0.003), (offset - 0.1, offset + 0.1)
    return MethodResult(gain, offset, around[0], details or {}, None, around[1])


def test_a_difference_counts_in_units_of_the_halves_that_face_each_other(tmp_path):
    a = saved_scale(tmp_path / "a", {"linear": linear()})
    b = saved_scale(tmp_path / "b", {"linear": linear(1.313)})
    found = compare_gains(a, b)
    assert found.verdict == "different"
    assert found.sentence == "gain of linear +1.0 % (2.6 times its interval)"
    # the upper half of A is 0.003 wide, the lower one of B 0.004
    assert found.excess == pytest.approx(0.013 / 0.005)
    assert found.numbers["linear_gain_ratio"] == pytest.approx(1.01)
    assert compare_gains(b, a).excess == pytest.approx(0.013 / 0.005)


def test_what_intervals_allow_is_equal_and_reported(tmp_path):
    a = saved_scale(tmp_path / "a", {"linear": linear()})
    b = saved_scale(tmp_path / "b", {"linear": linear(1.3026, 1.95)})
    found = compare_gains(a, b)
    assert found.verdict == "equal"
    assert found.sentence == "gain of linear +0.20 %, offset of linear -0.050"
    assert compare_gains(a, saved_scale(tmp_path / "c", {"linear": linear(1.3, 2.3)})).excess > 1


def test_gains_that_were_given_have_no_error(tmp_path):
    paths = [saved_scale(tmp_path / name, {"manual": MethodResult(g, 0.0, None)}, "manual")
             for name, g in (("a", 1.3), ("b", 1.3000001))]  # fmt: skip
    assert compare_gains(*paths).verdict == "different"
    assert compare_gains(paths[0], paths[0]).verdict == "equal"


def test_methods_that_fail_or_change_places_are_reported(tmp_path):
    failed = MethodResult.make_failed("too few px")
    a = saved_scale(tmp_path / "a", {"linear": linear(), "moffat": failed})
    b = saved_scale(tmp_path / "b", {"linear": linear(), "moffat": linear()}, "moffat")
    found = compare_gains(a, b)
    assert "the default is moffat in place of linear" in found.sentence
    assert "moffat failed in A alone" in found.sentence
    c = saved_scale(tmp_path / "c", {"percentile": linear()}, "percentile")
    found = compare_gains(saved_scale(tmp_path / "d", {"linear": linear()}), c)
    assert found.verdict == "different"
    assert found.sentence == "the default is percentile in place of linear"
    refused = [saved_scale(tmp_path / n, {"linear": failed}) for n in ("e", "f")]
    assert compare_gains(*refused).verdict == "equal"


def test_gain_maps_are_compared_over_the_section(tmp_path):
    def with_light(name, tilt):
        light = GainMap((100, 200), np.array([[1.0, tilt], [0.0, 0.0]]), (0.5, 1.5), 0.0)
        details = {"gain_map": {"degree": 1, "sha256": light.digest}}
        path = saved_scale(tmp_path / name, {"linear": linear(details=details)})
        imaging.save_gain_map(path.parent / "details/gain_map.npz", light)
        return path

    a, b, c = with_light("a", 0.1), with_light("b", 0.1001), with_light("c", 0.12)
    assert compare_gains(a, b).verdict == "equal"
    assert compare_gains(a, b).sentence.endswith("gain map of linear off by 0.010 %")
    assert compare_gains(a, c).verdict == "different"
    plain = saved_scale(tmp_path / "plain", {"linear": linear()})
    assert compare_gains(a, plain).sentence == "linear has a gain map in A alone"
    (c.parent / "details/gain_map.npz").unlink()
    assert compare_gains(a, c).verdict == "unknown"
    assert "not here to be compared" in compare_gains(a, c).sentence


def test_blurring_another_image_is_a_difference(tmp_path):
    a = saved_scale(tmp_path / "a", {"linear": linear()})
    b = tmp_path / "b.json"
    Scale("linear", {"linear": linear()}, sharpness=Sharpness(0.8, 0.1, "pre", 0.5, 9)).save(b)
    found = compare_gains(a, b)
    assert (found.excess, found.sentence) == (math.inf, "blurred is pre in place of none")
    b.write_text(b.read_text().replace('"gain"', '"factor"'))
    with pytest.raises(UnglowError, match=r"b\.json is damaged"):
        compare_gains(a, b)
