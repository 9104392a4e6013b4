"""Ingest: what is stored is what the file holds, for every layout, and nothing half-made."""

from __future__ import annotations

from collections import Counter
from functools import cache

import numpy as np
import pytest
import tifffile
from partial_images import drop

from unglow.core.errors import ChangedError
from unglow.core.windows import Window
from unglow.images.pair_plan import Plan
from unglow.images.raw_file import fingerprint
from unglow.images.raw_images import PART_ROWS, band_parts, part_rows, reads_in_order
from unglow.images.stored_values import MissingTiles
from unglow.images.tiff import read_header
from unglow.images.tiff.reader import TiffReader
from unglow.images.zarr import open_store
from unglow.stages.ingest import PixelStatistics, SignalStore
from unglow.stages.plan import make_plan

SHAPE = (1500, 1270)


@cache
def texture(seed):
    y, x = np.mgrid[: SHAPE[0], : SHAPE[1]]
    noise = np.random.default_rng(seed).normal(0, 3, SHAPE)
    return np.clip(60 + 40 * np.sin(x / 40) * np.cos(y / 60) + noise, 0, 255)


def picture(dtype=np.uint8, channels=3, seed=0):
    planes = np.zeros((*SHAPE, channels), dtype)
    planes[..., min(1, channels - 1)] = texture(seed)
    return planes if channels > 1 else planes[..., 0]


LAYOUTS = {
    "tiles": {"tile": (256, 256), "compression": "zlib"},
    "strips": {"rowsperstrip": 50, "compression": "lzw"},
    "single strip": {"rowsperstrip": SHAPE[0]},
    "strips of odd height": {"rowsperstrip": 187, "compression": "zstd"},
    "planar strips": {"rowsperstrip": 300, "compression": "lzw", "planarconfig": "separate"},
    "whole strip": {"rowsperstrip": SHAPE[0], "compression": "lerc"},
    "streamed strip": {"rowsperstrip": SHAPE[0], "compression": "zlib", "predictor": True},
}


def planned(tmp_path, post, pre, channel="auto", **options):
    paths = {}
    for role, image in (("post", post), ("pre", pre)):
        paths[role] = tmp_path / f"{role}.tif"
        photometric = "rgb" if image.ndim == 3 else "minisblack"
        stored = np.moveaxis(image, -1, 0) if "planarconfig" in options else image
        # the description makes two files of one image
        tifffile.imwrite(paths[role], stored, photometric=photometric, description=role, **options)
    headers = [read_header(paths[role]) for role in ("post", "pre")]
    plan = make_plan(*headers, channel=channel)
    plan.save(tmp_path / "details/plan.json")
    return Plan.load(tmp_path / "details/plan.json", paths)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("workers", [1, 2])
def test_the_signal_channel_is_stored_pixel_by_pixel(tmp_path, layout, workers):
    image = picture()
    plan = planned(tmp_path, image, image, **LAYOUTS[layout])
    assert plan.reason is None
    assert plan.channels == {"post": (1,), "pre": (1,)}
    made = SignalStore(plan, "post", tmp_path / "post.ome.zarr")
    assert made.make(workers=workers) is None
    figures = made.statistics.to_dict()
    store = open_store(tmp_path / "post.ome.zarr")
    assert store.dtype == np.uint16  # auto on several channels: the next wider integer
    np.testing.assert_array_equal(store.read(Window.from_shape(SHAPE)), image[..., 1])
    assert figures["max"] == image[..., 1].max()
    assert figures["mean"] == pytest.approx(image[..., 1].mean(), rel=1e-12)
    assert store.attributes["statistics"] == figures


def test_layout_and_workers_leave_the_same_pixels_and_statistics(tmp_path):
    image = picture()
    digests, figures = {}, {}
    for name in ("tiles", "strips"):
        work = tmp_path / name
        work.mkdir()
        plan = planned(work, image, image, **LAYOUTS[name])
        for workers in (1, 2):
            target = work / f"{workers}.ome.zarr"
            store = SignalStore(plan, "pre", target)
            store.make(workers=workers)
            figures[name, workers] = store.statistics.to_dict()
            digests[name, workers] = open_store(target).digest
    assert digests["tiles", 1] == digests["tiles", 2]
    assert digests["strips", 1] == digests["strips", 2]
    for shown in figures.values():
        assert {k: v for k, v in shown.items() if k != "mean"} == {
            k: v for k, v in figures["tiles", 1].items() if k != "mean"
        }


def test_one_named_channel_keeps_the_dtype_of_the_file_and_a_sum_gets_room(tmp_path):
    image = picture()
    image[..., 0] = image[..., 1]
    plan = planned(tmp_path, image, image, channel="R+G")
    SignalStore(plan, "post", tmp_path / "post.ome.zarr").make(workers=1)
    store = open_store(tmp_path / "post.ome.zarr")
    assert store.dtype == np.uint16
    expected = image[..., 0].astype(np.uint16) + image[..., 1]
    np.testing.assert_array_equal(store.read(Window.from_shape(SHAPE)), expected)
    assert planned(tmp_path, image, image, channel="G").layouts["post"].dtype == "uint8"


