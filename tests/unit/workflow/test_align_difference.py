"""Warped pre and differences: exact pixels, NaN where there is no data, marked where refused."""

from __future__ import annotations

import errno
import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
from made_stores import write_store

from unglow.core.errors import StoreError
from unglow.core.windows import Window
from unglow.images.stored_values import grey_level
from unglow.images.zarr import StoreLayout, open_store, verify
from unglow.photometry.difference import Matched, difference
from unglow.photometry.difference_histogram import DifferenceHistogram
from unglow.photometry.gain.scale import MethodResult, Scale
from unglow.stages.align import AlignedStore
from unglow.stages.difference import DifferenceStore
from unglow.transform import Transform

SHAPE = (150, 170)
PRE_SHAPE = (140, 200)


def layout(shape, dtype, shard=64):
    return StoreLayout(shape, dtype, (32, 32), (shard, shard), 2)


def raw_store(path, image, **attributes):
    """Write a store as ingest does."""
    integer = image.dtype.kind in "iu"
    valid = image[np.isfinite(image)]
    known = {"grey_levels": "integer" if integer else "real"}
    about = {"pixel_size_um": (0.5, 0.25), "attributes": known}
    statistics = {"min": float(valid.min()), "max": float(valid.max())}
    derived = layout(image.shape, image.dtype.name)
    return write_store(path, image, derived, **about, statistics=statistics, **attributes)


def noise(shape, seed, dtype=np.uint8):
    return np.random.default_rng(seed).integers(0, 200, shape).astype(dtype)


def moved(matrix, status="ok", reasons=()):
    return Transform(status, SHAPE, PRE_SHAPE, reasons, np.array(matrix, float))


def shift(x, y):
    return moved([[1, 0, x], [0, 1, y], [0, 0, 1]])


REFUSED = Transform("failed", SHAPE, PRE_SHAPE, ("No match was found.", "Try another channel."))


@pytest.fixture
def images():
    return noise(SHAPE, 1), noise(PRE_SHAPE, 2)


@pytest.fixture
def stores(images, tmp_path):
    post, pre = images
    return raw_store(tmp_path / "post.ome.zarr", post), raw_store(tmp_path / "pre.ome.zarr", pre)


def align_with_bins(stores, transform, path, workers=1, shard=64):
    derived = layout(stores[0].shape, "float32", shard)
    store = AlignedStore(*stores, transform, derived, path)
    store.make(workers=workers)
    return open_store(path), store.statistics, store.bins


def aligned(stores, transform, path, workers=1, shard=64):
    return align_with_bins(stores, transform, path, workers, shard)[:2]


def whole(store):
    return store.read(Window.from_shape(store.shape))


def contents(path):
    """Return every file of a store with its bytes."""
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}


# ------------------------------------------------------------------------------------------- align


def test_the_identity_gives_pre_itself_and_nan_where_pre_does_not_reach(images, stores, tmp_path):
    store, statistics = aligned(stores, moved(np.eye(3)), tmp_path / "a.ome.zarr")
    expected = np.full(SHAPE, np.nan, np.float32)
    expected[:140, :] = images[1][:, :170]
    np.testing.assert_array_equal(whole(store), expected)
    assert store.dtype == np.float32
    assert store.pixel_size_um == (0.5, 0.25)
    n = statistics.n
    assert n["pixels"] == 150 * 170
    assert n["overlap"] == 140 * 170
    assert n["no_post"] == 0
    assert statistics.post_only.sum() == 10 * 170
    assert statistics.joint.sum() == 140 * 170


@pytest.mark.parametrize("workers", [1, 2])
def test_defects_of_pre_are_no_data_before_it_is_resampled(tmp_path, workers):
    rng = np.random.default_rng(8)
    post, pre = (rng.normal(60, 2, shape).astype(np.uint8) for shape in (SHAPE, PRE_SHAPE))
    pre[50, 61] = 255  # hot
    pre[100:104, 100:120] = 200  # above all but one px: a pile at the top is saturated
    pre[pre == 255] = 200
    stores = raw_store(tmp_path / "post.ome.zarr", post), raw_store(tmp_path / "pre.ome.zarr", pre)
    store, statistics = aligned(stores, shift(0.5, 0.5), tmp_path / "a.ome.zarr", workers)
    image = whole(store)
    assert np.isnan(image[50, 61])
    assert np.isnan(image[100:103, 100:119]).all()
    assert np.nanmax(image) < 80  # and nothing of them around
    assert store.attributes["pre_saturated_px"] == 81
    assert statistics.n["overlap"] == np.isfinite(image).sum()


