"""The memory model to the byte: what each stage holds for a block, and what it holds once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from made_headers import header

from unglow.io.zarr import plan_layout
from unglow.memory import stages
from unglow.memory.demand import Demand, PairDemand
from unglow.memory.stages import libraries_mb, small
from unglow.workflow.header_cache import layouts

# MB for each block in flight, MB for what is held once, and the most blocks; of images that are
# low, tiny, and of another height than width, so that no side stands for the other. Change them
# together with a measurement (benchmarks/memory_model.py).
EXACT = {
    ((700, 90000), "align"): (30.47664, 27.18576, 44),
    ((700, 90000), "align_real"): (33.294688, 27.18576, 44),
    ((700, 90000), "difference"): (23.6544, 14.78487, 44),
    ((700, 90000), "detect"): (28.94562, 95.558436, 88),
    ((700, 90000), "snr"): (18.888908, 12.0, 44),
    ((700, 90000), "export"): (0.0, 60.0, None),
    ((700, 90000), "export_computed"): (0.0, 92.0, None),
    ((700, 90000), "register"): (10.65024, 94.330391, None),
    ((700, 90000), "register_small_blocks"): (0.65536, 119.555, None),
    ((700, 90000), "register_stiff"): (10.65024, 83.5374, None),
    ((90, 150), "align"): (12.8674, 16.73372, 1),
    ((90, 150), "align_real"): (12.8674, 16.73372, 1),
    ((90, 150), "difference"): (0.22275, 12.000675, 1),
    ((90, 150), "detect"): (2.503872, 12.942417, 1),
    ((90, 150), "snr"): (0.4185, 12.0, 1),
    ((90, 150), "export"): (0.0, 12.162, None),
    ((90, 150), "export_computed"): (0.0, 12.27, None),
    ((90, 150), "register"): (10.65024, 64.118854, None),
    ((90, 150), "register_small_blocks"): (0.65536, 64.157416, None),
    ((90, 150), "register_stiff"): (10.65024, 64.106, None),
    ((1100, 3000), "align"): (40.63472, 24.95, 2),
    ((1100, 3000), "align_real"): (44.763488, 24.95, 2),
    ((1100, 3000), "difference"): (37.1712, 12.14805, 2),
    ((1100, 3000), "detect"): (39.5307, 45.893076, 6),
    ((1100, 3000), "snr"): (27.93472, 12.0, 2),
    ((1100, 3000), "export"): (0.0, 51.6, None),
    ((1100, 3000), "export_computed"): (0.0, 78.0, None),
    ((1100, 3000), "register"): (10.65024, 80.4324, None),
    ((1100, 3000), "register_small_blocks"): (0.65536, 80.4324, None),
    ((1100, 3000), "register_stiff"): (10.65024, 80.4324, None),
    ((6000, 7000), "align"): (64.70937, 27.18576, 12),
    ((6000, 7000), "align_real"): (71.944544, 27.18576, 12),
    ((6000, 7000), "difference"): (69.206016, 13.85274, 12),
    ((6000, 7000), "detect"): (39.5307, 92.773608, 42),
    ((6000, 7000), "snr"): (52.00937, 12.0, 12),
    ((6000, 7000), "export"): (0.0, 60.0, None),
    ((6000, 7000), "export_computed"): (0.0, 92.0, None),
    ((6000, 7000), "register"): (10.65024, 96.480441, None),
    ((6000, 7000), "register_small_blocks"): (0.65536, 125.550266, None),
    ((6000, 7000), "register_stiff"): (10.65024, 95.7729, None),
}


@pytest.mark.parametrize(("shape", "stage"), EXACT)
def test_what_is_held_for_each_block_and_once(shape, stage):
    derived, grey = plan_layout(shape, "float32"), plan_layout(shape, "uint8")
    larger = (shape[0] + 300, shape[1])
    demand = {
        "align": lambda: stages.align(derived, grey),
        "align_real": lambda: stages.align(derived, derived),
        "difference": lambda: stages.difference(derived),
        "detect": lambda: stages.detect(derived),
        "snr": lambda: stages.snr(derived),
        "export": lambda: stages.export(derived),
        "export_computed": lambda: stages.export(derived, computed=True),
        "register": lambda: stages.register((shape, larger), 1024, 258),
        "register_small_blocks": lambda: stages.register((shape, larger), 1024, 64),
        "register_stiff": lambda: stages.register((shape, larger), 1024, 258, field=False),
    }[stage]()
    found = (round(demand.each, 6), round(demand.fixed, 6), demand.most)
    assert found == EXACT[shape, stage]


@pytest.mark.parametrize(
    ("shape", "before", "ahead"),
    [((90, 150), 12.6345, 1.483776), ((6000, 7000), 61.283072, 20.04728)],
)
def test_a_search_finds_the_section_first_and_reads_ahead_of_its_tiles(shape, before, ahead):
    layout = plan_layout(shape, "float32")
    search = stages.detect(layout)
    assert (round(search.least - search.base, 6), round(search.ahead, 6)) == (before, ahead)


def test_a_stage_that_reads_small_data_holds_the_same_always():
    held = {"scale": 56.0, "figures": 126.0, "comparison": 122.0}
    for stage in (*held, "summary", "export"):
        assert small(stage) == Demand(libraries_mb(stage), 0.0, fixed=held.get(stage, 12.0))


def test_the_disk_of_stores_and_lists():
    large, low = plan_layout((30000, 25000), "uint8"), plan_layout((700, 90000), "uint16")
    assert stages.store_disk_mb(large) == 1021
    assert stages.store_disk_mb(large, "float32") == 4081
    assert stages.store_disk_mb(low) == 173
    assert stages.candidates_disk_mb(large) == 237
    assert stages.candidates_disk_mb(plan_layout((9000, 150), "uint8")) == 32


def test_both_images_are_ingested_with_the_plan_of_one_and_the_slack_of_one(tmp_path):
    image = header(tmp_path / "a.tif", (6000, 7000, 3), np.uint8, tile=(256, 256))
    layout = layouts(image, image, "auto")
    pair = stages.ingest_both((image, image), (layout["post"], layout["pre"]))
    post, pre = (stages.ingest(image, layout[role]) for role in ("post", "pre"))
    pre = replace(pre, fixed=pre.fixed - 12.0)
    assert pair == PairDemand((post, pre), stages.plan((image, image)).peak_mb(0, 1))


@pytest.fixture(scope="module")
def rgb(tmp_path_factory):
    """The header of an image with three channels of 16 bits in one strip that has a codec."""
    path = tmp_path_factory.mktemp("header") / "a.tif"
    plain = header(path, (2500, 900, 3), np.uint16, rowsperstrip=2500)
    return replace(
        plain, raw=False, decode_bytes=15_000_000, kept_bytes=14_000_000, parts=2, layout="strips"
    )


# Changes to that header; MB for each block in flight, once, and before any block is in flight.
READING = {
    "strip of all rows": ({}, 21.74976, 47.3728, 49.5248),
    "one strip, whole": ({"layout": "single strip"}, 21.74976, 47.3728, 42.152),
    "one strip, streamed": (
        {"layout": "single strip", "streams": True, "kept_bytes": 300000},
        21.74976,
        19.9728,
        35.8248,
    ),
    "strips, streamed": ({"streams": True, "kept_bytes": 300000}, 21.74976, 19.9728, 35.8248),
    "short strips": (
        {"unit": (100, 900), "decode_bytes": 600000, "kept_bytes": 0},
        21.74976,
        19.3728,
        0.0,
    ),
    "low strips of a low image": (
        {"shape": (500, 900), "unit": (100, 900), "decode_bytes": 600000},
        5.31,
        41.8,
        0.0,
    ),
    "plain rows": ({"raw": True, "kept_bytes": 0, "parts": 1}, 21.74976, 19.3728, 0.0),
    "tiles": (
        {"layout": "tiles", "unit": (256, 256), "decode_bytes": 2000000},
        29.12256,
        12.0,
        0.0,
    ),
    "large tiles": (
        {"layout": "tiles", "unit": (256, 256), "decode_bytes": 40000000},
        58.432,
        12.0,
        0.0,
    ),
    "high": ({"shape": (9000, 900), "unit": (9000, 900)}, 21.74976, 47.3728, 49.5248),
}


@pytest.mark.parametrize("kind", READING)
def test_what_ingest_holds_follows_from_how_a_file_is_read(rgb, kind):
    changes, *expected = READING[kind]
    image = replace(rgb, **changes)
    demand = stages.ingest(image, plan_layout(image.shape, "uint32"))
    assert demand.base == libraries_mb("ingest")
    least = max(0.0, demand.least - demand.base)
    assert [round(n, 6) for n in (demand.each, demand.fixed, least)] == expected


def test_a_plan_holds_what_is_sampled_of_each_channel_and_what_else_a_reader_keeps(rgb):
    # 28 to survey, 4 for each channel, 12 more, and 15 + 14 to read
    assert stages.plan((rgb, rgb)) == Demand(libraries_mb("ingest"), 0.0, fixed=28 + 12 + 12 + 29)
