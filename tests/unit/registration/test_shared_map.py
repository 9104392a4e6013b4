"""Taking over the map of another dye: what its images say for it and against it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
from array_pixels import ArrayPixels
from made_scenes import render, similarity

from unglow.registration.register import RegisterSettings, UserHints
from unglow.registration.shared_map import SharedMap, take_over
from unglow.stages import register
from unglow.transform import LandmarkResiduals, LocalError, Quantiles, Transform, apply_matrix, load
from unglow.transform.displacement import Displacement
from unglow.transform.landmarks import Landmarks

SHAPE = (512, 512)
MATRIX = similarity(4, 1.01, (12.0, -7.0), SHAPE)


@pytest.fixture(scope="module")
def images():
    """This dye's images, which the map `MATRIX` fits."""
    return render(MATRIX, SHAPE, gain=1.3, spots=30), render(np.eye(3), SHAPE)


def source(matrix=MATRIX, **changes):
    found = Transform(
        "ok", SHAPE, SHAPE, matrix=matrix, model="affine", scale=1.01, residual_px=Quantiles(9, 9)
    )
    return SharedMap("DAPI", replace(found, **changes))


def moved(x, y):
    return np.array([[1.0, 0, x], [0, 1, y], [0, 0, 1]]) @ MATRIX


def run(images, shared, settings=None, **kwargs):
    pixels = [ArrayPixels(image, 2) for image in images]
    return take_over(*pixels, shared, settings or RegisterSettings(), **kwargs)


def test_a_map_that_fits_is_taken_over_unchanged_and_measured(images, tmp_path):
    found = run(images, source())
    transform = found.transform
    assert transform.status == "ok", transform.reasons
    np.testing.assert_array_equal(transform.matrix, MATRIX)
    assert (transform.source, transform.coarse_method) == ("DAPI", "reused")
    assert transform.residual_px.median < 0.1
    assert transform.error_px.p95 < 0.1
    assert transform.inliers > 0.9 * transform.blocks > 30
    assert found.blocks["held_out"].all()  # nothing was fitted to them
    lengths = np.hypot(found.blocks["dx"], found.blocks["dy"])
    assert transform.residual_px.median == pytest.approx(np.median(lengths[found.blocks["used"]]))
    transform.save(tmp_path / "transform.json")
    assert '"from": "DAPI"' in (tmp_path / "transform.json").read_text()
    assert load(tmp_path / "transform.json").source == "DAPI"


def test_the_way_back_of_the_source_is_not_taken_over(images):
    found = run(images, source(forward_backward_px=Quantiles(0.01, 0.02))).transform
    assert found.status == "ok", found.reasons
    assert found.to_dict()["forward_backward_px"] == {"median": None, "p95": None}


def test_where_the_source_is_off_says_nothing_of_these_images(images):
    found = run(images, source(local_error=LocalError(256.0, ((0.01, 3.0), (0.01, 0.01)))))
    assert found.transform.local_error is None
    assert found.transform.usual_error_px == found.transform.error_px.p95


def test_bytes_do_not_depend_on_threads(images):
    one, many = (run(images, source(), workers=workers) for workers in (1, 3))
    assert one.transform.to_dict() == many.transform.to_dict()
    assert one.blocks.tobytes() == many.blocks.tobytes()


def test_a_displacement_field_is_taken_over_and_counts(images):
    field = Displacement.zeros(SHAPE, 128)
    field = Displacement(128, field.coefficients + np.array([2.0, -1.5])[:, None, None])
    shifted = source(moved(-2.0, 1.5), displacement=field)
    found = run(images, shifted).transform
    assert found.status == "ok", found.reasons
    assert found.displacement is field
    assert found.residual_px.median < 0.1
    blocks = run(images, shifted).blocks
    measured = np.column_stack([blocks["pre_x"], blocks["pre_y"]])
    truth = apply_matrix(MATRIX, np.column_stack([blocks["x"], blocks["y"]]))
    assert np.median(np.hypot(*(measured - truth).T)) < 0.1


def test_images_off_the_map_are_suspect_with_the_distance(images):
    found = run(images, source(moved(-3.0, 1.0))).transform
    assert found.status == "suspect"
    (reason,) = found.reasons
    # the square root of 10 is 3.16
    assert re.match(r"They are off by 3\.1\d px \(x \+[23]\.\d+, y -[01]\.", reason.numbers)
    assert found.residual_px.median == pytest.approx(np.hypot(3, 1), abs=0.05)
    assert found.error_px.median == pytest.approx(np.hypot(3, 1), abs=0.05)
    wide = run(images, source(moved(-3.0, 1.0)), RegisterSettings(suspect_px=4.0)).transform
    assert wide.status == "ok"