def test_a_shift_by_whole_pixels_moves_pixels_without_changing_them(images, stores, tmp_path):
    store, _ = aligned(stores, shift(12, -7), tmp_path / "a.ome.zarr")
    expected = np.full(SHAPE, np.nan, np.float32)
    expected[7:147, :] = images[1][:, 12:182]
    np.testing.assert_array_equal(whole(store), expected)


def gaps(image, *rectangles):
    """The attribute of a store whose image lacks rectangles (y0, x0, y1, x1); they hold 0."""
    for y0, x0, y1, x1 in rectangles:
        image[y0:y1, x0:x1] = 0
    return {
        "file": "a.tif", "unit": "tiles", "count": len(rectangles), "of": 30, "share": 0.1,
        "rectangles_px": [list(one) for one in rectangles],
    }  # fmt: skip


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.float32])
def test_what_either_image_does_not_store_is_no_data_and_in_no_statistic(tmp_path, dtype):
    post, pre = (noise(shape, n, dtype) + 1 for n, shape in enumerate((SHAPE, PRE_SHAPE)))
    lacking = {"post": (post, (40, 50, 70, 90)), "pre": (pre, (100, 30, 130, 60))}
    stores = [
        raw_store(tmp_path / f"{name}.ome.zarr", image, not_stored=gaps(image, rectangle))
        for name, (image, rectangle) in lacking.items()
    ]
    store, statistics, bins = align_with_bins(stores, moved(np.eye(3)), tmp_path / "a.ome.zarr")
    expected = np.full(SHAPE, np.nan, np.float32)
    expected[:140, :] = pre[:, :170]
    expected[33:77, 43:97] = np.nan  # what a blur of post reaches as well
    expected[100 - 2 : 130 + 1, 30 - 2 : 60 + 1] = np.nan  # 4 x 4 px are interpolated
    np.testing.assert_array_equal(whole(store), expected)
    valid = np.isfinite(expected)
    assert statistics.n["pixels"] == post.size
    assert statistics.n["overlap"] == statistics.joint.sum() == valid.sum()
    assert statistics.n["no_post"] == 30 * 40
    assert statistics.n["post_only"] == statistics.post_only.sum() == (~valid).sum() - 30 * 40
    assert np.nanmin(bins.post) >= 1
    assert np.nanmin(bins.pre) >= 1
    other, again, _ = align_with_bins(
        stores, moved(np.eye(3)), tmp_path / "b.ome.zarr", workers=2, shard=96
    )
    assert np.array_equal(whole(other), expected, equal_nan=True)
    assert np.array_equal(again.joint, statistics.joint)
    assert np.array_equal(again.post_only, statistics.post_only)


def test_integers_are_rounded_to_a_32nd_of_a_level_and_real_values_are_not(images, tmp_path):
    found = {}
    for dtype in (np.uint8, np.float32):
        post, pre = (image.astype(dtype) for image in images)
        pair = [raw_store(tmp_path / f"{r}_{dtype.__name__}.zarr", i)
                for r, i in (("post", post), ("pre", pre))]  # fmt: skip
        store, statistics = aligned(pair, shift(0.3, 0.2), tmp_path / f"{dtype.__name__}.zarr")
        found[dtype] = whole(store)
        assert statistics.grey_level == (1.0 if dtype is np.uint8 else 2.0**-5)  # 199 / 4096
    exact, rounded = found[np.float32], found[np.uint8]
    valid = np.isfinite(exact)
    np.testing.assert_array_equal(valid, np.isfinite(rounded))
    scaled = rounded[valid] * 32
    np.testing.assert_array_equal(scaled, np.round(scaled))
    np.testing.assert_array_equal(rounded[valid], np.round(exact[valid] * 32) / 32)
    assert (exact[valid] * 32 != np.round(exact[valid] * 32)).mean() > 0.9


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
def test_one_worker_and_two_write_the_same_bytes(images, tmp_path, dtype):
    post, pre = (image.astype(dtype) for image in images)
    pair = raw_store(tmp_path / "post.zarr", post), raw_store(tmp_path / "pre.zarr", pre)
    matrix = [[1.02, 0.03, 3.4], [-0.03, 1.02, 5.6], [1e-5, 2e-5, 1]]
    made = []
    for workers in (1, 2, 5):
        place = tmp_path / str(workers)
        place.mkdir()
        store, *small = align_with_bins(pair, moved(matrix), place / "a.ome.zarr", workers)
        assert verify(store.path) == []
        for number, found in enumerate(small):
            found.save(place / f"{number}.npz")
        made.append((contents(store.path), [p.read_bytes() for p in sorted(place.glob("*.npz"))]))
    assert made[0] == made[1] == made[2]


