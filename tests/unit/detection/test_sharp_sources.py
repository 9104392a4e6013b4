"""What is sharper than the optics is flagged, in both directions, and leaves the others alone."""

from __future__ import annotations

import numpy as np
import pytest
from made_search import make_scene

from unglow.detection.search import search
from unglow.detection.section_mask import Section
from unglow.detection.sharp_sources import LIMITS, USUAL, choose_limit
from unglow.detection.source_photometry import SHARP

SIDE = 600
ROWS, COLS = np.indices((31, 31)) - 15


def hot(image, y, x, sign):
    image[y, x] += sign * 150


def block(image, y, x, sign):
    image[y : y + 2, x : x + 2] += sign * 60


def track(image, y, x, sign):
    for k in range(9):
        image[y + round(0.6 * k), x + k] += sign * 60


def spot(image, y, x, sign, fwhm=3.0):
    away = ROWS**2 + COLS**2
    image[y - 15 : y + 16, x - 15 : x + 16] += sign * 40 * np.exp(-4 * np.log(2) * away / fwhm**2)


def searched(defect, sign=1, fwhm=3.0):
    """A search of 15 spots and 20 defects, bright or dark, and which sources are which."""
    rng = np.random.default_rng(7)
    pre = rng.normal(100, 3, (SIDE, SIDE))
    post = rng.normal(100, 3, (SIDE, SIDE))
    grid = [(40 + 80 * i, 40 + 80 * j) for i in range(7) for j in range(7)]
    for n, (y, x) in enumerate(grid[:35]):
        if n < 15:
            spot(post, y, x, 1, fwhm)
        elif defect is not None:
            defect(post, y, x, sign)
    scene = make_scene(post, pre)
    result = search(scene, Section.from_mask(np.ones((SIDE, SIDE), bool), 0), workers=1)
    found = result.found[result.found["above"] > 7]
    at = np.stack([found["row"], found["col"]], axis=1)
    near = [int(np.abs(np.array(grid) - p).max(axis=1).argmin()) for p in at]
    return result, found, np.array(near)


@pytest.mark.parametrize("defect", [hot, block, track])
def test_bright_defects_are_flagged_and_not_counted(defect):
    result, found, near = searched(defect)
    sharp = (found["flags"] & SHARP) != 0
    assert sharp[near >= 15].mean() > 0.9
    assert not sharp[near < 15].any()
    report = result.report(None)
    assert 15 <= report["candidates"] <= 17
    assert report["sharp_limit"] == result.sharp_limit


def test_dark_defects_do_not_raise_the_threshold():
    clean, dead = searched(None)[0], searched(hot, -1)[0]
    assert dead.threshold == pytest.approx(clean.threshold, abs=0.3)
    assert dead.negatives.shape[1] == 3
    assert dead.negatives[:, 2].max() < 6


@pytest.mark.parametrize(("fwhm", "kept"), [(2.0, 0.9), (3.0, 1.0), (6.0, 1.0)])
def test_spots_of_2_px_and_more_are_kept(fwhm, kept):
    _, found, near = searched(hot, fwhm=fwhm)
    spots = found[near < 15]
    assert len(spots) >= 15
    assert ((spots["flags"] & SHARP) == 0).mean() >= kept


def test_the_limit_follows_the_spots_and_not_the_defects():
    ratios = np.full(100, 10.0, np.float32)
    wide = np.r_[np.full(30, 0.85), np.full(70, 0.05)].astype(np.float32)
    assert choose_limit(ratios, wide) == len(LIMITS) - 1
    assert choose_limit(ratios, np.full(100, 0.5, np.float32)) == 0
    assert choose_limit(ratios[:3], wide[:3]) == USUAL
