"""Joint statistics: exact counts, any order, any split, equal bytes."""

from __future__ import annotations

import numpy as np
import pytest

from unglow.photometry.joint_histogram import GROUPS, TILE, JointStatistics, ratio_edges


def pair(rows=300, cols=420, seed=0, dtype=np.uint8, factor=1):
    random = np.random.default_rng(seed)
    light = random.gamma(2.0, 15.0, (rows, cols))
    post = np.clip(random.poisson(1.3 * light) * factor, 0, np.iinfo(dtype).max).astype(dtype)
    pre = (
        np.round(random.poisson(light) * factor * 32 + random.uniform(0, 31, light.shape)) / 32
    ).astype(np.float32)
    pre[:20] = np.nan
    return post, pre


def empty(post, pre):
    return JointStatistics.create(
        post_range=(float(post.min()), float(post.max())),
        pre_range=(float(np.nanmin(pre)), float(np.nanmax(pre))),
        grey_level=1,
        integer=True,
    )


def counted(post, pre):
    statistics = empty(post, pre)
    statistics.add(post, pre)
    return statistics


def test_uint8_counts_are_those_of_numpy():
    post, pre = pair()
    statistics = counted(post, pre)
    known = ~np.isnan(pre)
    edges = statistics.edges
    # Beyond the ends, values belong to the end bins.
    inside = np.clip(pre[known], edges[0], np.nextafter(edges[-1], 0))
    expected, _, _ = np.histogram2d(inside, post[known], [edges, edges])
    assert statistics.width == 1
    assert statistics.centres[0] == min(int(post.min()), int(np.floor(np.nanmin(pre))))
    np.testing.assert_array_equal(statistics.joint, expected.astype(int))
    alone = np.bincount(post[~known], minlength=len(statistics.post_only))
    np.testing.assert_array_equal(statistics.post_only, alone[: len(statistics.post_only)])


def test_every_ratio_is_in_its_bin():
    post, pre = pair(dtype=np.uint16, factor=37)
    statistics = counted(post, pre)
    used = (post > 0) & (np.nan_to_num(pre) >= 1)
    ratio = (post[used] / pre[used].astype(float)).astype(np.float32)
    edges = (10.0 ** ratio_edges()).astype(np.float32)
    bins = np.searchsorted(edges, ratio, side="right")
    np.testing.assert_array_equal(
        statistics.ratio_counts, np.bincount(bins, minlength=len(edges) + 1)
    )
    assert statistics.ratio_range == (
        float(np.log10(np.float64(ratio.min()))),
        float(np.log10(np.float64(ratio.max()))),
    )


@pytest.mark.parametrize(
    ("post_range", "integer", "grey", "width", "bins"),
    [
        ((0, 255), True, 1, 1, 256),
        ((0, 511), True, 1, 1, 512),
        ((0, 512), True, 1, 2, 257),
        ((0, 65535), True, 1, 128, 512),
        ((7, 7), True, 1, 1, 1),
        ((0.0, 1.0), False, 2.0**-13, 2.0**-8, 257),
    ],
)
def test_bins_are_powers_of_two_and_at_most_512(post_range, integer, grey, width, bins):
    statistics = JointStatistics.create(
        post_range=post_range, pre_range=post_range, grey_level=grey, integer=integer
    )
    assert (statistics.width, statistics.joint.shape) == (width, (bins, bins))
    assert statistics.edges[0] <= post_range[0] <= post_range[1] < statistics.edges[-1]


def test_any_split_order_and_number_of_workers_give_the_same_bytes(tmp_path):
    post, pre = pair(500, 700)
    whole = empty(post, pre)
    whole.add(post, pre)
    whole.save(tmp_path / "whole.npz")
    workers = [whole.fresh() for _ in range(3)]
    tiles = [(r, c) for r in range(0, 500, 97) for c in range(0, 700, 111)]
    for n, (r, c) in enumerate(reversed(tiles)):
        part = np.s_[r : r + 97, c : c + 111]
        workers[n % 3].add(post[part], pre[part], (r, c))
    merged = workers[2]
    merged.merge(workers[0])
    merged.merge(workers[1])
    merged.save(tmp_path / "merged.npz")
    assert (tmp_path / "merged.npz").read_bytes() == (tmp_path / "whole.npz").read_bytes()


def test_spatial_groups_are_tiles():
    side = TILE * 4
    post = np.full((side, side), 20, np.uint8)
    statistics = counted(post, np.full((side, side), 10, np.float32))
    assert statistics.ratios.shape[0] == GROUPS
    # 4 x 4 tiles, and interleaving gives each group the same number of them.
    assert statistics.ratios.sum(axis=1).tolist() == [TILE * TILE] * GROUPS


def test_save_and_load(tmp_path):
    statistics = counted(*pair())
    statistics.save(tmp_path / "a.npz")
    again = JointStatistics.load(tmp_path / "a.npz")
    again.save(tmp_path / "b.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    assert again.n == statistics.n
    again.merge(statistics)
    assert again.n["pixels"] == 2 * statistics.n["pixels"]
    assert [p.name for p in sorted(tmp_path.iterdir())] == ["a.npz", "b.npz"]


def test_misuse_is_refused():
    statistics = JointStatistics.empty()
    with pytest.raises(ValueError, match="not blocks of one shape"):
        statistics.add(np.zeros((2, 3), np.uint8), np.zeros((3, 2), np.float32))
    with pytest.raises(ValueError, match="outside the image"):
        statistics.add(np.zeros((2, 2), np.uint8), np.zeros((2, 2), np.float32), (-1, 0))
    with pytest.raises(ValueError, match="different bins"):
        statistics.merge(
            JointStatistics.create(post_range=(0, 9), pre_range=(0, 9), grey_level=1, integer=True)
        )
    with pytest.raises(ValueError, match="range of pre"):
        JointStatistics.create(post_range=(0, 9), pre_range=(5, np.nan), grey_level=1, integer=True)
    with pytest.raises(ValueError, match="grey level"):
        JointStatistics.create(post_range=(0, 9), pre_range=(0, 9), grey_level=0, integer=True)
