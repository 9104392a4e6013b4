"""Damage of phantoms: what each kind does to the pixels, and that the truth says where."""

from __future__ import annotations

import json
from dataclasses import replace

import cv2
import numpy as np
import pytest
import tifffile
from scipy.ndimage import map_coordinates

from unglow.cli import main
from unglow.core.errors import ConfigError
from unglow.core.windows import Window, grid
from unglow.phantom import PhantomSpec, Truth, make_pair
from unglow.phantom.damage_shapes import compute_area, find_inside
from unglow.phantom.pair import make_truth
from unglow.phantom.render import Renderer
from unglow.phantom.spec import Damage, parse_damage

SPEC = PhantomSpec(shape=(700, 760), rgb=False, seed=3)
WHOLE = Window.from_shape(SPEC.shape)
PLACES = ("lost:60", "debris:40", "film:60", "fold:24", "blur:60", "bleach:60", "moved:70:9",
          "tile:90")  # fmt: skip


@pytest.fixture(scope="module")
def plain():
    return Renderer(SPEC)


@pytest.fixture(scope="module")
def light(plain):
    return plain.light("post", WHOLE)


def damaged(text, **options):
    """Return the renderer of the small phantom with some damage."""
    return Renderer(replace(SPEC, damage=text, **options))


def mask(polygon, shape=SPEC.shape, grown=0):
    """Return the pixels whose centres a polygon holds, grown by some px: (rows, cols) bool."""
    y, x = np.mgrid[0 : shape[0], 0 : shape[1]]
    found = find_inside(np.column_stack([x.ravel(), y.ravel()]).astype(float), np.array(polygon))
    found = found.reshape(shape).astype(np.uint8)
    if grown:
        size = (2 * grown + 1,) * 2
        found = cv2.dilate(found, cv2.getStructuringElement(cv2.MORPH_ELLIPSE, size))
    return found.astype(bool)


def full(place):
    """Return the pixels of the small phantom on which a place has all of its strength."""
    y, x = np.mgrid[0 : SPEC.shape[0], 0 : SPEC.shape[1]].astype(float)
    return place.weight(x, y) == 1.0


def test_text_gives_kinds_sizes_and_strengths():
    assert parse_damage(" ") == ()
    assert parse_damage("lost:60, blur:500:2@3,swap,gamma:0.7,dust:9,cells:50:200:14") == (
        Damage("lost", 60.0, 1.0, None, "lost:60"),
        Damage("blur", 500.0, 2.0, 3, "blur:500:2@3"),
        Damage("swap", None, 1.0, None, "swap"),
        Damage("gamma", None, 0.7, None, "gamma:0.7"),
        Damage("dust", 9.0, 12.0, None, "dust:9"),
        Damage("cells", 50.0, 200.0, None, "cells:50:200:14", 14.0),
    )


@pytest.mark.parametrize(
    "text",
    ["hole:20", "LOST", "lost:60,", "lost", "lost:60:2", "blur:6:1:1", "gamma", "swap:1", "lost:x",
     "lost:nan", "lost:-5", "bleach:60:1.5", "tile:20.5", "dust:9:1.5", "cells:9:2", "coarse:8.5",
     "lost:60@2"],
)  # fmt: skip
def test_bad_damage_is_refused_in_one_sentence(text):
    with pytest.raises(ConfigError, match=f"^damage '{text.rpartition(',')[2]}' .*[.]$"):
        PhantomSpec(damage=text)


@pytest.mark.parametrize(
    "text", ["lost:300", "lost:60," * 30 + "lost:60", "tile:600", "fold:150", "moved:50:30"]
)
def test_places_that_do_not_fit_or_would_fold_the_tissue_are_refused(text):
    with pytest.raises(ConfigError, match=f"'{text.rpartition(',')[2]}' (does not fit|moves)"):
        damaged(text)


@pytest.mark.parametrize("text", PLACES)
def test_pixels_change_in_the_place_and_nowhere_else(plain, text):
    renderer = damaged(text)
    (entry,) = make_truth(renderer, "s", "d").damage
    before, after = (one.pixels("post", WHOLE) for one in (plain, renderer))
    grown = int(np.ceil(entry["rim_px"] / 2)) + 2
    place = mask(entry["polygon_xy"], grown=grown)
    np.testing.assert_array_equal(before[~place], after[~place])
    changed = before != after
    assert changed[mask(entry["polygon_xy"])].mean() > 0.5
    y, x = (one.astype(float) for one in np.nonzero(place))
    assert (renderer.scene.coverage(x, y) == 1).all()
    window = Window.from_shape(plain.shape("pre"))
    np.testing.assert_array_equal(plain.pixels("pre", window), renderer.pixels("pre", window))