def test_images_far_from_the_map_refute_it(images):
    near = run(images, source(moved(-11.0, 0.0))).transform
    assert near.status == "failed"
    assert "off by 10.96 px (x +10.96" in near.reasons[0].numbers
    far = run(images, source(moved(60.0, 45.0))).transform
    assert far.status == "failed"
    assert "match better elsewhere than where the map of DAPI puts them" in far.reasons[0]
    assert np.isnan(far.matrix).all()
    assert (near.source, far.source) == ("DAPI", "DAPI")


@pytest.mark.parametrize(
    "pre",
    [np.full(SHAPE, 100, np.uint16), np.random.default_rng(5).poisson(50, SHAPE).astype(np.uint16)],
)
def test_images_that_say_nothing_leave_the_map_in_doubt(images, pre):
    found = run((images[0], pre), source()).transform
    assert found.status == "suspect"
    np.testing.assert_array_equal(found.matrix, MATRIX)
    assert found.reasons[0] == "The images neither confirm nor refute the map of DAPI."


def test_reversed_contrast_is_followed(images):
    top = int(np.quantile(images[1], 0.999))
    pre = (top - np.minimum(images[1], top)).astype(np.uint16)
    assert run((images[0], pre), source()).transform.residual_px.median < 0.1
    (reason,) = run((images[0], pre), source(moved(-9.0, 0.0))).transform.reasons
    assert "(x +8.96" in reason.numbers


def test_a_failed_source_fails_with_its_reason(images):
    failed = SharedMap("DAPI", Transform("failed", SHAPE, SHAPE, ("It is black.",)))
    found = run(images, failed)
    (reason,) = found.transform.reasons
    assert (reason.key, reason.numbers) == ("source_failed", "It is black.")
    assert len(found.blocks) == 0


def test_a_suspect_source_leaves_a_doubt(images):
    found = run(images, source(status="suspect", reasons=("Odd.",))).transform
    assert found.reasons == ("The map is that of DAPI, which is suspect itself: see its reasons.",)


@pytest.mark.parametrize("role", ["post", "pre"])
def test_images_of_another_shape_share_no_map(images, role):
    other = source(**{f"{role}_shape": (500, 512)})
    (reason,) = run(images, other).transform.reasons
    assert f"whose {role}-stain image has another size" in reason
    assert reason.numbers == "512 x 500 px and not 512 x 512 px."


class Image(ArrayPixels):
    """Pixels that stand for a store with content."""

    empty = None
    pixel_size_um = None
    attributes: ClassVar[dict] = {}


def test_landmarks_are_compared_with_a_map_that_is_taken_over(images, monkeypatch):
    monkeypatch.setattr(register, "_cache_chunks", lambda store: store)
    places = np.array([[100.0, 120], [400, 300]])
    marks = Landmarks(
        places, apply_matrix(MATRIX, places) + np.array([[3, 4], [0, 50]]), ("a", "b")
    )
    post, pre = (Image(image, 2) for image in images)
    found = register.register_stores(
        post, pre, RegisterSettings(), workers=1, hints=UserHints(marks), shared=source()
    ).transform
    assert (found.status, found.source) == ("suspect", "DAPI")
    assert found.landmarks == LandmarkResiduals(2, pytest.approx(27.5), pytest.approx(50))
    assert found.reasons[0] == "The map misses landmark b."


def test_cycles_of_a_slide_have_a_remedy_of_their_own(images, tmp_path):
    theirs = source(moved(-15.0, 0.0)).transform
    theirs.save(tmp_path / "transform.json")
    files = {"source": [str(tmp_path / "transform.json")]}
    shared = register.read_shared_map({"cycles": "2-1"}, files, SHAPE)
    (reason,) = run(images, shared).transform.reasons
    assert "where the map of cycles 2-1 puts them" in reason
    assert reason.help.startswith("See the registration of these cycles, and set register.on")
    one = register.read_shared_map({"cycles": ""}, {}, SHAPE)
    np.testing.assert_array_equal(one.transform.matrix, np.eye(3))
    aside = np.array([[1.0, 0, 15], [0, 1, 0], [0, 0, 1]])
    post = render(aside, SHAPE, gain=1.3, spots=30)
    (reason,) = run((post, images[1]), one).transform.reasons
    assert "where the map of their cycle puts them" in reason
    assert reason.help.startswith("Both channels are of one cycle: correct what lies between")
    assert register.read_shared_map({}, {}, SHAPE) is None