def test_values_that_are_not_finite_become_nan_and_are_counted(tmp_path):
    image = picture(np.float32, channels=1)
    image[10:20, 30:50] = np.nan
    image[700, 800] = np.inf
    plan = planned(tmp_path, image, image, tile=(256, 256))
    store = SignalStore(plan, "post", tmp_path / "post.ome.zarr")
    store.make(workers=1)
    assert store.statistics.to_dict()["missing"] == 201
    read = open_store(tmp_path / "post.ome.zarr").read(Window.from_shape(SHAPE))
    np.testing.assert_array_equal(read, np.where(np.isfinite(image), image, np.nan))


@pytest.mark.parametrize(
    ("layout", "units", "rectangles"),
    [
        ("tiles", (6, 7, 12), [[256, 256, 512, 768], [512, 512, 768, 768]]),
        ("strips", (2, 3), [[100, 0, 200, 1270]]),
    ],
)
def test_what_is_not_stored_is_reported_and_counts_as_no_pixel(tmp_path, layout, units, rectangles):
    image = picture(channels=1)
    whole = planned(tmp_path, image, image, **LAYOUTS[layout])
    SignalStore(whole, "post", tmp_path / "whole.ome.zarr").make(workers=1)
    assert "not_stored" not in open_store(tmp_path / "whole.ome.zarr").attributes
    drop(tmp_path / "post.tif", units)
    headers = [read_header(tmp_path / f"{role}.tif") for role in ("post", "pre")]
    stores = []
    for workers in (1, 2):
        target = tmp_path / f"{workers}.ome.zarr"
        made = SignalStore(make_plan(*headers, channel="auto"), "post", target)
        assert made.make(workers=workers) is None
        stores.append((target / "zarr.json").read_bytes())
    assert stores[0] == stores[1]
    attributes = open_store(target).attributes
    gaps, figures = attributes["not_stored"], attributes["statistics"]
    kept = np.ones(SHAPE, bool)
    for y0, x0, y1, x1 in rectangles:
        kept[y0:y1, x0:x1] = False
    assert gaps["rectangles_px"] == rectangles
    assert (gaps["file"], gaps["count"]) == ("post.tif", len(units))
    assert gaps["share"] == pytest.approx(1 - kept.mean())
    assert (figures["pixels"], figures["missing"]) == (kept.sum(), 0)
    assert figures["min"] == image[kept].min() > 0
    assert figures["mean"] == pytest.approx(image[kept].mean(), rel=1e-12)


def test_damage_in_the_middle_gives_a_store_marked_with_the_reason(tmp_path):
    image = picture()
    plan = planned(tmp_path, image, image, **LAYOUTS["tiles"])
    with tifffile.TiffFile(tmp_path / "pre.tif") as tif:
        offset = tif.pages[0].dataoffsets[7]
    with (tmp_path / "pre.tif").open("r+b") as stream:
        stream.seek(offset)
        stream.write(b"\0" * 500)
    plan.fingerprints["pre"] = fingerprint(plan.headers["pre"])  # it was like that from the start
    reason = SignalStore(plan, "pre", tmp_path / "pre.ome.zarr").make(workers=2)
    store = open_store(tmp_path / "pre.ome.zarr")
    assert store.empty == reason
    assert "pre.tif" in store.empty
    assert str(tmp_path) not in store.empty  # results hold no path of this machine
    assert [p.name for p in tmp_path.glob(".*")] == []


def test_a_plan_that_failed_hands_its_reason_on(tmp_path):
    mono, colour = picture(channels=1), picture()
    plan = planned(tmp_path, mono, colour)
    assert plan.reason
    SignalStore(plan, "post", tmp_path / "post.ome.zarr").make(workers=1)
    assert open_store(tmp_path / "post.ome.zarr").empty == plan.reason


def test_statistics_do_not_depend_on_the_order_of_blocks():
    rng = np.random.default_rng(1)
    blocks = {Window(i, i + 1, 0, 100): rng.normal(0, 1e6, (1, 100)) for i in range(50)}
    forward, backward = (PixelStatistics((50, 100), 1e9) for _ in range(2))
    for window, block in blocks.items():
        forward.add(window, block)
    for window, block in reversed(blocks.items()):
        backward.add(window, block)
    assert forward.to_dict() == backward.to_dict()


