"""The difference histogram against numpy's own median."""

from __future__ import annotations

import math

import numpy as np
import pytest
from made_cells import count_pair

from unglow.core.archive import save_arrays
from unglow.core.errors import StoreError
from unglow.photometry.difference_histogram import BackgroundMedians, DifferenceHistogram
from unglow.photometry.joint_histogram import JointStatistics


@pytest.mark.parametrize("size", [1, 2, 7, 1000, 1001])
def test_median_and_mad_are_exact_on_the_grid(size):
    random = np.random.default_rng(size)
    values = (np.round(random.normal(1.5, 4, size) * 32) / 32).astype(np.float32)
    histogram = DifferenceHistogram.create(-40, 40, 1 / 32)
    histogram.add(values.reshape(1, -1))
    median = np.median(values.astype(float))
    assert histogram.median() == median
    assert histogram.mad() == np.median(np.abs(values.astype(float) - median))
    assert histogram.total == size


def test_nan_and_values_beyond_the_range():
    histogram = DifferenceHistogram.create(-1, 1, 0.5)
    histogram.add(np.array([[np.nan, -7, -1.24, -0.25, 0.2, 1.24, 1.25, np.inf]], np.float32))
    assert histogram.missing.tolist() == [1]
    # Below, bins centred on -1 -0.5 0 0.5 1, above; the edge -0.25 belongs to the bin of 0.
    assert histogram.counts.tolist() == [1, 1, 0, 2, 0, 1, 2]
    assert histogram.centres.tolist() == [-1, -0.5, 0, 0.5, 1]


def test_quantiles():
    histogram = DifferenceHistogram.create(0, 99, 1)
    histogram.add(np.arange(100, dtype=np.float32))
    assert [histogram.quantile(q) for q in (0, 0.25, 0.995, 1)] == [0, 24, 99, 99]


@pytest.mark.parametrize("gain", [0.3, 1.3, 4.0])
@pytest.mark.parametrize("top", [255, 65535])
def test_from_joint_holds_every_difference(gain, top):
    random = np.random.default_rng(1)
    post = random.integers(0, top + 1, (200, 300)).astype(np.uint16)
    pre = random.uniform(0, top, post.shape).astype(np.float32)
    statistics = count_pair(post, pre, post_range=(0, top), pre_range=(0, top))
    histogram = DifferenceHistogram.from_joint(statistics, gain, 2.0)
    histogram.add((post - (gain * pre + 2.0)).astype(np.float32))
    assert histogram.counts[0] == histogram.counts[-1] == 0
    assert len(histogram.counts) <= (1 << 15) + 2
    assert histogram.step >= 1 / 32
    assert math.log2(histogram.step).is_integer()


def test_merging_gives_the_bytes_of_one_pass(tmp_path):
    values = np.random.default_rng(0).normal(0, 9, (64, 64)).astype(np.float32)
    values[3] = np.nan
    one = DifferenceHistogram.create(-30, 30, 0.25)
    one.add(values)
    parts = [one.fresh(), one.fresh()]
    parts[1].add(values[:40])
    parts[0].add(values[40:])
    parts[0].merge(parts[1])
    one.save(tmp_path / "one.npz")
    parts[0].save(tmp_path / "two.npz")
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()
    again = DifferenceHistogram.load(tmp_path / "two.npz")
    assert (again.median(), again.missing.tolist()) == (one.median(), [64])


def test_misuse_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no histogram from"):
        DifferenceHistogram.create(0, math.inf, 1)
    with pytest.raises(ValueError, match="different bins"):
        DifferenceHistogram.create(0, 1, 1).merge(DifferenceHistogram.create(0, 2, 1))
    JointStatistics.empty().save(tmp_path / "other.npz")
    with pytest.raises(StoreError, match=r"other\.npz"):
        DifferenceHistogram.load(tmp_path / "other.npz")


def counted(seed, step=0.25):
    histogram = DifferenceHistogram.create(-30 - seed, 30, step)
    histogram.add(np.random.default_rng(seed).normal(seed, 9, (64, 64)).astype(np.float32))
    return histogram


def assert_equal(found, expected):
    assert (found.low, found.step) == (expected.low, expected.step)
    for name, values in expected.arrays.items():
        np.testing.assert_array_equal(found.arrays[name], values)


def test_a_file_holds_the_histograms_of_several_methods(tmp_path):
    path = tmp_path / "linear.histogram.npz"
    empty = DifferenceHistogram.create(0.0, 0.0, 1.0)
    own, others = counted(1), {"moffat": counted(2, 0.5), "percentile": empty}
    own.save(path, others)
    assert_equal(DifferenceHistogram.load(path), own)
    for name, expected in others.items():
        assert_equal(DifferenceHistogram.load(path, name), expected)
    assert DifferenceHistogram.load(path, "percentile").total == 0
    before = path.read_bytes()
    own.save(path, dict(reversed(others.items())))
    assert path.read_bytes() == before
    own.save(tmp_path / "alone.npz")
    own.save(tmp_path / "without.npz", {})
    assert (tmp_path / "alone.npz").read_bytes() == (tmp_path / "without.npz").read_bytes()


def test_a_method_that_a_file_does_not_have_is_refused(tmp_path):
    path = tmp_path / "linear.npz"
    kind = DifferenceHistogram.create(0, 1, 1)
    kind.save(path, {"moffat": kind})
    for name in ("percentile", "moff", "moffat.counts"):
        with pytest.raises(StoreError, match=r"linear\.npz is damaged"):
            DifferenceHistogram.load(path, name)
    of_one_number, none, negative = (
        np.zeros(2, np.int64),
        np.zeros(0, np.int64),
        np.array([1, -2, 3]),
    )
    beyond = np.full(4, 2**62)  # more than an integer holds, in all
    counts = ({"counts": none}, {"counts": negative}, {"counts": beyond})
    for change in ({"missing": of_one_number}, *counts):
        save_arrays(path, kind.content() | change)
        with pytest.raises(StoreError, match=r"linear\.npz is damaged"):
            DifferenceHistogram.load(path)


def test_medians_of_other_squares_or_of_another_version_are_refused(tmp_path):
    path, medians = tmp_path / "linear.background.npz", np.zeros((1, 1), np.float32)
    for parameters in ([2, 64, 64, 64], [1, 32, 64, 64], [1, 64, 64], [1]):
        save_arrays(path, {"parameters": np.array(parameters), "medians": medians})
        with pytest.raises(StoreError, match=r"background\.npz"):
            BackgroundMedians.load(path)
    BackgroundMedians((64, 64), medians).save(path)
    assert BackgroundMedians.load(path).parameters == [64, 64, 64]
