"""Tables of markers from metadata, with backgrounds by the rules, and of corrected slides."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from unglow.images.slide_plan import Channel, Slide
from unglow.images.tiff.metadata import AcquiredChannel
from unglow.slides.marker_tables import (
    apply_rule,
    draft_rows,
    is_blank,
    list_gaps,
    write_markers_corrected,
    write_rows,
)
from unglow.slides.markers import read_markers


def channel(name, kind="", cycle=None, **more):
    return AcquiredChannel(name, kind, 100.0, cycle, **more)


COMET = [
    *(channel("DAPI", "DAPI", 0), channel("TRITC", "TRITC", 0), channel("Cy5", "Cy5", 0)),
    *(channel("DAPI", "DAPI", 1), channel("CD3", "TRITC", 1), channel("CD8", "Cy5", 1)),
    *(channel("TRITC", "TRITC", 2), channel("CD4", "TRITC", 3)),
    *(channel("TRITC", "TRITC", 4), channel("CK", "FITC", 4)),
]


def backgrounds(channels, rule, images=1):
    rows, _, missed = apply_rule(draft_rows(channels), rule, images=images)
    return {row["marker_name"]: row["background"] for row in rows if row["background"]}, missed


def test_a_draft_numbers_names_and_counts_cycles_from_1():
    rows = draft_rows(COMET)
    assert [row["marker_name"] for row in rows][:7] == [
        *("DAPI", "TRITC", "Cy5", "DAPI_1", "CD3", "CD8", "TRITC_1")
    ]
    assert [row["cycle_number"] for row in rows] == [*"1112223455"]
    assert list(rows[4].values()) == ["5", "2", "CD3", "TRITC", "", "100", ""]
    from_1 = draft_rows([channel("CD3", cycle=2), channel("CD3", cycle=2, is_blank=True)])
    assert [(r["marker_name"], r["cycle_number"]) for r in from_1] == [
        ("CD3", "2"),
        ("CD3_background", "2"),
    ]


def test_what_is_not_known_stays_empty_and_is_listed():
    rows = draft_rows([AcquiredChannel("CD3", exposure=0.125), AcquiredChannel(filter="Cy5")])
    assert [row["exposure"] for row in rows] == ["0.125", ""]
    assert [row["marker_name"] for row in rows] == ["CD3", ""]
    assert list_gaps(rows) == [
        *("marker_name of channel 2", "exposure of channel 2", "cycle_number", "Filter of CD3")
    ]


@pytest.mark.parametrize(
    ("rule", "found", "missed"),
    [
        ("nearest-earlier", {"CD3": "TRITC", "CD8": "Cy5", "CD4": "TRITC_1"}, ["CK"]),
        ("first-and-last", {"CD3": "TRITC;TRITC_2", "CD8": "Cy5", "CD4": "TRITC;TRITC_2"}, ["CK"]),
        ("same-cycle", {}, ["CD3", "CD8", "CD4", "CK"]),
    ],
)
def test_rules_take_blanks_of_the_same_filter(rule, found, missed):
    assert backgrounds(COMET, rule) == (found, missed)


def test_the_blank_of_the_same_cycle():
    scans = [
        *(
            channel("DAPI", "DAPI", 1),
            channel("CD3", "APC", 1),
            channel("CD3", "APC", 1, is_blank=True),
        ),
        *(
            channel("CD4", "APC", 2),
            channel("CD4", "APC", 2, is_blank=True),
            channel("CD8", "PE", 2),
        ),
    ]
    found = {"CD3": "CD3_background", "CD4": "CD4_background"}
    assert backgrounds(scans, "same-cycle") == (found, ["CD8"])
    # one blank for all filters, and no cycle: so Orion has it
    orion = [channel("Hoechst"), channel("AF"), channel("CD45"), channel("CD20")]
    assert backgrounds(orion, "same-cycle") == ({"CD45": "AF", "CD20": "AF"}, [])
    assert backgrounds(orion, "same-cycle", images=2) == ({}, ["CD45", "CD20"])
    two = [*orion, channel("Blank")]
    assert backgrounds(two, "same-cycle") == ({}, ["CD45", "CD20"])
    assert backgrounds(orion, "nearest-earlier") == ({}, ["CD45", "CD20"])  # no filter is known


@pytest.mark.parametrize(
    ("name", "kind", "blank"),
    [
        ("Blank", "", True), ("blank_3", "", True), ("AF1", "", True), ("AF488_start", "", True),
        ("bg_001_CD4-FITC", "", True), ("Empty", "", True), ("CD4_background", "", True),
        ("Autofluorescence", "", True), ("TRITC", "tritc", True), ("TRITC_12", "TRITC", True),
        ("CD3 AF488", "", False), ("AFP", "", False), ("BGN", "", False), ("CD3", "CD3X", False),
        ("DAPI", "DAPI", False), ("DAPI_1", "DAPI", False), ("", "", False),
    ],
)  # fmt: skip
def test_names_of_blanks(name, kind, blank):
    assert is_blank(name, kind) is blank


def test_a_filled_draft_is_a_table(tmp_path):
    rows, blanks, _ = apply_rule(draft_rows(COMET), "first-and-last", images=1)
    assert blanks == ["TRITC", "Cy5", "TRITC_1", "TRITC_2"]
    write_rows(tmp_path / "markers.csv", rows)
    found = {m.name: m.background for m in read_markers(tmp_path / "markers.csv")}
    assert found["CD4"] == ("TRITC", "TRITC_2")
    assert found["CD8"] == "Cy5"
    assert found["CK"] is None


def test_a_rule_keeps_other_columns_and_adds_the_one_that_lacks():
    rows = [
        {"Marker Name": "AF", "FILTER": "Cy5", "Clone": "-"},
        {"Marker Name": "CD3", "FILTER": "cy5", "Clone": "x"},
    ]
    filled, _, _ = apply_rule(rows, "nearest-earlier", images=1)
    assert [list(row.values()) for row in filled] == [
        ["AF", "Cy5", "-", ""],
        ["CD3", "cy5", "x", "AF"],
    ]
    removed = [rows[0], {**rows[1], "remove": "TRUE"}]
    assert apply_rule(removed, "nearest-earlier", images=1)[0][1]["background"] == ""


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
    write_markers_corrected(tmp_path / "m.csv", SLIDE.kept, {"CD3, bright": values}, {})
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
