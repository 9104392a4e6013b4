"""Bands of strips: every strip is decoded once, whole strips go to one worker, order is kept."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import tifffile

from unglow.core.windows import Window
from unglow.io.raw_images import PART_ROWS, band_parts, part_rows, reads_in_order
from unglow.io.tiff import read_header
from unglow.io.tiff.reader import TiffReader
from unglow.io.zarr import open_store
from unglow.workflow.stages.ingest import SignalStore
from unglow.workflow.stages.plan import make_plan

SHAPE = (5000, 400)


def strips(path, rows, compression="zlib", image=None):
    image = np.zeros(SHAPE, np.uint8) if image is None else image
    tifffile.imwrite(path, image, rowsperstrip=rows, compression=compression)
    return read_header(path)


@pytest.mark.parametrize(
    ("rows", "compression", "step"),
    [
        (1, "zlib", PART_ROWS),
        (50, "zlib", 100),
        (128, "zlib", 128),
        (300, "zlib", 300),
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
        assert all(p.x0 == 0 and p.x1 == SHAPE[1] and p.y1 - p.y0 <= step for p in parts)
        assert all(p.y0 % step == 0 for p in parts[1:])


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("rows", [300, 1000, 2500, 5000])
def test_each_strip_is_decoded_once(tmp_path, monkeypatch, rows, workers):
    image = np.random.default_rng(1).integers(0, 255, SHAPE, dtype=np.uint8)
    header = strips(tmp_path / "a.tif", rows, image=image)
    plan = make_plan(header, header, channel="auto")
    decode = TiffReader._decode
    seen = Counter()

    def counting(reader, stored, index):
        seen[index] += 1
        return decode(reader, stored, index)

    monkeypatch.setattr(TiffReader, "_decode", counting)
    SignalStore(plan, "post", tmp_path / "post.ome.zarr").make(workers=workers)
    assert len(seen) == -(-SHAPE[0] // rows)
    assert set(seen.values()) == {1}
    store = open_store(tmp_path / "post.ome.zarr")
    np.testing.assert_array_equal(store.read(Window.from_shape(SHAPE)), image)
