"""Registration that a person helps: landmarks and first maps, right, rough and wrong."""

from __future__ import annotations

import json

import numpy as np
import pytest
from array_pixels import ArrayPixels
from made_scenes import render, similarity
from msgspec import structs
from scipy.ndimage import map_coordinates

from unglow.registration.register import RegisterSettings, UserHints, register
from unglow.registration.user_hints import landmark_maps
from unglow.transform import apply_matrix, load
from unglow.transform.landmarks import Landmarks

pytestmark = pytest.mark.slow

SHAPE = (768, 768)
PLACES = np.array([[200.0, 180], [210, 560], [560, 220], [540, 570], [380, 400]])
CLICKS = np.array([[2.0, -1], [-3, 2], [1, 3], [-2, -2], [3, 1]])


def smooth(points, size, seed):
    lattice = np.random.default_rng(seed).random((256, 256))
    at = np.stack([points[:, 1] / size + 30, points[:, 0] / size + 30])
    return map_coordinates(lattice, at, order=3, mode="grid-wrap") - 0.5


def image(matrix, seed):
    """Draw fine texture that moves with the matrix, under the image's own autofluorescence."""
    rows, cols = np.indices(SHAPE)
    points = np.column_stack([cols.ravel(), rows.ravel()]).astype(float)
    total = smooth(apply_matrix(matrix, points), 4.0, 1)
    total += sum(2 * smooth(points, size, seed + k) for k, size in enumerate((55.0, 144.0)))
    values = 300 * np.exp(total.reshape(SHAPE))
    values += np.random.default_rng(seed).normal(0, 1, SHAPE) * np.sqrt(9 + 0.1 * values)
    return np.rint(values).clip(0, 65535).astype(np.uint16)


MATRIX = similarity(30.0, 1.02, (30.0, -20.0), SHAPE)
SETTINGS = RegisterSettings(coarse_px=256)
#: Without a search of other scales, which takes most of the time of a pair that is refused.
ONE_SCALE = structs.replace(SETTINGS, max_scale=1.25)


@pytest.fixture(scope="module")
def hard():
    """A pair that has nothing in common on the coarse level, and everything at full resolution."""
    return image(MATRIX, 20), image(np.eye(3), 40)


def run(pair, hints=None, settings=SETTINGS):
    post, pre = (ArrayPixels(i, 3) for i in pair)
    return register(post, pre, settings, hints=hints).transform


def clicked(places=PLACES, off=CLICKS):
    names = tuple(str(k + 1) for k in range(len(places)))
    return Landmarks(places, apply_matrix(MATRIX, places) + off[: len(places)], names)


def error(found):
    points = np.array([[x, y] for x in range(150, 650, 50) for y in range(150, 650, 50)], float)
    return np.hypot(*(found.map(points) - apply_matrix(MATRIX, points)).T)


def test_without_help_the_pair_fails(hard):
    assert run(hard).status == "failed"


@pytest.mark.parametrize("count", [2, 3, 5])
def test_landmarks_start_what_the_search_does_not_find(hard, count, tmp_path):
    found = run(hard, UserHints(landmarks=clicked(PLACES[:count])))
    assert found.status == "ok", found.reasons
    assert found.coarse_method == "landmarks"
    assert np.median(error(found)) < 0.1
    off = np.hypot(*CLICKS[:count].T)
    assert found.landmarks.count == count
    assert found.landmarks.median_px == pytest.approx(np.median(off), abs=0.2)
    assert found.landmarks.max_px == pytest.approx(off.max(), abs=0.2)
    found.save(tmp_path / "transform.json")
    data = json.loads((tmp_path / "transform.json").read_text())
    assert list(data["landmarks"]) == ["count", "median_px", "max_px"]
    assert "from" not in data
    assert load(tmp_path / "transform.json").landmarks == found.landmarks


def test_an_initial_matrix_starts_in_the_same_way(hard):
    rough = similarity(30.5, 1.02, (34.0, -18.0), SHAPE)
    found = run(hard, UserHints(initial=rough))
    assert found.coarse_method == "initial"
    assert np.median(error(found)) < 0.1
    assert found.landmarks is None
    # a matrix proves nothing about other places, as landmarks do
    (reason,) = found.reasons
    assert reason.key == "rival"


def test_of_two_starts_the_one_that_the_images_like_better_is_taken(hard):
    wrong = similarity(200, 1.0, (0.0, 0.0), SHAPE)
    found = run(hard, UserHints(landmarks=clicked(), initial=wrong))
    assert (found.status, found.coarse_method) == ("ok", "landmarks"), found.reasons


