"""The line through cells that are made by hand, and cells that are left out of it."""

from __future__ import annotations

import math
from dataclasses import fields, replace

import numpy as np
import pytest
from scipy.special import ndtri

from unglow.photometry.cell_moments import CellMoments
from unglow.photometry.cells import Cells
from unglow.photometry.gain import linear
from unglow.photometry.gain.robust import FEEDBACK, Limits, State, find_outlying_cells
from unglow.photometry.imaging import NoiseModel

WHITE = 15 / 16
LIMITS = Limits(0.0, 255.0, 255.0, 1.0)
NO_TEXTURE = r"^pre has too little texture .*: its brightness"
LINE = np.linspace(20, 90, 1000)


def cells_of(pre, post, **more):
    """Cells without texture whose pixels have a variance of 1; ``more`` says what differs."""
    count = len(pre)
    values = {
        "pre_var": WHITE, "post_var": WHITE, "cov": 0.0, "gradient": 1.0, "pre_within": WHITE,
        "pre_mean": 1 / 16, "pre_scatter": 0.0, "pre_slope": 0.0, "post_within": WHITE,
        "post_mean": 1 / 16,
    } | more  # fmt: skip
    columns = {name: np.broadcast_to(float(v), count) for name, v in values.items()}
    xy = np.stack([np.arange(count) % 64, np.arange(count) // 64], axis=1) * 4 + 1.5
    return Cells(np.asarray(pre, float), np.asarray(post, float), **columns, xy=xy)


def normal(count, step):
    """As good as normal noise, and the same on every machine: no two of ``step`` go together."""
    return ndtri((np.arange(count) * step + 0.5) % 1)


def noisy(count=2000, gain=1.3, offset=4.0, stained=8, stain=30):
    """Cells of a line with noise, one of some stained, and texture within each."""
    light = 20 + 80 * ((np.arange(count) * 0.7548776662466927) % 1)
    pre = light + 0.5 * normal(count, 0.6180339887498949)
    post = gain * light + offset + 0.6 * normal(count, 0.4142135623730950)
    post[::stained] += stain
    texture = 3.0
    return cells_of(
        pre, post, pre_var=4.0 * WHITE + texture, post_var=5.76 * WHITE + gain**2 * texture,
        cov=gain * texture, gradient=9.0,
    )  # fmt: skip


def state_with(level, residual, *, gain=2.0, gradient=0.0):
    """A state in which each residual has a standard deviation of 2."""
    ones = np.ones(len(level))
    return State(
        gain * ones, 0 * ones, gradient * ones, 0 * ones, np.asarray(level, float),
        np.asarray(residual, float), 2 * ones,
    )  # fmt: skip


def test_the_numbers_of_a_fit_stay():
    """Where they change, results do: the ``version`` of the stage has to be raised."""
    cells = noisy(8000, stained=4, stain=100)
    of_stain = np.where(np.arange(len(cells)) % 4 == 0, 20.0, cells.post_var)
    steep = 9 + 200 * normal(len(cells), 0.8191725133961645) ** 2
    off = 0.1 * np.sqrt(steep) * normal(len(cells), 0.6710436067037893)  # errors of the map
    cells = replace(cells, gradient=steep, post=cells.post + off, post_var=of_stain)
    found = linear.fit(cells, LIMITS)
    half = found.half
    values = (found.gain, found.offset, found.spread, found.registration, half.gain, half.offset,
              half.gain_systematic, half.offset_systematic, found.noise.post_read,
              found.noise.pre_read)  # fmt: skip
    expected = (1.2996538124, 4.0224275987, 0.95494717128, 0.0064425942894, 0.00089413497319,
                0.046444155831, 0.00067205994851, 0.040543812795, 6.0266995458,
                4.1831563988)  # fmt: skip
    assert values == pytest.approx(expected, rel=1e-9)


def test_cells_on_a_line_give_it_whatever_their_order():
    found = linear.fit(cells_of(LINE, 0.8 * LINE + 7), LIMITS)
    assert (found.gain, found.offset) == pytest.approx((0.8, 7), abs=1e-3)
    back = linear.fit(cells_of(LINE[::-1], 0.8 * LINE[::-1] + 7), LIMITS)
    assert (back.gain, back.offset) == pytest.approx((found.gain, found.offset), rel=1e-9)


def test_cells_that_differ_by_noise_alone_give_no_gain():
    flat = 50 + normal(1000, 0.6180339887498949)
    with pytest.raises(ValueError, match=NO_TEXTURE):
        linear.fit(cells_of(flat, 1.3 * flat, pre_var=16 * WHITE), LIMITS)


def test_two_hundred_cells_are_needed():
    pre = np.repeat(np.linspace(20, 90, 10), 20)
    assert linear.fit(cells_of(pre, pre + 5), LIMITS).gain == pytest.approx(1, abs=1e-3)
    with pytest.raises(ValueError, match=r"^only 199 cells of 4 x 4 px .*, 200 are needed$"):
        linear.fit(cells_of(pre[1:], pre[1:] + 5), LIMITS)


@pytest.mark.parametrize(("deviation", "textured"), [(2.82, False), (2.84, True)])
def test_means_have_to_vary_twice_as_much_as_by_noise(deviation, textured):
    # px have a variance of 8, of which 0.75 are left within a cell and 0.5 in its mean: 4
    pre = 50 + deviation * np.resize([-1.0, 1.0], 300)
    cells = cells_of(pre, pre, pre_var=6.0, pre_within=0.75, pre_mean=0.5)
    few = np.array(cells.pre_var)
    few[:100] = 1000  # the median does not mind
    assert linear._is_textured(replace(cells, pre_var=few)) is textured


def select(state, chosen):
    return State(*(getattr(state, f.name)[chosen] for f in fields(state)))


def in_regions(side, residuals):
    """Two cells in each region, of level 40 and 60 and pre 41 and 65, and their residuals."""
    places = np.stack(np.meshgrid(np.arange(side), np.arange(side)), axis=-1).reshape(-1, 2)
    count = len(places)
    cells = replace(
        cells_of(np.tile([41.0, 65], count), np.zeros(2 * count)), xy=np.repeat(places * 10.0, 2, 0)
    )
    return cells, state_with(np.tile([40.0, 60], count), residuals, gradient=40.0)


@pytest.mark.parametrize(
    ("side", "terms", "factor"),
    [
        (4, 2, 2.131 * math.sqrt(16 / 15)),
        (4, 9, 2.306 * math.sqrt(16 / 8)),  # seven terms more
        (1, 2, 12.71),
        (2, 3, 4.303 * math.sqrt(4 / 2)),
        (5, 2, 2.131 * math.sqrt(25 / 24)),  # the table ends with 15 degrees of freedom
    ],
)
def test_few_regions_make_the_intervals_wider(side, terms, factor):
    ones = np.ones(2 * side**2)
    many = np.tile(np.arange(len(ones)), 64)
    cells, state = in_regions(side, np.tile([-1.0, 1], side**2))
    cells, state = cells.select(many), select(state, many)
    noise, how = NoiseModel(0.0, 0.0, 0.0, 0.0, 1e-6), {"across_side": side, "terms": terms}
    found = linear.half_widths(cells, state, ones[many], 1.0, 0.0, noise, LIMITS, **how)
    # each region has a slope of 20 over 240 in it, and all of them add up as squares do
    assert found.gain == pytest.approx(factor * FEEDBACK * 20 / 240 / side, rel=1e-9)


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


def test_finds_nothing_in_noise_nor_where_all_blocks_differ(bins: CellMoments) -> None:
    assert not find_outlying_cells(bins, GAIN, OFFSET).any()
    bins.post += np.kron(np.random.default_rng(6).normal(0, 0.1, (16, 16)), np.ones((16, 16)))
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
