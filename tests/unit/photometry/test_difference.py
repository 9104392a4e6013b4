"""Differences that are not written are those that would have been, and are found where they lie."""

from __future__ import annotations

import math
import shutil
from dataclasses import replace

import numpy as np
import pytest
from made_stores import write_store

from unglow.core.errors import StoreError
from unglow.core.windows import Window, grid
from unglow.images.zarr import Store, StoreLayout, open_store
from unglow.photometry import imaging
from unglow.photometry.difference import (
    Difference,
    Matched,
    compute_difference,
    name_store,
    open_difference,
    open_image,
    open_method,
)
from unglow.photometry.difference_histogram import BackgroundMedians, DifferenceHistogram
from unglow.photometry.gain.scale import MethodResult, Scale
from unglow.photometry.imaging import GainMap, Sharpness
from unglow.photometry.joint_histogram import JointStatistics
from unglow.stages.align import AlignedStore
from unglow.stages.difference import DifferenceStore
from unglow.transform import Transform

pytestmark = pytest.mark.slow

SHAPE = (530, 1050)  # three levels
MATRIX = np.array([[1.002, 0.003, 30.4], [-0.003, 1.002, -21.6], [0, 0, 1]])
FOUND = Transform("ok", SHAPE, SHAPE, (), MATRIX)
REFUSED = Transform("failed", SHAPE, SHAPE, ("No match was found.",))
UNEVEN = GainMap(SHAPE, np.array([[1.0, 0.1, 0.02], [-0.05, 0, 0], [0.03, 0, 0]]), (0.8, 1.2), 5.0)
METHODS = {
    "linear": MethodResult(1.25, 3.0, (1.2, 1.3), {"gain_map": {"degree": 2}}, gain_map=UNEVEN),
    "moffat": MethodResult(1.37, 0.5, None),
    "percentile": MethodResult.make_failed("too dark."),
}
SCALE = Scale("linear", METHODS)


def derived_layout():
    return StoreLayout(SHAPE, "float32", (128, 128), (256, 256), 3)


def raw_store(path, image):
    """Write a store as ingest does."""
    layout = StoreLayout(image.shape, image.dtype.name, (128, 128), (256, 256), 3)
    about = {"grey_levels": "integer" if image.dtype.kind in "iu" else "real"}
    statistics = {"min": float(image.min()), "max": float(image.max())}
    more = {"attributes": about, "statistics": statistics, "layout": layout}
    return write_store(path, image, pixel_size_um=(0.5, 0.25), **more)


def scene(seed, dtype):
    y, x = np.mgrid[: SHAPE[0], : SHAPE[1]]
    light = 90 + 60 * np.sin(x / 61 + seed) * np.cos(y / 47)
    image = np.random.default_rng(seed).poisson(light)
    return image.astype(dtype) if np.dtype(dtype).kind == "u" else (image / 7).astype(dtype)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """Directories of pairs by their type: raw and aligned images, and their statistics."""
    places = {}
    for dtype in ("uint8", "float32"):
        places[dtype] = place = tmp_path_factory.mktemp(dtype)
        post, pre = (
            raw_store(place / f"{name}.ome.zarr", scene(seed, dtype))
            for seed, name in enumerate(("post", "pre"))
        )
        path = place / "aligned_pre.ome.zarr"
        store = AlignedStore(post, pre, FOUND, derived_layout(), path)
        store.make(workers=2)
        store.statistics.save(place / "details/statistics.npz")
    return places


KINDS = "histogram", "background"


def images_of(place):
    return open_store(place / "post.ome.zarr"), open_store(place / "aligned_pre.ome.zarr")


def sharp(image):
    return Sharpness(0.9, 0.01, image, 0.9, 50)


def subtracted(pair, path, scale, *methods):
    """Make the difference of the first method, counting what the others leave."""
    images = Matched(*images_of(pair), scale.blur)
    statistics = JointStatistics.load(pair / "details/statistics.npz")
    store = DifferenceStore(images, scale, statistics, methods, derived_layout(), path)
    store.make(workers=2)
    return store


def write(pair, place, scale=SCALE, method="linear"):
    """Write one difference with what all of them have left, and ``scale.json``."""
    path = place / name_store(method, scale.default)
    store = subtracted(pair, path, scale, method, *(m for m in scale.methods if m != method))
    store.save_residues(*(place / f"details/{method}.{kind}.npz" for kind in KINDS))
    save(place, scale)
    return store.residues


