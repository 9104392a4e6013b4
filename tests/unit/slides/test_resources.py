"""Memory of the jobs of a slide: within the budget for any size and number of channels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from made_slide import write

from unglow.images.slide_plan import Channel, KnownSlide, Slide
from unglow.registration.settings import RegisterSettings
from unglow.slides import resources


@pytest.fixture(scope="module")
def header(tmp_path_factory):
    path = tmp_path_factory.mktemp("slide") / "s.ome.tif"
    return write(path, np.zeros((2, 300, 300), np.uint16))


def known(header, side, channels=40, **changes):
    tables = {"segments": (-(-side // 512)) ** 2, "parts": channels}
    header = replace(header, shape=(side, side), **tables | changes)
    made = [Channel("AF", 0, 0)]
    made += [Channel(f"M{n}", 0, n, background="AF") for n in range(1, channels)]
    return KnownSlide(Slide("s", (), tuple(made), {1: "AF"}), (header,))


@pytest.mark.parametrize("side", [2048, 30_000, 90_000])
@pytest.mark.parametrize("separate", [True, False])
@pytest.mark.parametrize("dtype", ["input", "float32"])
@pytest.mark.parametrize("stores", [True, False])
def test_300_mb_are_enough(header, side, separate, dtype, stores):
    slide = known(header, side, separate=separate)
    measuring = resources.measure(slide, resources.markers_at_a_time(slide, 300))
    at_a_time = resources.channels_at_a_time(slide, 300, dtype, stores=stores)
    writing = resources.subtract(slide, at_a_time, dtype, stores=stores)
    registering = resources.register(slide, RegisterSettings())
    for demand in (measuring, writing, registering):
        assert demand.peak_mb(300, 8) <= 300
    assert at_a_time == 1 or not separate


def test_more_memory_is_used_for_fewer_passes_and_more_windows(header):
    slide = known(header, 30_000, separate=False)
    few, many = (resources.markers_at_a_time(slide, mb) for mb in (300, 2000))
    assert 1 <= few < many == 39
    assert resources.channels_at_a_time(slide, 2000, "input") > 1
    apart = resources.subtract(known(header, 30_000), 1, "input")
    assert apart.count_in_flight(300, 8) < apart.count_in_flight(2000, 8) == 8


def each_of_subtract(header, at_a_time=1, dtype="input", stores=False, **changes):
    slide = known(header, 2048, channels=changes.pop("channels", 3), **changes)
    return resources.subtract(slide, at_a_time, dtype, stores=stores).each


def test_a_window_holds_what_its_heaviest_phase_holds(header):
    mpx, header = 2048 * 2048 / 1e6, replace(header, separate=True)
    extra = 0.3 + header.decode_bytes / 1e6
    # float32 background, signal, and its holes that are looked for
    alone = each_of_subtract(header, channels=2)
    assert alone == pytest.approx((4 + 2 + 6.5) * mpx + extra)
    # channels that are read together are floats if they have holes, and stay while tiles are made
    several = each_of_subtract(header, at_a_time=2, separate=False)
    assert several == pytest.approx((4 + 2 * 4 + 2 * 2.4 + 2) * mpx + extra)
    # of two backgrounds, no markers are read together, nor is there one that passes through
    made = [Channel(n, 0, i, removed=True) for i, n in enumerate(("AF1", "AF2"))]
    made += [Channel(f"M{n}", 0, n + 1, background=f"AF{n}") for n in (1, 2)]
    two = replace(known(header, 2048, separate=False), slide=Slide("s", (), tuple(made), {1: "M1"}))
    assert resources.subtract(two, 9, "input").each == pytest.approx(alone)
    assert resources.channels_at_a_time(two, 2000, "input") == 1
    # chunks of float32 take more than tiles; the background stays if another marker needs it again
    wide = [each_of_subtract(header, dtype="float32", stores=stores) for stores in (False, True)]
    assert wide[0] == pytest.approx((4 + 4 * 2.4 + 2) * mpx + extra)
    assert wide[1] == pytest.approx((4 + 4 * 3.1) * mpx + extra)


def test_tables_of_tiles_count(header):
    """At 120000 px, 40 x 235 x 235 tiles of the image; all windows of the corrected one."""
    large = known(header, 120_000)
    few = replace(large, headers=(replace(large.headers[0], segments=1),))
    of_image = 40 * (235 * 235 - 1) * 20 / 1e6
    for demand in (
        lambda one: resources.measure(one, 1),
        lambda one: resources.subtract(one, 1, "input"),
    ):
        assert demand(large).fixed - demand(few).fixed == pytest.approx(of_image)
    both = [
        resources.subtract(known(header, side), 1, "input").fixed for side in (59 * 2048, 60 * 2048)
    ]
    more = 40 * ((60 * 60 - 59 * 59) * 256 + (240 * 240 - 236 * 236) * 20) / 1e6
    assert both[1] - both[0] == pytest.approx(more, abs=0.3)  # and overviews


def test_statistics_of_earlier_passes_are_kept_small(header):
    slide = known(header, 300, channels=8)
    fixed = [resources.measure(slide, n).fixed for n in (1, 2, 7)]
    marker = 4.7 + 75 * 75 * 28 / 1e6
    assert fixed[1] - fixed[0] == pytest.approx(marker - 1.2)
    assert fixed[2] - fixed[0] == pytest.approx(6 * (marker - 1.2))


def test_cycles_that_are_said_to_lie_on_each_other_need_no_field(header):
    slide = known(header, 30_000)
    searched, declared = (
        resources.register(slide, RegisterSettings(model=model)) for model in ("auto", "none")
    )
    assert declared.fixed < searched.fixed - 25