@pytest.mark.parametrize("text", PLACES[:-1])
def test_places_have_the_size_that_was_asked_for(text):
    (place,) = damaged(text).places
    size = place.damage.size_px
    polygon = place.shape.polygon()
    if place.kind == "fold":
        assert np.ptp(polygon, axis=0).max() < 300
        assert 0.8 * 280 * size < compute_area(polygon) < 280 * size
        return
    assert compute_area(polygon) == pytest.approx(np.pi * size**2, rel=0.02)
    radius = np.hypot(*(polygon - [place.shape.x, place.shape.y]).T) / size
    assert 0.1 < np.std(radius) < 0.3
    x, y = polygon.T
    np.testing.assert_allclose(place.weight(x, y), 0.5, atol=0.02)


def test_lost_tissue_is_glass(light):
    quiet = {"electrons_per_level": 0.0, "read_noise": 0.0, "dtype": "uint16"}
    renderer = damaged("lost:60", **quiet)
    core = full(renderer.places[0])
    assert core.sum() > 8000
    assert np.unique(renderer.pixels("post", WHOLE)[core]).tolist() == [32]  # 0.5 levels
    noisy = damaged("lost:60").pixels("post", WHOLE)
    assert noisy[core].mean() == pytest.approx(noisy[light == 0].mean(), abs=0.03)
    assert noisy[core].std() == pytest.approx(noisy[light == 0].std(), abs=0.03)


def test_bleaching_takes_its_part_and_half_of_it_on_the_outline(light):
    renderer = damaged("bleach:60:0.4")
    (place,) = renderer.places
    ratio = renderer.light("post", WHOLE) / np.where(light > 0, light, 1.0)
    np.testing.assert_allclose(ratio[full(place)], 0.6, rtol=1e-12)
    x, y = np.rint(place.shape.polygon()).astype(int).T
    assert np.median(ratio[y, x]) == pytest.approx(0.8, abs=0.005)


def test_blur_takes_fine_structure_and_keeps_the_light(light):
    renderer = damaged("blur:60:2")
    core = full(renderer.places[0])
    after = renderer.light("post", WHOLE)
    expected = cv2.GaussianBlur(light, (17, 17), 2.0)
    np.testing.assert_allclose(after[core], expected[core], rtol=1e-9)
    assert after[core].mean() == pytest.approx(light[core].mean(), rel=0.02)
    power = [np.square(cv2.Laplacian(one, cv2.CV_64F))[core].mean() for one in (light, after)]
    assert power[1] < 0.1 * power[0]


def test_moved_tissue_is_that_of_elsewhere(plain, light):
    renderer = damaged("moved:70:9")
    (place,) = renderer.places
    assert np.hypot(*place.move) == pytest.approx(9.0, abs=1e-3)
    rows, cols = np.nonzero(full(place))
    points = np.array([rows - place.move[1], cols - place.move[0]])
    there = map_coordinates(light, points, order=3)
    after = renderer.light("post", WHOLE)[rows, cols]
    assert np.percentile(abs(after - there), 99) < 2.0  # of interpolation
    assert abs(after - light[rows, cols]).mean() > 3 * abs(after - there).mean()
    np.testing.assert_array_equal(renderer.map.matrix, plain.map.matrix)


def test_a_fold_is_tissue_twice(light):
    renderer = damaged("fold:24")
    (place,) = renderer.places
    core = full(place)
    added = (renderer.light("post", WHOLE) - light)[core]
    rows, cols = np.nonzero(core)
    points = place.shape.mirror(cols.astype(float), rows.astype(float))
    assert not find_inside(np.column_stack(points), place.shape.polygon()).any()
    np.testing.assert_allclose(added, map_coordinates(light, points[::-1], order=3), atol=8)
    assert added.mean() == pytest.approx(light[core].mean(), rel=0.5)


def test_film_is_a_smooth_brightening_and_debris_a_bright_structure(light):
    film = damaged("film:60:0.2")
    core = full(film.places[0])
    added = (film.light("post", WHOLE) - light)[core]
    np.testing.assert_allclose(added, added[0], rtol=1e-9)
    assert added[0] == pytest.approx(0.2 * light[core].mean(), rel=0.05)
    debris = damaged("debris:40")
    core = full(debris.places[0])
    after = debris.light("post", WHOLE)[core]
    assert after.mean() > 2 * light[light > 0].mean()
    assert after.std() > 0.2 * after.mean()
    stronger = damaged("debris:40:6").light("post", WHOLE)[core]
    own = [one - 0.3 * light[core] for one in (after, stronger)]
    np.testing.assert_allclose(own[1], 2 * own[0], rtol=1e-9)


