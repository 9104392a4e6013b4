"""Seams: lines along rows or columns are found, and what only looks like one is not."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage

from unglow.core.errors import StoreError
from unglow.core.windows import Window, grid
from unglow.memory import SEGMENT
from unglow.spoilt.outlines import make_features, report
from unglow.spoilt.places import Places, SpoiltMask
from unglow.spoilt.seams import MARGIN, LineMeans, Seam, Seams, find_seams, sum_lines

from .scenes import EXPECTED, SIDE, Scene, scene


def means_of(one: Scene, side: int = SIDE, strip: int = 64) -> LineMeans:
    """Average along lines, in windows and strips of these sides."""
    found = LineMeans.create(one.post.shape)
    for window in grid(one.post.shape, (side, side)):
        post, left = one.post[window.slices], one.left[window.slices]
        columns = np.zeros((-(-len(post) // SEGMENT), 2, post.shape[1]), np.float32)
        rows = [
            sum_lines(post[y : y + strip], left[y : y + strip], EXPECTED, columns[y // SEGMENT])
            for y in range(0, len(post), strip)
        ]
        found.store_window(rows, columns, window)
    return found


def seams_of(one: Scene) -> list[Seam]:
    return find_seams(means_of(one))


@pytest.fixture(scope="module")
def good():
    return scene()


def with_lines(one: Scene, lines, factor: float) -> Scene:
    """Return a scene whose post is brighter by a factor at lines."""
    post = one.post.copy()
    for line in lines:
        post[line] *= np.float32(factor)
    return one.with_post(post)


@pytest.mark.parametrize("seed", range(4))
def test_a_good_pair_has_none(seed):
    assert not seams_of(scene(seed, spots_per_mpx=1500))


def test_lines_far_below_the_noise_are_left(good):
    left = (1e-3 * good.left).astype(np.float32)
    left[::50] += 0.05
    assert not seams_of(Scene(good.expected, good.post, left))


@pytest.mark.parametrize("width", [1, 2, 3])
@pytest.mark.parametrize("factor", [0.8, 1.1, 1.3, 2.0])
def test_brighter_and_darker_lines_are_found(good, factor, width):
    lines = [np.s_[k : k + width] for k in (100, 500, 900)]
    across = [np.s_[:, k : k + width] for k in (300, 700)]
    found = seams_of(with_lines(good, lines + across, factor))
    middle = (width - 1) / 2
    assert [(seam.axis, seam.place - middle) for seam in found] == [
        (0, 100), (0, 500), (0, 900), (1, 300), (1, 700),
    ]  # fmt: skip
    for seam in found:
        assert seam.area_px == (width + 2 * MARGIN) * SIDE
        across = seam.boxes[:, 2:] if seam.axis else seam.boxes[:, :2]
        assert (across[:, 1] - across[:, 0] == width + 2 * MARGIN).all()


def test_a_line_that_ends_is_excluded_to_its_end_and_not_far_beyond(good):
    [seam] = seams_of(with_lines(good, [np.s_[500, :520]], 1.3))
    assert seam.boxes.tolist() == [[497, 504, 0, 768]]


def test_a_line_in_one_part_alone_is_not_known_to_be_straight(good):
    assert not seams_of(with_lines(good, [np.s_[500, 256:512]], 1.3))


def test_a_weak_line_counts_where_a_grid_of_seams_has_one(good):
    weak = [np.s_[k, 256:500] for k in (700, 777)]
    strong = [np.s_[k] for k in (100, 300, 500)]
    found = seams_of(with_lines(with_lines(good, strong, 1.2), weak, 1.2))
    assert [seam.place for seam in found] == [100, 300, 500, 700]


@pytest.mark.parametrize("rows", [200, 300, 510])
def test_seams_of_small_images_are_found(good, rows):
    cut = [with_lines(good, [np.s_[:, k] for k in at], 1.3) for at in ((), (100, 300, 600))]
    clean, spoilt = ([a[:rows] for a in (one.expected, one.post, one.left)] for one in cut)
    assert not seams_of(Scene(*clean))
    assert [seam.place for seam in seams_of(Scene(*spoilt))] == [100, 300, 600]


@pytest.mark.parametrize("part", [np.s_[:256], np.s_[256:]])
def test_a_line_in_one_of_two_parts_is_excluded_in_both(good, part):
    lines = [*(np.s_[:, k] for k in (100, 300, 700)), (part, 500)]
    one = with_lines(good, lines, 1.3)
    found = {
        s.place: s for s in seams_of(Scene(one.expected[:512], one.post[:512], one.left[:512]))
    }
    assert sorted(found) == [100, 300, 500, 700]
    np.testing.assert_array_equal(found[500].boxes[:, :2], [[0, 512]])


@pytest.mark.parametrize("degrees", [1.0, 2.0, 5.0])
def test_oblique_fibres_are_left(good, degrees):
    x = np.arange(SIDE)
    y = (400 + np.tan(np.radians(degrees)) * x).astype(int)
    post = good.post.copy()
    post[y, x] *= 1.5
    post[y + 1, x] *= 1.5
    assert not seams_of(good.with_post(post))


def test_steps_between_tiles_and_overlaps_are_left(good):
    post = good.post.copy()
    post[512:] *= 1.1
    post[:, 200:230] *= 1.2
    assert not seams_of(good.with_post(post))


def test_overlaps_at_equal_distances_are_a_grid_of_wide_seams(good):
    bands = [np.s_[k : k + 30] for k in (100, 400, 700)]
    found = seams_of(with_lines(good, bands, 1.2))
    assert [seam.axis for seam in found] == [0, 0, 0]
    for seam, band in zip(found, bands, strict=True):
        assert band.start - 24 < seam.boxes[0, 0] < band.start
        assert band.stop < seam.boxes[0, 1] < band.stop + 24
    assert not seams_of(with_lines(good, bands[:2], 1.2))


def test_the_end_of_data_is_left(good):
    left = good.left.copy()
    left[300:320] = np.nan
    left[296:300] += 20  # what resampling makes of the last rows
    assert not seams_of(Scene(good.expected, good.post, left))


def test_lines_are_the_same_in_any_window(good):
    whole = means_of(good)
    for side, strip in ((512, 64), (256, 32), (SIDE, 16)):
        parts = means_of(good, side, strip)
        np.testing.assert_array_equal(parts.rows, whole.rows)
        np.testing.assert_array_equal(parts.cols, whole.cols)


def test_lines_are_kept_in_the_file_of_the_blocks(good, tmp_path):
    path = tmp_path / "blocks.npz"
    lines = means_of(good)
    good.scores().save(path, {"lines": lines})
    np.testing.assert_array_equal(LineMeans.load(path, "lines").rows, lines.rows)
    lines.shape = (SIDE, 2 * SIDE)
    good.scores().save(path, {"lines": lines})
    with pytest.raises(StoreError, match=r"blocks\.npz"):
        LineMeans.load(path, "lines")


def row(place, *, axis=0):
    box = [place - MARGIN, place + 1 + MARGIN, 0, 256]
    box = box if axis == 0 else [*box[2:], *box[:2]]
    return Seam(axis, float(place), 20.0, np.array([box], np.int64))


def test_px_of_seams_are_in_the_mask_of_spoilt_px():
    seams = Seams((row(100), row(300, axis=1)))
    mask = SpoiltMask(np.zeros((16, 16), np.bool_), 32, seams)
    whole = mask.mask_window(Window(-10, 512, -5, 512))
    assert whole.sum() == 2 * 256 * 7
    assert whole[10 + 97 : 10 + 104, 5 : 5 + 256].all()
    for part in grid((512, 512), (37, 41)):
        inside = part.shift(10, 5).slices
        np.testing.assert_array_equal(mask.mask_window(part), whole[inside])
        assert mask.touches(part) == whole[inside].any()
        assert not mask.mask_near(part).any()  # what is next to a seam is as good as anywhere
    coarse = mask.mask_window(Window(0, 512, 0, 512), 4)
    fine = whole[10:, 5:].reshape(128, 4, 128, 4).any(axis=(1, 3))
    np.testing.assert_array_equal(coarse, fine)


def test_what_is_near_a_spoilt_block_does_not_depend_on_tiles_nor_on_seams():
    blocks = np.zeros((64, 64), np.bool_)
    blocks[20, 30] = True
    mask = SpoiltMask(blocks, 32, Seams((row(100), row(300, axis=1))))
    row_of, col_of = np.indices((2048, 2048))
    expected = mask.is_near(col_of.ravel(), row_of.ravel()).reshape(2048, 2048)
    for side in (512, 2048):
        for part in grid((2048, 2048), (side, side)):
            np.testing.assert_array_equal(mask.mask_near(part), expected[part.slices])


def test_seams_are_features_and_count_as_spoilt():
    boxes = np.array([[97, 104, 0, 512], [97, 104, 768, 1000]], np.int64)
    seams = Seams((Seam(0, 100.0, 21.26, boxes),), share=0.2)
    places = Places(32, np.zeros((2, 5), np.int32), np.zeros(0, np.uint8), np.zeros(0, "f4"),
                    {}, 0.0, 10, seams)  # fmt: skip
    [feature] = make_features(places, (64, 1000))
    assert feature["properties"]["reason"] == "seam"
    assert feature["properties"]["strength"] == 21.3
    assert feature["properties"]["area_px"] == 7 * 744
    first, second = feature["geometry"]["coordinates"]
    assert first == [[[0, 97], [512, 97], [512, 104], [0, 104], [0, 97]]]
    assert second[0][0] == [768, 97]
    assert places.share == 0.2
    assert places.shares == {"seam": 0.2}
    about = report(places, (64, 1000))
    assert about["places"] == 1
    assert about["by_reason"] == {"seam": {"places": 1, "area_px": 7 * 744, "share": 0.2}}
    [reason] = places.explain_excess("spoilt", 0.1)
    assert "seam 20.0 %" in reason.numbers


def seams_of_raw(image, ends) -> list[Seam]:
    lines = LineMeans.create(image.shape)
    for window in grid(image.shape, (512, 512)):
        lines.add_raw(image[window.slices].astype(np.float32), window, ends)
    return find_seams(lines, of_raw=True)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32"])
def test_strong_seams_of_a_raw_image_are_found_and_have_no_data(good, dtype):
    top = 255 if dtype == "uint8" else 60000
    counts = np.clip(good.post / 2000, 0, 1) * top if top > 255 else np.clip(good.post, 0, 255)
    assert not seams_of_raw(counts.astype(dtype), (0, top))
    for row in (200, 500, 800):
        counts[row] *= 0.7
    found = seams_of_raw(counts.astype(dtype), (0, top))
    assert [seam.place for seam in found] == [200, 500, 800]
    part = np.ones((20, 20), np.float32)
    Seams(tuple(found)).mark(part, Window(190, 210, 30, 50), 1, np.nan)
    assert np.isnan(part).all(axis=1).nonzero()[0].tolist() == [9, 10, 11]
    assert np.isnan(part).sum() == 60


@pytest.mark.parametrize("seed", range(3))
def test_a_coarse_texture_with_much_glass_has_no_grid_of_overlaps(seed):
    rng = np.random.default_rng(seed)
    texture = np.exp(0.4 * _standardise(ndimage.gaussian_filter(rng.normal(size=(1500, 1500)), 6)))
    y, x = np.mgrid[:1500, :1500] - 750
    light = np.where(x**2 + y**2 < 600**2, 60 * texture, 1)
    image = np.clip(rng.poisson(light), 0, 255).astype(np.uint8)
    assert not seams_of_raw(image, (0, float(image.max())))


def _standardise(image):
    return image / image.std()


def test_an_image_without_light_has_no_seams():
    assert not seams_of_raw(np.zeros((600, 700), np.uint8), (0, 0))
    assert not find_seams(LineMeans.create((600, 700)))
