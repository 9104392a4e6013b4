"""The memory model: what is in flight follows from budget and threads, to the byte."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tifffile
from made_headers import header

from unglow.core.measured import LIBRARIES_MB
from unglow.images.channels import plan_layouts
from unglow.images.tiff import read_header
from unglow.images.zarr import plan_layout
from unglow.memory import Demand, PairDemand
from unglow.slides.rules import SLIDES
from unglow.workflow import stage_memory
from unglow.workflow.batch import Batch
from unglow.workflow.job_resources import choose_threads
from unglow.workflow.stage_memory import libraries_mb, small

BUDGETS = (*range(300, 2300, 37), 2000, 4000, 64000)
THREADS = (1, 2, 3, 4, 8, 64)


def both_of(post, layout):
    return stage_memory.ingest_both((post, post), (layout["post"], layout["post"]))


@pytest.fixture(scope="module")
def demands(tmp_path_factory):
    """Demands of every stage for images of several sizes and layouts."""
    place = tmp_path_factory.mktemp("headers")
    made = {
        "whole": Demand(100.0, 25.0, 50.0),
        "thirds": Demand(100 / 3, 100 / 7, 0.1),
        "constant": Demand(80.0, 0.0, 12.5),
        "tiny": Demand(85.0, 1e-3),
    }
    images = {
        "tiles": ((6000, 7000, 3), np.uint8, {"tile": (256, 256)}),
        "strips": ((3000, 20000), np.uint16, {"rowsperstrip": 16}),
        "small": ((64, 64), np.float32, {"rowsperstrip": 64}),
    }
    for name, (shape, dtype, options) in images.items():
        post = header(place / f"{name}.tif", shape, dtype, **options)
        layout = plan_layouts(post, post, "auto")
        made |= {
            f"both {name}": both_of(post, layout),
            f"ingest {name}": stage_memory.ingest(post, layout["post"]),
            f"align {name}": stage_memory.align(layout["derived"], layout["pre"]),
            f"difference {name}": stage_memory.difference(layout["derived"]),
            f"detect {name}": stage_memory.detect(layout["derived"]),
            f"snr {name}": stage_memory.snr(layout["derived"]),
        }
    made["register"] = stage_memory.register(((8192, 8192), (8356, 8437)), 1024, 256)
    made["register large"] = stage_memory.register(((8192, 8192), (8356, 8437)), 4096, 512)
    for stage in LIBRARIES_MB:
        made[f"small {stage}"] = small(stage)
    return made


def test_two_images_are_side_by_side_where_both_fit_and_in_turn_else():
    post, pre = Demand(100.0, 30.0, 20.0), Demand(100.0, 10.0, 5.0, most=2)
    both = PairDemand((post, pre), before=160.0)
    assert both.peak_mb(0, 1) == both.peak_mb(164, 2) == 160  # the plan; in turn it is 158
    assert both.count_in_flight(164, 2) == both.count_in_flight(10_000, 1) == 1
    assert (both.count_in_flight(165, 3), both.peak_mb(165, 3)) == (2, 165)
    assert (both.count_in_flight(10_000, 8), both.peak_mb(10_000, 8)) == (8, 100 + 140 + 25)
    assert replace(both, before=300.0).peak_mb(10_000, 2) == 300
    least = replace(pre, least=170.0)  # an image that is decoded before its blocks are there
    assert PairDemand((post, least)).peak_mb(10_000, 2) == 100 + 50 + 70


def test_the_peak_is_the_sum_that_the_formula_says():
    demand = Demand(base=100.0, each=25.0, fixed=50.0)
    assert [demand.count_in_flight(b, 4) for b in (100, 174, 175, 199, 200, 224, 250, 9999)] == [
        1, 1, 1, 1, 2, 2, 4, 4,
    ]  # fmt: skip
    assert demand.peak_mb(100, 4) == 175
    assert demand.peak_mb(200, 4) == 200
    assert demand.peak_mb(9999, 4) == 250
    assert Demand(100.2, 25.0).peak_mb(9999, 1) == 126
    assert demand.count_in_flight(2000, 0) == 1
    constant = Demand(base=80.0, each=0.0, fixed=12.5)
    assert (constant.count_in_flight(10, 8), constant.peak_mb(10, 8)) == (8, 93)


def test_the_budget_is_never_exceeded_where_one_block_fits(demands):
    checked = 0
    for (name, demand), budget, threads in itertools.product(demands.items(), BUDGETS, THREADS):
        n = demand.count_in_flight(budget, threads)
        assert 1 <= n <= threads, (name, budget, threads)
        if demand.peak_mb(0, 1) <= budget:
            checked += 1
            assert demand.peak_mb(budget, threads) <= budget, (name, budget, threads)
        else:
            assert n == 1 or demand.each == 0, (name, budget, threads)
    assert checked > 1000


def test_more_budget_and_more_threads_never_mean_less(demands):
    for name, demand in demands.items():
        for threads in THREADS:
            by_budget = [demand.count_in_flight(b, threads) for b in sorted(BUDGETS)]
            assert by_budget == sorted(by_budget), (name, threads)
        for budget in BUDGETS:
            by_threads = [demand.count_in_flight(budget, t) for t in THREADS]
            assert by_threads == sorted(by_threads), (name, budget)
            peaks = [demand.peak_mb(budget, t) for t in THREADS]
            assert peaks == sorted(peaks), (name, budget)


def test_a_job_works_on_as_much_as_was_declared_for_it(demands):
    # the rule declares peak_mb(budget), the script asks again with what was declared
    for (name, demand), budget, threads in itertools.product(demands.items(), BUDGETS, THREADS):
        declared = demand.peak_mb(budget, threads)
        again = demand.count_in_flight(declared, threads)
        assert again == demand.count_in_flight(budget, threads), (name, budget, threads)


@pytest.mark.parametrize("each", [0.1, 0.7, 1.1, 7.3, 33.3, 1 / 3])
@pytest.mark.parametrize("base", [0.1, 85.0, 104.7, 190.3])
def test_a_budget_that_holds_exactly_n_blocks_holds_n_blocks(base, each):
    # sums of decimal fractions miss the whole number by a rounding error, one way or the other
    for n in range(1, 40):
        demand = Demand(base, each)
        exact = base + n * each
        if exact == round(exact, 9) and float(exact).is_integer():
            assert demand.count_in_flight(exact, 99) == n
        for budget in (round(exact), math.ceil(exact)):
            if base + each <= budget:
                assert demand.peak_mb(budget, 99) <= budget


def test_no_more_blocks_are_in_flight_than_there_are(tmp_path):
    source = header(tmp_path / "a.tif", (2048, 3000), np.uint8, tile=(256, 256))  # two shards
    layout = plan_layouts(source, source, "auto")
    for demand in (
        stage_memory.ingest(source, layout["post"]),
        stage_memory.difference(layout["derived"]),
    ):
        assert [demand.count_in_flight(9999, t) for t in (1, 2, 8)] == [1, 2, 2]
        assert demand.peak_mb(9999, 8) == demand.peak_mb(9999, 2)


def test_the_search_fits_the_least_budget_and_its_list_is_bounded():
    derived = [plan_layout((side, side), "float32") for side in (500, 5000, 30000, 100000)]
    demands = [stage_memory.detect(layout) for layout in derived]
    disk = [stage_memory.candidates_disk_mb(layout) for layout in derived]
    assert demands[0].count_in_flight(9999, 8) == 1  # one tile
    # of the largest, blocks are put together: they hold less than those of 30000 px
    assert demands[2].each == demands[3].each
    assert demands[3].fixed < demands[2].fixed < demands[3].fixed + 6
    assert all(demand.peak_mb(0, 1) <= 300 for demand in demands)
    assert disk[0] < 10
    assert disk[2] == disk[3] < 250


# ----------------------------------------------------------------------------------- what it is of


def test_a_streamed_strip_is_decoded_once_however_many_threads_write(tmp_path):
    path = tmp_path / "a.tif"
    image = np.zeros((4000, 4000), np.uint8)
    tifffile.imwrite(path, image, rowsperstrip=4000, compression="zlib", photometric="minisblack")
    source = read_header(path)
    assert source.streams
    layout = plan_layouts(source, source, "auto")["post"]
    demand = stage_memory.ingest(source, layout)
    band = layout.shards[0] * 4000 / 1e6
    # while shards are written, the decoder waits with what it keeps
    waiting = band + source.kept_bytes / 1e6
    assert waiting <= demand.fixed < waiting + 20
    assert demand.fixed + demand.each >= band + source.decode_bytes / 1e6


def test_demands_follow_the_shard_and_not_the_image(tmp_path):
    small, large = (
        header(tmp_path / f"{n}.tif", (n, n), np.uint16, tile=(256, 256)) for n in (5000, 20000)
    )
    for stage in ("ingest", "align", "difference"):
        made = []
        for source in (small, large):
            layout = plan_layouts(source, source, "auto")
            args = {
                "ingest": (source, layout["post"]),
                "align": (layout["derived"], layout["pre"]),
                "difference": (layout["derived"],),
            }[stage]
            made.append(getattr(stage_memory, stage)(*args))
        # blocks that are judged are bounded, and so are parts of lines
        more = {"ingest": 0, "align": 12, "difference": 48 + 12}[stage]
        assert 0 <= made[1].peak_mb(9999, 4) - made[0].peak_mb(9999, 4) <= more, stage


def test_drawn_regions_take_what_their_file_is_large_and_no_more_than_a_bound(tmp_path):
    post = header(tmp_path / "post.tif", (6000, 7000), np.uint8, tile=(256, 256))
    layout = plan_layouts(post, post, "auto")["derived"]
    sizes = (0, 10_000, 2_000_000, 8 << 20)
    peaks = [stage_memory.detect(layout, size).peak_mb(2000, 2) for size in sizes]
    assert peaks[0] == stage_memory.detect(layout).peak_mb(2000, 2)
    assert peaks[1] <= peaks[0] + 1
    assert peaks[0] + 20 < peaks[2] < peaks[3] <= peaks[0] + 42


@pytest.mark.parametrize(
    ("shape", "before", "ahead"),
    [((90, 150), 12.6345, 1.483776), ((6000, 7000), 61.283072, 20.04728)],
)
def test_a_search_finds_the_section_first_and_reads_ahead_of_its_tiles(shape, before, ahead):
    layout = plan_layout(shape, "float32")
    search = stage_memory.detect(layout)
    assert (round(search.least - search.base, 6), round(search.ahead, 6)) == (before, ahead)


def test_the_disk_of_stores_and_lists():
    large, low = plan_layout((30000, 25000), "uint8"), plan_layout((700, 90000), "uint16")
    assert stage_memory.store_disk_mb(large) == 1021
    assert stage_memory.store_disk_mb(plan_layout((30000, 25000), "float32")) == 4081
    assert stage_memory.store_disk_mb(low) == 173
    assert stage_memory.candidates_disk_mb(large) == 237
    assert stage_memory.candidates_disk_mb(plan_layout((9000, 150), "uint8")) == 32


def test_both_images_are_ingested_with_the_plan_of_one_and_the_slack_of_one(tmp_path):
    image = header(tmp_path / "a.tif", (6000, 7000, 3), np.uint8, tile=(256, 256))
    layout = plan_layouts(image, image, "auto")
    pair = stage_memory.ingest_both((image, image), (layout["post"], layout["pre"]))
    post, pre = (stage_memory.ingest(image, layout[role]) for role in ("post", "pre"))
    pre = replace(pre, fixed=pre.fixed - 12.0)
    assert pair == PairDemand((post, pre), stage_memory.plan((image, image)).peak_mb(0, 1))


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
    "strip of all rows": ({}, 31.74976, 47.3728, 49.5248),
    "one strip, whole": ({"layout": "single strip"}, 31.74976, 47.3728, 42.152),
    "one strip, streamed": (
        {"layout": "single strip", "streams": True, "kept_bytes": 300000},
        31.74976,
        19.9728,
        35.8248,
    ),
    "strips, streamed": ({"streams": True, "kept_bytes": 300000}, 31.74976, 19.9728, 35.8248),
    "short strips": (
        {"unit": (100, 900), "decode_bytes": 600000, "kept_bytes": 0},
        31.74976,
        19.3728,
        0.0,
    ),
    "low strips of a low image": (
        {"shape": (500, 900), "unit": (100, 900), "decode_bytes": 600000},
        15.31,
        41.8,
        0.0,
    ),
    "plain rows": ({"raw": True, "kept_bytes": 0, "parts": 1}, 31.74976, 19.3728, 0.0),
    "tiles": (
        {"layout": "tiles", "unit": (256, 256), "decode_bytes": 2000000},
        39.12256,
        12.0,
        0.0,
    ),
    "large tiles": (
        {"layout": "tiles", "unit": (256, 256), "decode_bytes": 40000000},
        58.432,
        12.0,
        0.0,
    ),
    "high": ({"shape": (9000, 900), "unit": (9000, 900)}, 31.74976, 47.3728, 49.5248),
}


@pytest.mark.parametrize("kind", READING)
def test_what_ingest_holds_follows_from_how_a_file_is_read(rgb, kind):
    changes, *expected = READING[kind]
    image = replace(rgb, **changes)
    demand = stage_memory.ingest(image, plan_layout(image.shape, "uint32"))
    assert demand.base == libraries_mb("ingest")
    least = max(0.0, demand.least - demand.base)
    assert [round(n, 6) for n in (demand.each, demand.fixed, least)] == expected


def test_a_plan_holds_what_is_sampled_of_each_channel_and_what_else_a_reader_keeps(rgb):
    # 28 to survey, 4 for each channel, 12 more, and 15 + 14 to read
    assert stage_memory.plan((rgb, rgb)) == Demand(
        libraries_mb("ingest"), 0.0, fixed=28 + 12 + 12 + 29
    )


def test_many_small_pairs_run_next_to_each_other_with_one_thread_each(tmp_path):
    def threads(count, shape):
        for number in range(count):
            for stage in ("pre", "post"):
                path = tmp_path / f"raw/S{number}/S{number}_{stage}_DAPI.tif"
                path.parent.mkdir(parents=True, exist_ok=True)
                header(path, shape)
        batch = Batch.load({}, tmp_path, SLIDES)
        found = choose_threads(batch)
        return found["align"], found["slide_part"]

    assert threads(3, (1000, 1200)) == (2, 2)
    assert threads(4, (1000, 1200)) == (1, 2)
    assert threads(5, (6000, 6000)) == (2, 2)


def test_the_table_of_memory_by_rule_is_what_the_model_declares(tmp_path):
    declared = {}
    layouts = ({"tile": (256, 256)}, {"tile": (512, 512)}, {"rowsperstrip": 16})
    for px, dtype, options in itertools.product((4096, 16384), (np.uint8, np.uint16), layouts):
        made = header(tmp_path / "large.tif", (px, px), dtype, **options)
        layout = plan_layouts(made, made, "auto")
        for rule, demand in {
            "ingest": both_of(made, layout),
            "register": stage_memory.register(((px, px), (px, px)), 1024, 256),
            "align": stage_memory.align(layout["derived"], layout["pre"]),
            "detect": stage_memory.detect(layout["derived"]),
            "snr": stage_memory.snr(layout["derived"]),
            "difference": stage_memory.difference(layout["derived"]),
        }.items():
            peaks = [demand.peak_mb(budget, n) for budget, n in ((0, 1), (2000, 2), (2000, 4))]
            declared.setdefault(rule, []).append(peaks)
        exports = [stage_memory.export(layout["derived"], computed=c) for c in (False, True)]
    page = (Path(__file__).parents[3] / "docs" / "design-choices.md").read_text()
    for rule, peaks in declared.items():
        said = re.search(rf"\| `{rule}` \| (\S+) \| (\S+) \| (\S+) \|", page).groups()
        for cell, column in zip(said, zip(*peaks, strict=True), strict=True):
            low, _, high = cell.partition("-")
            assert [int(low), int(high or low)] == pytest.approx([min(column), max(column)], abs=3)
    small_ones = re.search(r"`export_\*` \| (\d+), (\d+), (\d+), (\d+)-(\d+) \|", page).groups()
    alone = [small(stage) for stage in ("scale", "summary", "figures")]
    assert [*map(int, small_ones)] == pytest.approx(
        [one.peak_mb(2000, 1) for one in (*alone, *exports)], abs=3
    )