def test_nan_of_pre_stays_nan_and_nan_of_post_counts_as_no_post(images, tmp_path):
    post, pre = (image.astype(np.float32) for image in images)
    pre[20:30, 40:60] = np.nan
    post[100:103, 5:9] = np.nan
    pair = raw_store(tmp_path / "post.zarr", post), raw_store(tmp_path / "pre.zarr", pre)
    store, statistics = aligned(pair, moved(np.eye(3)), tmp_path / "a.zarr")
    read = whole(store)
    # the 4 x 4 px of the interpolation reach one px before and two after, with weight 0 here
    assert np.isnan(read[20:30, 40:60]).all()
    around = np.isnan(read[:140]).sum()
    assert 200 <= around <= 13 * 23
    assert statistics.n["no_post"] == 12
    assert statistics.n["overlap"] == 140 * 170 - around - 12


def test_the_size_of_shards_changes_no_pixel_and_no_count(stores, tmp_path):
    matrix = [[1.02, 0.03, 3.4], [-0.03, 1.02, 5.6], [1e-5, 2e-5, 1]]
    found = []
    for shard in (64, 256):
        path = tmp_path / f"{shard}.zarr"
        store, statistics, bins = align_with_bins(stores, moved(matrix), path, shard=shard)
        statistics.save(tmp_path / "statistics.npz")
        bins.save(tmp_path / "bins.npz")
        found.append((whole(store), *(p.read_bytes() for p in sorted(tmp_path.glob("*.npz")))))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    assert len(found[0]) == 3
    assert found[0][1:] == found[1][1:]


def test_a_map_beyond_pre_gives_nan_everywhere_and_no_overlap(stores, tmp_path):
    store, statistics = aligned(stores, shift(5000, 0), tmp_path / "a.zarr")
    assert store.empty is None
    assert np.isnan(whole(store)).all()
    assert statistics.n["overlap"] == 0
    assert statistics.post_only.sum() == 150 * 170


def test_a_pair_that_is_refused_later_loses_its_old_pixels(stores, tmp_path):
    path = tmp_path / "a.zarr"
    assert aligned(stores, moved(np.eye(3)), path)[0].empty is None
    assert aligned(stores, REFUSED, path)[0].empty is not None
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.zarr", "post.ome.zarr", "pre.ome.zarr"]


def test_a_shard_that_is_lost_ends_the_job_and_leaves_nothing(stores, tmp_path):
    (stores[1].path / "0" / "c" / "1" / "1").unlink()
    with pytest.raises(StoreError, match=r"pre\.ome\.zarr"):
        aligned(stores, moved(np.eye(3)), tmp_path / "a.zarr", workers=2)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["post.ome.zarr", "pre.ome.zarr"]


def test_the_store_says_what_it_was_made_from(stores, tmp_path):
    store, _ = aligned(stores, shift(0.5, 2), tmp_path / "a.zarr")
    assert store.attributes["inputs"] == {"post": stores[0].digest, "pre": stores[1].digest}
    assert store.attributes["matrix"] == [[1, 0, 0.5], [0, 1, 2], [0, 0, 1]]
    assert store.attributes["role"] == "aligned_pre"
    assert str(tmp_path) not in (store.path / "zarr.json").read_text()


def test_a_refused_pair_gets_a_marked_store_and_statistics_without_pixels(stores, tmp_path):
    store, statistics = aligned(stores, REFUSED, tmp_path / "a.zarr", workers=2)
    assert store.empty == "No match was found. Try another channel."
    assert store.attributes["matrix"] is None
    assert [p.name for p in store.path.rglob("c")] == []
    assert set(statistics.n.values()) == {0}
    with pytest.raises(StoreError, match="holds no pixels: No match was found"):
        store.read(Window(0, 1, 0, 1))
    json.loads((store.path / "zarr.json").read_text())  # strict JSON: no NaN


