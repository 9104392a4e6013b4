"""How far gains lie apart, in units of their intervals."""

from __future__ import annotations

import math

import numpy as np
import pytest

from unglow.comparison.measures import compare_gains
from unglow.core.errors import UnglowError
from unglow.photometry import imaging
from unglow.photometry.gain.scale import MethodResult, Scale
from unglow.photometry.imaging import GainMap, Sharpness


def saved(place, methods, default="linear"):
    place.mkdir()
    Scale(default, methods).save(place / "scale.json")
    return place / "scale.json"


def linear(gain=1.3, offset=2.0, details=None):
    around = (gain - 0.004, gain + 0.003), (offset - 0.1, offset + 0.1)
    return MethodResult(gain, offset, around[0], details or {}, None, around[1])


def test_a_difference_counts_in_units_of_the_halves_that_face_each_other(tmp_path):
    a = saved(tmp_path / "a", {"linear": linear()})
    b = saved(tmp_path / "b", {"linear": linear(1.313)})
    found = compare_gains(a, b)
    assert found.verdict == "different"
    assert found.sentence == "gain of linear +1.0 % (2.6 times its interval)"
    # the upper half of A is 0.003 wide, the lower one of B 0.004
    assert found.excess == pytest.approx(0.013 / 0.005)
    assert found.numbers["linear_gain_ratio"] == pytest.approx(1.01)
    assert compare_gains(b, a).excess == pytest.approx(0.013 / 0.005)


def test_what_intervals_allow_is_equal_and_reported(tmp_path):
    a = saved(tmp_path / "a", {"linear": linear()})
    b = saved(tmp_path / "b", {"linear": linear(1.3026, 1.95)})
    found = compare_gains(a, b)
    assert found.verdict == "equal"
    assert found.sentence == "gain of linear +0.20 %, offset of linear -0.050"
    assert compare_gains(a, saved(tmp_path / "c", {"linear": linear(1.3, 2.3)})).excess > 1


def test_gains_that_were_given_have_no_error(tmp_path):
    paths = [saved(tmp_path / name, {"manual": MethodResult(g, 0.0, None)}, "manual")
             for name, g in (("a", 1.3), ("b", 1.3000001))]  # fmt: skip
    assert compare_gains(*paths).verdict == "different"
    assert compare_gains(paths[0], paths[0]).verdict == "equal"


def test_methods_that_fail_or_change_places_are_reported(tmp_path):
    failed = MethodResult.make_failed("too few px")
    a = saved(tmp_path / "a", {"linear": linear(), "moffat": failed})
    b = saved(tmp_path / "b", {"linear": linear(), "moffat": linear()}, "moffat")
    found = compare_gains(a, b)
    assert "the default is moffat in place of linear" in found.sentence
    assert "moffat failed in A alone" in found.sentence
    c = saved(tmp_path / "c", {"percentile": linear()}, "percentile")
    found = compare_gains(saved(tmp_path / "d", {"linear": linear()}), c)
    assert found.verdict == "different"
    assert found.sentence == "the default is percentile in place of linear"
    refused = [saved(tmp_path / n, {"linear": failed}) for n in ("e", "f")]
    assert compare_gains(*refused).verdict == "equal"


def test_gain_maps_are_compared_over_the_section(tmp_path):
    def with_light(name, tilt):
        light = GainMap((100, 200), np.array([[1.0, tilt], [0.0, 0.0]]), (0.5, 1.5), 0.0)
        details = {"gain_map": {"degree": 1, "sha256": light.digest}}
        path = saved(tmp_path / name, {"linear": linear(details=details)})
        imaging.save_gain_map(path.with_name("gain_map.npz"), light)
        return path

    a, b, c = with_light("a", 0.1), with_light("b", 0.1001), with_light("c", 0.12)
    assert compare_gains(a, b).verdict == "equal"
    assert compare_gains(a, b).sentence.endswith("gain map of linear off by 0.010 %")
    assert compare_gains(a, c).verdict == "different"
    plain = saved(tmp_path / "plain", {"linear": linear()})
    assert compare_gains(a, plain).sentence == "linear has a gain map in A alone"
    c.with_name("gain_map.npz").unlink()
    assert compare_gains(a, c).verdict == "unknown"
    assert "not here to be compared" in compare_gains(a, c).sentence


def test_blurring_another_image_is_a_difference(tmp_path):
    a = saved(tmp_path / "a", {"linear": linear()})
    b = tmp_path / "b.json"
    Scale("linear", {"linear": linear()}, sharpness=Sharpness(0.8, 0.1, "pre", 0.5, 9)).save(b)
    found = compare_gains(a, b)
    assert (found.excess, found.sentence) == (math.inf, "blurred is pre in place of none")
    b.write_text(b.read_text().replace('"gain"', '"factor"'))
    with pytest.raises(UnglowError, match=r"b\.json is damaged"):
        compare_gains(a, b)
