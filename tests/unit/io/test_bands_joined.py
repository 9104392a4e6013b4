"""Bands that are joined: the bytes of a stage that was not split, or one sentence."""

from __future__ import annotations

import math
import shutil

import numpy as np
import pytest
import tifffile

import unglow.workflow.stages.align as warping
from unglow.core.errors import StoreError
from unglow.io.tiff import read_header
from unglow.io.zarr import StoreLayout, StoreWriter, open_store, verify
from unglow.io.zarr.band_results import BandResult
from unglow.io.zarr.bands import Band, all_bands
from unglow.photometry.difference import Matched
from unglow.photometry.gain.scale import MethodResult, Scale
from unglow.transform import Transform
from unglow.workflow.stages.align import AlignedStore
from unglow.workflow.stages.difference import DifferenceStore
from unglow.workflow.stages.ingest import SignalStore
from unglow.workflow.stages.plan import fingerprint, make_plan

SHAPE = (600, 170)
# five rows of shards, one fine level, one coarse level
DERIVED = StoreLayout(SHAPE, "float32", (64, 64), (128, 128), 3)
MATRIX = np.array([[1.02, 0.03, 3.4], [-0.03, 1.02, 5.6], [1e-5, 2e-5, 1]])
FOUND = Transform("ok", SHAPE, SHAPE, (), MATRIX)
REFUSED = Transform("failed", SHAPE, SHAPE, ("No match was found.",))
LINE = MethodResult(1.25, 3.0, None)
DARK = MethodResult.failed("too dark")


def raw_store(path, seed):
    image = np.random.default_rng(seed).integers(0, 200, SHAPE).astype(np.uint8)
    layout = StoreLayout(SHAPE, "uint8", (32, 32), (64, 64), 2)
    about = {"name": path.name, "pixel_size_um": (0.5, 0.25)}
    with StoreWriter(path, layout, **about, attributes={"grey_levels": "integer"}) as writer:
        for window in writer.windows():
            writer.write(window, np.ascontiguousarray(image[window.slices]))
        writer.publish({"statistics": {"min": 0.0, "max": 199.0}})
    return open_store(path)


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    place = tmp_path_factory.mktemp("stores")
    return raw_store(place / "post.ome.zarr", 1), raw_store(place / "pre.ome.zarr", 2)


def contents(path):
    """Every file below a directory, hidden ones as well, with its bytes."""
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}


def aligned_in_bands(stores, place, count, transform=FOUND, order=slice(None), workers=1):
    """Do the bands of align, in some order, and return their files in the right one."""
    target, files = place / "a.ome.zarr", {}
    for band in all_bands(count)[order]:
        store = AlignedStore(*stores, transform, DERIVED, target)
        files[band] = place / f".a.ome.zarr.{band}.band.npz"
        store.make_band(band, workers=workers).save(files[band])
    return [files[band] for band in all_bands(count)]


def finish_align(stores, place, results=(), transform=FOUND, workers=1):
    store = AlignedStore(*stores, transform, DERIVED, place / "a.ome.zarr")
    store.make(workers=workers, band_results=results)
    store.statistics.save(place / "statistics.npz")
    store.bins.save(place / "bins.npz")
    for path in results:  # as Snakemake does with what is temporary
        path.unlink()


@pytest.fixture
def place(tmp_path):
    (tmp_path / "here").mkdir()
    return tmp_path / "here"


@pytest.fixture(scope="module")
def whole(stores, tmp_path_factory):
    """What align writes that is not split."""
    there = tmp_path_factory.mktemp("whole")
    finish_align(stores, there)
    return contents(there)


# ------------------------------------------------------------------------------------- same bytes


@pytest.mark.parametrize("transform", [FOUND, REFUSED])
@pytest.mark.parametrize(
    ("count", "order", "workers"),
    [(2, slice(None), 1), (3, slice(None, None, -1), 2), (5, slice(None), 1)],
)
def test_align_in_bands_writes_the_same_bytes(
    stores, whole, tmp_path, place, transform, count, order, workers
):
    results = aligned_in_bands(stores, place, count, transform, order, workers)
    finish_align(stores, place, results, transform, workers)
    if transform is REFUSED:
        (tmp_path / "other").mkdir()
        finish_align(stores, tmp_path / "other", transform=REFUSED)
        whole = contents(tmp_path / "other")
    assert contents(place) == whole
    assert len(list(place.iterdir())) == 3
    assert verify(place / "a.ome.zarr") == []