def save(place, scale):
    scale.save(place / "scale.json")
    maps = [found.gain_map for found in scale.methods.values() if found.gain_map]
    imaging.save_gain_map(place / "details/gain_map.npz", maps[0] if maps else None)


@pytest.fixture
def place(pairs, tmp_path):
    """Directory of the results of a pair, without a difference."""
    shutil.copytree(pairs["uint8"], tmp_path / "S" / "D")
    save(tmp_path / "S" / "D", SCALE)
    return tmp_path / "S" / "D"


def whole(image, level=0):
    return image.read(Window.from_shape(image.level_shape(level)), level)


def assert_same_bits(found, expected):
    assert found.dtype == expected.dtype == np.float32
    assert found.shape == expected.shape
    np.testing.assert_array_equal(
        np.ascontiguousarray(found).view(np.uint32), np.ascontiguousarray(expected).view(np.uint32)
    )


def with_other(scale, method, **changes):
    """Return a scale where one method has found something else."""
    found = replace(scale.methods[method], **changes)
    return replace(scale, methods=scale.methods | {method: found})


@pytest.mark.parametrize("method", ["linear", "moffat"])
@pytest.mark.parametrize("blurred", [None, "post", "pre"])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_level_0_is_that_of_a_written_store_to_the_bit(pairs, tmp_path, dtype, blurred, method):
    scale = replace(SCALE, sharpness=sharp(blurred))
    write(pairs[dtype], tmp_path, scale, method)
    written = open_store(tmp_path / name_store(method, SCALE.default))
    made = compute_difference(*images_of(pairs[dtype]), scale, method, tmp_path)
    expected = whole(written)
    assert 0.9 < np.isfinite(expected).mean() < 1
    assert_same_bits(whole(made), expected)
    for block in ((256, 256), (100, 1050), (530, 33)):
        for window in list(grid(SHAPE, block))[:: 1 if block[0] == 256 else 5]:
            assert_same_bits(made.read(window), expected[window.slices])
    random = np.random.default_rng(0)
    for _ in range(20):
        (y0, y1), (x0, x1) = (np.sort(random.integers(0, n + 1, 2)).tolist() for n in SHAPE)
        assert_same_bits(made.read(Window(y0, y1, x0, x1)), expected[y0:y1, x0:x1])


def test_a_computed_difference_says_of_itself_what_a_written_one_says(pairs, tmp_path):
    scale = replace(SCALE, sharpness=sharp("pre"))
    write(pairs["uint8"], tmp_path, scale)
    written = open_store(tmp_path / "difference.ome.zarr")
    made = compute_difference(*images_of(pairs["uint8"]), scale, "linear", tmp_path)
    for name in ("name", "path", "shape", "levels", "dtype", "empty", "pixel_size_um"):
        assert getattr(made, name) == getattr(written, name), name
    assert [made.level_shape(k) for k in range(3)] == [written.level_shape(k) for k in range(3)]
    assert made.attributes.items() <= written.attributes.items()
    assert made.attributes["gain_map"] == {"sha256": UNEVEN.digest}
    assert made.attributes["blur"] == {"image": "pre", "width_px": 0.9}


def test_its_digest_follows_from_what_its_pixels_follow_from(pairs, tmp_path):
    images = images_of(pairs["uint8"])
    digests = [
        compute_difference(*given, scale, method, place).digest
        for given, scale, method, place in (
            (images, SCALE, "linear", tmp_path),
            (images, SCALE, "moffat", tmp_path),
            (images, with_other(SCALE, "linear", gain=1.26), "linear", tmp_path),
            (images, replace(SCALE, sharpness=sharp("pre")), "linear", tmp_path),
            (images_of(pairs["float32"]), SCALE, "linear", tmp_path),
        )
    ]
    assert len(set(digests)) == 5
    assert all(digest.startswith("sha256:") and len(digest) == 71 for digest in digests)
    elsewhere = compute_difference(*images, SCALE, "linear", tmp_path / "elsewhere")
    assert elsewhere.digest == digests[0]


