"""Damage of multiplexed slides: it is that of one cycle, in all of its channels."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import tifffile

from unglow.cli import main
from unglow.core.windows import Window, grid
from unglow.phantom.damage_shapes import inside
from unglow.phantom.slide import SlideRenderer, make_slide
from unglow.phantom.slide_spec import SlideSpec

SPEC = SlideSpec((600, 640), channels=8, cycles=3, seed=4)
WHOLE = Window.from_shape(SPEC.shape)


def planes(spec, folder):
    make_slide(spec, folder, "s")
    truth = json.loads((folder / "s" / "s_truth.json").read_text())
    return tifffile.imread(folder / "s" / "s.ome.tif"), truth


def mask(polygon):
    y, x = np.mgrid[0 : SPEC.shape[0], 0 : SPEC.shape[1]].astype(float)
    points = np.column_stack([x.ravel(), y.ravel()])
    return inside(points, np.array(polygon)).reshape(SPEC.shape)


def test_a_cycle_is_damaged_in_all_of_its_channels(tmp_path):
    before, truth = planes(SPEC, tmp_path / "a")
    assert "damage" not in json.dumps(truth)
    text = "lost:50@2,bleach:50:0.5,tile:40"
    after, truth = planes(replace(SPEC, damage=text), tmp_path / "b")
    places = {one["kind"]: one for one in truth["damage"]}
    assert {kind: one["cycle"] for kind, one in places.items()} == {
        "lost": 2, "bleach": 3, "tile": 3
    }  # fmt: skip
    assert truth["spec"]["damage"] == text
    cycles = np.array([one["cycle"] for one in truth["channels"]])
    np.testing.assert_array_equal(before[cycles == 1], after[cycles == 1])
    lost, bleached, tile = (mask(places[kind]["polygon_xy"]) for kind in ("lost", "bleach", "tile"))
    for number in np.flatnonzero(cycles == 2):
        assert np.median(after[number][lost]) == 130
        differs = before[number] != after[number]
        assert differs[lost].mean() > 0.95
        assert differs[~lost].sum() < 500  # half of the rim of 2 px
    for number in np.flatnonzero(cycles == 3):
        assert after[number][tile].max() == 0
        assert after[number][~tile].min() > 100
        ratio = (after[number][bleached] - 130.0).sum() / (before[number][bleached] - 130.0).sum()
        assert 0.5 < ratio < 0.7  # it fades out towards the rim


def test_dust_is_in_all_cycles_unless_one_is_named():
    found = SlideRenderer(replace(SPEC, damage="dust:8:3")).damage
    assert sorted(found) == [1, 2, 3]
    assert len({tuple(one.shape.x for one in found[cycle].places) for cycle in found}) == 1
    named = SlideRenderer(replace(SPEC, damage="dust:8:3@2")).damage
    assert [(cycle, len(image.places)) for cycle, image in named.items()] == [(2, 3)]


def test_pixels_do_not_depend_on_the_window():
    text = "moved:60,fold:20,blur:50,debris:30,film:40,dust:6:2,half_moved:7,gamma:0.9"
    renderer = SlideRenderer(replace(SPEC, damage=text))
    for marker in renderer.channels[-2:]:

        def pixels(window, marker=marker):
            shared = renderer.autofluorescence(marker.cycle, window)
            return renderer.pixels(marker, window, shared)

        whole = pixels(WHOLE)
        for window in grid(SPEC.shape, (210, 333)):
            np.testing.assert_array_equal(pixels(window), whole[window.slices])


def test_the_lower_half_moves_with_its_cells():
    quiet = replace(SPEC, electrons_per_count=0.0, read_noise=0.0)
    before, after = (SlideRenderer(replace(quiet, damage=one)) for one in ("", "half_moved:25"))
    for marker in before.channels[-2:]:
        still, moved = (
            one.pixels(marker, WHOLE, one.autofluorescence(3, WHOLE)).astype(float)
            for one in (before, after)
        )
        np.testing.assert_array_equal(moved[:300], still[:300])
        np.testing.assert_allclose(moved[300:, 25:], still[300:, :-25], atol=1)
        assert still[300:].max() > 1500


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--damage", "swap"], "'swap' is one of pairs, and not of slides"),
        (["--damage", "lost:30@4"], "'lost:30@4' names a cycle, but the slide has 1 to 3"),
        (["--damage", "lost:30@0"], "'lost:30@0' names a cycle"),
        (["--damage", "lost:30", "--distinct-cycles", "2"], "--damage or --distinct-cycles"),
        (["--damage", "lost:30", "--damage-seed", "-1"], "--damage-seed is -1"),
        (["--damage", "lost:400"], "'lost:400' does not fit"),
    ],
)
def test_bad_damage_is_refused_in_one_sentence(tmp_path, capsys, words, sentence):
    slide = ["--channels", "8", "--cycles", "3", "--size", "300x300", "--raw", str(tmp_path)]
    assert main(["phantom", *slide, *words]) == 2
    assert sentence in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
