"""Loops of maps between cycles: which cycle is in doubt where they do not close."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from unglow.images.slide_plan import Channel, Slide
from unglow.results.slide_files import usable
from unglow.slides.slide_scale import cycle_states
from unglow.transform import Transform

SHAPE = (600, 800)


def made(cycles=5):
    """Return a slide of some cycles, a marker with two backgrounds in the third."""
    channels = [Channel(f"D{n}", 0, n - 1, n) for n in range(1, cycles + 1)]
    channels.append(Channel("AF", 0, 10, 1, removed=True))
    channels.append(Channel("AF_end", 0, 11, cycles, removed=True))
    channels.append(Channel("M", 0, 12, 3, background=("AF", "AF_end")))
    on = {n: f"D{n}" for n in range(1, cycles + 1)}
    return Slide("s", (Path("s.tif"),), tuple(channels), on, checked=True)


def maps_of(slide, off=None):
    """Return maps by which each cycle lies 10 px further right, one of them off by some px."""
    found = {}
    for a, b in slide.moves:
        matrix = np.eye(3)
        matrix[0, 2] = 10.0 * (b - a) + (off or {}).get((a, b), 0.0)
        found[a, b] = Transform("ok", SHAPE, SHAPE, matrix=matrix, model="translation", scale=1.0)
    return found


def test_loops_that_close_say_nothing():
    slide = made()
    assert slide.loops == ((2, 3), (3, 4), (4, 5))
    states = cycle_states(slide, maps_of(slide), 1.0)
    assert {one.status for one in states.values()} == {"ok"}
    assert states[3].loop_px == {"2": 0.0, "4": 0.0}


@pytest.mark.parametrize(
    ("off", "suspects"),
    [
        ((1, 3), [3]),  # both of its loops are open, those of others are not
        ((3, 4), []),  # the map between them alone is wrong
        ((1, 5), [5]),
    ],
)
def test_the_cycle_whose_map_is_wrong_is_in_doubt(off, suspects):
    slide = made()
    states = cycle_states(slide, maps_of(slide, {off: 2.5}), 1.0)
    assert [cycle for cycle, one in states.items() if one.status == "suspect"] == suspects
    for cycle in suspects:
        reason = states[cycle].reasons[0]
        assert reason.key == "loop"
        assert "misses by 2.50 px" in reason.numbers


def test_what_failed_is_left_out_and_other_backgrounds_stay():
    slide = made()
    maps = maps_of(slide)
    maps[1, 5] = Transform("failed", SHAPE, SHAPE, ("No.",))
    rest, left_out = usable(slide, cycle_states(slide, maps, 1.0))
    assert left_out == {"D5": "No."}
    assert [one.name for one in rest.kept] == ["D1", "D2", "D3", "D4", "M"]
    assert rest.channel("M").backgrounds == ("AF",)
