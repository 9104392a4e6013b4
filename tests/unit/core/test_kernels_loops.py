"""Each compiled loop in every build, on what could hurt it: as plain numpy has it, bit for bit.

What only needs to be the same in every build is compared with the first one.
"""

from __future__ import annotations

import os
import platform

import numpy as np
import plain_loops as plain
import pytest
from scipy import ndimage

from unglow.core import kernels
from unglow.core.kernels import building
from unglow.core.windows import Window, halve
from unglow.phantom import PhantomSpec
from unglow.phantom.render import Renderer

pytestmark = pytest.mark.filterwarnings("ignore:invalid value", "ignore:overflow", "ignore:divide")
f4 = np.float32
RNG = np.random.default_rng(11)
START = RNG.bit_generator.state
HOSTILE = [np.nan, np.inf, -np.inf, -0.0, 1e300, -1e300, 5e-324]
BUILDS = list(building.levels(platform.machine()))
#: The one for this processor is chosen, unless another one is named.
OTHERS = [b for b in BUILDS if kernels.CHOICE in os.environ or b != kernels.level()]
FOUND: dict = {}


def has(build):
    return BUILDS.index(build) <= BUILDS.index(kernels.level())


@pytest.fixture(params=["chosen", *OTHERS])
def loop(request, monkeypatch):
    """Gives the loops of one build: the one that is used here, and every one that can run."""
    RNG.bit_generator.state = START  # each gets the same numbers
    if request.param != "chosen":
        if not has(request.param):
            pytest.skip(f"this processor is not of the level {request.param}")
        path = building.SOURCES / building.file_name(request.param)
        monkeypatch.setenv(kernels.CHOICE, str(path))
    plain.forget_library()
    yield kernels.kernel
    plain.forget_library()


def same(found, expected):
    """NaN in the same places, and all other numbers the same bits (0 and -0 are one)."""
    np.testing.assert_array_equal(found, expected)


def same_in_every_build(found, *of):
    same(found, FOUND.setdefault(of, np.copy(found)))


def spoiled(array, share=0.02):
    """Put numbers into an array that nobody expects."""
    with np.errstate(over="ignore"):
        bad = np.array(HOSTILE).astype(array.dtype)
    out = array.copy()
    hit = RNG.random(array.shape) < share
    out[hit] = RNG.choice(bad, np.count_nonzero(hit))
    return out


MATRIX = np.array([[1.01, -0.05, 7.3], [0.04, 0.98, -3.1], [0.0, 0.0, 1.0]])
TILTED = MATRIX + np.array([[0, 0, 0], [0, 0, 0], [2e-3, -4e-2, 0]])
KNOTS = np.random.default_rng(5).uniform(-3, 3, (2, 6, 5))
SEAMS = {"seams": (9.5, 20.0), "offsets": ((0, 0), (0.7, -0.4), (0.1, 0.3))}
MAPS = {
    "matrix": plain.Map(MATRIX),
    "perspective": plain.Map(TILTED),
    "field": plain.Map(MATRIX, KNOTS, 10),
    "strips of pre": plain.Map(MATRIX, KNOTS, 10, **SEAMS, axis=1, of_pre=1),
    "strips of post": plain.Map(MATRIX, **SEAMS),
    "rows of post": plain.Map(TILTED, **SEAMS, axis=1),
    "nowhere": plain.Map(np.array([[np.nan, 0, 0], [0, np.inf, 0], [0, 0, 1.0]])),
    "far away": plain.Map(np.array([[1, 0, 1e300], [0, 1, -1e18], [0, 0, 1.0]])),
}


@pytest.mark.parametrize("name", MAPS)
def test_resampling(loop, name):
    known, corner, shape, pre_shape = MAPS[name], (-7, -9), (36, 45), (33, 40)
    source = spoiled(RNG.normal(100, 30, pre_shape).astype(f4), 0.005)
    wide = np.full((shape[0], shape[1] + 8), -1, f4)
    out, room = wide[:, 3:-5], np.empty((2, shape[1]))
    arguments = *pre_shape, 0, 0, *pre_shape, *known.arguments(), *corner
    loop("catmull_rom")(source, *arguments, out, *shape, wide.shape[1], room)
    same(out, plain.catmull_rom(source, (0, 0), pre_shape, known, corner, shape))
    assert (wide[:, :3] == -1).all()
    assert (wide[:, -5:] == -1).all()
    if name == "nowhere":
        assert np.isnan(out).all()


