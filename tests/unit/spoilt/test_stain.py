"""Crowds of spots are stain, however dense; films, fibres, bleached and blurred places are not."""

import cv2
import numpy as np
import pytest
from array_pixels import ArrayPixels

from unglow.spoilt.places import REASONS, Places, find_places
from unglow.spoilt.stain import part_stain

from .scenes import SIDE, disc, noise, scene

ALL = np.ones((SIDE // 32, SIDE // 32), np.bool_)
FWHM = 2 * np.sqrt(2 * np.log(2))


@pytest.fixture(scope="module")
def good():
    return scene(3)


def add_crowd(good, width, px_per_spot, radius, seed=5):
    """Put spots of a width, px, into a disc of post, with their noise."""
    random = np.random.default_rng([seed, width, px_per_spot])
    rows, cols = np.nonzero(disc(radius))
    at = random.integers(0, len(rows), round(len(rows) / px_per_spot))
    light = np.zeros((SIDE, SIDE), np.float32)
    sigma = width / FWHM
    np.add.at(light, (rows[at], cols[at]), random.uniform(40, 160, len(at)) * 2 * np.pi * sigma**2)
    light = cv2.GaussianBlur(light, (0, 0), sigma)
    light += np.sqrt(0.25 * light) * random.standard_normal(light.shape)
    return good.with_post((good.post + light).astype(np.float32))


def part(spoilt, saturated=np.inf):
    places = find_places(spoilt.scores(), ALL)
    images = (ArrayPixels(image) for image in (spoilt.post, spoilt.left))
    return places, *part_stain(places, *images, saturated)


@pytest.mark.parametrize(
    ("width", "px_per_spot"),
    [(4, 100), (4, 300), (8, 100), (8, 300), (8, 1000), (14, 100), (14, 300), (14, 1000),
     (14, 3000), (20, 300), (20, 1000), (20, 3000), (20, 10000)],
)  # fmt: skip
@pytest.mark.parametrize("radius", [60, 160, 400])
def test_no_crowd_of_spots_is_excluded(good, width, px_per_spot, radius):
    _, spoilt, _ = part(add_crowd(good, width, px_per_spot, radius))
    assert spoilt.share <= 0.002


def test_a_dense_crowd_is_stain_and_one_that_hides_the_section_may_be_dirt(good):
    places, spoilt, unclear = part(add_crowd(good, 8, 300, 160))
    assert places.share > 0.05
    assert not spoilt.mask.any()
    assert not unclear.mask.any()
    places, spoilt, unclear = part(add_crowd(good, 14, 100, 160))
    assert unclear.share == places.share > 0.05
    assert not spoilt.mask.any()


def test_a_single_large_spot_is_stain(good):
    places, spoilt, unclear = part(add_crowd(good, 20, 10, 3))
    assert 1 <= places.mask.sum() <= 9
    assert not (spoilt.mask | unclear.mask).any()


def pattern(seed, sigma):
    drawn = np.random.default_rng(seed).standard_normal((SIDE, SIDE))
    blurred = cv2.GaussianBlur(drawn, (0, 0), sigma)
    return blurred / blurred.std()


@pytest.mark.parametrize("seed", [1, 3])
def test_a_crumpled_flake_may_be_dirt(good, seed):
    inside = disc(62) & (disc(50) | (pattern(seed, 8) > -0.3))
    coarse, middle, fine = (pattern(seed + n, sigma) for n, sigma in ((10, 18), (20, 6), (30, 2)))
    lumps = 0.3 * coarse + 0.22 * middle + 0.12 * fine
    ridges = np.exp(-((pattern(seed + 40, 9) / 0.18) ** 2))
    bright = 3 * good.expected.mean() * (0.7 * np.exp(1.3 * lumps) + 0.45 * ridges)
    cover = cv2.GaussianBlur(inside.astype(np.float32), (0, 0), 2)
    level = (good.expected * (1 - 0.7 * cover) + bright * cover).astype(np.float32)
    post = np.where(cover > 0.01, noise(level, seed), good.post).astype(np.float32)
    places, spoilt, unclear = part(good.with_post(post))
    assert 16 <= places.mask.sum() == (spoilt.mask | unclear.mask).sum()


def fibre(good):
    """A bright strip, 28 px wide."""
    y, x = np.mgrid[:SIDE, :SIDE]
    strip = (np.abs(y - x) < 20) & (np.abs(y + x - SIDE) < 250)
    return strip, good.post + 80


DAMAGE = {
    "film": lambda s: (disc(120), s.post + 40),
    "fibre": fibre,
    "bleached": lambda s: (disc(120), noise(0.7 * s.expected, 4)),
    "blurred": lambda s: (disc(120), noise(cv2.GaussianBlur(s.expected, (0, 0), 1.6), 5)),
    "lost": lambda s: (disc(60), noise(np.full_like(s.expected, 10), 1)),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_what_is_evidently_no_stain_stays_excluded(good, kind):
    inside, damaged = DAMAGE[kind](good)
    places, spoilt, unclear = part(
        good.with_post(np.where(inside, damaged, good.post).astype(np.float32))
    )
    px = np.kron(spoilt.mask, np.ones((32, 32), np.bool_))
    assert (px & inside).sum() > (0.3 if kind == "fibre" else 0.9) * inside.sum()
    assert unclear.share < 0.002
    assert (spoilt.labels > 0).sum() == pytest.approx((places.labels > 0).sum(), abs=2)


def test_what_follows_pre_with_another_gain_is_kept_by_name(good):
    for factor, is_kept in ((1.3, False), (3.0, True)):
        bright = noise(factor * good.expected, 4)
        post = np.where(disc(160), bright, good.post).astype(np.float32)
        places, spoilt, unclear = part(good.with_post(post))
        assert places.share > 0.05
        assert (unclear.shares.get("gain off", 0) > 0.9 * places.share) == is_kept
        assert (spoilt.share > 0.9 * places.share) != is_kept


@pytest.mark.parametrize("reason", ["not stored", "lost", "moved"])
def test_a_reason_that_stain_cannot_have_is_not_asked(good, reason):
    crowd = add_crowd(good, 8, 300, 160)
    found = find_places(crowd.scores(), ALL)
    reasons = np.full_like(found.reasons, REASONS.index(reason))
    places = Places(32, found.labels, reasons, found.strengths, {}, 0.0, found.judged)
    spoilt, unclear = part_stain(places, ArrayPixels(crowd.post), ArrayPixels(crowd.left), np.inf)
    np.testing.assert_array_equal(spoilt.labels, places.labels)
    assert not unclear.mask.any()


def test_px_without_data_and_saturated_ones_say_nothing(good):
    crowd = add_crowd(good, 8, 100, 160)
    holes = np.random.default_rng(0).random((SIDE, SIDE)) < 0.02
    left = np.where(holes, np.float32(np.nan), crowd.left)
    places = find_places(crowd.scores(), ALL)
    for top in (np.inf, 260.0):
        post = np.minimum(crowd.post, top).astype(np.float32)
        seen = ArrayPixels(post), ArrayPixels(left + post - crowd.post)
        spoilt, _ = part_stain(places, *seen, top)
        assert not spoilt.mask.any()


def test_nothing_is_read_where_nothing_is_spoilt():
    spoilt, unclear = part_stain(Places.empty(), None, None, 255)
    assert not spoilt.mask.any()
    assert not unclear.mask.any()
