"""The benchmarks of registration: are their truths true, and do they miss no missed aim?"""

from __future__ import annotations

import json

import numpy as np
import pytest
from registration import (
    accuracy,
    bases,
    cost,
    draws,
    geometry,
    judging,
    real,
    recording,
    robustness,
)
from scipy import ndimage
from scipy.ndimage import gaussian_filter
from subcommands import run_command

from unglow.core.windows import Window, grid
from unglow.phantom.render import Renderer
from unglow.phantom.spec import PhantomSpec
from unglow.phantom.truth import PhantomMap
from unglow.transform import Transform

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(4)


@pytest.fixture(scope="module")
def spec():
    return PhantomSpec(
        shape=(300, 260), deform_px=3.0, deform_wavelength_px=150.0, rgb=False, seed=2
    )


# ------------------------------------------------------------------------------------ the truth


def test_phantoms_are_those_of_unglow_phantom(spec):
    renderer, base = Renderer(spec), bases.PhantomBase(spec.shape, spec.seed)
    warp = geometry.Warp(PhantomMap.from_spec(spec))
    for image, found in (("post", base.post()), ("pre", base.pre(warp, spec.pre_frame))):
        exact = renderer.background(image, Window.from_shape(renderer.shape(image)))
        np.testing.assert_allclose(found, exact, atol=1e-4)


def test_there_and_back_through_waves_and_strips(spec):
    strips = geometry.draw_strips((2000, 2000), 3)
    lengths = np.hypot(*strips.jumps.T)
    assert (lengths[::2] == 0).all()
    assert ((lengths[1::2] >= 1) & (lengths[1::2] <= 3)).all()
    warp = geometry.Warp(PhantomMap.from_spec(spec), strips)
    points = RNG.uniform(0, 2000, (400, 2))
    mapped = warp.to_pre(points)
    away = warp.from_seam(mapped) > 3
    assert away.mean() > 0.9
    np.testing.assert_allclose(warp.to_post(mapped)[away], points[away], atol=1e-8)


def test_a_strip_moves_as_a_whole():
    strips = geometry.Strips(0, np.array([100.0]), np.array([[0, 0], [2.0, -1.0]]))
    points = np.array([[5.0, 50], [5, 99.5], [5, 102], [5, 150]])
    moved = strips.moved(points)
    np.testing.assert_array_equal(moved - points, [[0, 0], [0, 0], [2, -1], [2, -1]])
    np.testing.assert_array_equal(strips.undone(moved), points)
    np.testing.assert_array_equal(strips.distance(points), [50, 0.5, 2, 50])


def test_a_mirrored_turn_about_the_centre():
    pose = geometry.Pose(
        shape=(101, 201), pre_shape=(301, 401), rotation_deg=90, scale=1.2, shift=(3, 4)
    )
    matrix = pose.matrix(mirror=True)
    np.testing.assert_allclose(matrix @ [100, 50, 1], [203, 154, 1])
    assert np.linalg.det(matrix) == pytest.approx(-1.44)


def spline_error_px(levels, part=64):
    """How far the spline of (n, n) levels displaces structures, px: p95 over squares with texture.

    Against Fourier's exact shift by a quarter of a px, by least squares (Lucas & Kanade 1981).
    """
    mirrored = np.block([[levels, levels[:, ::-1]], [levels[::-1], levels[::-1, ::-1]]])
    shift = (0.25, 0.25)
    exact = ndimage.fourier_shift(np.fft.rfft2(mirrored), shift, n=mirrored.shape[1])
    exact = np.fft.irfft2(exact, mirrored.shape)
    coefficients = ndimage.spline_filter(mirrored, 5, output=np.float64, mode="grid-wrap")
    places = [index - by for index, by in zip(np.indices(mirrored.shape), shift, strict=True)]
    found = ndimage.map_coordinates(
        coefficients, places, order=5, mode="grid-wrap", prefilter=False
    )
    slopes = np.gradient(exact)
    moved = []
    for window in grid((len(levels), len(levels)), (part, part)):
        system = np.column_stack([slope[window.slices].ravel() for slope in slopes])
        if (system**2).mean() > 0.5:
            off = np.linalg.lstsq(system, (found - exact)[window.slices].ravel(), rcond=None)[0]
            moved.append(float(np.hypot(*off)))
    return float(np.quantile(moved, 0.95)) if moved else float("nan")