# ------------------------------------------------------------------------------------- grey levels


@pytest.mark.parametrize(
    ("ranges", "integer", "level"),
    [
        (((0, 255), (3, 200)), True, 1.0),
        (((0, 4096), (0, 1)), False, 0.5),
        (((0, 1), (0.5, 0.5)), False, 2.0**-12),
        (((0, 1e-6), (0, 0)), False, 2.0**-32),
        (((0, 6000), (0, 9)), False, 0.5),
        (((5, 5), (7, 7)), False, 0.5),
    ],
)
def test_a_grey_level_is_one_of_integers_alone_or_a_4096th_of_the_range(ranges, integer, level):
    assert grey_level(ranges, integer=integer) == level


# ---------------------------------------------------------------------------------------- subtract


def test_the_difference_is_post_minus_gain_times_pre_plus_offset():
    post = np.array([[0, 10, 255], [7, 8, 9]], np.uint8)
    pre = np.array([[0, 4, 100], [np.nan, 3.5, 6]], np.float32)
    found = difference(post, pre, 1.5, 0.25)
    assert found.dtype == np.float32
    expected = [[-0.25, 3.75, 104.75], [np.nan, 2.5, -0.25]]
    np.testing.assert_array_equal(found, np.array(expected, np.float32))
    assert pre[0, 1] == 4  # the input is left as it was
    assert post[0, 1] == 10


@pytest.mark.parametrize("dtype", ["uint16", "int16", "float32", "float64"])
def test_every_type_of_post_is_subtracted_without_wrapping(dtype):
    post = np.array([[1, 2]], dtype)
    pre = np.array([[1000, np.nan]], np.float32)
    np.testing.assert_array_equal(difference(post, pre, 2.0, 0.0), [[-1999, np.nan]])


@pytest.fixture
def ready(stores, tmp_path):
    """Post, aligned pre and their statistics for a map by a part of a pixel."""
    store, statistics = aligned(stores, shift(0.5, 0), tmp_path / "aligned.zarr")
    return stores[0], store, statistics


def subtracted(ready, result, path, workers=1):
    post, pre, statistics = ready
    scale = Scale("manual", {"manual": result})
    images = Matched(post, pre)
    store = DifferenceStore(images, scale, statistics, ("manual",), layout(SHAPE, "float32"), path)
    store.make(workers=workers)
    return open_store(path), store.residues["manual"].histogram


def test_a_difference_is_exact_to_a_32nd_and_its_histogram_counts_it(ready, images, tmp_path):
    gain, offset = 1.25, 0.5
    result = MethodResult(gain, offset, (1.2, 1.3))
    store, histogram = subtracted(ready, result, tmp_path / "d.zarr")
    pre = whole(ready[1])
    exact = images[0].astype(np.float64) - (gain * pre.astype(np.float64) + offset)
    found = whole(store)
    np.testing.assert_array_equal(found, np.round(exact * 32) / 32)
    valid = found[np.isfinite(found)]
    assert histogram.total == valid.size == 140 * 170
    assert histogram.missing[0] == 10 * 170
    assert histogram.median() == np.median(valid)
    assert histogram.mad() == np.median(np.abs(valid - np.median(valid)))
    assert store.attributes["gain"] == gain
    assert store.attributes["offset"] == offset
    assert store.attributes["method"] == "manual"
    assert store.attributes["inputs"] == {"post": ready[0].digest, "aligned_pre": ready[1].digest}
    assert store.name == "difference manual"
    assert store.pixel_size_um == (0.5, 0.25)


def test_real_values_are_subtracted_without_rounding(images, tmp_path):
    pair = [raw_store(tmp_path / f"{n}.zarr", image.astype(np.float32) / 7)
            for n, image in zip(("post", "pre"), images, strict=True)]  # fmt: skip
    store, statistics = aligned(pair, moved(np.eye(3)), tmp_path / "a.zarr")
    ready = pair[0], store, statistics
    found, _ = subtracted(ready, MethodResult(1.25, 0.0, None), tmp_path / "d.zarr")
    expected = whole(pair[0]) - np.float32(1.25) * whole(store)
    np.testing.assert_array_equal(whole(found), expected)


