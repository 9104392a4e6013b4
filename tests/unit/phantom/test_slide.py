"""Phantoms of multiplexed slides: the truth is that of the pixels, in any window and thread."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest
import tifffile
from phantom_damage.slide import make_slide as make_damaged_slide

from unglow.cli import main
from unglow.core.errors import ConfigError
from unglow.core.windows import Window
from unglow.phantom.slide import SlideRenderer, make_map, make_slide
from unglow.phantom.slide_spec import SlideSpec, list_channels
from unglow.phantom.truth import PhantomMap
from unglow.transform.resample import warp_matrix

SIDE = 600
QUIET = SlideSpec((SIDE, SIDE), electrons_per_count=0.0, read_noise=0.0, rotation_deg=0.2)


def test_markers_are_what_the_truth_says(tmp_path):
    renderer = make_slide(QUIET, tmp_path, "s")
    planes = tifffile.imread(tmp_path / "s" / "s.ome.tif").astype(np.float64)
    truth = json.loads((tmp_path / "s" / "s_truth.json").read_text())
    inner = Window(150, 450, 150, 450)
    marker = next(one for one in renderer.channels if one.background is not None)
    names = [one["name"] for one in truth["channels"]]
    background = planes[names.index(marker.background)]
    moved = warp_matrix(
        lambda part: background[part.slices], (SIDE, SIDE), np.array(truth["maps"]["2-1"]), inner
    )
    expected = marker.gain * moved + marker.offset + renderer.signal(marker, inner)
    left = planes[names.index(marker.name)][inner.slices] - expected
    assert abs(np.median(left)) < 0.5
    assert np.percentile(abs(left), 95) < 4  # interpolation of 1.5 x 700 counts
    assert planes[names.index(marker.name)].max() > 1500


def test_pixels_follow_from_the_specification_alone(tmp_path):
    spec = SlideSpec((2100, 700), channels=5, seed=3)
    make_slide(spec, tmp_path / "1", "s")
    make_slide(spec, tmp_path / "3", "s", workers=3)
    for one in (tmp_path / "1" / "s").iterdir():
        assert one.read_bytes() == (tmp_path / "3" / "s" / one.name).read_bytes()
    renderer = SlideRenderer(spec)
    whole, part = Window.from_shape((2100, 700)), Window(1990, 2090, 77, 300)
    marker = renderer.channels[-1]
    shared = [renderer.autofluorescence(2, window) for window in (whole, part)]
    np.testing.assert_array_equal(shared[0][part.slices], shared[1])
    pixels = renderer.pixels(marker, part, shared[1])
    plane = tifffile.imread(tmp_path / "1" / "s" / "s.ome.tif", key=4)
    np.testing.assert_array_equal(plane[part.slices], pixels)


def test_the_command_writes_the_table_of_markers(tmp_path):
    words = ["--channels", "12", "--cycles", "4", "--size", "300x300"]
    assert main(["phantom", *words, "--raw", str(tmp_path), "--sample", "s"]) == 0
    table = (tmp_path / "s" / "markers.csv").read_text().splitlines()
    assert table[0] == "channel_number,cycle_number,marker_name,background,exposure,remove"
    assert table[2] == "2,1,AF_1,,100.0,True"
    assert table[12] == "12,4,M06,AF_2,200.0,"
    assert len(table) == 13


@pytest.mark.parametrize("cycles", range(1, 9))
def test_a_slide_has_nuclei_and_one_more_channel_in_each_cycle_or_is_refused(cycles):
    made = 0
    for channels in range(1, 41):
        try:
            spec = SlideSpec(channels=channels, cycles=cycles)
        except ConfigError as error:
            assert channels % cycles or channels < 2 * cycles
            for number in re.findall(r"give (\d+)", str(error)):
                SlideSpec(channels=int(number), cycles=cycles)
            continue
        made += 1
        listed = list_channels(spec)
        for cycle in range(1, cycles + 1):
            own = [one for one in listed if one.cycle == cycle]
            assert len(own) >= 2
            assert [one.nuclear for one in own] == [True] + [False] * (len(own) - 1)
    assert made >= 40 // cycles - 1


def test_deformed_and_magnified_cycles_follow_the_map_of_the_truth(tmp_path):
    changes = {"deform_px": 5.0, "deform_wavelength_px": 400.0, "scale": 1.1}
    spec = replace(QUIET, **changes)
    renderer = make_slide(spec, tmp_path, "s")
    truth = json.loads((tmp_path / "s" / "s_truth.json").read_text())
    found = PhantomMap.from_json(truth["deformations"]["1-2"])
    points = np.random.default_rng(0).uniform(150, 450, (200, 2))
    there = found.to_pre(points)
    np.testing.assert_allclose(found.to_post(there), points, atol=1e-6)
    rigid = np.linalg.inv(make_map(spec, 2))
    assert 2 < np.hypot(*(there - points @ rigid[:2, :2].T - rigid[:2, 2]).T).max() < 8
    # the same tissue is seen at both places
    for (x, y), (u, v) in zip(points[:20], there[:20], strict=True):
        here = renderer.render_shared(1, np.array([x]), np.array([y]))
        to_first = renderer.map_to_first(2, np.array([u]), np.array([v]))
        np.testing.assert_allclose(renderer.render_shared(2, *to_first), here, rtol=1e-6)
    nuclei = next(one for one in renderer.channels if one.name == "DNA_2")
    whole = Window(0, SIDE, 0, SIDE)
    signal = renderer.signal(nuclei, whole)
    part = Window(201, 333, 77, 300)
    np.testing.assert_array_equal(renderer.signal(nuclei, part), signal[part.slices])


def test_two_fluorophores_give_each_marker_two_backgrounds(tmp_path):
    quiet = {"electrons_per_count": 0.0, "read_noise": 0.0, "shift_px": (0.0, 0.0)}
    spec = SlideSpec((300, 300), channels=12, cycles=4, fluorophores=2, rotation_deg=0.0, **quiet)
    renderer = make_slide(spec, tmp_path, "s")
    planes = tifffile.imread(tmp_path / "s" / "s.ome.tif").astype(np.float64)
    names = [one.name for one in renderer.channels]
    assert names[-3:] == ["DNA_4", "AF_1_end", "AF_2_end"]
    marker = renderer.channels[names.index("M03")]
    assert marker.background == "AF_1;AF_1_end"
    shown = [planes[names.index(name)] for name in marker.background.split(";")]
    expected = sum(g * one for g, one in zip(marker.gains, shown, strict=True)) + marker.offset
    expected += renderer.signal(marker, Window(0, 300, 0, 300))
    left = planes[names.index("M03")] - expected
    assert np.abs(left).max() < 3  # rounded to counts
    with pytest.raises(ConfigError, match="3 cycles or more"):
        SlideSpec(channels=11, cycles=4, fluorophores=2)


def planes(spec, folder):
    make_damaged_slide(spec, folder, "s")
    truth = json.loads((folder / "s" / "s_truth.json").read_text())
    return tifffile.imread(folder / "s" / "s.ome.tif"), truth