def test_what_cannot_be_read_is_refused(pairs, tmp_path):
    made = compute_difference(*images_of(pairs["uint8"]), SCALE, "linear", tmp_path)
    blurred = replace(SCALE, sharpness=sharp("post"))
    soft = compute_difference(*images_of(pairs["uint8"]), blurred, "linear", tmp_path)
    for image in (made, soft):
        for window in (Window(-5, 9, 0, 9), Window(0, 9, 1049, 1051)):
            with pytest.raises(ValueError, match="leaves level 0"):
                image.read(window)
    with pytest.raises(ValueError, match="leaves level 2"):
        made.read(Window(0, 133, 0, 9), 2)
    nothing = compute_difference(*images_of(pairs["uint8"]), SCALE, "percentile", tmp_path)
    assert nothing.empty == "too dark."
    with pytest.raises(StoreError, match="there is no difference percentile: too dark"):
        nothing.read(Window(0, 9, 0, 9))


def test_a_lost_shard_of_an_image_is_reported(place):
    made = open_difference(place)
    (place / "aligned_pre.ome.zarr" / "0" / "c" / "1" / "2").unlink()
    whole(made, 1)
    assert np.isfinite(made.read(Window(100, 110, 100, 110))).all()
    with pytest.raises(StoreError, match=r"aligned_pre\.ome\.zarr"):
        whole(made)


@pytest.mark.parametrize("method", ["linear", "moffat"])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_coarse_levels_are_within_the_rounding_of_those_of_the_images(
    pairs, tmp_path, dtype, method
):
    write(pairs[dtype], tmp_path, SCALE, method)
    written = open_store(tmp_path / name_store(method, SCALE.default))
    made = compute_difference(*images_of(pairs[dtype]), SCALE, method, tmp_path)
    missing = np.isnan(whole(written))
    for level in (1, 2):
        found, expected, step = whole(made, level), whole(written, level), 1 << level
        rows, cols = found.shape
        gaps = missing[: rows * step, : cols * step].reshape(rows, step, cols, step)
        inside = ~gaps.any(axis=(1, 3))
        np.testing.assert_array_equal(np.isnan(found), gaps.all(axis=(1, 3)))
        off = np.abs(found - expected)[inside]
        # Means of post are rounded to whole levels, once for each level, and differences to a 32nd;
        # light that is uneven within a px of these levels changes less than that.
        assert off.max() < (level / 2 + 1 / 16 if dtype == "uint8" else 0.01)
        assert np.abs((found - expected)[inside].mean()) < 0.02
        window = Window(50, 131, 7, 99)
        assert_same_bits(made.read(window, level), found[window.slices])


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_one_pass_counts_every_method_as_a_pass_of_its_own_does(pairs, tmp_path, dtype):
    scale = replace(SCALE, sharpness=sharp("pre"))
    write(pairs[dtype], tmp_path / "all", scale)
    together = tmp_path / "all" / "details"
    for method, result in METHODS.items():
        path = tmp_path / method / "difference.ome.zarr"
        alone = subtracted(pairs[dtype], path, scale, method)
        assert list(alone.residues) == [method]
        files = tmp_path / method / "h.npz", tmp_path / method / "b.npz"
        alone.save_residues(*files)
        name = None if method == "linear" else method
        histogram = DifferenceHistogram.load(together / "linear.histogram.npz", name)
        medians = BackgroundMedians.load(together / "linear.background.npz", name)
        histogram.save(tmp_path / "h.npz")
        medians.save(tmp_path / "b.npz")
        assert (tmp_path / "h.npz").read_bytes() == files[0].read_bytes()
        assert (tmp_path / "b.npz").read_bytes() == files[1].read_bytes()
        if result.ok:
            left = whole(compute_difference(*images_of(pairs[dtype]), scale, method, tmp_path))
            assert histogram.total == np.isfinite(left).sum() > 500_000
            assert histogram.missing[0] == np.isnan(left).sum()
            assert medians.medians[5, 5] == np.median(left[320:384, 320:384])


