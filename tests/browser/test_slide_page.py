"""A slide in the report: its markers in rows, below a line with all of them side by side."""

from __future__ import annotations

import pytest
from devtools import leave
from made_slides import made_slide

from unglow.pages.report.report import write_report
from unglow.results.marker_rows import SlideEntry
from unglow.results.summary import write_summary

MARKERS = ("CD3", "CD8", "CD4", "CD20", "CD45", "PCNA", "Ki/67")


@pytest.fixture
def tab(tmp_path, view_tab):
    made_slide(tmp_path, markers=MARKERS)
    entry = SlideEntry("s1", dict.fromkeys(MARKERS, "AF"), "logs/s1")
    pair = {"sample": "left", "dye": "out", "message": "A file is damaged."}
    write_summary([entry], [pair], tmp_path, tmp_path / "summary.tsv")
    leave(view_tab)
    view_tab.open(write_report(tmp_path).absolute().as_uri())
    view_tab.wait("document.documentElement.dataset.ready")
    return view_tab


def test_markers_are_rows_and_their_slide_is_above_them(tab):
    assert tab.run("document.querySelector('#pairs h2').textContent") == "Results"
    assert tab.run("document.querySelector('#pairs .note').textContent") == (
        "1 pair, 7 markers of 1 slide"
    )
    rows = "[...document.querySelectorAll('.batch tr.link')]"
    heads = tab.run(f"{rows}.map((row) => row.querySelector('b').textContent)")
    assert heads == ["left", "Ki/67", *MARKERS[:-1]]
    text = tab.run("document.querySelector('.slide-head').textContent")
    assert "7 markers: 1 failed, 1 suspect, 5 ok" in text
    assert tab.complaints == []


SHOWN = "document.querySelector('dialog.viewer[open]')"


def test_all_markers_can_be_looked_at_side_by_side(tab):
    tab.run("document.querySelector('.slide-head button').click()")
    tab.wait(f"{SHOWN}?.querySelector('img')?.naturalWidth > 500", 30)
    assert "s1: all markers" in tab.run(f"{SHOWN}.textContent")
    assert tab.complaints == []


def test_each_marker_can_be_looked_at_before_and_after(tab):
    tab.run("document.querySelector('.batch tr.link[data-name=\"s1 CD8\"]').click()")
    tab.wait("document.querySelectorAll('.detail .thumb').length === 4", 30)
    card = tab.run("document.querySelector('.detail').textContent")
    for part in (
        "gain expected from exposure times1.500",
        "remaining shift0.050 px",
        "clipped43 %",
    ):
        assert part in card
    assert "open in the viewer" not in card
    tab.run("document.querySelector('.detail .thumb').click()")
    tab.wait(f"{SHOWN} !== null", 30)
    assert "blink before / after" in tab.run(f"{SHOWN}.textContent")
    assert tab.complaints == []


def test_without_a_corrected_image_there_is_no_picture_of_cycles(tab):
    tab.run("document.querySelectorAll('.slide-head button')[1].click()")
    tab.wait(
        "document.querySelector('.slide-head').textContent.includes('No pictures of cycles')", 30
    )
    tab.run("document.querySelector('.slide-head button').click()")
    tab.wait(f"{SHOWN}?.querySelector('img')?.naturalWidth > 500", 30)
    assert tab.complaints == []
