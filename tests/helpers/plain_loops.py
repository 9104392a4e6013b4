"""What loops of `unglow.core.kernels` compute, in plain numpy and Python, to compare them with.

The operations and their order are those that `kernels.h` and the files next to it document, so that
results are compared bit for bit; where a function only bounds the difference, it says so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from unglow.core import kernels

f4 = np.float32


def forget_library():
    """Have the compiled loops looked for again at the next call."""
    kernels.kernel.cache_clear()
    kernels._library.cache_clear()


@dataclass
class Map:
    """A map from post to pre; see ``kernels.h``."""

    matrix: np.ndarray
    knots: np.ndarray | None = None
    spacing: int = 0
    seams: tuple = ()
    offsets: tuple = ()
    axis: int = 0
    of_pre: int = 0

    def arguments(self):
        knots = self.matrix[None] if self.knots is None else self.knots
        seams = np.array(self.seams, float)
        offsets = np.array(self.offsets, float).reshape(-1, 2)
        field = knots, *knots.shape[1:], self.spacing, seams, offsets
        return (self.matrix, *field, len(seams), self.axis, self.of_pre)

    def places(self, row, first_col, cols):
        """Where a row of px of post falls in pre: x and y."""
        col = np.arange(first_col, first_col + cols)
        m = self.matrix
        x = m[0, 0] * col + (m[0, 1] * row + m[0, 2])
        y = m[1, 0] * col + (m[1, 1] * row + m[1, 2])
        if m[2, 0] or m[2, 1]:
            w = m[2, 0] * col + (m[2, 1] * row + m[2, 2])
            with np.errstate(divide="ignore"):
                inverse = np.where(w > 0, 1 / w, np.nan)
            x, y = x * inverse, y * inverse
        if self.spacing:
            x, y = x + self._bend(0, row, col), y + self._bend(1, row, col)
        if len(self.seams):
            t = np.full(cols, float(row)) if self.axis == 1 else col.astype(float)
            if self.of_pre:
                t = y if self.axis == 1 else x
            strip = np.searchsorted(self.seams, t, side="right")
            by = np.array(self.offsets, float)[strip]
            x, y = x + by[:, 0], y + by[:, 1]
        return x, y

    def _bend(self, axis, row, col):
        down, t = cell(row, self.spacing, self.knots.shape[1])
        w = spline(t)
        found = np.empty(len(col))
        for k, c in enumerate(col):
            across, _ = cell(c, self.spacing, self.knots.shape[2])
            a = self.knots[axis, down : down + 4, across : across + 4]
            e = (w[0] * a[0] + w[1] * a[1]) + (w[2] * a[2] + w[3] * a[3])
            c0 = (e[0] + 4.0 * e[1] + e[2]) / 6.0
            c1 = (e[2] - e[0]) / 2.0
            c2 = (e[0] - 2.0 * e[1] + e[2]) / 2.0
            c3 = (e[3] - e[0] + 3.0 * (e[1] - e[2])) / 6.0
            inside = min(max(c, 0), self.spacing * (self.knots.shape[2] - 3))
            t = float(inside - across * self.spacing) * (1.0 / self.spacing)
            found[k] = ((c3 * t + c2) * t + c1) * t + c0
        return found


def cell(position, spacing, count):
    """First of four control points, and the fraction past the knot."""
    inside = min(max(int(position), 0), spacing * (count - 3))
    first = min(inside // spacing, count - 4)
    return first, (inside - first * spacing) / spacing


def spline(t):
    rest = 1.0 - t
    return (
        rest * rest * rest / 6.0,
        ((3.0 * t - 6.0) * t * t + 4.0) / 6.0,
        ((3.0 * rest - 6.0) * rest * rest + 4.0) / 6.0,
        t * t * t / 6.0,
    )


def catmull_rom(source, origin, pre_shape, known, corner, shape):
    """Samples of pre; ``source`` begins at ``origin`` of it."""
    out = np.empty(shape, f4)
    for row in range(shape[0]):
        places = known.places(corner[0] + row, corner[1], shape[1])
        for col, (u, v) in enumerate(zip(*places, strict=True)):
            if not (-0.5 <= u <= pre_shape[1] - 0.5 and -0.5 <= v <= pre_shape[0] - 0.5):
                out[row, col] = np.nan
                continue
            i, k = math.floor(u), math.floor(v)
            cols = np.clip(np.arange(i - 1, i + 3), 0, pre_shape[1] - 1) - origin[1]
            rows = np.clip(np.arange(k - 1, k + 3), 0, pre_shape[0] - 1) - origin[0]
            x, y = keys_weights(f4(u - i)), keys_weights(f4(v - k))
            px = source[np.ix_(rows, cols)]
            sums = (y[0] * px[0] + y[1] * px[1]) + (y[2] * px[2] + y[3] * px[3])
            out[row, col] = (x[0] * sums[0] + x[1] * sums[1]) + (x[2] * sums[2] + x[3] * sums[3])
    return out


def keys_weights(s):
    one = f4(1)
    rest = one - s
    before, after = f4(-0.5) * s * rest * rest, f4(-0.5) * s * s * rest
    here = one + s * s * (f4(1.5) * s - f4(2.5))
    return before, here, one - before - here - after, after


def phase_factor(known, corner, tables, block, shape):
    phases = tables.shape[-1]
    out = np.empty(shape, f4)
    for row in range(shape[0]):
        at = []
        for v in known.places(corner[0] + row, corner[1], shape[1]):
            with np.errstate(invalid="ignore"):
                phase = np.floor((v - np.floor(v)) * phases + 0.5)
            at.append(np.where((phase >= 0) & (phase < phases), phase, 0).astype(int))
        down = (corner[0] + row) // block - corner[0] // block
        across = (corner[1] + np.arange(shape[1])) // block - corner[1] // block
        out[row] = tables[down, across, at[1], at[0]]
    return out


def compress(values, floor, clip, rounds, most_missing):
    """Square roots without what is much brighter, and their standard deviation, as numpy sums."""
    above = values - f4(floor)
    missing = np.isnan(above)
    if missing.sum() > most_missing or missing.all():
        return None, 0.0
    out = np.sqrt(np.where(above < 0, f4(0), above))
    out[missing] = out[~missing].mean(dtype=float)
    for _ in range(rounds):
        bound = f4(out.mean(dtype=float) + clip * out.std(dtype=float))
        out = np.where(out > bound, bound, out)
    return out, np.nan_to_num(out.std(dtype=float))


def block_shift(post, pre, edge, band, upsampling, radius, sign):
    """Shift (x, y) and ratio of peaks, in float64; the loop is within 1e-3 of both."""
    size, steps = len(post), np.arange(-upsampling, upsampling + 1) / upsampling
    taper = np.outer(edge, edge).astype(float)
    a, b = (np.fft.rfft2((v - v.mean(dtype=float)) / v.std() * taper) for v in (post, pre))
    cross = a * np.conj(b)
    above = np.abs(cross)
    above += 1e-3 * above.mean()
    cross *= sign * band / above
    correlation = np.fft.irfft2(cross, post.shape)
    peak = np.unravel_index(correlation.argmax(), post.shape)
    away = [np.abs(np.arange(size) - k) for k in peak]
    near = [np.minimum(v, size - v) <= radius for v in away]
    ratio = correlation[peak] / correlation[~np.logical_and.outer(*near)].max()
    y, x = (k - size if k > size // 2 else k for k in peak)
    twice = np.full(size // 2 + 1, 2.0)
    twice[[0, -1]] = 1
    waves_y, waves_x = np.fft.fftfreq(size), np.fft.rfftfreq(size)
    up_y = np.exp(2j * np.pi * np.outer(y + steps, waves_y))
    up_x = np.exp(2j * np.pi * np.outer(waves_x, x + steps)) * twice[:, None]
    fine = (up_y @ (cross * np.sqrt(above)) @ up_x).real
    i, j = np.unravel_index(fine.argmax(), fine.shape)
    tops = []
    for values, k in ((fine[i], j), (fine[:, j], i)):
        before, here, after = values[k - 1 : k + 2]
        tops.append(steps[k] + 0.5 * (before - after) / (before - 2 * here + after) / upsampling)
    return x + tops[0], y + tops[1], ratio


def filtered(image, taps):
    count = len(taps)
    rows, cols = (n - count + 1 for n in image.shape)
    lines, out = np.zeros((rows, image.shape[1]), f4), np.zeros((rows, cols), f4)
    for k in range(count):
        lines += taps[k] * image[k : k + rows]
    for k in range(count):
        out += taps[k] * lines[:, k : k + cols]
    return out


def judge(post, pre, left, background, error, limits):
    """reasons, and what is left."""
    left = left - background
    reasons = np.zeros(left.shape, "u1")
    reasons[~(error <= limits[2])] = 3
    reasons[(pre >= limits[1]) | ((post >= limits[0]) & (left <= 0))] = 2
    reasons[~(np.isfinite(left) & np.isfinite(post))] = 1
    return reasons, np.where(reasons > 0, f4(np.nan), left)


def usable_share(reasons, taps, least):
    share = f4(1) - filtered((reasons > 0).astype(f4), taps)
    return np.where(share >= f4(least), share, f4(np.nan))


def significance(signal, post, pre, weight, squares, gain, factor, shifted, numbers):
    """ratio and share; pre and weight without their margin."""
    post_read, post_shot, pre_read, pre_shot, least, spread, of_filter = numbers
    less = np.maximum(squares, f4(1e-6))
    part = less / (weight * weight)
    squared = gain * gain
    of_post = np.maximum(post / less * post_shot + post_read, least)
    of_pre = np.maximum(pre * pre_shot + pre_read, least)
    noise = (of_filter * part * of_post + squared * (factor * part) * of_pre) * spread
    variance = noise + squared * shifted
    return signal / weight / np.sqrt(variance), noise / variance


def interpolate(values, at_row, down, at_col, across):
    def between(a, b, part):
        first, second = np.where(np.isnan(a), b, a), np.where(np.isnan(b), a, b)
        return first * (f4(1) - part) + second * part

    below = np.minimum(at_row + 1, values.shape[0] - 1)
    lines = between(values[at_row], values[below], down[:, None])
    right = np.minimum(at_col + 1, values.shape[1] - 1)
    return between(lines[:, at_col], lines[:, right], across)


def squared_shift(image, error):
    rows, cols = error.shape

    def at(y, x):
        return image[3 + y : 3 + y + rows, 3 + x : 3 + x + cols]

    def more(a, b):  # as the loop: a NaN never takes the place of the first
        return np.where(b > a, b, a)

    here = at(0, 0)
    across, along = at(0, 1) - at(0, -1), at(1, 0) - at(-1, 0)
    slope = (across * across + along * along) * f4(0.25)
    a, b, c, d = ((p - here) * (p - here) for p in (at(0, -1), at(0, 1), at(-1, 0), at(1, 0)))
    largest = more(more(a, b), more(c, d))
    short = np.where(error > 1, f4(1), error)
    short = short * short
    rest = more(largest - slope, f4(0))
    out = f4(0.5) * (short * slope + short * short * rest) + (across + along + here) * f4(0)
    far = (error > 1) & ~np.isnan(out)
    before = f4(2) * out
    total, going = before.copy(), far.copy()
    for distance in (2, 3):
        part = np.where(error - f4(distance - 1) > 1, f4(1), error - f4(distance - 1))
        going &= part > 0
        near = distance - 1
        steps = [at(distance, 0), at(0, distance), at(-distance, 0), at(0, -distance)]
        steps += [at(y, x) for y in (near, -near) for x in (near, -near)]
        squares = np.array([(p - here) * (p - here) for p in steps])
        with np.errstate(invalid="ignore"):
            largest = np.max(squares, axis=0)  # NaN if there is one
        largest = np.where(largest <= before, before, largest)
        total = np.where(going, total + part * (largest - before), total)
        before = np.where(going, largest, before)
    return np.where(far, f4(0.5) * total, out)


def count_values(values, start, step, bins):
    """counts (bins,), and how many are NaN."""
    known = values[~np.isnan(values)].astype(float)
    places = np.clip(np.floor((known - start) / step), -1, bins - 2).astype(int) + 1
    return np.bincount(places, minlength=bins), len(values) - len(known)


def square_medians(values, side):
    """Medians of squares, from sorted values; zeros have no sign."""
    down, across = (-(-n // side) for n in values.shape)
    out = np.full((down, across), np.nan, f4)
    for i, j in np.ndindex(down, across):
        square = values[i * side : (i + 1) * side, j * side : (j + 1) * side].ravel()
        known = np.sort(square[~np.isnan(square)])
        if 2 * len(known) >= len(square):
            low, high = known[(len(known) - 1) // 2], known[len(known) // 2]
            out[i, j] = (low + high) / f4(2) + f4(0)
    return out


def line_sums(post, left, numbers, by_col):
    """Sum and count of each part of a row, (rows, segments, 2); those of columns grow in place."""
    read, shot, least = numbers[0] + numbers[2], numbers[1] + numbers[3], numbers[4] + numbers[5]
    level = post - left
    known = level < numbers[6]
    variance = shot * level + read
    size = left / np.sqrt(np.where(variance < least, least, variance))
    size = np.where(known, np.clip(size, f4(-2), f4(2)), f4(0))
    rows, cols = post.shape
    segments = -(-cols // 256)
    parts = np.zeros((2, rows, segments * 256), f4)
    parts[:, :, :cols] = size, known
    for row in range(rows):
        by_col += parts[:, row, :cols]
    parts = parts.reshape(2, rows, segments, 256)
    while parts.shape[-1] > 1:
        half = parts.shape[-1] // 2
        parts = parts[..., :half] + parts[..., half:]
    return np.moveaxis(parts[..., 0], 0, 2)


def count_pairs(post, pre, corner, binning, edges, bins, groups):
    """joint, post_only, ratios, counters and extremes of one block."""
    first, inverse, floor_pre, top = binning
    row0, col0, tile, _ = corner
    p, q = post.astype(float), pre.astype(float)
    known = ~np.isnan(p)
    both = known & ~np.isnan(q)
    used = both & (p > 0) & (q >= floor_pre) & ~(np.isinf(p) & np.isinf(q))
    ratio = (p[used] / q[used]).astype(f4)
    rows, cols = np.nonzero(used)
    group = (4 * ((row0 + rows) // tile) + (col0 + cols) // tile) % groups

    def bin_of(values):
        return np.clip((values - first) * inverse, 0, bins - 1).astype(int)

    joint, ratios = np.zeros((bins, bins), int), np.zeros((groups, len(edges) + 1), int)
    np.add.at(joint, (bin_of(q[both]), bin_of(p[both])), 1)
    np.add.at(ratios, (group, np.searchsorted(edges, ratio, side="right")), 1)
    alone = np.bincount(bin_of(p[known & ~both]), minlength=bins)
    of_px = both, known & ~both, ~known, used, p >= top
    counters = [p.size, *(np.count_nonzero(px) for px in of_px)]
    return joint, alone, ratios, counters, [ratio.min(initial=np.inf), ratio.max(initial=0)]
