"""Constant px that were not imaged are found; clipped glass and saturated light are data."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from unglow.core.windows import Window, merge_runs
from unglow.images.constant_places import RUN, find_constant, spread
from unglow.images.stored_values import MOST_RECTANGLES, MissingTiles

SHAPE = (600, 700)
BOX = np.s_[200:328, 250:378]
"""On the section."""


def pictured(dtype=np.uint16, glass=0.0, seed=1):
    """A section with noise, cut off at 0, on glass of some level."""
    rng = np.random.default_rng(seed)
    y, x = np.indices(SHAPE)
    inside = (((y - 300) / 260) ** 2 + ((x - 330) / 300) ** 2 < 1).astype(np.float32)
    light = cv2.GaussianBlur(inside, (0, 0), 1.5) * 60 + glass
    light *= 1 + 0.2 * cv2.GaussianBlur(rng.normal(0, 8, SHAPE), (0, 0), 5)
    counts = light + rng.normal(0, 1, SHAPE) * np.sqrt(light / 4 + 2)
    scale = 1 if dtype == np.uint8 else 20
    if np.dtype(dtype).kind == "f":
        return np.maximum(counts, 0).astype(dtype)
    return np.clip(np.rint(counts * scale), 0, np.iinfo(dtype).max).astype(dtype)


def whole(image):
    found = find_constant(image, Window.from_shape(image.shape), image.shape)
    return np.zeros(image.shape, bool) if found is None else found[0]


@pytest.mark.parametrize("glass", [0.0, 8.0])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.float32])
@pytest.mark.parametrize("value", [0, 40, "top"])
def test_a_box_of_any_value_is_found_and_nothing_else(dtype, glass, value):
    image, box = pictured(dtype, glass), np.zeros(SHAPE, bool)
    assert not whole(image).any()
    image[BOX] = image.max() * 3 if value == "top" and dtype != np.uint8 else 255
    if value != "top":
        image[BOX] = value
    box[BOX] = True
    np.testing.assert_array_equal(whole(image), box)


@pytest.mark.parametrize("wide", [3, 4, 20, 60])
def test_gaps_between_tiles_are_found_with_their_crossings(wide):
    image = pictured()
    gaps = np.zeros(SHAPE, bool)
    for start in (180, 380):
        gaps[start : start + wide] = gaps[:, start + 20 : start + 20 + wide] = True
    image[gaps] = 0
    found = whole(image)
    y, x = np.indices(SHAPE)
    section = ((y - 300) / 250) ** 2 + ((x - 330) / 290) ** 2 < 1
    assert found[gaps & section].all()
    assert not found[~gaps & section].any()


def test_a_hole_that_touches_dark_glass_ends_with_the_section():
    image = pictured(np.uint8)
    image[image < 8] = 0  # one place with the hole
    clean = image.copy()
    image[250:350, 0:120] = 0
    found = whole(image)
    assert not whole(clean).any()
    assert found[260:340, 60:110].all()
    glass = found[:233].any(axis=0), found[367:].any(axis=0)
    assert np.count_nonzero(glass) <= 2 * RUN  # as much of it may go with the hole's corners


@pytest.mark.parametrize(
    "change",
    [
        lambda image: np.where(image < 12, 0, image),  # glass all of one value
        lambda image: np.minimum(image, np.quantile(image, 0.9)).astype(image.dtype),
        lambda image: image // 5 * 5,
        lambda image: np.repeat(np.repeat(image[::8, ::8], 8, 0), 8, 1)[: SHAPE[0], : SHAPE[1]],
        lambda image: cv2.imdecode(cv2.imencode(".jpg", image, [1, 60])[1], 0),
        lambda image: np.where(rotated(), image, 0).astype(np.uint8),
        lambda image: np.full_like(image, 7),
        lambda image: np.pad(image[3:-3, 3:-3], 3),  # a rim that was lost in processing
    ],
)
def test_what_light_and_processing_make_is_no_hole(change):
    image = np.ascontiguousarray(change(pictured(np.uint8)))
    assert not whole(image).any()


def rotated(degrees=7.0, dtype=np.uint8):
    """Where a mosaic that was turned shows anything; as a float with the share of mixed px."""
    turn = cv2.getRotationMatrix2D((350.3, 300.4), degrees, 1)
    is_mixed = np.dtype(dtype).kind == "f"
    return cv2.warpAffine(np.ones(SHAPE, dtype), turn, SHAPE[::-1], flags=int(is_mixed))


def in_windows(image, side):
    """Return what is found window by window, and what spreads over their ends."""
    found, waiting = {}, {}
    for y in range(0, SHAPE[0], side):
        for x in range(0, SHAPE[1], side):
            window = Window(y, y + side, x, x + side).clip(SHAPE)
            block = np.ascontiguousarray(image[window.slices])
            mask, rest = find_constant(block, window, SHAPE) or (np.zeros(block.shape, bool), [])
            for known, parts in ((found, merge_runs(mask)), (waiting, rest)):
                for one in parts:
                    known[one.shift(y, x)] = float(block[one.y0, one.x0])
    out = np.zeros(SHAPE, bool)
    for one in [*found, *spread(found, waiting)]:
        out[one.slices] = True
    return out


@pytest.mark.parametrize("side", [130, 200, 256, 327])
def test_a_box_is_the_same_in_windows_and_may_be_larger_than_they_are(side):
    image = pictured()
    image[150:450, 150:420] = 0
    np.testing.assert_array_equal(in_windows(image, side), whole(image))


@pytest.mark.parametrize("side", [200, 256, 350, 700])
@pytest.mark.parametrize("sides", ["all", "two"])
@pytest.mark.parametrize("wide", [2, 3, 10, 32, 60, 100])
def test_a_frame_is_found_with_its_corners(wide, sides, side):
    image, frame = pictured(glass=8.0), np.ones(SHAPE, bool)
    frame[wide : -wide if sides == "all" else None, wide : -wide if sides == "all" else None] = (
        False
    )
    image[frame] = 0
    np.testing.assert_array_equal(in_windows(image, side), frame)


@pytest.mark.parametrize("side", [350, 700])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("degrees", [1.0, 2.3, 5.0, 12.0, 25.0])
def test_what_a_rotation_fills_is_found_however_it_rounds(degrees, dtype, side):
    shown = rotated(degrees, dtype)
    image = np.where(shown > 0, np.rint(pictured(glass=8.0) * shown), 0).astype(np.uint16)
    found = in_windows(image, side)
    assert np.count_nonzero(~found & (shown == 0)) < 0.02 * np.count_nonzero(shown == 0)
    assert np.count_nonzero(found & (shown == 1)) <= 2


def test_too_many_rectangles_become_coarser_ones():
    many = {Window(y, y + 1, x, x + 3): 0.0 for y in range(0, 400, 4) for x in range(0, 400, 8)}
    assert len(many) > MOST_RECTANGLES
    joined = MissingTiles.join(None, many, (400, 500), "a.tif")
    assert len(joined.rectangles) == 1
    assert joined.rectangles[0] == Window(0, 400, 0, 400)
    assert MissingTiles.from_attributes({"not_stored": joined.to_json()}) == joined
    assert joined.description == "all is 0 around x 200, y 200"


@pytest.mark.parametrize("factor", [2, 3, 4, 8])
def test_an_image_that_was_enlarged_by_repeating_px_has_data_everywhere(factor):
    image = np.kron(pictured()[200:340, 250:400], np.ones((factor, factor), np.uint16))
    for window in (Window.from_shape(image.shape), Window(100, 230, 60, 200)):
        found = find_constant(image[window.slices], window, image.shape)
        assert found is None or not (found[0].any() or found[1])