@pytest.mark.parametrize("layout", ["tile", "rowsperstrip"])
@pytest.mark.parametrize("value", [0, 255, 70])
def test_a_hole_of_one_value_is_kept_as_no_data_and_in_no_statistic(tmp_path, layout, value):
    rng = np.random.default_rng(4)
    image = rng.integers(40, 120, (600, 700)).astype(np.uint8)
    holed, hole = image.copy(), Window(100, 200, 300, 460)
    holed[hole.slices] = value
    size = (256, 256) if layout == "tile" else 32
    plan = planned(tmp_path, holed, image, **{layout: size})
    SignalStore(plan, "post", tmp_path / "post.ome.zarr").make(workers=2)
    attributes = open_store(tmp_path / "post.ome.zarr").attributes
    lacking = MissingTiles.from_attributes(attributes)
    assert (lacking.rectangles, lacking.values, lacking.count) == ((hole,), (value,), 0)
    assert lacking.share == hole.size / image.size
    kept = np.ones(image.shape, bool)
    kept[hole.slices] = False
    figures, left = attributes["statistics"], image[kept]
    assert (figures["pixels"], figures["missing"], figures["saturated"]) == (left.size, 0, 0)
    assert (figures["min"], figures["max"]) == (left.min(), left.max())
    assert figures["mean"] == pytest.approx(left.mean())
    SignalStore(plan, "pre", tmp_path / "pre.ome.zarr").make(workers=1)
    assert "not_stored" not in open_store(tmp_path / "pre.ome.zarr").attributes


def replaced(path):
    image = picture(seed=1)
    tifffile.imwrite(path, image, photometric="rgb", compression="zlib", tile=(256, 256))


def cut(path):
    with path.open("r+b") as stream:
        stream.truncate(path.stat().st_size // 2)


def gone(path):
    path.rename(path.with_name("elsewhere.tif"))


@pytest.mark.parametrize("change", [replaced, cut, gone])
def test_a_raw_file_that_changes_while_it_is_read_gives_no_store(tmp_path, monkeypatch, change):
    image = picture()
    plan = planned(tmp_path, image, image, compression="zlib", tile=(256, 256))
    count = PixelStatistics.add

    def add(self, window, block):
        if not window.y0 and not window.x0:
            change(tmp_path / "post.tif")
        count(self, window, block)

    monkeypatch.setattr(PixelStatistics, "add", add)
    with pytest.raises(ChangedError, match=r"post\.tif"):
        SignalStore(plan, "post", tmp_path / "post.ome.zarr").make(workers=1)
    assert not list(tmp_path.glob("*post.ome.zarr*"))


def test_a_raw_file_that_was_replaced_since_the_plan_gives_no_store(tmp_path):
    image = picture()
    plan = planned(tmp_path, image, image, compression="zlib", tile=(256, 256))
    replaced(tmp_path / "post.tif")
    with pytest.raises(ChangedError, match=r"post\.tif"):
        SignalStore(plan, "post", tmp_path / "post.ome.zarr").make(workers=1)
    assert not list(tmp_path.glob("*post.ome.zarr*"))


TALL = (5000, 400)


def strips(path, rows, compression="zlib", image=None):
    image = np.zeros(TALL, np.uint8) if image is None else image
    tifffile.imwrite(path, image, rowsperstrip=rows, compression=compression)
    return read_header(path)


@pytest.mark.parametrize(
    ("rows", "compression", "step"),
    [
        (1, "zlib", PART_ROWS),
        (128, "zlib", 128),
        (2048, "zlib", 2048),
        (2049, "zlib", PART_ROWS),  # more than a band: decoded once, kept, read in order
        (5000, None, PART_ROWS),  # rows are read singly
        (300, None, PART_ROWS),
    ],
)
def test_parts_are_whole_strips_where_these_fit_a_band(tmp_path, rows, compression, step):
    header = strips(tmp_path / "a.tif", rows, compression)
    assert part_rows(header, 2048) == step
    assert reads_in_order(header, 2048) == (rows > 2048 and compression is not None)
    for y0, y1 in ((0, 2048), (2048, 4096), (4096, 5000)):
        parts = band_parts(header, y0, y1, 2048)
        assert [p.y0 for p in parts] == [y0, *(p.y1 for p in parts[:-1])]
        assert parts[-1].y1 == y1
        assert all(p.x0 == 0 and p.x1 == TALL[1] and p.y1 - p.y0 <= step for p in parts)
        assert all(p.y0 % step == 0 for p in parts[1:])


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("rows", [300, 1000, 2500, 5000])
def test_each_strip_is_decoded_once(tmp_path, monkeypatch, rows, workers):
    image = np.random.default_rng(1).integers(0, 255, TALL, dtype=np.uint8)
    header = strips(tmp_path / "a.tif", rows, image=image)
    plan = make_plan(header, header, channel="auto")
    decode = TiffReader._decode
    seen = Counter()

    def counting(reader, stored, index):
        seen[index] += 1
        return decode(reader, stored, index)

    monkeypatch.setattr(TiffReader, "_decode", counting)
    SignalStore(plan, "post", tmp_path / "post.ome.zarr").make(workers=workers)
    assert len(seen) == -(-TALL[0] // rows)
    assert set(seen.values()) == {1}
    store = open_store(tmp_path / "post.ome.zarr")
    np.testing.assert_array_equal(store.read(Window.from_shape(TALL)), image)