def test_a_tile_is_exactly_zero_in_all_channels():
    renderer = damaged("tile:90", rgb=True)
    pixels = renderer.pixels("post", WHOLE)
    (entry,) = make_truth(renderer, "s", "d").damage
    place = mask(entry["polygon_xy"])
    assert place.sum() == entry["area_px"] == 90 * 90
    assert pixels[place].max() == 0
    rows, cols = np.nonzero(place)
    assert np.ptp(rows) == np.ptp(cols) == 89
    assert (pixels[~place][:, 1] > 0).mean() > 0.5


def test_dust_is_at_the_same_pixels_of_both_images(plain, light):
    renderer = damaged("dust:8:5")
    truth = make_truth(renderer, "s", "d")
    assert [one["image"] for one in truth.damage] == ["post"] * 5 + ["pre"] * 5
    assert {(one["kind"], one["size_px"], one["strength"]) for one in truth.damage} == {
        ("dust", 8.0, 0.5)
    }
    ratio = renderer.light("post", WHOLE) / np.where(light > 0, light, 1.0)
    before = plain.light("pre", WHOLE)
    in_pre = renderer.light("pre", WHOLE) / np.where(before > 0, before, 1.0)
    for place, entry in zip(renderer.places, truth.damage[5:], strict=True):
        core = full(place)
        assert core.sum() > 140
        np.testing.assert_allclose(ratio[core], 0.5)
        np.testing.assert_allclose(in_pre[core & (before > 0)], 0.5)
        back = truth.map(np.array(entry["polygon_xy"]))
        np.testing.assert_allclose(back, place.shape.polygon(), atol=0.02)


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
def test_faults_of_the_whole_image_act_on_the_counts(dtype):
    spec = replace(SPEC, shape=(200, 200), dtype=dtype)
    window, top = Window.from_shape(spec.shape), np.iinfo(dtype).max
    before = Renderer(spec).pixels("post", window).astype(np.float64)

    def after(text):
        renderer = Renderer(replace(spec, damage=text))
        (entry,) = make_truth(renderer, "s", "d").damage
        assert entry["polygon_xy"] is entry["area_px"] is entry["size_px"] is None
        assert f"{entry['kind']}:{entry['strength']:g}" == text
        pre = Window.from_shape(renderer.shape("pre"))
        np.testing.assert_array_equal(
            renderer.pixels("pre", pre), Renderer(spec).pixels("pre", pre)
        )
        return renderer.pixels("post", window)

    black = 20 * spec.counts_per_level
    np.testing.assert_array_equal(after("dark_clip:20"), np.maximum(before - black, 0))
    np.testing.assert_array_equal(after("coarse:8"), np.floor(before / 8 + 0.5))
    bent = np.floor(top * (before / top) ** 0.7 + 0.5)
    np.testing.assert_array_equal(after("gamma:0.7"), bent)


def test_the_lower_half_moves_as_one(light):
    renderer = damaged("half_moved:40")
    after = renderer.light("post", WHOLE)
    np.testing.assert_array_equal(after[:350], light[:350])
    np.testing.assert_allclose(after[350:, 40:], light[350:, :-40], rtol=1e-12)
    (entry,) = make_truth(renderer, "s", "d").damage
    assert entry["area_px"] == 350 * 760
    lower = mask(entry["polygon_xy"])
    assert lower[350:].all()
    assert not lower[:350].any()


def test_swapped_images_have_each_others_names(tmp_path):
    spec = PhantomSpec(shape=(90, 80))
    make_pair(spec, tmp_path / "a", "s", "d")
    truth = make_pair(replace(spec, damage="swap"), tmp_path / "b", "s", "d")
    for one, other in (("pre", "post"), ("post", "pre")):
        files = [tmp_path / "a" / "s" / f"s_{one}_d.tif", tmp_path / "b" / "s" / f"s_{other}_d.tif"]
        assert files[0].read_bytes() == files[1].read_bytes()
    assert [(one["kind"], one["image"]) for one in truth.damage] == [("swap", "both")]


