"""The line through cells, step by step: cells and states by hand, results by hand."""

from __future__ import annotations

import math
from dataclasses import fields, replace

import numpy as np
import pytest
from scipy.special import ndtri

from unglow.photometry.cell_moments import CellMoments
from unglow.photometry.cells import Cells
from unglow.photometry.gain import linear
from unglow.photometry.gain.robust import (
    FEEDBACK,
    LEVELS,
    Limits,
    State,
    compute_steps,
    estimate_noise,
    find_outlying_cells,
)
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


def test_noise_at_each_level_is_that_of_medians_taken_group_by_group():
    random = np.random.default_rng(6)
    light = random.gamma(2, 25, 3000)
    texture = random.exponential(5, 3000)
    own = (1 + light / 10) * random.chisquare(15, (2, 3000)) / 15 * WHITE
    gradient = np.rint(texture)  # many are equal
    cells = replace(
        cells_of(light, 1.3 * light, pre_var=WHITE, post_var=WHITE),
        pre_var=own[0] + texture, post_var=own[1] + 1.69 * texture, cov=1.3 * texture,
        gradient=gradient,
    )  # fmt: skip
    steps = compute_steps(light)
    rows = []
    for group in (steps == n for n in range(LEVELS)):
        if group.sum() < 60:
            continue
        even = group & (gradient <= np.median(gradient[group]))
        each = np.median(light[even]), np.median((own[0] / WHITE)[even]) / 0.956
        rows.append((*each, even.sum() / each[1] ** 2))
    level, variance, weight = np.array(rows).T
    slope, start = np.polyfit(level, variance, 1, w=np.sqrt(weight))
    noise = estimate_noise(cells, np.ones(3000, bool), 1.3, LIMITS)
    assert 3 < len(rows) < LEVELS
    assert noise.pre_shot == pytest.approx(slope, rel=1e-9)
    assert noise.pre_read == pytest.approx(start, rel=1e-9)
    unknown = replace(cells, pre_var=np.where(np.arange(3000) == np.argmin(gradient), np.nan, 1.0))
    assert np.isnan(estimate_noise(unknown, np.ones(3000, bool), 1.3, LIMITS).pre_read)


def test_the_numbers_of_a_fit_stay():
    """Where they change, results do: the ``version`` of the stage has to be raised."""
    cells = noisy(8000, stained=4, stain=100)
    of_stain = np.where(np.arange(len(cells)) % 4 == 0, 20.0, cells.post_var)
    steep = 9 + 200 * normal(len(cells), 0.8191725133961645) ** 2
    off = 0.1 * np.sqrt(steep) * normal(len(cells), 0.6710436067037893)  # errors of the map
    cells = replace(cells, gradient=steep, post=cells.post + off, post_var=of_stain)
    found = linear.fit(cells, LIMITS)
    half = found.half
    values = (found.gain, found.offset, found.spread, found.registration, half.gain, half.offset)
    expected = (1.2996538124, 4.0224275987, 0.95494717128, 0.0064425942894, 0.00089413497319,
                0.046444155831)  # fmt: skip
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


def test_the_start_is_below_the_middle_of_each_step_of_brightness():
    # Ten places in each of 32 steps; at each level post is 0, 1, ..., 19 above the line.
    level = np.repeat(np.arange(32.0), 20) + 10
    above = np.tile(np.arange(20.0), 32)
    gain, offset = linear._start(cells_of(level, 2 * level + 5 + above))
    assert gain == pytest.approx(2, rel=1e-12)
    # of all, the quantile 0.35 of 0 ... 19
    assert offset == pytest.approx(5 + np.quantile(np.tile(above, 32), 0.35), abs=1e-9)


def test_slopes_weigh_by_distance_and_by_cells_up_to_two_hundred():
    def start(counts, levels=(0.0, 10.0, 31.0), heights=(0.0, 10.0, 73.0)):
        return linear._start(cells_of(np.repeat(levels, counts), np.repeat(heights, counts)))[0]

    # slopes: 1 over 10, 3 over 21, 73 / 31 over 31
    assert start((100, 100, 100)) == pytest.approx(73 / 31)
    # of 200 at most, those of the middle step weigh for the others: 1 has 10, 3 has 21 of it
    assert start((40, 4000, 40)) == pytest.approx(3)
    assert start((40, 4000, 40), (0.0, 21.0, 31.0), (0.0, 21.0, 51.0)) == pytest.approx(1)
    # 200 * 40 * (10 + 21) stand against 40 * 40 * 31
    assert start((200, 4000, 200)) == pytest.approx(73 / 31)


