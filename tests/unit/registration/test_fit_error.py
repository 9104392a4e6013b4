"""What a global map says of its own error, against maps fitted to blocks whose noise is known."""

from __future__ import annotations

import numpy as np
import pytest

from unglow.registration.models import fit_robust, residuals
from unglow.registration.phase_correlation import Matches, overlap_correlation
from unglow.registration.quality import fit_spread, map_error

SIZE = 256
MATRICES = {
    "translation": np.array([[1, 0, 40.0], [0, 1, -25.0], [0, 0, 1]]),
    "similarity": np.array([[1.02, -0.1, 40.0], [0.1, 1.02, -25.0], [0, 0, 1]]),
    "affine": np.array([[1.02, -0.1, 40.0], [0.08, 0.97, -25.0], [0, 0, 1]]),
    "homography": np.array([[1.02, -0.1, 40.0], [0.08, 0.97, -25.0], [2e-6, -1e-6, 1]]),
}


def grid(step, count=14):
    """Centres of square blocks, (count^2, 2)."""
    y, x = np.mgrid[0:count, 0:count] * float(step)
    return np.column_stack([x.ravel(), y.ravel()]) + 300.0


def mapped(matrix, points):
    return -residuals(matrix, points, np.zeros_like(points))


def noisy(matrix, post, noise):
    return Matches(post, mapped(matrix, post) + noise, np.full(len(post), 5.0))


def fitted(model, matches):
    return fit_robust(model, matches.post, matches.pre, np.ones(len(matches), bool))[0]


def drawn(model, draws, noise_of, step=2 * SIZE, size=SIZE):
    """True and said quantiles (draws, 2), and true and said mean squares (draws,) of maps."""
    post, everyone, rng = grid(step), np.ones(196, bool), np.random.default_rng(5)
    true, said, squares = [], [], []
    for _ in range(draws):
        matches = noisy(MATRICES[model], post, noise_of(rng, post))
        matrix = fitted(model, matches)
        off = np.hypot(*residuals(matrix, post, mapped(MATRICES[model], post)).T)
        arguments = (model, matches, everyone, everyone, matrix, post, size)
        error = map_error(*arguments)
        quantiles = error.quantiles
        true.append(np.quantile(off, (0.5, 0.95)))
        said.append((quantiles.median, quantiles.p95))
        squares.append(((off**2).mean(), (error.lengths**2).mean()))
    return np.array(true), np.array(said), np.array(squares).T


def white(rng, post):
    return rng.normal(0, 0.05, post.shape)


@pytest.mark.parametrize("model", MATRICES)
def test_the_mean_square_is_that_of_least_squares_with_so_many_numbers(model):
    """For Tukey's biweight it is 1 / 0.95 times as large."""
    _, _, (_, expected) = drawn(model, 20, white)
    numbers = {"translation": 2, "similarity": 4, "affine": 6, "homography": 8}[model]
    assert expected.mean() == pytest.approx(numbers * 0.05**2 / 196 / 0.95, rel=0.1)


def test_half_of_all_maps_are_better_than_the_typical_one():
    true, said, (off, expected) = drawn("affine", 60, white)
    assert np.median(true, axis=0) == pytest.approx(np.median(said, axis=0), rel=0.15)
    assert expected.mean() == pytest.approx(off.mean(), rel=0.2)


def test_noise_that_is_larger_on_one_side_counts_there():
    def uneven(rng, post):
        return white(rng, post) * np.where(post[:, :1] > post[:, 0].mean(), 1.5, 0.7)

    true, said, _ = drawn("affine", 50, uneven)
    assert np.median(true, axis=0) == pytest.approx(np.median(said, axis=0), rel=0.2)


def test_noise_that_overlapping_blocks_share_is_noise_and_no_misfit():
    """The taper of blocks half a side apart, four times as strong as in truth."""
    step = 0.3 * SIZE
    post = grid(step)
    shared = overlap_correlation((post[:, None] - post[None]) / SIZE)
    root = np.linalg.cholesky(shared + 1e-9 * np.eye(len(post)))

    def smeared(rng, post):
        return root @ white(rng, post)

    true, said, _ = drawn("affine", 50, smeared, step)
    assert np.median(true, axis=0) == pytest.approx(np.median(said, axis=0), rel=0.2)
    _, blind, _ = drawn("affine", 20, smeared, step, size=0)
    assert np.median(blind[:, 1]) > 1.3 * np.median(said[:, 1])  # mistaken for a misfit


def test_blocks_half_a_side_apart_share_three_seventieths_of_their_noise():
    apart = np.array([[0, 0], [0.5, 0], [0.5, -0.5], [1, 0], [0, 1.2], [np.nan, 0]])
    expected = [1, 3 / 70, (3 / 70) ** 2, 0, 0, 0]
    np.testing.assert_allclose(overlap_correlation(apart), expected, atol=2e-4)


def test_a_misfit_counts_and_chance_does_not():
    post, everyone, rng = grid(2 * SIZE), np.ones(196, bool), np.random.default_rng(6)
    wave = 0.2 * np.sin(post[:, :1] / 1500) * np.array([[1.0, 0.0]])
    misfits = []
    for off in (0.0, wave):
        for _ in range(20):
            matches = noisy(np.eye(3), post, white(rng, post) + off)
            matrix = fitted("affine", matches)
            error = map_error("affine", matches, everyone, everyone, matrix, post, SIZE)
            misfits.append(np.sqrt(error.misfit.mean()))
    assert np.count_nonzero(misfits[:20]) <= 2
    true = np.sqrt((residuals(matrix, post, post + wave) ** 2).sum(axis=1).mean())
    assert np.mean(misfits[20:]) == pytest.approx(true, rel=0.25)


@pytest.mark.parametrize(("peak_ratio", "counts"), [(1.6, False), (5.0, True)])
def test_blocks_that_disagree_count_from_a_clear_peak_on(peak_ratio, counts):
    post, rng = grid(SIZE), np.random.default_rng(7)
    corner = (post < post.min() + 4 * SIZE).all(axis=1)
    noise = np.where(corner[:, None], rng.uniform(-6, 6, post.shape), 4 * white(rng, post))
    matches = Matches(post, post + noise, np.where(corner, peak_ratio, 5.0))
    given = "translation", matches, ~corner, ~corner, np.eye(3), post[corner], SIZE
    heard, selected = (map_error(*given, least).lengths.min() for least in (0.0, 1.0))
    assert heard > 1
    assert (selected > 1) == counts


def test_a_map_that_hangs_on_three_blocks_has_an_unknown_error():
    post = grid(SIZE)[[0, 5, 30]]
    matches = noisy(np.eye(3), post, np.zeros_like(post))
    everyone = np.ones(3, bool)
    assert fit_spread("affine", matches, np.eye(3), post, SIZE) is None
    error = map_error("affine", matches, everyone, everyone, np.eye(3), post)
    assert np.isinf(error.lengths).all()
    assert error.quantiles.p95 == np.inf