def test_the_spline_of_a_blurred_image_displaces_nothing():
    noise = 100 * RNG.random((128, 128))  # more fine detail than any real image has
    smooth, fine = (gaussian_filter(noise, sigma) for sigma in (1.6, 0.8))
    assert spline_error_px(smooth) < 2e-4
    assert spline_error_px(fine) < 6e-3
    assert spline_error_px(noise) > 6e-3


def test_real_pixels_move_by_what_the_truth_says():
    picture = bases.picture_of(
        (200 * gaussian_filter(RNG.random((200, 220)), 2.0)).astype(np.float32)
    )
    base = bases.PictureBase(picture, (100, 110), (40, 50))
    matrix = np.array([[1, 0, 7.0], [0, 1, -4.0], [0, 0, 1]])
    warp = geometry.Warp.plain(matrix)
    post, pre = base.post(), base.pre(warp, (100, 110))
    np.testing.assert_allclose(pre[:96, 7:], post[4:, :-7], atol=1e-3)


def test_a_speck_is_no_part_of_the_section():
    levels = np.zeros((900, 900), np.float32)
    levels[:300, :300] = 60 * RNG.random((300, 300))
    levels[740:752, 740:752] = 100
    base = bases.PictureBase(bases.picture_of(levels), (900, 900), (0, 0))
    points = np.array([[150.0, 150], [450, 450], [746, 746]])
    np.testing.assert_array_equal(base.section(points), [True, False, False])


def test_quick_pairs_follow_their_map():
    section = cost.pair_of((1500, 1400))
    assert np.abs(section.waves).max() > 1
    plain = type(section)(section.shape, section.pre_shape)
    window = Window(600, 760, 500, 650)
    assert np.array_equal(plain.map.matrix, section.map.matrix)
    x, y = section.map.window_to_post(window)
    seen = section.pre(window).astype(float)
    post = section.post(Window.from_shape(section.shape)).astype(float)
    there = post[np.rint(y).astype(int), np.rint(x).astype(int)]
    x, y = plain.map.window_to_post(window)
    unbent = post[np.rint(y).astype(int), np.rint(x).astype(int)]
    right, wrong = (np.corrcoef(seen.ravel(), o.ravel())[0, 1] for o in (there, unbent))
    assert 1 - right < 0.3 * (1 - wrong)


# ------------------------------------------------------------------------------------ the camera


def test_exposure_has_the_noise_that_was_asked_for():
    camera = recording.Camera(electrons=8, read_noise=1.0, offset=2.0, dtype="uint16")
    counts = camera.exposed(np.full((400, 400), 50, np.float32), np.random.default_rng(0)) / 64
    assert counts.mean() == pytest.approx(52, abs=0.05)
    assert counts.var() == pytest.approx(50 / 8 + 1, rel=0.03)
    full = camera.exposed(np.full((4, 4), 400, np.float32), np.random.default_rng(0))
    assert (full == 256 * 64 - 1).all()


def test_shares_of_stain_cut_and_saturation(spec):
    base = bases.PhantomBase(spec.shape, spec.seed)
    post = base.post()
    stained = post.copy()
    recording.stain(stained, base, 0.2, 1.0, seed=1)
    rows, cols = np.indices(spec.shape)
    on = base.inside(cols.ravel().astype(float), rows.ravel().astype(float)) > 0.95
    new = (stained - post).ravel()[on] > 0
    assert new.mean() == pytest.approx(0.2, abs=0.06)
    flat = np.full((400, 300), 10, np.float32)
    recording.cut(flat, 0.15, np.random.default_rng(1))
    assert (flat < 5).mean() == pytest.approx(0.15, abs=0.03)
    recording.saturate(post, 0.02, 1.0)
    assert (post > 255).mean() == pytest.approx(0.02, abs=0.005)