def test_a_method_without_a_gain_marks_its_store_with_its_reason(ready, tmp_path):
    result = MethodResult.make_failed("the fit did not converge.")
    store, histogram = subtracted(ready, result, tmp_path / "d.zarr")
    assert store.empty == "the fit did not converge."
    assert store.attributes["gain"] is None
    assert histogram.total == 0
    assert math.isnan(histogram.median())
    histogram.save(tmp_path / "h.npz")
    assert DifferenceHistogram.load(tmp_path / "h.npz").total == 0


def test_the_reason_of_a_refused_pair_goes_first_and_a_failure_without_one_gets_one(
    stores, ready, tmp_path
):
    store, _ = subtracted(ready, MethodResult(None, None, None), tmp_path / "d.zarr")
    assert store.empty == "manual found no gain."
    refused = stores[0], *aligned(stores, REFUSED, tmp_path / "refused.zarr")
    found, _ = subtracted(refused, MethodResult.make_failed("other."), tmp_path / "e.zarr")
    assert found.empty == "No match was found. Try another channel."


def test_a_manual_gain_without_overlap_gives_a_difference_without_data(stores, tmp_path):
    away = stores[0], *aligned(stores, shift(5000, 0), tmp_path / "aligned.zarr")
    found, histogram = subtracted(away, MethodResult(2.0, 0.0, None), tmp_path / "d.zarr")
    assert found.empty is None
    assert np.isnan(whole(found)).all()
    assert histogram.total == 0
    assert histogram.missing[0] == 150 * 170


# ------------------------------------------------------------------- differences of other variants


def made_by(ready, path, result, *others):
    """Return the store of a difference to be made, and what else is counted with it."""
    scale = Scale("manual", {"manual": result, **dict(others)})
    images, names = Matched(*ready[:2]), [*scale.methods]
    derived = layout(SHAPE, "float32")
    return DifferenceStore(images, scale, ready[2], names, derived, path)


def test_a_difference_is_taken_over_as_links_and_others_are_counted(ready, tmp_path):
    result = MethodResult(1.25, 0.5, (1.2, 1.3))
    others = [("moffat", MethodResult(gain, 0.0, None)) for gain in (1.5, 1.75)]
    first, whole_again = (
        made_by(ready, tmp_path / name, result, other)
        for name, other in zip(("a.ome.zarr", "c.ome.zarr"), others, strict=True)
    )
    first.make(workers=1)
    whole_again.make(workers=1)
    second = made_by(ready, tmp_path / "b.ome.zarr", result, others[1])
    assert second.make_same(first.path, workers=2)
    assert contents(second.path) == contents(first.path) == contents(whole_again.path)
    shards = sorted(second.path.glob("*/c/*/*"))
    assert all(shard.stat().st_nlink == 2 for shard in shards)
    for file in ("zarr.json", "0/zarr.json"):  # which jobs and people may touch
        assert (second.path / file).stat().st_nlink == 1
    for name, own in second.residues.items():
        other = whole_again.residues[name]
        np.testing.assert_array_equal(own.histogram.counts, other.histogram.counts)
        np.testing.assert_array_equal(own.background.medians, other.background.medians)
    shutil.rmtree(first.path)
    assert verify(second.path) == []


def test_a_difference_without_links_is_copied(ready, tmp_path, monkeypatch):
    result = MethodResult(1.25, 0.5, None)
    first = made_by(ready, tmp_path / "a.ome.zarr", result)
    first.make(workers=1)

    def refused(*_):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", refused)
    second = made_by(ready, tmp_path / "b.ome.zarr", result)
    assert second.make_same(first.path, workers=1)
    assert contents(second.path) == contents(first.path)
    assert {path.stat().st_nlink for path in second.path.glob("*/c/*/*")} == {1}


@pytest.mark.parametrize("fault", ["gain", "shard", "empty"])
def test_a_difference_that_turns_out_to_be_another_is_not_taken_over(ready, tmp_path, fault):
    result = MethodResult(1.25, 0.5, None)
    given = {"gain": MethodResult(1.26, 0.5, None), "empty": MethodResult.make_failed("No gain.")}
    first = made_by(ready, tmp_path / "a.ome.zarr", given.get(fault, result))
    first.make(workers=1)
    if fault == "shard":
        next(first.path.glob("0/c/*/*")).unlink()
    second = made_by(ready, tmp_path / "b.ome.zarr", given["empty"] if fault == "empty" else result)
    assert not second.make_same(first.path, workers=1)
    assert [path.name for path in tmp_path.glob("*b.ome.zarr*")] == []
    second.make(workers=1)
    assert verify(second.path) == []