def test_resampling_from_a_part_of_pre_and_of_images_of_a_few_px(loop):
    known, room = plain.Map(np.array([[1, 0, 0.25], [0, 1, -0.4], [0, 0, 1.0]])), np.empty((2, 9))
    for pre_shape in ((1, 1), (1, 7), (2, 2), (3, 9)):
        pre, out = RNG.normal(size=pre_shape).astype(f4), np.empty((5, 9), f4)
        arguments = *pre_shape, 0, 0, *pre_shape, *known.arguments(), -1, -1
        loop("catmull_rom")(pre, *arguments, out, 5, 9, 9, room)
        same(out, plain.catmull_rom(pre, (0, 0), pre_shape, known, (-1, -1), (5, 9)))
    pre = RNG.normal(size=(40, 50)).astype(f4)
    part, out = np.ascontiguousarray(pre[8:24, 10:30]), np.empty((9, 8), f4)
    arguments = *part.shape, 8, 10, *pre.shape, *known.arguments(), 11, 14
    loop("catmull_rom")(part, *arguments, out, *out.shape, 8, room)
    same(out, plain.catmull_rom(pre, (0, 0), pre.shape, known, (11, 14), out.shape))
    loop("catmull_rom")(part, *arguments, out[:0], 0, 8, 8, room)


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (16, 16), (64, 64)])
@pytest.mark.parametrize("kind", ["counts", "missing", "hostile", "flat", "nothing"])
def test_compressed_blocks(loop, shape, kind):
    values = RNG.poisson(60, shape).astype(f4)
    values[RNG.random(shape) < 0.02] *= 40
    if kind == "missing":
        values[RNG.random(shape) < 0.2] = np.nan
    elif kind == "hostile":
        values = spoiled(values)
    elif kind != "counts":
        values[:] = 15.3 if kind == "flat" else np.nan
    arguments = 12.5, 3.0, 2, int(0.25 * values.size)
    expected, deviation = plain.compress(values, *arguments)
    out, found = values.copy(), np.empty(1)
    loop("compress")(out, out.size, *arguments, found)
    same_in_every_build(found, "compress", shape, kind)
    np.testing.assert_allclose(found, deviation, rtol=1e-6, atol=1e-6)
    if expected is not None:
        same_in_every_build(out, shape, kind)
        np.testing.assert_allclose(out, expected, rtol=1e-6)
    if kind in ("flat", "nothing"):
        assert found[0] == 0


