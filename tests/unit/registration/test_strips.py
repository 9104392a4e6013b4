"""Finding the strips of a scanner: jumps next to a field, seams, the right image, whole pairs."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import made_blocks
import numpy as np
import pytest
from array_pixels import ArrayPixels
from made_blocks import SHAPE, count_blocks
from made_images import pair_of
from msgspec import structs

from unglow.core.windows import Window
from unglow.phantom.render import Renderer
from unglow.phantom.spec import PhantomSpec
from unglow.registration.bspline import fit_field
from unglow.registration.deformation import Deformation, leaves_less
from unglow.registration.dense_blocks import measure
from unglow.registration.register import RegisterSettings, register
from unglow.registration.strip_detection import add_seams, compute_unexplained, find_strips, profile
from unglow.registration.strip_offsets import fit_offsets, make_strips, remove_strips, smooth_field
from unglow.transform.displacement import Displacement, Strips

pytestmark = pytest.mark.slow

FRAME = SimpleNamespace(post=SimpleNamespace(shape=SHAPE), matrix=np.eye(3))
SEAMS = [310.0, 655.0]
OFFSETS = np.array([[0.5, -0.25], [-1.0, 1.0], [0.5, -0.75]])
JUMPS = [[-1.5, 1.25], [1.5, -1.75]]


wave = partial(made_blocks.wave, amplitude=1.5, length=800.0)


def strips_of(seams=SEAMS, offsets=OFFSETS, along="rows", image="post"):
    return Strips(image, along, np.eye(3), np.array(seams), np.array(offsets, dtype=float))


def torn_blocks(image="post", along="rows", **kind):
    strips = strips_of(image=image, along=along)

    def off(points):
        smooth = wave(points)
        return smooth + strips.evaluate(points, smooth)

    return count_blocks(off, **kind), strips


# ------------------------------------------------------------------------------------------ jumps


@pytest.mark.parametrize("along", ["rows", "columns"])
@pytest.mark.parametrize("image", ["post", "pre"])
def test_jumps_are_found_next_to_a_wave(image, along):
    blocks, strips = torn_blocks(image, along)
    found = fit_offsets(FRAME, blocks, make_strips(strips, strips.seams))
    np.testing.assert_array_equal(found.seams, SEAMS)
    np.testing.assert_allclose(found.jumps, JUMPS, atol=0.08)
    np.testing.assert_allclose(found.offsets.mean(axis=0), 0, atol=1e-12)


def test_false_seams_are_dropped():
    blocks, strips = torn_blocks()
    many = make_strips(strips, np.sort([150.0, *SEAMS, 500, 850]))
    found = fit_offsets(FRAME, blocks, many)
    np.testing.assert_array_equal(found.seams, SEAMS)
    np.testing.assert_allclose(found.jumps, JUMPS, atol=0.06)
    smooth = count_blocks(wave)
    assert len(fit_offsets(FRAME, smooth, many).seams) == 0


def test_jumps_below_a_quarter_px_are_left_to_the_field():
    for height, count in ((0.2, 0), (0.4, 1)):
        strips = strips_of([500.0], [[0, 0], [height, 0]])
        blocks = count_blocks(lambda p, s=strips: wave(p) + s.evaluate(p, p), noise=0.02)
        assert len(fit_offsets(FRAME, blocks, strips).seams) == count


def test_a_strip_without_blocks_of_its_own_is_none():
    """All that one sees of the last strip are blocks that reach across its seam."""
    blocks, strips = torn_blocks()
    last = replace(strips, seams=np.array([*SEAMS, 980.0]), offsets=OFFSETS[[0, 1, 2, 2]])
    for known in (None, smooth_wave(strips)):
        found = fit_offsets(FRAME, blocks, last, known)
        np.testing.assert_array_equal(found.seams, SEAMS)
        np.testing.assert_allclose(found.jumps, JUMPS, atol=0.08)


def smooth_wave(strips):
    """The wave as a field, with strips."""
    y, x = np.mgrid[0:1024:16, 0:1024:16]
    points = np.column_stack([x.ravel(), y.ravel()]).astype(float)
    start = Displacement.zeros(SHAPE, 64)
    field = fit_field(points, wave(points), np.ones(len(points)), start, 1e-6)
    return replace(field, strips=strips)


def test_seams_that_were_unseen_are_added():
    blocks, strips = torn_blocks()
    one = replace(strips, seams=strips.seams[:1], offsets=OFFSETS[[0, 1]])
    found = add_seams(FRAME, blocks, one, smooth_wave(None))
    assert len(found.seams) == 2
    np.testing.assert_allclose(found.seams, SEAMS, atol=32)


# ---------------------------------------------------------------------------------------- profile


def test_small_jumps_stand_out_of_what_a_smooth_field_leaves():
    """The wave's own steps are 0.5 px and more, as large as these jumps."""
    strips = strips_of(offsets=[[0, 0], [0.5, 0.3], [0, 0]])

    def off(points):
        smooth = wave(points, amplitude=4.0)
        return smooth + strips.evaluate(points, smooth)

    blocks, none = count_blocks(off), make_strips(strips, strips.seams[:0])
    raw = profile(blocks, none)
    seen = raw.seams(max(0.3, 3 * raw.usual), 48.0)
    assert np.abs(np.subtract.outer(SEAMS, seen)).min(axis=1).max() > 24
    shown = profile(compute_unexplained(FRAME, blocks, none), none)
    found = shown.seams(max(0.3, 3 * shown.usual), 48.0)
    assert len(found) == 2
    np.testing.assert_allclose(found, SEAMS, atol=24)


