"""Places whose cells depart together from the line of all others."""

from __future__ import annotations

import numpy as np
import pytest

from unglow.photometry.cell_moments import CellMoments
from unglow.photometry.gain.robust import find_outlying_cells

GAIN, OFFSET, SIDE = 1.3, 4.0, 256


@pytest.fixture
def bins() -> CellMoments:
    """A lattice of cells with texture and noise, on the line."""
    rng = np.random.default_rng(3)
    made = CellMoments.create((4 * SIDE, 4 * SIDE), (255.0, 255.0))
    pre = rng.uniform(5, 60, made.count.shape)
    noise = rng.normal(0, 1 + pre / 60, pre.shape)
    made.count[:] = 16
    made.pre[:] = pre
    made.post[:] = GAIN * pre + OFFSET + noise
    made.pre_var[:] = rng.gamma(2, 4, pre.shape)
    made.cov[:] = GAIN * made.pre_var + rng.normal(0, 2, pre.shape)
    return made


def _disk(radius: float) -> np.ndarray:
    rows, cols = np.ogrid[:SIDE, :SIDE]
    return np.hypot(rows - 100, cols - 140) <= radius


def test_finds_nothing_in_noise(bins: CellMoments) -> None:
    assert not find_outlying_cells(bins, GAIN, OFFSET).any()


def test_finds_nothing_in_scattered_stain(bins: CellMoments) -> None:
    stained = np.random.default_rng(4).random(bins.post.shape) < 0.1
    bins.post[stained] += 40
    assert not find_outlying_cells(bins, GAIN, OFFSET).any()


@pytest.mark.parametrize(("change", "radius"), [(0.97, 40), (0.7, 40), (1.03, 40), (0.0, 30)])
def test_finds_a_place_and_little_else(bins: CellMoments, change: float, radius: float) -> None:
    place = _disk(radius)
    bins.post[place] *= change
    found = find_outlying_cells(bins, GAIN, OFFSET)
    assert found[place].mean() > 0.99
    # blocks are 16 cells wide, and their neighbours are taken as well
    assert not found[~_disk(radius + 2 * 16 * 1.5)].any()


def test_finds_a_place_without_the_texture_of_pre(bins: CellMoments) -> None:
    place = _disk(40)
    bins.cov[place] *= 0.6
    assert find_outlying_cells(bins, GAIN, OFFSET)[place].mean() > 0.99
    bins.cov[place] *= 1.4 / 0.6  # sharper than elsewhere is no fault
    assert not find_outlying_cells(bins, GAIN, OFFSET).any()


def test_light_that_changes_over_the_frame_is_no_place(bins: CellMoments) -> None:
    light = np.linspace(0.8, 1.2, SIDE)[:, None]
    bins.post[:] = (bins.post - OFFSET) * light + OFFSET
    assert not find_outlying_cells(bins, GAIN, OFFSET).any()
    bins.post[_disk(40)] *= 0.9
    assert find_outlying_cells(bins, GAIN * light, OFFSET)[_disk(40)].mean() > 0.99


def test_leaves_out_nothing_where_no_part_is_the_odd_one(bins: CellMoments) -> None:
    bins.post[:, : SIDE * 2 // 5] *= 0.7
    assert not find_outlying_cells(bins, GAIN, OFFSET).any()


def test_cells_without_data_do_not_count(bins: CellMoments) -> None:
    bins.count[_disk(60)] = 0
    bins.post[_disk(60)] = np.nan
    assert not find_outlying_cells(bins, GAIN, OFFSET).any()


def test_too_few_cells_have_no_spread(bins: CellMoments) -> None:
    bins.count[2:] = 0
    assert not find_outlying_cells(bins, GAIN, OFFSET).any()