def test_a_method_that_found_nothing_is_empty_and_leaves_the_others_as_they_are(pairs, tmp_path):
    residues = write(pairs["uint8"], tmp_path)
    assert open_store(tmp_path / "difference.ome.zarr").empty is None
    assert residues["percentile"].histogram.total == 0
    assert math.isnan(residues["percentile"].histogram.median())
    assert np.isnan(residues["percentile"].background.medians).all()
    others = write(pairs["uint8"], tmp_path, method="percentile")
    store = open_store(tmp_path / "difference_percentile.ome.zarr")
    assert store.empty == "too dark."
    assert not list(store.path.rglob("c"))
    for method in ("linear", "moffat"):
        for kind in ("histogram", "background"):
            one, other = (getattr(found[method], kind).arrays for found in (residues, others))
            for name, values in one.items():
                np.testing.assert_array_equal(other[name], values)
        assert others[method].histogram.total > 500_000


def test_where_no_method_found_anything_nothing_is_read(pairs, tmp_path):
    shutil.copytree(pairs["uint8"], tmp_path / "pair")
    shutil.rmtree(tmp_path / "pair" / "aligned_pre.ome.zarr")
    images = (open_store(pairs["uint8"] / f"{name}.ome.zarr") for name in ("post", "pre"))
    path = tmp_path / "pair" / "aligned_pre.ome.zarr"
    AlignedStore(*images, REFUSED, derived_layout(), path).make(workers=1)
    scale = Scale.make_failed("No match was found.")
    residues = write(tmp_path / "pair", tmp_path / "pair", scale)
    assert open_difference(tmp_path / "pair").empty == "No match was found."
    for method in ("linear", "moffat", "percentile"):
        assert residues[method].histogram.total == 0
        assert open_difference(tmp_path / "pair", method).empty == "No match was found."
    assert isinstance(open_difference(tmp_path / "pair", "moffat"), Difference)


def test_what_is_written_is_opened_and_what_is_not_is_computed(place):
    write(place, place)
    default = open_difference(place)
    assert isinstance(default, Store)
    assert default.path == place / "difference.ome.zarr"
    assert isinstance(open_difference(str(place), "linear"), Store)
    other = open_difference(place, "moffat")
    assert isinstance(other, Difference)
    assert other.path == place / "difference_moffat.ome.zarr"
    shutil.rmtree(default.path)
    made = open_difference(place)
    assert isinstance(made, Difference)
    assert (made.name, made.path) == (default.name, default.path)
    write(place, place, method="moffat")
    assert isinstance(open_difference(place, "moffat"), Store)
    assert_same_bits(whole(open_difference(place, "moffat")), whole(other))


@pytest.mark.parametrize(
    "before",
    [
        with_other(SCALE, "linear", gain=1.26),
        with_other(SCALE, "linear", offset=3.5),
        with_other(SCALE, "linear", gain_map=None, details={}),
        with_other(SCALE, "linear", gain_map=replace(UNEVEN, dark=4.0)),
        with_other(SCALE, "linear", gain=None, offset=None, reason="too dark."),
        replace(SCALE, sharpness=sharp("pre")),
    ],
    ids=["gain", "offset", "no gain map", "another gain map", "no gain", "blur"],
)
def test_a_store_of_an_older_run_is_not_taken_for_that_of_this_one(place, before):
    for old, new in ((before, SCALE), (SCALE, before)):
        write(place, place, old)
        assert isinstance(open_difference(place), Store)
        save(place, new)
        made = open_difference(place)
        assert isinstance(made, Difference)
        found = new.methods["linear"]
        assert (made.attributes["gain"], made.attributes["offset"]) == (found.gain, found.offset)
        assert ("gain_map" in made.attributes) is (found.gain_map is not None)
        assert ("blur" in made.attributes) is (new.blur is not None)


def test_a_store_of_images_that_have_changed_since_is_not_taken(pairs, place):
    write(place, place)
    old = open_difference(place)
    shutil.rmtree(place / "aligned_pre.ome.zarr")
    images = (open_store(place / f"{name}.ome.zarr") for name in ("post", "pre"))
    moved = replace(FOUND, matrix=np.eye(3))
    path = place / "aligned_pre.ome.zarr"
    AlignedStore(*images, moved, derived_layout(), path).make(workers=1)
    made = open_difference(place)
    assert isinstance(made, Difference)
    assert np.isfinite(whole(made)).all()
    assert np.isnan(whole(old)).any()


