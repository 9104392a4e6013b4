"""Layouts follow from the image alone and fit together at every level."""

from __future__ import annotations

import pytest

from unglow.images.zarr import StoreLayout, plan_layout


@pytest.mark.parametrize(
    ("shape", "dtype", "shards", "chunks", "levels", "fine"),
    [
        ((8192, 8192), "uint16", (2048, 2048), (512, 512), 5, 3),
        ((1531, 2777), "float32", (2048, 2048), (512, 512), 4, 3),
        ((1024, 700), "uint16", (1024, 1024), (512, 512), 2, 1),
        ((1, 1), "int16", (1, 1), (1, 1), 1, 0),
        ((100_000, 3), "uint8", (2048, 4), (512, 4), 2, 0),
    ],
)
def test_plan(shape, dtype, shards, chunks, levels, fine):
    layout = plan_layout(shape, dtype)
    assert layout == StoreLayout(shape, dtype, chunks, shards, levels)
    assert layout.fine_levels == fine


@pytest.mark.parametrize(
    ("shape", "dtype", "rows"),
    [
        ((30000, 25000), "uint8", 2048),
        ((30000, 25000), "float32", 512),
        ((30000, 400_000), "float64", 16),
        ((200, 100_000), "uint16", 256),  # 200 rows x 200 kB are under the limit already
    ],
)
def test_strip_files_get_flat_shards(shape, dtype, rows):
    layout = plan_layout(shape, dtype, by_rows=True)
    assert layout.shards == (rows, 2048)
    assert min(rows, shape[0]) * shape[1] * layout.itemsize < 100e6
    assert layout.chunks == (min(rows, 512), 512)
    assert (layout.fine_levels > 0) == (rows > 64)  # level 1 is still made along with level 0


@pytest.mark.parametrize("shape", [(1531, 2777), (2049, 6145), (4097, 513), (20000, 31)])
@pytest.mark.parametrize("by_rows", [False, True])
def test_levels_fit_together(shape, by_rows):
    layout = plan_layout(shape, "uint16", by_rows=by_rows)
    for level in range(layout.levels):
        assert layout.level_shape(level) == tuple(n // 2**level for n in shape)
        shards, chunks = layout.level_shards(level), layout.level_chunks(level)
        assert all(s % c == 0 and s <= 2048 for s, c in zip(shards, chunks, strict=True))
        if level <= layout.fine_levels:
            assert shards == tuple(s // 2**level for s in layout.shards)
            assert all(s % 2**level == 0 for s in layout.shards)
        covered = sum(window.size for window in layout.windows(level))
        assert covered == layout.level_shape(level)[0] * layout.level_shape(level)[1]
    longest = max(layout.level_shape(layout.levels - 1))
    assert longest <= 512 or min(layout.level_shape(layout.levels - 1)) == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dtype": "complex64"}, "cannot be stored"),
        ({"shape": (0, 5)}, "at least 1"),
        ({"chunks": (500, 512)}, "not whole chunks"),
        ({"levels": 12}, "has no 12 levels"),
    ],
)
def test_impossible_layouts_are_refused(changes, message):
    good = {
        "shape": (1531, 2777),
        "dtype": "uint16",
        "chunks": (512, 512),
        "shards": (2048, 2048),
        "levels": 3,
    }
    with pytest.raises(ValueError, match=message):
        StoreLayout(**{**good, **changes})