def test_a_step_leaves_no_residual_that_goes_with_the_level():
    pre, post = np.array([10.0, 30, 42, 80]), np.array([30.0, 55, 110, 170])
    level, weights = np.array([12.0, 31, 40, 77]), np.array([1.0, 0.5, 2, 0.25])
    state = state_with(level, np.zeros(4))
    gain, offset = linear._solve(cells_of(pre, post), state, weights)
    left = post - gain * pre - offset
    assert np.sum(weights * left) == pytest.approx(0, abs=1e-9)
    assert np.sum(weights * left * level) == pytest.approx(0, abs=1e-8)
    light = linear._solve(cells_of(pre, post), state, weights * 1e-9)
    assert light == pytest.approx((gain, offset), rel=1e-12)


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


NO_NOISE = NoiseModel(0.0, 0.0, 0.0, 0.0, 1e-6)


def halves(cells, state, weights, spread, registration, **more):
    return linear.half_widths(cells, state, weights, spread, registration, NO_NOISE, LIMITS, **more)


def test_by_chance_a_line_is_off_by_what_regions_differ():
    # In each of 15 regions both cells are off by a +- b; one more has no weight.
    a, b = np.arange(16.0) % 5 - 2, np.arange(16.0) % 3 - 1.5
    residuals = np.stack([a - b, a + b], axis=1).ravel()
    weights = np.repeat(np.where(np.arange(16) == 6, 0.0, 0.5), 2)
    # copies of the cells in their places, since weights need 50 below the line
    many = np.tile(np.arange(32), 8)
    cells, state = in_regions(4, residuals)
    cells, state = cells.select(many), select(state, many)
    found = halves(cells, state, weights[many], 1.5, 0.2)
    a, b = np.delete(a, 6), np.delete(b, 6)
    # 30 cells of weight 0.5, 10 off the mean level, 12 off the mean of pre, which is 53
    across = 30 * 0.5 * 10 * 12
    slopes = FEEDBACK * 0.5 * 2 * 10 * b / across
    heights = FEEDBACK * 0.5 * 2 * a / 15
    grown = 2.145 * math.sqrt(15 / 14)  # Student's t for 15 regions: 14 degrees of freedom
    assert found.gain == pytest.approx(grown * math.sqrt(np.sum(slopes**2)), rel=1e-9)
    offset = grown * math.sqrt(np.sum((heights - 53 * slopes) ** 2))
    assert found.offset == pytest.approx(offset, rel=1e-9)


def test_errors_of_the_map_make_a_line_uncertain_apart_from_chance():
    many = np.tile(np.arange(32), 4)
    cells, state = in_regions(4, np.zeros(32))
    cells, state = cells.select(many), select(state, many)
    found = halves(cells, state, np.full(128, 0.5), 1.0, 0.2)
    # errors of the map: 0.2 px^2 on squared gradients of 40, half of it in either image
    split = 0.2 * 32 * 0.5 * 40 / 2 / (32 * 0.5 * 10 * 12)
    assert found.gain_systematic == pytest.approx(2 * split, rel=1e-12)
    assert found.offset_systematic == pytest.approx(53 * found.gain_systematic, rel=1e-12)


def test_stain_just_above_the_limit_makes_a_line_as_uncertain_as_it_is_frequent():
    # every tenth cell is 3 standard deviations above the line, and every twentieth below it
    kinds = np.resize([3.0, *[0.0] * 9, 3.0, -3.0, *[0.0] * 8], 640)
    cells, state = in_regions(4, np.zeros(32))
    many = np.repeat(np.arange(32), 20)
    cells, state = cells.select(many), replace(select(state, many), residual=2 * kinds)
    weights = np.where(kinds == 0, 0.25, 0.0)
    found, none = (
        halves(cells, replace(state, residual=2 * z), weights, 1.0, 0.0) for z in (kinds, 0 * kinds)
    )
    # one standard deviation of all cells is 2 grey levels, and levels are 10 and 12 off their mean
    assert found.gain_systematic == pytest.approx(2.75 * 0.05 * 2 / math.sqrt(120), rel=1e-9)
    lifted = math.hypot(2.75 * 0.05 * 2, 53 * found.gain_systematic)
    assert found.offset_systematic == pytest.approx(lifted, rel=1e-9)
    assert none.gain_systematic == 0


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
    found = halves(cells, state, ones[many], 1.0, 0.0, across_side=side, terms=terms)
    # each region has a slope of 20 over 240 in it, and all of them add up as squares do
    assert found.gain == pytest.approx(factor * FEEDBACK * 20 / 240 / side, rel=1e-9)


def test_places_are_sorted_into_equal_squares_row_by_row():
    xy = np.array([[10.0, 5], [29.9, 5], [30.1, 5], [90, 5], [90, 204], [10, 206], [69.9, 104.9]])
    assert linear.regions_of(xy, 4).tolist() == [0, 0, 1, 3, 15, 12, 6]
    assert linear.regions_of(np.array([[7.0, 7.0], [7.0, 7.0]]), 4).tolist() == [0, 0]
    assert linear.regions_of(np.array([[0.0, 0.0], [0.5, 0.25]]), 4).tolist() == [0, 6]


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