def test_a_wave_and_no_blocks_have_no_seams():
    nothing = strips_of([], [[0, 0]])
    shown = profile(count_blocks(wave), nothing)
    assert len(shown.seams(max(0.5, 3 * shown.usual), 48.0)) == 0
    blind = replace(count_blocks(wave), peak_ratio=np.ones(31 * 31))
    shown = profile(blind, nothing)
    assert (len(shown.at), shown.usual, len(shown.seams(0.1, 1.0))) == (0, 0.0, 0)


# ------------------------------------------------------------------------------------ whole pairs


EDGES = [380, 740]
MOVES = [(0, 0), (2.0, -1.5), (-0.5, 1.0)]
SIDE = 1100
SPEC = PhantomSpec(
    shape=(SIDE, SIDE), pre_shape=(SIDE, SIDE), rotation_deg=1.0, scale=1.003, shear=0.0,
    shift_px=(6.3, -4.7), deform_px=2.0, deform_wavelength_px=900.0, rgb=False, seed=5,
)  # fmt: skip
SETTINGS = RegisterSettings(block_px=128)


def scan_in_strips(spec):
    """Return pre, which is scanned in strips of rows, and the maps of its strips."""
    bounds = [0, *EDGES, SIDE]
    pre, maps = np.empty((SIDE, SIDE), np.uint8), []
    for k, move in enumerate(MOVES):
        renderer = Renderer(replace(spec, shift_px=tuple(np.add(spec.shift_px, move))))
        window = Window(bounds[k], bounds[k + 1], 0, SIDE)
        pre[window.slices] = plain(renderer, "pre", window)
        maps.append(renderer.map)
    return pre, maps


@pytest.fixture(scope="module")
def pair():
    """A bent pair whose pre is scanned in strips, and the maps of its strips."""
    return plain(Renderer(SPEC), "post"), *scan_in_strips(SPEC)


def plain(renderer, name, window=None):
    window = window or Window.from_shape(renderer.shape(name))
    return np.asarray(renderer.pixels(name, window)).reshape(window.shape)


def truth_of(maps, at):
    """Where points of post lie in the torn pre, (N, 2), NaN for nowhere; distance to a seam."""
    found = np.full_like(at, np.nan)
    for k, (low, high) in enumerate(zip([-np.inf, *EDGES], [*EDGES, np.inf], strict=True)):
        mapped = maps[k].to_pre(at)
        inside = (mapped[:, 1] >= low) & (mapped[:, 1] < high)
        found[inside] = mapped[inside]
    return found, np.abs(found[:, 1, None] - EDGES).min(axis=1)


def textured(post, margin=30):
    y, x = np.nonzero(post[margin:-margin:8, margin:-margin:8] > 10)
    return 8.0 * np.column_stack([x, y]) + margin