def test_one_wrong_landmark_of_five_is_outvoted_and_named(hard):
    off = CLICKS.copy()
    off[2] += (90, -60)
    found = run(hard, UserHints(landmarks=clicked(off=off)))
    assert found.status == "suspect"
    assert np.median(error(found)) < 0.1
    assert found.landmarks.median_px < 5
    (reason,) = found.reasons
    assert reason == "The map misses landmark 3."
    assert reason.numbers.startswith("It misses by 107 px")


def test_wrong_landmarks_lead_to_nothing_and_say_so(hard):
    swapped = clicked()
    swapped = Landmarks(swapped.post, swapped.pre[[1, 0, 3, 2, 4]], swapped.names)
    found = run(hard, UserHints(landmarks=swapped), ONE_SCALE)
    assert found.status == "failed"
    assert found.landmarks is None
    assert "mirror" in found.reasons[0]
    assert "The landmarks led to no map either" in found.reasons[-1]


def test_landmarks_of_another_magnification_name_the_setting(hard):
    far = clicked()
    far = Landmarks(far.post, 1.6 * far.pre - 200, far.names)
    found = run(hard, UserHints(landmarks=far), ONE_SCALE)
    assert found.status == "failed"
    assert "landmarks need a magnification outside the accepted range" in found.reasons[-1]
    assert "Scale 1.64" in found.reasons[-1].numbers
    assert "(setting max_scale)" in found.reasons[-1].numbers


@pytest.mark.parametrize("seed", [100, 200])
def test_landmarks_do_not_make_a_map_of_unrelated_images(hard, seed):
    other = render(np.eye(3), SHAPE, seed)
    found = run((hard[0], other), UserHints(landmarks=clicked()), ONE_SCALE)
    assert found.status == "failed"
    assert found.reasons[0].key == "different"


@pytest.fixture(scope="module")
def easy():
    """A pair that the search finds, too."""
    return render(MATRIX, SHAPE, gain=1.3), render(np.eye(3), SHAPE)


def test_where_landmarks_mislead_the_search_goes_on_and_the_pair_is_suspect(easy):
    lost = Landmarks(PLACES, PLACES[::-1].copy(), tuple("12345"))
    found = run(easy, UserHints(landmarks=lost))
    assert found.status == "suspect"
    assert found.coarse_method in ("features", "spectrum", "rotations")
    assert np.median(error(found)) < 0.1
    (reason,) = found.reasons
    worst = np.hypot(*(apply_matrix(MATRIX, lost.post) - lost.pre).T)
    assert f"misses landmark {worst.argmax() + 1}." in reason
    assert f"by {worst.max():.0f} px" in reason.numbers


def test_where_a_first_map_misleads_the_search_goes_on_and_the_pair_is_suspect(easy):
    found = run(easy, UserHints(initial=similarity(170, 1.0, (200.0, 0.0), SHAPE)))
    assert found.status == "suspect"
    assert np.median(error(found)) < 0.1
    assert found.reasons[0].key == "initial_unused"


def test_landmarks_that_fit_leave_no_doubt_whatever_the_search_would_say(easy):
    searched, helped = run(easy), run(easy, UserHints(landmarks=clicked()))
    assert (searched.status, helped.status) == ("ok", "ok")
    np.testing.assert_allclose(helped.matrix, searched.matrix, atol=0.02)


def test_maps_of_landmarks_are_exact_and_robust():
    pre = apply_matrix(MATRIX, PLACES)
    for count, models in ((2, 1), (3, 2), (5, 2)):
        names = tuple("12345")[:count]
        maps = landmark_maps(Landmarks(PLACES[:count], pre[:count], names))
        assert len(maps) == models
        for found in maps:
            np.testing.assert_allclose(apply_matrix(found, PLACES), pre, atol=1e-6)
    pre[1] += 150
    affine, _ = landmark_maps(Landmarks(PLACES, pre, tuple("12345")))
    right = np.arange(5) != 1
    np.testing.assert_allclose(apply_matrix(affine, PLACES)[right], pre[right], atol=1e-3)


def test_landmarks_on_one_line_make_a_similarity():
    line = np.array([[100.0, 100], [300, 300], [600, 600]])
    maps = landmark_maps(Landmarks(line, apply_matrix(MATRIX, line), tuple("123")))
    np.testing.assert_allclose(maps[0], MATRIX, atol=1e-6)
