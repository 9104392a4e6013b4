"""Spoilt places: found where they are, for the right reason, and nowhere else."""

import cv2
import numpy as np
import pytest

from unglow.core.windows import Window
from unglow.spoilt.block_scores import BlockScores, Expectation, score_strip
from unglow.spoilt.places import NEAR_PX, REASONS, Places, SpoiltMask, find_places

from .scenes import EXPECTED, SIDE, disc, noise, scene

ALL = np.ones((SIDE // 32, SIDE // 32), np.bool_)


@pytest.fixture(scope="module")
def good():
    return scene(3)


def blurred(post):
    return cv2.GaussianBlur(post, (0, 0), 1.6)


def moved(expected):
    return np.roll(expected, 7, axis=1)


CASES = {
    "lost": lambda s: noise(np.full_like(s.expected, 10), 1),
    "not stored": lambda s: np.zeros_like(s.expected),
    "debris": lambda s: noise(2.5 * s.expected, 2),
    "gain off": lambda s: noise(0.7 * s.expected, 4),
    "out of focus": lambda s: noise(blurred(s.expected), 5),
    "moved": lambda s: noise(moved(s.expected), 6),
}


@pytest.mark.parametrize("seed", range(4))
def test_of_a_good_pair_nothing_is_spoilt(seed):
    found = find_places(scene(10 + seed, spots_per_mpx=(0, 100, 500, 1500)[seed]).scores(), ALL)
    assert not found.mask.any()
    assert found.judged == ALL.size
    assert found.share == 0
    assert max(found.widths.values()) < 1.6


@pytest.mark.parametrize("radius", [60, 120, 220])
@pytest.mark.parametrize("reason", CASES)
def test_a_place_is_found_with_its_reason(good, reason, radius):
    inside = disc(radius)
    spoilt = good.with_post(np.where(inside, CASES[reason](good), good.post).astype(np.float32))
    found = find_places(spoilt.scores(), ALL)
    px = np.kron(found.mask, np.ones((32, 32), np.bool_))
    assert (px & inside).sum() > 0.95 * inside.sum()
    # three blocks around it at most
    around = cv2.dilate(inside.view(np.uint8), np.ones((193, 193), np.uint8)).view(np.bool_)
    assert not (px & ~around).any()
    largest = np.bincount(found.labels[found.mask]).argmax() - 1
    assert REASONS[found.reasons[largest]] == reason
    assert found.strengths[largest] > 6
    assert next(iter(found.shares)) == reason
    assert sum(found.shares.values()) == pytest.approx(found.share)


def test_a_ring_does_not_spoil_what_it_goes_around(good):
    wide, hole = disc(300), disc(180)
    ring = wide & ~hole
    found = find_places(
        good.with_post(np.where(ring, 0, good.post).astype(np.float32)).scores(), ALL
    )
    px = np.kron(found.mask, np.ones((32, 32), np.bool_))
    assert (px & ring).sum() > 0.95 * ring.sum()
    assert not (px & disc(80)).any()


def test_what_is_not_on_the_section_is_not_judged(good):
    spoilt = good.with_post(np.where(disc(100), 0, good.post).astype(np.float32))
    right = ALL.copy()
    right[:, :20] = False
    found = find_places(spoilt.scores(), right)
    assert not found.mask.any()
    assert found.judged == right.sum()


def test_a_place_that_somebody_keeps_is_none(good):
    post = np.where(disc(60, (200, 200)), 0, good.post)
    post = np.where(disc(60, (800, 800)), 2.5 * good.expected, post).astype(np.float32)
    found = find_places(good.with_post(post).scores(), ALL)
    kept = np.zeros_like(ALL)
    kept[:16, :16] = True
    rest = found.exclude(kept)
    assert not rest.mask[:16, :16].any()
    np.testing.assert_array_equal(rest.mask[16:, 16:], found.mask[16:, 16:])
    assert len(rest.reasons) == len(rest.strengths) == rest.labels.max()
    assert "not stored" in found.shares
    assert list(rest.shares) == ["debris"]


def test_post_that_is_cut_off_at_its_dark_end_shows(good):
    cut = np.maximum(good.post, 70)
    numbers = EXPECTED.numbers.copy()
    numbers[7] = 70  # the lowest level of post
    scores = BlockScores.create(cut.shape)
    clipped = good.with_post(cut)
    scores.store_part([score_strip(clipped.post, clipped.left, Expectation(numbers))], (0, 0))
    assert find_places(scores, ALL).below > 0.005
    assert find_places(good.scores(), ALL).below == 0


def test_a_dark_end_is_cut_off_only_where_px_are_at_it(good):
    """A line that is too steep expects px below the darkest one; they are not there."""
    numbers = EXPECTED.numbers.copy()
    numbers[7] = good.post.min()
    steep = good.with_post(good.post)
    left = (steep.left + (good.expected < 90) * 40).astype(np.float32)
    scores = BlockScores.create(good.post.shape)
    scores.store_part([score_strip(steep.post, left, Expectation(numbers))], (0, 0))
    assert find_places(scores, ALL).below < 1e-3


def test_light_that_grows_towards_a_corner_is_no_debris(good):
    y, x = np.indices(good.post.shape)
    corner = np.maximum(1 - np.hypot(x, y) / 400, 0)
    found = find_places(good.with_post((good.post + 25 * corner).astype(np.float32)).scores(), ALL)
    assert "debris" not in found.shares


def test_too_few_blocks_have_no_scatter():
    scores = BlockScores.create((64, 64))
    scores.scores[:] = 50
    found = find_places(scores, np.ones((2, 2), np.bool_))
    assert found.judged == 4
    assert found.shares.keys() <= {"lost", "not stored"}


def test_without_data_there_are_no_places():
    found = find_places(BlockScores.create((1000, 700)), np.ones((32, 22), np.bool_))
    assert found.judged == 0
    assert found.share == 0
    assert not found.mask.any()
    assert Places.empty().share == 0


@pytest.fixture
def mask():
    blocks = np.zeros((4, 5), np.bool_)
    blocks[1, 2] = blocks[3, 4] = True
    return SpoiltMask(blocks, 32)


def whole(mask):
    return np.kron(mask.blocks, np.ones((32, 32), np.bool_))


@pytest.mark.parametrize("window", [Window(0, 128, 0, 160), Window(31, 70, 60, 101)])
def test_px_of_spoilt_blocks_are_spoilt(mask, window):
    np.testing.assert_array_equal(mask.mask_window(window), whole(mask)[window.slices])
    assert mask.touches(window)
    assert not mask.touches(Window(0, 32, 0, 160))


def test_beyond_the_image_px_are_as_its_last_ones(mask):
    assert mask.mask_window(Window(100, 140, 130, 170))[-1, -1]
    assert not mask.mask_window(Window(-10, 5, -10, 5)).any()


def test_a_coarse_level_has_the_first_of_its_px(mask):
    np.testing.assert_array_equal(
        mask.mask_window(Window(0, 128, 0, 160), 4), whole(mask)[::4, ::4]
    )


def test_near_is_what_is_at_most_so_far_along_either_axis(mask):
    rows, cols = np.mgrid[:128, :160]
    px = whole(mask)
    near = np.zeros_like(px)
    for down in range(-NEAR_PX, NEAR_PX + 1):
        for across in range(-NEAR_PX, NEAR_PX + 1):
            at = np.clip(rows + down, 0, 127), np.clip(cols + across, 0, 159)
            near |= px[at]
    np.testing.assert_array_equal(mask.is_near(cols.ravel(), rows.ravel()), near.ravel())
    np.testing.assert_array_equal(mask.mask_near(Window(0, 128, 0, 160)), near)
    assert not mask.mask_near(Window(0, 10, 0, 160)).any()