@pytest.mark.parametrize(
    "methods",
    [
        {"linear": LINE},
        {"linear": DARK},
        {"linear": LINE, "percentile": DARK, "moffat": MethodResult(1.5, -2.0, None)},
        {"linear": DARK, "moffat": LINE},
    ],
)
def test_a_difference_in_bands_is_the_same_bytes(stores, tmp_path, methods):
    aligned = AlignedStore(*stores, FOUND, DERIVED, tmp_path / "a.ome.zarr")
    aligned.make(workers=1)
    images = Matched(stores[0], open_store(aligned.path))
    given = images, Scale("linear", methods), aligned.statistics, tuple(methods), DERIVED
    made = []
    for count in (0, 3):
        place = tmp_path / str(count)
        target, results = place / "d.ome.zarr", []
        for band in all_bands(count):
            results.append(place / f".d.ome.zarr.{band}.band.npz")
            DifferenceStore(*given, target).make_band(band, workers=1).save(results[-1])
        store = DifferenceStore(*given, target)
        store.make(workers=1, band_results=results)
        store.save_residues(place / "histogram.npz", place / "background.npz")
        for path in results:
            path.unlink()
        made.append(contents(place))
    assert made[0] == made[1]
    assert any(name.startswith("d.ome.zarr/0/c/") for name in made[0]) is methods["linear"].ok


def raw_plan(path, **options):
    rng = np.random.default_rng(3)
    image = rng.integers(0, 250, (5000, 130), dtype=np.uint8)
    tifffile.imwrite(path, image, compression="zlib", **options)
    header = read_header(path)
    return make_plan(header, header, channel="auto")


def ingested(plan, place, count):
    target, results = place / "post.ome.zarr", []
    for band in all_bands(count):
        results.append(place / f".post.ome.zarr.{band}.band.npz")
        SignalStore(plan, "post", target).make_band(band, workers=1).save(results[-1])
    SignalStore(plan, "post", target).make(workers=1, band_results=results)
    for path in results:
        path.unlink()
    return contents(place)


LAYOUTS = [
    {"tile": (64, 64)},
    {"rowsperstrip": 100},
    {"rowsperstrip": 3000},  # a strip that two bands need
]


@pytest.mark.parametrize("options", LAYOUTS)
def test_an_image_that_is_ingested_in_bands_is_the_same_bytes(tmp_path, options):
    plan = raw_plan(tmp_path / "a.tif", **options)
    assert ingested(plan, tmp_path / "bands", 3) == ingested(plan, tmp_path / "whole", 0)


@pytest.mark.parametrize("options", LAYOUTS)
def test_a_damaged_image_is_refused_with_the_same_bytes_whatever_the_bands(tmp_path, options):
    path = tmp_path / "a.tif"
    plan = raw_plan(path, **options)
    with tifffile.TiffFile(path) as tif:
        last = tif.pages[0].dataoffsets[-1]
    with path.open("r+b") as file:  # in the last strip or tile
        file.seek(last)
        file.write(b"\0" * 20)
    plan.fingerprints["post"] = fingerprint(plan.headers["post"])  # it was like that from the start
    assert ingested(plan, tmp_path / "bands", 3) == ingested(plan, tmp_path / "whole", 0)
    assert "cannot be decoded" in open_store(tmp_path / "bands" / "post.ome.zarr").empty


# -------------------------------------------------------------------------- what may go wrong


def shards_in(place):
    (meeting,) = place.glob(".a.ome.zarr.*.bands")
    return meeting


def delete(path):
    path.unlink()


def change(path):
    content = bytearray(path.read_bytes())
    content[0] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "told"), [(delete, "is missing"), (change, "is not what was written")]
)
def test_a_shard_that_is_not_what_its_band_wrote_makes_that_band_be_done_again(
    stores, whole, place, damage, told
):
    results = aligned_in_bands(stores, place, 3)
    damage(shards_in(place) / "1" / "c" / "2" / "0")  # the row of shards in the middle
    with pytest.raises(StoreError, match=f"of band 2-of-3, shard 1/c/2/0 {told}; run the workflow"):
        finish_align(stores, place, results)
    assert [path.exists() for path in results] == [True, False, True]
    assert not (place / "a.ome.zarr").exists()
    store = AlignedStore(*stores, FOUND, DERIVED, place / "a.ome.zarr")
    store.make_band(Band(2, 3), workers=1).save(results[1])
    finish_align(stores, place, results)
    assert contents(place) == whole