@pytest.mark.parametrize("image", ["post", "pre"])
def test_strips_of_either_image_are_found(pair, image):
    post, pre, maps = pair
    matrix = maps[1].matrix
    jumps = np.diff(MOVES, axis=0)
    if image == "post":  # the other way round
        post, pre, matrix = pre, post, np.linalg.inv(matrix)
        jumps = -jumps
    seen = pair_of(post, pre, matrix)
    blocks = measure(seen, 128, 128)
    found, finer = find_strips(seen, blocks, 0)
    assert found.name == f"rows of {image}"
    assert finer.step == 64
    np.testing.assert_allclose(found.seams, EDGES, atol=3)
    np.testing.assert_allclose(found.jumps, jumps, atol=0.4)
    np.testing.assert_array_equal(found.frame, matrix if image == "pre" else np.eye(3))


def test_strips_are_found_across_a_turn():
    """Where pre is turned by 8 degrees, a seam lies at all places over 150 px of post."""
    turned = replace(SPEC, rotation_deg=8.0)
    renderer = Renderer(turned)
    seen = pair_of(plain(renderer, "post"), scan_in_strips(turned)[0], renderer.map.matrix)
    found, _ = find_strips(seen, measure(seen, 128, 128), 0)
    assert found.name == "rows of pre"
    np.testing.assert_allclose(found.seams, EDGES, atol=3)


@pytest.mark.parametrize("deform_px", [0.0, 4.0])
def test_images_in_one_piece_have_no_strips(deform_px):
    renderer = Renderer(replace(SPEC, deform_px=deform_px))
    seen = pair_of(plain(renderer, "post"), plain(renderer, "pre"), renderer.map.matrix)
    assert find_strips(seen, measure(seen, 128, 64), 0) is None


@pytest.fixture(scope="module")
def followed(pair):
    post, pre, _ = pair
    return register(ArrayPixels(post, 3), ArrayPixels(pre, 3), SETTINGS)


def test_a_pair_with_strips_is_followed_up_to_the_seams(pair, followed):
    post, _, maps = pair
    found = followed.transform
    assert found.status == "ok", found.reasons
    strips = found.displacement.strips
    assert strips.name == "rows of pre"
    np.testing.assert_array_equal(strips.frame, found.matrix)
    np.testing.assert_allclose(strips.seams, EDGES, atol=3)
    np.testing.assert_allclose(strips.jumps, np.diff(MOVES, axis=0), atol=0.1)
    at = textured(post)
    truth, gap = truth_of(maps, at)
    error = np.hypot(*(found.map(at) - truth).T)
    assert np.median(error[gap > 48]) < 0.05
    assert np.quantile(error[gap > 4], 0.99) < 0.2
    assert found.error_px.median < 2.5 * np.median(error[gap > 4])
    assert np.median(error[gap > 4]) < 2.5 * found.error_px.median


def test_never_means_a_field_without_strips(pair, followed):
    post, pre, maps = pair
    settings = structs.replace(SETTINGS, strips="never")
    found = register(ArrayPixels(post, 3), ArrayPixels(pre, 3), settings, workers=2).transform
    assert found.displacement.strips is None
    np.testing.assert_array_equal(found.matrix, followed.transform.matrix)
    at = textured(post)
    truth, gap = truth_of(maps, at)
    near = (gap > 4) & (gap < 16)
    assert np.median(np.hypot(*(found.map(at) - truth)[near].T)) > 0.5


def test_strips_have_the_same_bytes_for_any_number_of_threads(pair, followed):
    post, pre, _ = pair
    again = register(ArrayPixels(post, 3), ArrayPixels(pre, 3), SETTINGS, workers=3)
    assert again.transform.to_dict() == followed.transform.to_dict()
    assert again.blocks.tobytes() == followed.blocks.tobytes()
    error = [r.transform.displacement.error_px for r in (again, followed)]
    np.testing.assert_array_equal(*error)


def jitter(points):
    """A stage that runs unevenly, without a jump."""
    return wave(points) + np.array([0.6, 0.2]) * np.sin(2 * np.pi * points[:, :1] / 280)


@pytest.mark.parametrize("torn", [True, False])
def test_strips_have_to_leave_less_of_held_out_blocks_than_a_smooth_field(torn):
    blocks, strips = torn_blocks(along="columns") if torn else (count_blocks(jitter), None)
    guessed = fit_offsets(FRAME, blocks, strips_of(along="columns")) if strips is None else strips
    field = smooth_field(FRAME, remove_strips(blocks, guessed, None), 1.0)
    plain = smooth_field(FRAME, blocks, 1.0)
    both = [
        Deformation(one, blocks, blocks.weights, 1.0, plain, 1)
        for one in (replace(field, strips=guessed), plain)
    ]
    assert leaves_less(*both) == torn