# ----------------------------------------------------------------------------------- the judging


def shifted(by, shape=(400, 400)):
    matrix = np.array([[1, 0, by], [0, 1, 0], [0, 0, 1.0]])
    return Transform(status="ok", post_shape=shape, pre_shape=shape, matrix=matrix)


def test_errors_are_distances_to_the_truth():
    warp = geometry.Warp.plain(np.eye(3))
    points = np.array([[10.0, 10], [200, 200], [380, 20], [500, 20]])
    found = judging.errors(shifted(0.25), warp, points)
    assert (found.points, found.overlap) == (3, 0.75)
    assert (found.median, found.p95, found.most) == pytest.approx((0.25, 0.25, 0.25))
    assert found.inside_most == pytest.approx(0.25)
    failed = Transform(status="failed", post_shape=(400, 400), pre_shape=(400, 400))
    assert np.isnan(judging.errors(failed, warp, points).p95)


def outcome(p95, status="ok", kind="", seed=0):
    errors = None
    if not kind:
        errors = judging.Errors(9, 1.0, p95 / 2, p95, p95, p95, p95, p95 / 2, p95)
    said = (p95 / 2, p95)
    return robustness.Outcome(seed, status, 1.0, said=said, errors=errors, kind=kind)


@pytest.mark.parametrize(
    ("change", "missed"),
    [
        ({}, 0),
        ({"p95": 1.5, "status": "suspect"}, 0),  # one of 100 may be wrong, and says so
        ({"p95": 2.5}, 1),  # wrong without a word
        ({"p95": float("nan"), "status": "failed"}, 0),
        ({"p95": 0.1, "kind": "noise"}, 1),
        ({"p95": 0.1, "kind": "noise", "status": "suspect"}, 1),
        ({"p95": 0.1, "kind": "noise", "status": "failed"}, 0),
    ],
)
def test_robustness_misses_no_missed_aim(capsys, change, missed):
    many = [outcome(0.05, seed=n) for n in range(99)]
    assert robustness.report([*many, outcome(**({"p95": 0.1} | change))]) == missed
    text = capsys.readouterr().out
    assert "silent failures: " in text
    assert ("bad draws" in text) == (bool(missed) or ("status" in change and "kind" not in change))


def test_two_wrong_of_a_hundred_are_too_many():
    bad = [outcome(1.5, "suspect", seed=n) for n in range(2)]
    assert robustness.report([outcome(0.05)] * 98 + bad) == 1


def accurate(case, p95, said):
    pair = accuracy.drawn(case, "phantom", 0, 500, None)
    errors = judging.Errors(9, 1.0, p95 / 2, p95, p95, p95, p95, p95 / 2, p95)
    return accuracy.Outcome(pair, "ok", (), "affine", errors, (0.0, said), 1.0, 1.0)


@pytest.mark.parametrize(
    ("case", "p95", "said", "missed"),
    [
        ("affine", 0.01, 0.01, 0),
        ("affine", 0.01, 0.012, 0),
        ("affine", 0.01, 0.031, 1),
        ("affine", 0.02, 0.02, 1),
        ("smooth", 0.05, 0.05, 0),
        ("smooth", float("nan"), 0.05, 1),
        ("strips", 0.19, 0.19, 0),
        ("strips", 0.21, 0.21, 1),
        ("strips", 0.19, 0.10, 1),
    ],
)
def test_accuracy_misses_no_missed_aim(capsys, case, p95, said, missed):
    assert accuracy.report([accurate(case, p95, said)]) == missed
    assert (" !" in capsys.readouterr().out.replace("!", " !")) == bool(missed)


