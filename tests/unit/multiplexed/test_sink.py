"""The table of a corrected slide, and several sinks as one."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np

from unglow.core.windows import Window
from unglow.multiplexed.sink import Sinks, colours, write_markers_corrected
from unglow.multiplexed.slide import Channel, Slide

SLIDE = Slide(
    "s",
    (Path("s.tif"),),
    (
        Channel("DNA_1", 0, 0, exposure=20.0),
        Channel("AF", 0, 1, exposure=100.0, removed=True),
        Channel("CD3, bright", 0, 2, cycle=2, exposure=150.0, background="AF"),
    ),
    {1: "DNA_1"},
)


def test_the_table_has_a_row_for_each_kept_channel(tmp_path):
    values = {"gain": 1.35, "offset": -3.0, "method": "linear", "clipped": 0.25}
    write_markers_corrected(tmp_path / "m.csv", SLIDE.kept, {"CD3, bright": values})
    assert (tmp_path / "m.csv").read_text() == (
        "channel_number,cycle_number,marker_name,background,exposure,gain,offset,method,clipped\n"
        "1,1,DNA_1,,20.0,,,,\n"
        '2,2,"CD3, bright",AF,150.0,1.35,-3.0,linear,0.25\n'
    )


def test_columns_of_somebody_elses_are_carried_through_in_their_order(tmp_path):
    own = {
        "DNA_1": {"Filter": "DAPI", "Clone no.": "", "Gain": "9"},
        "CD3, bright": {"Filter": "Cy5", "Clone no.": "SP7; a, b", "Gain": "8"},
    }
    write_markers_corrected(tmp_path / "m.csv", SLIDE.kept, {}, own)
    assert (tmp_path / "m.csv").read_text() == (
        "channel_number,cycle_number,marker_name,background,exposure,Filter,Clone no.,"
        "gain,offset,method,clipped\n"
        "1,1,DNA_1,,20.0,DAPI,,,,,\n"
        '2,2,"CD3, bright",AF,150.0,Cy5,"SP7; a, b",,,,\n'
    )


def test_no_cell_of_the_table_is_a_formula(tmp_path):
    link = '=HYPERLINK("http://x")'
    channels = [replace(one, name=f"{sign}{one.name}", background=link)
                for sign, one in zip("=+", SLIDE.kept, strict=True)]  # fmt: skip
    own = {channels[0].name: {"@clone": link, "shift": "-0.5", "dye": "\x1b[31mred"}}
    write_markers_corrected(tmp_path / "m.csv", channels, {}, own)
    text = (tmp_path / "m.csv").read_text()
    cells = [one for row in csv.reader(text.splitlines()) for one in row]
    assert [one for one in cells if one.startswith(("=", "+", "-", "@"))] == ["-0.5"]
    assert {f"'={SLIDE.kept[0].name}", f"'{link}", "'@clone"} <= {*cells}
    assert "\x1b" not in text


def test_nuclei_are_blue():
    assert colours(SLIDE) == [(0, 0, 255), (0, 255, 0)]


class Kept:
    window = 64

    def __init__(self):
        self.got = []

    def write(self, channel, window, pixels):
        self.got.append((channel, window, pixels.sum()))


def test_several_sinks_take_the_same():
    several = [Kept(), Kept()]
    Sinks(several).write(1, Window(0, 2, 0, 2), np.ones((2, 2)))
    assert several[0].got == several[1].got == [(1, Window(0, 2, 0, 2), 4.0)]