LARGE = (1100, 1000)
ALL = ",".join(PLACES) + ",dust:6:4,half_moved:-15,dark_clip:3,gamma:0.9"


def test_pixels_do_not_depend_on_the_window():
    renderer = damaged(ALL, shape=LARGE, blur_post_px=0.8, shading=0.1, rgb=True, bleed=0.2)
    for image in ("post", "pre"):
        whole = renderer.pixels(image, Window.from_shape(renderer.shape(image)))
        for window in grid(renderer.shape(image), (190, 301)):
            np.testing.assert_array_equal(renderer.pixels(image, window), whole[window.slices])


def test_places_lie_apart_and_follow_from_seed_and_number():
    text = ",".join(PLACES)
    first, again, other = (
        damaged(some, damage_seed=seed, shape=LARGE)
        for some, seed in ((text, 0), (text + ",lost:20", 0), (text, 1))
    )
    np.testing.assert_array_equal(first.microbes.xy, other.microbes.xy)
    first, again, other = first.places, again.places, other.places
    for one, same, elsewhere in zip(first, again, other, strict=False):
        np.testing.assert_array_equal(one.shape.polygon(), same.shape.polygon())
        assert (one.shape.x, one.shape.y) != (elsewhere.shape.x, elsewhere.shape.y)
    times = sum(mask(one.shape.polygon(), LARGE, grown=5).astype(int) for one in again)
    assert times.max() == 1


def test_truth_on_disk_lists_places_and_damaged_microbes(tmp_path):
    options = ["--size", "700x760", "--seed", "3", "--no-rgb", "--microbes-per-mpx", "400"]
    words = [*options, "--damage", "lost:90,bleach:60:0.5,swap", "--damage-seed", "2"]
    assert main(["phantom", "--raw", str(tmp_path), *words]) == 0
    path = tmp_path / "phantom" / "phantom_SYTO9_truth.json"
    values = json.loads(path.read_text())
    assert [(one["kind"], one["size_px"], one["strength"]) for one in values["damage"]] == [
        ("lost", 90.0, 1.0), ("bleach", 60.0, 0.5), ("swap", None, 1.0)
    ]  # fmt: skip
    assert values["spec"]["damage"] == "lost:90,bleach:60:0.5,swap"
    assert values["spec"]["damage_seed"] == 2
    truth = Truth.load(path)
    assert json.loads(json.dumps(truth.to_json())) == values
    masks = [mask(one["polygon_xy"]) for one in values["damage"][:2]]
    for one, entry in zip(masks, values["damage"], strict=False):
        assert one.sum() == pytest.approx(entry["area_px"], rel=0.01)
    x, y = (np.rint(values["microbes"][axis]).astype(int) for axis in ("x", "y"))
    flags = np.array(values["microbes"]["damaged"])
    assert 10 < flags.sum() < len(flags)
    assert (flags != (masks[0] | masks[1])[y, x]).sum() <= 2  # centres are rounded here
    lost = masks[0][y, x]
    post = tifffile.imread(tmp_path / "phantom" / "phantom_pre_SYTO9.tif")  # they are swapped
    assert np.median(post[y[lost], x[lost]]) <= 1
    assert np.median(post[y[~flags], x[~flags]]) > 20


def test_without_damage_the_truth_does_not_speak_of_it(tmp_path):
    make_pair(PhantomSpec(shape=(90, 80)), tmp_path, "s", "d")
    assert "damage" not in (tmp_path / "s" / "s_d_truth.json").read_text()


def test_labelled_cells_are_stain_that_the_truth_has_and_no_damage(plain):
    renderer = damaged("cells:50:200:6")
    truth = make_truth(renderer, "s", "d")
    (entry,) = truth.damage
    count = len(truth.microbes) - len(plain.microbes)
    assert count == pytest.approx(np.pi * 50**2 / 200, rel=0.35)
    assert find_inside(truth.microbes.xy[-count:], np.array(entry["polygon_xy"])).all()
    assert not truth.is_microbe_damaged.any()
    np.testing.assert_allclose(truth.microbes.sigma[-count:], 6 / 2.355, rtol=1e-3)
    more = renderer.light("post", WHOLE) - plain.light("post", WHOLE)
    x, y = np.rint(truth.microbes.xy[-count:]).astype(int).T
    assert (more[y, x] > 0.8 * truth.microbes.peak[-count:]).all()
    window = Window.from_shape(plain.shape("pre"))
    np.testing.assert_array_equal(plain.pixels("pre", window), renderer.pixels("pre", window))