def shift_arguments(size):
    edge = np.hanning(size + 2)[1:-1].astype(f4)
    radius = np.hypot(np.fft.fftfreq(size)[:, None], np.fft.rfftfreq(size))
    band = np.exp(-((radius / 0.3) ** 2)).astype(f4)
    roots = np.exp(2j * np.pi * np.arange(8 * size) / (8 * size)).astype("c8")
    return edge, band, roots, np.full(size * (7 * size // 2 + 56) + 1, 77.5, f4)


@pytest.mark.parametrize("size", [32, 64, 128, 256, 512])
@pytest.mark.parametrize("sign", [1, -1])
def test_shifts_of_blocks(loop, size, sign):
    edge, band, roots, room = shift_arguments(size)
    scene = ndimage.gaussian_filter(np.random.default_rng(size).normal(0, 50, (3 * size,) * 2), 1)
    post = (scene[20 : 20 + size, 30 : 30 + size] + 400).astype(f4)
    pre = (sign * 7e4 * scene[18 : 18 + size, 33 : 33 + size]).astype(f4)  # far brighter
    found = np.empty(3)
    loop("block_shift")(post, pre, size, edge, band, roots, 8, 5, sign, room, found)
    expected = plain.block_shift(post, pre, edge, band, 8, 5, sign)
    np.testing.assert_allclose(found, expected, atol=2e-3, rtol=2e-3)
    np.testing.assert_allclose(found[:2], (3, -2), atol=0.3)
    assert room[-1] == 77.5


@pytest.mark.parametrize("size", [32, 128])
def test_shifts_have_the_same_bits_in_every_build(loop, size):
    edge, band, roots, room = shift_arguments(size)
    noise = np.random.default_rng(size).normal(0, 50, (4, size, size)).astype(f4)
    cases = [(noise[0], noise[1]), (noise[2], noise[2]), (spoiled(noise[3]), noise[0])]
    cases += [(np.zeros_like(noise[0]), noise[0])]
    band, found = np.ones_like(band), np.empty((len(cases), 3))
    for one, (post, pre) in zip(found, cases, strict=True):
        loop("block_shift")(post, pre, size, edge, band, roots, 8, 5, 1, room, one)
    same_in_every_build(found, "block_shift", size)


@pytest.mark.parametrize("shape", [(4, 4), (5, 8), (9, 6)])
def test_spline_fits(loop, shape):
    """Points beyond the knots count at the outermost ones, and those that are nowhere do not."""
    padded, ends = (shape[0] + 6, shape[1] + 6), 10.0 * (np.array(shape[::-1]) - 3)

    def fitted(points, targets, weights):
        normal, numbers = np.zeros((7, 7, *shape)), np.array([3.0, 0.5, 1e-3, 1e-13])
        right, work, solution = (np.zeros((n, *padded)) for n in (2, 3, 2))
        arguments = points, targets, weights, len(points), 10, numbers, 5000
        loop("fit_spline")(*arguments, normal, right, work, solution, *shape)
        return solution

    points = RNG.uniform(-0.1, 1.1, (80, 2)) * ends
    points[:4] = [(0, 0), ends, (-1e300, np.inf), (np.nan, 3)]
    targets, weights = RNG.normal(size=(80, 2)), RNG.uniform(0, 2, 80)
    weights[::7] = 0
    points[7] = np.nan  # of weight 0
    found, used = fitted(points, targets, weights), (weights > 0) & ~np.isnan(points[:, 0])
    same(found, fitted(np.clip(points[used], 0, ends), targets[used], weights[used]))
    same_in_every_build(found, "fit_spline", shape)
    margin = np.ones(padded, bool)
    margin[3:-3, 3:-3] = False
    assert not found[:, margin].any()
    assert found[:, ~margin].all()


@pytest.mark.parametrize("count", [1, 2, 4, 9, 11])
@pytest.mark.parametrize("shape", [(70, 90), (1, 1), (0, 5), (5, 0)])
def test_filters(loop, count, shape):
    taps = RNG.normal(size=count).astype(f4)
    rows, cols = (n + count - 1 for n in shape)
    wide = spoiled(RNG.normal(100, 20, (rows, cols + 7)).astype(f4), 0.002)
    image = wide[:, 2 : 2 + cols]
    line, out = np.empty(cols, f4), np.empty(shape, f4)
    loop("filtered")(image, cols + 7, taps, count, line, out, *shape)
    same(out, plain.filtered(image, taps))


def apart(array, left=3, right=2):
    """The same numbers, in rows that lie apart."""
    wide = np.full((len(array), array.shape[1] + left + right), 7).astype(array.dtype)
    wide[:, left : left + array.shape[1]] = array
    return wide[:, left : left + array.shape[1]], wide.shape[1]


@pytest.mark.parametrize("shape", [(40, 53), (1, 1), (0, 5), (5, 0)])
@pytest.mark.parametrize("share", [0, 0.03])
def test_judging_px(loop, shape, share):
    post, pre = (spoiled(RNG.integers(0, 256, shape).astype(f4), share) for _ in range(2))
    left, background = (spoiled(RNG.normal(0, 9, shape).astype(f4), share) for _ in range(2))
    error = spoiled(RNG.uniform(0, 4, shape).astype(f4), share)
    limits, reasons = np.array([250, 240, 3], f4), np.full(shape, 9, "u1")
    expected = plain.judge(post, pre, left, background, error, limits)
    rest, stride = apart(left)
    arguments = *apart(post, 1), *apart(pre), rest, stride, *apart(background), *apart(error, 1)
    loop("judge")(*arguments, limits, reasons, *shape)
    same(reasons, expected[0])
    same(rest, expected[1])
    assert (rest.base[:, :3] == 7).all()
    assert (rest.base[:, -2:] == 7).all()
    image, out = apart(post), np.empty(shape, f4)
    loop("usable_px")(*image, *apart(reasons), out, *shape)
    same(out, np.where(reasons > 0, f4(0), post))
    if shape == (40, 53):
        assert set(np.unique(reasons)) == ({0, 1, 2, 3} if share else {0, 2, 3})


@pytest.mark.parametrize("count", [1, 2, 9, 70])
@pytest.mark.parametrize("shape", [(60, 300), (1, 1), (2, 64), (3, 65), (0, 5), (5, 0)])
@pytest.mark.parametrize("share", [0, 2e-4, 0.3, 1])
@pytest.mark.parametrize("least", [-np.inf, 0.5])
def test_shares_of_usable_px(loop, count, shape, share, least):
    taps = RNG.normal(size=count).astype(f4)
    wide = [n + count - 1 for n in shape]
    reasons = np.where(RNG.random(wide) < share, RNG.integers(1, 4, wide), 0).astype("u1")
    room = np.empty(63 + count, f4), np.empty(-(-wide[1] // 64), np.int64)
    out = np.empty(shape, f4)
    loop("usable_share")(*apart(reasons), taps, count, least, *room, out, *shape)
    same(out, plain.usable_share(reasons, taps, least))


@pytest.mark.parametrize("shape", [(40, 203), (9, 53), (1, 1), (3, 0), (0, 3)])
@pytest.mark.parametrize("share", [0, 3e-4, 0.01])
@pytest.mark.parametrize("level", [-1.0, 0.0, 2.0, 6.0])
@pytest.mark.parametrize("name", ["matrix", "field", "strips of pre"])
def test_significance(loop, shape, share, level, name):
    def image(low, high, margin=0):
        wide = [n + 2 * margin for n in shape]
        return spoiled(RNG.uniform(low, high, wide).astype(f4), share)

    signal, post, pre = 25 * image(-1, 1) ** 15, image(0, 250), image(0, 5, 3)
    weight, squares = image(0.5, 1, 3), image(-0.1, 1)
    gain, error = image(0.5, 2), image(0, 2)
    error[: shape[0] // 2] = f4(0.7)
    known, corner, block = MAPS[name], (-20, -5), 16
    tables = RNG.uniform(0.4, 1, (5, 14, 8, 8)).astype(f4)
    numbers = np.array([-9, 0.2, 1.5, 0.1, 1 / 12, 1.3, 0.05], f4)
    ratio, part = np.empty((2, *shape), f4)
    room = np.empty((2, shape[1])), np.empty((2, shape[1]), f4)
    arguments = (a for n in (weight, squares, gain, error) for a in apart(n))
    of_map = *known.arguments(), *corner, tables, *tables.shape[:3], block
    last = np.empty(-(-pre.shape[1] // 64), np.int64)
    loop("significance")(
        signal, post, pre, *arguments, *of_map, numbers, level, *room, last, ratio, part, *shape
    )
    factor = plain.phase_factor(known, corner, tables, block, shape)
    inner = tuple(slice(3, 3 + n) for n in shape)
    images = signal, post, pre[inner], weight[inner], squares, gain
    expected = plain.significance(*images, factor, plain.squared_shift(pre, error), numbers)
    # what is certainly below the level need not be right, but has to be below it
    below = np.abs(expected[0]) <= level
    assert (np.abs(ratio[below]) <= level).all()
    for found, right in zip((ratio, part), expected, strict=True):
        same(found[~below], right[~below])
    assert share or np.isfinite(ratio).all()
    if shape[0] == 40 and share < 0.01 and level > 0:
        assert (np.abs(ratio) != np.abs(expected[0])).mean() > 0.1
        assert (~below).any()


@pytest.mark.parametrize("shape", [(5, 7), (1, 6), (6, 1), (1, 1)])
def test_interpolation(loop, shape):
    values = spoiled(RNG.normal(size=shape).astype(f4), 0.1)
    at_row, at_col = (np.sort(RNG.integers(0, n, m)) for n, m in zip(shape, (21, 33), strict=True))
    down, across = RNG.random(21).astype(f4), RNG.random(33).astype(f4)
    line, out = np.empty(shape[1], f4), np.empty((21, 33), f4)
    loop("interpolate")(values, *shape, at_row, down, 21, at_col, across, 33, line, out)
    same(out, plain.interpolate(values, at_row, down, at_col, across))


@pytest.mark.parametrize("shape", [(83, 97), (1, 30), (30, 1), (0, 4), (4, 0)])
@pytest.mark.parametrize("level", [-9.0, 0.2, 1.0, 9.0, np.nan])
def test_components(loop, shape, level):
    image = spoiled(RNG.normal(size=shape).astype(f4))
    count = np.zeros(1, np.int64)
    loop("count_runs")(image, *shape, level, count)
    runs, labels = np.empty((count[0], 3), np.int32), np.empty(count[0], np.int32)
    loop("connect_runs")(image, *shape, level, runs, labels, count[0].item())
    expected, _ = ndimage.label(image > level, structure=np.ones((3, 3)))
    found = np.zeros(shape, int)
    for (row, first, stop), label in zip(runs, labels, strict=True):
        assert first < stop
        found[row, first:stop] = label + 1
    same(found, expected)
    moves, out = np.full((count[0], 2), (2, 5), np.int32), np.zeros((shape[0] + 3, shape[1] + 6))
    out = out.astype(f4)
    loop("copy_runs")(image, shape[1], runs, moves, len(runs), out, out.shape[1])
    same(out[2 : 2 + shape[0], 5 : 5 + shape[1]], np.where(image > level, image, 0))
    assert np.count_nonzero(out) <= np.count_nonzero(image > level)


@pytest.mark.parametrize("dtype", ["u1", "u2", "i2", "f4", "f8"])
@pytest.mark.parametrize("shape", [(20, 700), (1, 1), (0, 3), (3, 0)])
@pytest.mark.filterwarnings("ignore:divide", "ignore:invalid value", "ignore:overflow")
def test_counts(loop, dtype, shape):
    from unglow.photometry.joint_histogram import _ratio_table

    cells, edges = _ratio_table()
    post = RNG.integers(0, 256, shape).astype(dtype)
    if dtype[0] == "f":
        post = spoiled(post)
    pre = spoiled(RNG.integers(0, 200, shape).astype(f4))
    corner, bins, groups = np.array([250, 120, 128, 16]), 64, 16
    binning = np.array([-0.5, 0.25, 1.0, 255.0])
    sums = [np.zeros(s, np.int64) for s in ((bins, bins), bins, (groups, len(edges) + 1), 6)]
    joint, alone, ratios, counters = sums
    extremes = np.array([np.inf, 0.0])
    arguments = post, kernels.pixel_type(post.dtype), pre, *shape, corner, binning, cells, edges
    into = joint, bins, alone, ratios, groups, counters, extremes
    loop("count_pairs")(*arguments, len(edges), *into)
    expected = plain.count_pairs(post, pre, corner, binning, edges, bins, groups)
    for found, known in zip((joint, alone, ratios, counters, extremes), expected, strict=True):
        same(found, known)
    assert joint.sum() == counters[1]
    assert ratios.sum() == counters[4]


@pytest.mark.parametrize("step", [0, 1 / 32, 0.5])
@pytest.mark.parametrize(("rows", "cols"), [(1, 1), (5, 67)])
def test_differences(loop, step, rows, cols):
    post, pre = (spoiled(RNG.normal(90, 30, (rows, cols + more)).astype(f4)) for more in (2, 5))
    out = np.empty((rows, cols), f4)
    gain, offset = 1.2345, -0.678
    images = post[:, :cols], post.shape[1], pre[:, :cols], pre.shape[1]
    loop("subtract_line")(*images, gain, offset, step, out, rows, cols)
    expected = post[:, :cols] - (pre[:, :cols] * f4(gain) + f4(offset))
    same(out, np.rint(expected * f4(1 / step)) * f4(step) if step else expected)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int16, f4])
@pytest.mark.parametrize("shape", [(2, 2), (3, 37), (64, 66), (65, 31)])
def test_halved(loop, dtype, shape):
    if dtype is f4:
        image = RNG.normal(0, 1e3, shape).astype(f4)
        image[RNG.random(shape) < 0.2] = np.nan
        image[:4, :6] = np.nan
        expected = halve(image)
    else:
        ends = np.iinfo(dtype)
        image = RNG.integers(ends.min, ends.max, shape, dtype, endpoint=True)
        expected = np.rint(halve(image)).astype(dtype)
    room = np.zeros((shape[0], shape[1] + 3), dtype)
    room[:, : shape[1]] = image
    out = np.empty(expected.shape, dtype)
    kind = kernels.pixel_type(np.dtype(dtype))
    loop("halve")(room[:, : shape[1]], room.shape[1], kind, out, *out.shape)
    same(out, expected)


@pytest.mark.parametrize(
    ("start", "step", "bins"), [(-3.0, 0.03125, 200), (-0.7, 0.1, 2), (5, 1, 9)]
)
@pytest.mark.parametrize("count", [0, 1, 5000])
def test_values(loop, start, step, bins, count):
    values = spoiled(np.rint(RNG.normal(1, 2, count) * 32).astype(f4) / 32)
    counts, missing = RNG.integers(0, 9, bins), np.array([3])
    expected = plain.count_values(values, start, step, bins)
    counted = counts.copy()
    loop("count_values")(values, count, start, step, counted, bins, missing)
    same(counted - counts, expected[0])
    assert missing[0] - 3 == expected[1]
    assert expected[0].sum() + expected[1] == count


NORMAL = RNG.normal(0.3, 2, (45, 70)).astype(f4)
VALUES = {
    "real": NORMAL,
    "rounded": np.rint(NORMAL * 32) / f4(32),
    "whole": np.rint(NORMAL * 100),
    "few": np.rint(NORMAL / 4) * f4(2),
    "far apart": np.exp(NORMAL * 9) * np.sign(NORMAL),
    "tiny": NORMAL * f4(1e-44),
    "equal": np.full_like(NORMAL, -7.3),
    "zeros": np.where(NORMAL > 0, f4(0), f4(-0.0)),
    "infinite": np.where(NORMAL > 0.3, f4(np.inf), f4(-np.inf)),
}


@pytest.mark.parametrize("dtype", kernels.PIXEL_TYPES)
@pytest.mark.parametrize(
    ("shape", "where", "grid"),
    [((40, 53), (0, 0, 4), (10, 13)), ((41, 50), (8, 4, 12), (3, 4)), ((4, 4), (0, 0, 4), (1, 1)),
     ((40, 53), (0, 0, 4), (0, 3))],
)  # fmt: skip
@pytest.mark.parametrize("share", [0, 0.05, 1])
def test_moments_of_cells(loop, dtype, shape, where, grid, share):
    post = RNG.integers(0, 100, shape).astype(dtype)
    pre = spoiled(RNG.uniform(0, 100, shape).astype(f4), share)
    if post.dtype.kind == "f":
        post = spoiled(post, share)
    tops, out = np.array([90.0, 95.0]), np.empty((7, *grid), f4)
    images = post, kernels.pixel_type(post.dtype), pre, shape[1]
    loop("cell_moments")(*images, *where, tops, out, *grid)
    # without spoilt numbers, all types have the same ones
    same_in_every_build(out, "cell_moments", share and dtype, shape, grid, share)
    assert share or (np.isfinite(out).all() and (out[0] > 0).all())


@pytest.mark.parametrize("share", [0, 0.02, 1])
@pytest.mark.parametrize("shape", [(64, 700), (3, 256), (1, 1), (64, 255), (0, 300), (7, 513)])
def test_line_sums(loop, shape, share):
    post = RNG.normal(50, 30, shape).astype(f4)
    left = spoiled(RNG.normal(0, 8, shape).astype(f4), share)
    numbers = np.array([1, 0.3, 1, 0.2, 0.1, 0.1, 90, 0, 12, 0.5], f4)
    sums, columns = (np.ones((2, shape[1]), f4) for _ in range(2))
    out = np.empty((shape[0], -(-shape[1] // 256), 2), f4)
    loop("line_sums")(post, shape[1], left, shape[1], *shape, numbers, out, columns)
    same(out, plain.line_sums(post, left, numbers, sums))
    same(columns, sums)
    assert share or post.size < 300 or out[..., 1].sum() > 0.8 * post.size


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("missing", [0, 0.02, 0.5, 0.9, 1])
@pytest.mark.parametrize("name", VALUES)
def test_medians(loop, name, missing):
    values = spoiled(VALUES[name]) if missing == 0.02 else VALUES[name].copy()
    values[RNG.random(values.shape) < missing] = np.nan
    values[:8, 7:10] = np.nan  # some squares are known to a half
    values[20:40, :3] = np.nan
    for side, shape in ((6, (45, 70)), (16, (45, 64)), (64, (45, 70)), (1, (3, 40)), (4, (0, 9))):
        part = np.ascontiguousarray(values[: shape[0], : shape[1]])
        out = np.empty([-(-n // side) + 1 for n in shape], f4)
        out.fill(-1)
        known = plain.square_medians(part, side)
        loop("square_medians")(part, *shape, side, np.empty((side, side), np.int32), out)
        same(out.ravel()[: known.size], known.ravel())
        assert (out.ravel()[known.size :] == -1).all()


KEY = 0x9A3779B97F4A7C15


def test_the_phantom_survives_points_that_are_nowhere(loop):
    x = np.array([*HOSTILE, 1.0])
    out, four = np.zeros(8), np.zeros((4, 8))
    loop("add_noise")(x, x, 8, 9.0, KEY, 1.0, RNG.normal(size=(2, 64)), out)
    loop("domains")(x, x, 8, 9.0, 1.0, KEY, four)
    assert np.isnan(out[0])
    assert np.isfinite(out[-1])
    assert np.isfinite(four[:, -1]).all()


@pytest.mark.parametrize(("dtype", "rgb"), [("uint8", True), ("uint16", False)])
def test_a_phantom_has_the_same_bits_in_every_build(loop, dtype, rgb):
    options = {"deform_px": 3.0, "shading": 0.2, "grains_per_mpx": 2000, "microbes_per_mpx": 500}
    options |= {"shape": (90, 80), "shift_px": (4.0, -3.0), "seed": 4, "dtype": dtype, "rgb": rgb}
    renderer = Renderer(PhantomSpec(**options))
    for image in ("post", "pre"):
        window = Window.from_shape(renderer.shape(image))
        for kind in ("light", "pixels"):
            found = getattr(renderer, kind)(image, window)
            same_in_every_build(found, dtype, image, kind)
            assert found.max() > 50


@pytest.mark.parametrize("dtype", ["u1", "u2"])
def test_light_of_any_number_is_exposed(loop, dtype):
    light, out = np.array([[*HOSTILE, 1e6, 7.0]]), np.empty((1, 9), dtype)
    highest = float(np.iinfo(dtype).max)
    arguments = 5, -3, KEY, 8.0, 0.5, 0.5, 1.0, highest
    loop("expose")(light, 1, 9, *arguments, out, kernels.pixel_type(out.dtype))
    # a light without a number or without an end is none; the last two are 1e6 and 7
    assert out[0, :8].clip(10).tolist() == [10, 10, 10, 10, highest, 10, 10, highest]
    assert 0 < out[0, 8] < 20