@pytest.mark.parametrize("swept", ["registration", "subtraction", "both"])
def test_the_images_of_a_sweep_are_found_above(place, monkeypatch, swept):
    expected = whole(open_difference(place))
    registered = place if swept == "subtraction" else place / "model-affine"
    variant = registered if swept == "registration" else registered / "gain_map-auto"
    variant.mkdir(parents=True)
    if registered != place:
        shutil.move(place / "aligned_pre.ome.zarr", registered / "aligned_pre.ome.zarr")
    (variant / "details").mkdir(exist_ok=True)
    for name in ("scale.json", "details/gain_map.npz"):
        shutil.move(place / name, variant / name)
    made = open_difference(variant)
    assert made.path == variant / "difference.ome.zarr"
    assert_same_bits(whole(made), expected)
    monkeypatch.chdir(variant)
    assert_same_bits(whole(open_difference(".")), expected)
    monkeypatch.chdir(registered)
    assert_same_bits(whole(open_difference(variant.relative_to(registered))), expected)
    (variant / "figures").mkdir()
    monkeypatch.chdir(variant / "figures")
    assert_same_bits(whole(open_difference("..")), expected)
    assert_same_bits(whole(open_image("../difference.ome.zarr")), expected)


def test_what_is_not_there_is_reported_in_a_sentence(place, tmp_path):
    message = (
        r"has no difference by 'manual': its scale\.json has linear, moffat, percentile; add it to "
        r"scale\.methods and run again\."
    )
    with pytest.raises(StoreError, match=message):
        open_difference(place, "manual")
    message = (
        r"has no scale\.json: name the directory of a pair's results, or run the workflow to make "
        r"it\."
    )
    for wrong in (tmp_path, place / "post.ome.zarr", place / "nowhere", place / "scale.json"):
        with pytest.raises(StoreError, match=message):
            open_difference(wrong)
    (place / "details/gain_map.npz").unlink()
    with pytest.raises(StoreError, match=r"has no gain_map\.npz"):
        open_difference(place)
    save(place, SCALE)
    shutil.rmtree(place / "post.ome.zarr")
    with pytest.raises(StoreError, match=r"post\.ome\.zarr"):
        open_difference(place)
    (place / "scale.json").write_text("{}")
    with pytest.raises(StoreError, match=r"scale\.json is damaged"):
        open_difference(place)


def test_a_store_that_is_written_and_incomplete_is_reported(place):
    write(place, place)
    (place / "difference.ome.zarr" / "0" / "c" / "0" / "1").unlink()
    with pytest.raises(StoreError, match=r"difference\.ome\.zarr"):
        open_difference(place)


def test_an_image_is_opened_by_the_path_that_it_has_or_would_have(place, monkeypatch):
    write(place, place)
    path = place / "difference_moffat.ome.zarr"
    made = open_image(path)
    assert isinstance(made, Difference)
    assert made.path == path
    assert_same_bits(whole(made), whole(open_difference(place, "moffat")))
    assert isinstance(open_image(str(place / "difference.ome.zarr")), Store)
    assert open_image(place / "post.ome.zarr").digest == images_of(place)[0].digest
    monkeypatch.chdir(place)
    assert isinstance(open_image("difference_moffat.ome.zarr"), Difference)
    assert isinstance(open_image("post.ome.zarr"), Store)
    with pytest.raises(StoreError, match="has no difference by 'manual'"):
        open_image("difference_manual.ome.zarr")
    (place / "scale.json").unlink()
    for lost in ("difference_moffat.ome.zarr", "snr.ome.zarr", "/snr.ome.zarr", "/"):
        with pytest.raises(StoreError, match="is not a finished store"):
            open_image(lost)


def test_jobs_read_the_store_of_their_method_and_compute_every_other(place):
    write(place, place)
    written, images = place / "difference.ome.zarr", images_of(place)
    assert isinstance(open_method(*images, SCALE, written), Store)
    assert isinstance(open_method(*images, SCALE, written, "linear"), Store)
    made = open_method(*images, SCALE, written, "moffat")
    assert isinstance(made, Difference)
    assert (made.name, made.path.parent) == ("difference moffat", written.parent)
    assert_same_bits(whole(made), whole(open_difference(place, "moffat")))
    with pytest.raises(StoreError, match="has no difference by 'manual'"):
        open_method(*images, SCALE, written, "manual")