def test_loops_close_where_the_maps_do():
    points = np.column_stack([RNG.uniform(50, 350, 40), RNG.uniform(50, 350, 40)])
    there, back, off = shifted(5.0), shifted(-5.0), shifted(-4.5)
    assert real.closure([there, back], points) == pytest.approx((0, 0, 0), abs=1e-12)
    assert real.closure([there, off], points) == pytest.approx((0.5, 0.5, 0.5))
    assert np.isnan(real.closure([shifted(500.0), back], points)).all()


def test_likeness_finds_the_better_map():
    image = (1000 * gaussian_filter(RNG.random((400, 400)), 1.5)).astype(np.uint16)
    post, pre = image[:, 5:], image[:, :-5]
    centres = np.array([[190.0, 200], [60, 60], [200, 150]])
    maps = [shifted(5.3, post.shape), shifted(5.0, post.shape)]
    found = real.likeness(post, pre, centres, maps)
    assert found.shape == (2, 2)  # one block reaches beyond the image
    assert (found[:, 1] > 0.999).all()
    assert (found[:, 0] < found[:, 1]).all()


def test_cost_misses_no_missed_aim():
    def cost_of(what, seconds, size="8x8", error_p95=0.1, **more):
        return cost.Cost(size, what, seconds, error_p95=error_p95, **more)

    assert cost.report([cost_of("field: auto", 500.0)]) == 0  # no aim of this size
    for wrong in (0.13, np.nan):  # nothing is cheap because it was not done
        assert cost.report([cost_of("field: auto", 1.0, error_p95=wrong)]) == 1
    large = {"size": "30000x25000", "peak_mb": 300.0, "declared_mb": 301.0}
    assert cost.report([cost_of("field: auto", 350.0, **large)]) == 0
    assert cost.report([cost_of("field: never", 50.0, **large)]) == 1
    large["peak_mb"] = 302.0
    assert cost.report([cost_of("field: never", 30.0, **large)]) == 1


# -------------------------------------------------------------------------------------- the draws


def test_a_seed_is_a_draw():
    one, again = (draws.drawn(5, None, (256, 400)) for _ in range(2))
    assert one == again
    assert one != draws.drawn(6, None, (256, 400))
    assert one.overlap >= draws.LEAST_OVERLAP
    assert np.hypot(*one.shift) <= 0.5 * min(one.shape)
    pairs = [draws.images(draw, None) for draw in (one, again)]
    np.testing.assert_array_equal(pairs[0][0], pairs[1][0])
    assert pairs[0][0].shape == one.shape
    assert pairs[0][1].shape == one.pre_shape
    np.testing.assert_array_equal(pairs[0][1], pairs[1][1])


def test_kinds_to_be_refused_take_turns():
    without = [name for name, (_, real) in draws.KINDS.items() if not real]
    assert without[3:5] == ["empty", "saturated"]
    for seed in (3, 4):
        kind, *images = draws.unrelated(seed, None)
        assert kind == without[seed]
        flat = [
            (np.abs(i - np.median(i)) < 40).mean()
            for i in (image.astype(float) for image in images)
        ]
        assert sorted(np.array(flat) > 0.99) == [False, True]


def test_a_run_writes_its_figures(tmp_path, capsys):
    out = tmp_path / "out.json"
    words = ["robustness", "--draws", "1", "--first", "3", "--negatives", "0"]
    words += ["--json", str(out), "--shared", str(tmp_path)]
    status = run_command("registration", ["robustness"], words)
    (record,) = json.loads(out.read_text())
    assert status == 0
    assert record["seed"] == 3
    assert record["draw"]["base"] == "phantom"
    assert record["errors"]["p95"] < 1
    assert "phantoms only" in capsys.readouterr().out
