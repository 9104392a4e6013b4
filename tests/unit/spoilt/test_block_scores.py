"""Scores of blocks: normal numbers on good pairs, and what departs where something is wrong."""

import numpy as np
import pytest

from unglow.core.errors import StoreError
from unglow.spoilt.block_scores import SCORES, SHARES, BlockScores, score_strip

from .scenes import EXPECTED, SIDE, scene


@pytest.fixture(scope="module")
def good():
    return scene()


@pytest.mark.parametrize("name", SCORES[:-SHARES])
def test_of_a_good_pair_scores_are_normal_numbers(good, name):
    score = good.scores().select(name)
    assert score.shape == (32, 32)
    assert abs(np.median(score)) < 0.6
    assert 0.2 < 1.4826 * np.median(np.abs(score - np.median(score))) < 1.3
    assert np.abs(score - np.median(score)).max() < 5.5


def test_of_a_good_pair_nothing_is_lost(good):
    scores = good.scores()
    assert all(not scores.select(name).any() for name in SCORES[-SHARES:])


def test_a_block_is_the_same_in_any_strip(good):
    whole = good.scores().scores
    for rows in (64, 256):
        parts = BlockScores.create(good.post.shape)
        for top in range(0, SIDE, rows):
            at = slice(top, top + rows)
            for left in (0, 512):
                across = slice(left, left + 512)
                part = score_strip(good.post[at, across], good.left[at, across], EXPECTED)
                parts.store_part([part], (top, left))
        np.testing.assert_array_equal(parts.scores, whole)


def test_a_block_with_too_little_data_has_no_scores(good):
    left = good.left.copy()
    left[:32, :20] = np.nan  # 37 % of the first block is left
    left[:32, 32:42] = np.nan  # 69 % of the second
    found = score_strip(good.post, left, EXPECTED)
    assert np.isnan(found[0, 0, :-SHARES]).all()
    assert np.isfinite(found[0, 1]).all()


def test_blocks_at_the_end_are_cut_by_the_image(good):
    found = score_strip(good.post[:90, :85], good.left[:90, :85], EXPECTED)
    assert found.shape == (3, 3, len(SCORES))
    # 26 and 21 px of 32: 81 %, 66 % and 53 % of a block
    assert np.isfinite(found[:, :2]).all(axis=2).tolist() == [[True] * 2] * 3
    assert np.isnan(found[2, 2, 0])


def test_squares_of_blocks_are_put_together_in_units_of_their_scatter():
    fine = np.zeros((4, 4, len(SCORES)), np.float32)
    fine[:2, :2, 0] = 3.0
    fine[2:, 2:, 0] = np.nan
    fine[0, 0, -1] = 1.0
    found = BlockScores((128, 128), 64, np.full((2, 2, len(SCORES)), np.nan, np.float16))
    found.store_part([fine[:2], fine[2:]], (0, 0))
    assert found.select("level")[0, 0] == 6.0  # 4 times 3 over the root of 4
    assert np.isnan(found.select("level")[1, 1])
    assert found.select("below")[0, 0] == 0.25  # a share stays one


def test_large_images_have_larger_blocks():
    assert BlockScores.create((2048, 2048)).side == 32
    assert BlockScores.create((30000, 25000)).side == 32
    assert BlockScores.create((64000, 70000)).side == 128


def test_scores_are_kept_in_a_file_and_damage_is_reported(good, tmp_path):
    path = tmp_path / "blocks.npz"
    scores = good.scores()
    scores.save(path)
    np.testing.assert_array_equal(BlockScores.load(path).scores, scores.scores)
    BlockScores((512, 512), 32, scores.scores[:16, :16]).save(path)
    assert BlockScores.load(path).shape == (512, 512)
    wrong = BlockScores((512, 512), 32, scores.scores[:16, :16])
    wrong.shape = (1024, 512)
    wrong.save(path)
    with pytest.raises(StoreError, match=r"blocks\.npz"):
        BlockScores.load(path)


def test_what_is_as_dark_as_glass_shows_no_structures(good):
    random = np.random.default_rng(5)
    post = random.normal(5, 1.2, (64, 64)).astype(np.float32)
    found = score_strip(post, (post - 5).astype(np.float32), EXPECTED)
    structures = [SCORES.index(name) for name in ("slope", "shift_x", "shift_y", "focus")]
    assert np.isnan(found[..., structures]).all()
    assert np.isfinite(found[..., : structures[0]]).all()
