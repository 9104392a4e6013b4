"""Gains of several backgrounds that are known, among cells and glass, and similar ones."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from unglow.photometry.gain import several

SIDE, OFFSET, NOISE = 256, -30.0, 4.0
SHAPE = (SIDE, SIDE)


def scene(gains, cover, *, similar=0.0, glass=0.0, seed=0, noise_of_backgrounds=1.0):
    """Return backgrounds (N, K), marker (N,), noise and places of cells; ``cover`` have signal."""
    random = np.random.default_rng(seed)
    made = []
    for n in range(len(gains)):
        fine = gaussian_filter(random.normal(size=SHAPE), 2 + 2 * n)
        made.append(600 + 150 * fine / fine.std())
    made = [made[0], *((1 - similar) * one + similar * made[0] for one in made[1:])]
    outside = np.indices(SHAPE)[1] < glass * SIDE
    made = [np.where(outside, 100.0, one) for one in made]
    signal = np.where(random.random(SHAPE) < cover, random.exponential(600, SHAPE) + 12, 0)
    noise = NOISE * np.where(outside, 0.1, 1.0)
    light = sum(g * one for g, one in zip(gains, made, strict=True))
    post = light + OFFSET + signal + random.normal(0, 1, SHAPE) * noise
    seen = [one + random.normal(0, noise_of_backgrounds, SHAPE) for one in made]
    y, x = np.indices(SHAPE)
    xy = np.column_stack([x.ravel(), y.ravel()]) * 4.0
    variances = np.full(len(gains), noise_of_backgrounds**2)
    return np.stack([one.ravel() for one in seen], 1), post.ravel(), variances, xy


@pytest.mark.parametrize("gains", [(0.9, 0.6), (1.5, 0.0), (0.5, 0.3, 0.7)])
@pytest.mark.parametrize(("cover", "glass"), [(0.05, 0.0), (0.4, 0.0), (0.2, 0.3)])
def test_gains_and_offset_are_found_among_cells(gains, cover, glass):
    found = several.fit(*scene(gains, cover, glass=glass))
    np.testing.assert_allclose(found.gains, gains, atol=0.006)
    assert (found.gains >= 0).all()
    assert (np.abs(found.gains - gains) <= found.gain_halves).all()
    backgrounds, post, _, _ = scene(gains, 0.0, glass=glass)
    level = post - backgrounds @ found.gains - found.offset
    assert abs(level.mean()) < 0.02 * 3 * 4 * NOISE  # of an object with S/N 3 in single px
    assert not found.are_similar


@pytest.mark.parametrize("cover", [0.05, 0.2, 0.4])
def test_cells_of_a_signal_to_noise_ratio_of_3_are_not_biased(cover):
    bias = []
    for seed in range(3):
        backgrounds, post, noise, xy = scene((0.9, 0.6), 0.0, seed=seed)
        signal = np.where(np.random.default_rng(seed).random(len(post)) < cover, 12 * NOISE, 0)
        found = several.fit(backgrounds, post + signal, noise, xy)
        left = post - backgrounds @ found.gains - found.offset
        bias.append(left.mean() / (12 * NOISE))
        assert abs(left.mean()) < found.offset_half + 0.2
    assert np.abs(bias).max() < 0.006


def test_faint_flanks_next_to_bright_ones_move_the_line_less(monkeypatch):
    errors = {0.85: [], np.inf: []}
    for seed in range(2):
        backgrounds, post, noise, xy = scene((0.9, 0.6), 0.0, seed=seed)
        at = np.random.default_rng(seed + 9).random(SHAPE) < 0.002
        signal = gaussian_filter(np.where(at, 8000.0, 0), 3).ravel()  # 140 at most of one cell
        for part, of_part in errors.items():
            monkeypatch.setattr(several, "_CALM_PART", part)
            found = several.fit(backgrounds, post + signal, noise, xy)
            off = found.gains - (0.9, 0.6)
            assert (np.abs(off) <= found.gain_halves).all()
            assert (found.gain_halves < 0.001).all() == (part < 1)
            lift = (backgrounds @ off).mean() + found.offset - OFFSET
            of_part.append([*np.abs(off), lift])
    calm, every = (np.mean(one, axis=0) for one in errors.values())
    assert calm[:2].sum() < 0.7 * every[:2].sum()
    assert calm[2] < 0.7 * every[2]


def test_noise_in_the_backgrounds_does_not_pull_the_gains():
    found = several.fit(*scene((0.9, 0.6), 0.1, similar=0.8, noise_of_backgrounds=8.0))
    assert 0.02 < found.noise_shares[1] < 0.2
    np.testing.assert_allclose(found.gains, (0.9, 0.6), atol=0.02)


def test_backgrounds_that_are_similar_are_known_together_alone():
    backgrounds, post, noise, xy = scene((0.9, 0.6), 0.1, similar=0.99, noise_of_backgrounds=8.0)
    found = several.fit(backgrounds, post, noise, xy)
    assert found.are_similar
    assert found.condition > 10
    middle = backgrounds.mean(axis=0)
    assert found.total == pytest.approx(middle @ (0.9, 0.6), rel=0.1)
    assert abs(np.median(post - backgrounds @ found.gains - found.offset)) < NOISE
    assert (np.abs(found.gains - (0.9, 0.6)) <= found.gain_halves).all()


def test_what_cannot_be_fitted_is_reported():
    backgrounds, post, noise, xy = scene((0.9, 0.6), 0.1)
    with pytest.raises(ValueError, match="only 100 cells"):
        several.fit(backgrounds[:100], post[:100], noise, xy[:100])
    with pytest.raises(ValueError, match="too little texture"):
        several.fit(backgrounds * 0 + 5, post, noise, xy)