def test_a_band_of_another_state_of_the_inputs_is_refused_and_wrote_elsewhere(stores, whole, place):
    other = Transform("ok", SHAPE, SHAPE, (), MATRIX + np.array([[0, 0, 1], [0, 0, 0], [0, 0, 0]]))
    old = aligned_in_bands(stores, place, 3, other)
    kept = old[2].read_bytes()
    results = aligned_in_bands(stores, place, 3)
    assert len(list(place.glob(".a.ome.zarr.*.bands"))) == 2
    results[2].write_bytes(kept)
    with pytest.raises(StoreError, match="band 3-of-3 belongs to another state of its inputs"):
        finish_align(stores, place, results)
    results = aligned_in_bands(stores, place, 3)
    finish_align(stores, place, results)
    assert contents(place) == whole  # and the shards of the other state are gone


def test_all_bands_whose_shards_are_gone_are_done_again_at_once(stores, whole, place):
    results = aligned_in_bands(stores, place, 3)
    shutil.rmtree(shards_in(place))
    told = "of band 1-of-3, shard 0/c/0/0 is missing, of band 2-of-3, .* which makes these bands"
    with pytest.raises(StoreError, match=told):
        finish_align(stores, place, results)
    assert not any(path.exists() for path in results)
    finish_align(stores, place, aligned_in_bands(stores, place, 3))
    assert contents(place) == whole


def test_a_result_that_is_missing_or_torn_says_which_band(stores, place):
    results = aligned_in_bands(stores, place, 2)
    results[1].write_bytes(results[1].read_bytes()[:100])
    with pytest.raises(StoreError, match="what band 2-of-2 left is damaged; run the workflow"):
        finish_align(stores, place, results)
    with pytest.raises(StoreError, match="band 2-of-2 is not there; run the workflow again"):
        finish_align(stores, place, results)


def test_a_job_that_ended_before_or_after_the_store_was_in_place_can_be_done_again(
    stores, whole, place, monkeypatch
):
    results = aligned_in_bands(stores, place, 3)
    with monkeypatch.context() as patched:
        patched.setattr(StoreWriter, "_put_in_place", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            finish_align(stores, place, results)
    store = AlignedStore(*stores, FOUND, DERIVED, place / "a.ome.zarr")
    store.make(workers=1, band_results=results)
    (place / "a.ome.zarr" / "zarr.json").unlink()  # as Snakemake does before it tries again
    finish_align(stores, place, results)
    assert contents(place) == whole


def test_a_band_that_comes_late_changes_nothing(stores, whole, place, monkeypatch):
    results = aligned_in_bands(stores, place, 3)
    warp = warping.warp_window

    def late(*arguments):
        finish_align(stores, place, [p for p in results if p.exists()])
        monkeypatch.setattr(warping, "warp_window", warp)
        return warp(*arguments)

    monkeypatch.setattr(warping, "warp_window", late)
    store = AlignedStore(*stores, FOUND, DERIVED, place / "a.ome.zarr")
    with pytest.raises(StoreError, match="could not be written"):
        store.make_band(Band(1, 3), workers=1)
    assert contents(place) == whole


def test_what_an_interrupted_run_with_other_bands_left_is_removed(stores, whole, place):
    aligned_in_bands(stores, place, 2)
    finish_align(stores, place)
    assert contents(place) == whole
    shutil.rmtree(place / "a.ome.zarr")
    aligned_in_bands(stores, place, 2)
    finish_align(stores, place, aligned_in_bands(stores, place, 3))
    assert contents(place) == whole


def test_results_are_loaded_as_they_were_saved(tmp_path):
    arrays = {"a": np.array([1.5, math.inf]), "b": np.arange(6).reshape(2, 3)}
    result = BandResult(Band(2, 3), "key", {"0/c/1/0": ("ab", 7)}, arrays, "why")
    result.save(tmp_path / "a.npz")
    again = BandResult.load(tmp_path / "a.npz")
    assert (again.band, again.key, again.shards, again.reason) == (
        Band(2, 3),
        "key",
        {"0/c/1/0": ("ab", 7)},
        "why",
    )
    for name, values in arrays.items():
        np.testing.assert_array_equal(again.arrays[name], values)
