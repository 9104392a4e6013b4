"""Whole registrations of small synthetic pairs with a known map, and of real ones without."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import tifffile
from array_pixels import ArrayPixels
from made_scenes import render, similarity

from unglow.core.windows import Window
from unglow.phantom import PhantomSpec
from unglow.phantom.render import Renderer
from unglow.registration.block_table import BLOCK_DTYPE
from unglow.registration.coarse_guesses import feature_guess, rotation_guesses, spectrum_guesses
from unglow.registration.images import thumbnail
from unglow.registration.register import RegisterSettings, register
from unglow.transform import apply_matrix

pytestmark = pytest.mark.slow

SIDE = 512


def pair(matrix, shape=(SIDE, SIDE), other=None, seed=1, **post):
    post_image = render(matrix, shape, seed, **({"gain": 1.3, "offset": 180.0, "spots": 30} | post))
    return post_image, render(np.eye(3), other or shape, seed)


def run(post, pre, settings=None, levels=2, **kwargs):
    pixels = ArrayPixels(post, levels), ArrayPixels(pre, levels)
    return register(*pixels, settings or RegisterSettings(), **kwargs)


def error(transform, matrix, shape):
    """Distances to the true map over the part of the frame that both images see."""
    rows, cols = np.mgrid[0 : shape[0] : 20, 0 : shape[1] : 20]
    points = np.column_stack([cols.ravel(), rows.ravel()]).astype(float)
    truth = apply_matrix(matrix, points)
    inside = ((truth >= 0) & (truth <= np.array(transform.pre_shape)[::-1] - 1)).all(axis=1)
    return np.hypot(*(transform.map(points) - truth)[inside].T)


@pytest.mark.parametrize("guesses", [feature_guess, spectrum_guesses, rotation_guesses])
def test_each_way_of_guessing_comes_near(guesses):
    matrix = similarity(37, 1.1, (20, -15), (SIDE, SIDE))
    thumbs = [thumbnail(ArrayPixels(image), 0) for image in pair(matrix, seed=3)]
    limits = () if guesses is feature_guess else (1.25,)
    found = guesses(*thumbs, *limits)
    points = np.array([[150.0, 150], [360, 150], [150, 360], [360, 360]])
    distances = [
        np.hypot(*(apply_matrix(m, points) - apply_matrix(matrix, points)).T).max()
        for m in ([found] if guesses is feature_guess else found)
    ]
    assert min(distances) < 15


@pytest.mark.parametrize(
    ("degrees", "scale", "shift"),
    [
        (3.0, 1.02, (40.0, -25.0)),
        (90.0, 1.0, (3.3, 4.4)),
        (263.0, 0.85, (-20.0, 10.0)),
        (1.0, 1.0, (205.0, 0.0)),
    ],
)
def test_known_maps_are_found(degrees, scale, shift):
    shape = (SIDE, SIDE)
    matrix = similarity(degrees, scale, shift, shape)
    found = run(*pair(matrix, seed=int(degrees) + 1)).transform
    assert found.status == "ok", found.reasons
    distance = error(found, matrix, shape)
    assert np.median(distance) < 0.1
    assert np.quantile(distance, 0.95) < 0.2
    assert found.scale == pytest.approx(scale, abs=1e-3)
    turn = (found.rotation_deg - degrees + 180) % 360 - 180
    assert abs(turn) < 0.05
    assert found.model != "homography"
    assert found.error_px.median < 0.15
    assert np.median(distance) < 4 * found.error_px.median


def test_frames_of_different_shapes():
    shape, other = (420, 640), (600, 500)
    matrix = similarity(10, 1.05, (10, 5), shape, other)
    found = run(*pair(matrix, shape, other)).transform
    assert found.status == "ok", found.reasons
    assert (found.post_shape, found.pre_shape) == (shape, other)
    assert np.quantile(error(found, matrix, shape), 0.95) < 0.2
    truth = apply_matrix(matrix, np.indices(shape)[::-1].reshape(2, -1).T)
    seen = ((truth >= -0.5) & (truth <= [499.5, 599.5])).all(axis=1).mean()
    assert found.overlap == pytest.approx(seen, abs=0.05)


@pytest.mark.parametrize("blur", ["blur_pre_px", "blur_post_px"])
def test_unequal_focus_is_no_deformation(blur):
    spec = PhantomSpec(
        shape=(700, 700),
        rotation_deg=1,
        scale=1.005,
        shift_px=(7, -5),
        rgb=False,
        seed=2,
        **{blur: 1.0},
    )
    renderer = Renderer(spec)
    images = [
        renderer.pixels(role, Window.from_shape(renderer.shape(role))) for role in ("post", "pre")
    ]
    found = register(*map(ArrayPixels, images), RegisterSettings()).transform
    assert (found.status, found.displacement) == ("ok", None)
    rows, cols = np.mgrid[0:700:12, 0:700:12].astype(float)
    points = np.column_stack([cols.ravel(), rows.ravel()])
    points = points[renderer.scene.coverage(*points.T.copy()) > 0.95]
    off = np.hypot(*(found.map(points) - renderer.map.to_pre(points)).T)
    assert np.quantile(off, 0.95) < 0.06


def test_perspective_is_followed():
    shape = (SIDE, SIDE)
    matrix = similarity(3, 1.01, (10, 10), shape)
    matrix[2, :2] = 6e-5, -4e-5
    found = run(*pair(matrix, spots=0)).transform
    assert found.model == "homography"
    assert np.quantile(error(found, matrix, shape), 0.95) < 0.3


def test_reversed_contrast():
    matrix = similarity(20, 1.02, (12, 7), (SIDE, SIDE))
    post, pre = pair(matrix)
    top = int(np.quantile(pre, 0.999))
    found = run(post, (top - np.minimum(pre, top)).astype(np.uint16)).transform
    assert found.status == "ok", found.reasons
    assert np.quantile(error(found, matrix, post.shape), 0.95) < 0.2


def test_mirrored_pre_is_named_or_followed():
    flip = np.array([[-1.0, 0, SIDE - 1], [0, 1, 0], [0, 0, 1]])
    matrix = similarity(3, 1.02, (10, 5), (SIDE, SIDE)) @ flip
    images = pair(matrix)
    found = run(*images, RegisterSettings(mirror=True)).transform
    assert found.status == "ok", found.reasons
    assert np.quantile(error(found, matrix, (SIDE, SIDE)), 0.95) < 0.2
    refused = run(*images).transform
    assert refused.status == "failed"
    assert refused.reasons[0].startswith("The pre-stain image is a mirror image")


def test_identical_images_give_the_identity():
    image = render(np.eye(3), (SIDE, SIDE))
    found = run(image, image).transform
    assert found.status == "ok"
    assert error(found, np.eye(3), image.shape).max() < 1e-3
    assert found.model == "translation"


@pytest.mark.parametrize("seed", [0, 1])
def test_unrelated_images_are_refused(seed):
    post = render(np.eye(3), (400 + 60 * seed, 500), seed=10 + seed)
    pre = render(np.eye(3), (450, 480), seed=90 + seed)
    found = run(post, pre)
    assert found.transform.status == "failed"
    assert found.transform.reasons
    assert np.isnan(found.transform.map([[1.0, 1.0]])).all()


def test_unrelated_images_are_refused_where_no_other_scale_is_allowed():
    images = (render(np.eye(3), (SIDE, SIDE), seed) for seed in (3, 103))
    settings = RegisterSettings(max_scale=1.0, model="translation")
    assert run(*images, settings).transform.status == "failed"


def noise(shape=(300, 300)):
    return np.random.default_rng(5).poisson(50, shape).astype(np.uint16)


def saturated():
    image = np.full((300, 300), 255, np.uint8)
    image[:1, :8] = 254
    return image


TEXTURE = render(np.eye(3), (300, 300))


@pytest.mark.parametrize(
    ("post", "pre", "reason"),
    [
        (np.zeros((300, 300), np.uint16), TEXTURE, "post-stain image is empty"),
        (TEXTURE, np.full((300, 300), 65535, np.uint16), "pre-stain image is empty"),
        (TEXTURE, np.full((300, 300), np.nan, np.float32), "pre-stain image is empty"),
        (TEXTURE[:100], TEXTURE, "post-stain image of 300 x 100 px is too small"),
        (saturated(), TEXTURE, "not match|saturated"),
        (noise(), np.random.default_rng(6).poisson(50, (300, 300)), "not match"),
    ],
)
def test_unusable_images_are_refused_with_a_sentence(post, pre, reason):
    found = run(post, pre)
    assert found.transform.status == "failed"
    assert re.search(reason, found.transform.reasons[0]), found.transform.reasons
    assert found.blocks.dtype == BLOCK_DTYPE


def test_too_little_overlap_is_refused_and_named():
    matrix = similarity(0, 1, (300, 300), (SIDE, SIDE))
    found = run(*pair(matrix), RegisterSettings(min_overlap=0.3)).transform
    assert found.status == "failed"
    assert any("min_overlap" in reason.numbers for reason in found.reasons)


def test_a_torn_section_is_suspect():
    """One third of pre moved by 12 px: no global map can follow, and it must not pass as one."""
    image = render(np.eye(3), (SIDE, SIDE), seed=4)
    torn = image.copy()
    torn[:, :170] = np.roll(image, 12, axis=0)[:, :170]
    found = run(image, torn).transform
    assert found.status == "suspect"
    assert found.reasons[0].key == "map_error"
    assert found.error_px.p95 > 5
    assert found.residual_px.p95 > 5


def test_blocks_report_what_was_measured():
    matrix = similarity(3, 1.02, (20, 10), (SIDE, SIDE))
    found = run(*pair(matrix))
    blocks, transform = found.blocks, found.transform
    assert len(blocks) == transform.blocks
    assert 0.1 < blocks["held_out"].mean() < 0.3
    post = np.column_stack([blocks["x"], blocks["y"]])
    off = np.column_stack([blocks["dx"], blocks["dy"]])
    pre = np.column_stack([blocks["pre_x"], blocks["pre_y"]])
    np.testing.assert_allclose(transform.map(post) + off, pre, atol=1e-9)
    held = blocks["held_out"] & blocks["used"]
    assert transform.residual_px.median == pytest.approx(np.median(np.hypot(*off[held].T)))


def test_bytes_do_not_depend_on_threads_or_stored_levels(tmp_path):
    post, pre = pair(similarity(5, 1.01, (10, 10), (SIDE, SIDE)))
    results = []
    for workers, levels in ((1, 3), (3, 1)):
        found = run(post, pre, RegisterSettings(coarse_px=256), levels=levels, workers=workers)
        path = tmp_path / "transform.json"
        found.transform.save(path)
        results.append((path.read_bytes(), found.blocks.tobytes()))
    assert results[0] == results[1]
    assert json.loads(results[0][0])["status"] == "ok"


def test_only_the_coarse_level_and_blocks_are_read():
    class Counting(ArrayPixels):
        def __init__(self, array, levels):
            super().__init__(array, levels)
            self.seen = {}

        def read(self, window, level=0):
            self.seen.setdefault(level, []).append(window.size)
            return super().read(window, level)

    post, pre = pair(similarity(5, 1.0, (10, 10), (1024, 1024)), (1024, 1024))
    images = Counting(post, 3), Counting(pre, 3)
    settings = RegisterSettings(coarse_px=256, block_px=128, blocks=25)
    assert register(*images, settings).transform.status == "ok"
    for image in images:
        assert max(image.seen[0]) < 160 * 160
        assert sum(image.seen[0]) < 0.9 * 1024 * 1024 * 2
    assert images[0].seen[2] == [256 * 256]


def test_consecutive_sections_are_refused(shared_data):
    cv2 = pytest.importorskip("cv2")
    folder = shared_data / "histology_landmarks" / "lesions_" / "scale-5pc"
    images = [
        255 - cv2.imread(str(folder / f"Izd2-29-041-w35_{stain}.jpg"))[..., 1]
        for stain in ("HE", "proSPC")
    ]
    assert run(*images).transform.status == "failed"


@pytest.mark.parametrize("name", ["round_{}_mip"])
def test_two_rounds_agree_forward_and_back(shared_data, name):
    folder = shared_data / "two_round_fluorescence"
    post, pre = (tifffile.imread(folder / f"{name.format(k)}.tif") for k in ("fix", "mov"))
    there, back = run(post, pre).transform, run(pre, post).transform
    assert {there.status, back.status} <= {"ok", "suspect"}
    rows, cols = np.mgrid[100 : post.shape[0] - 100 : 50, 100 : post.shape[1] - 100 : 50]
    points = np.column_stack([cols.ravel(), rows.ravel()]).astype(float)
    loop = np.hypot(*(back.map(there.map(points)) - points).T)
    assert np.median(loop) < 0.4
