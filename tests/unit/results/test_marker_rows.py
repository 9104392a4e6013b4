"""Rows of the summary for the markers of a slide, and the figures that are drawn from them."""

from __future__ import annotations

from dataclasses import replace

import cv2
import numpy as np
import pytest
from made_slides import DOUBT, REFUSED, made_slide

from unglow.core.windows import Window
from unglow.figures.difference_picture import draw_cycles
from unglow.images.slide_plan import Channel
from unglow.images.tiff.metadata import OmeChannel
from unglow.images.tiff.tiles import OmeTiffSink
from unglow.pages.report.page_model import slides_of
from unglow.pages.report.report import read_model
from unglow.pages.report.thumbnails import pack_pictures
from unglow.results import verdict
from unglow.results.marker_rows import SlideEntry
from unglow.results.slide_files import CycleState, SlideRecord
from unglow.results.summary import rows, table, texts, write_summary
from unglow.spoilt.outlines import write_places
from unglow.spoilt.places import Places

ENTRY = SlideEntry("s1", {"CD3": "AF", "CD8": "AF", "Ki/67": "AF"}, "logs/s1")


def test_each_marker_has_a_row_and_what_failed_first_speaks(tmp_path):
    made_slide(tmp_path, figures=False)
    found = rows([ENTRY], (), tmp_path)
    assert [(row["sample"], row["dye"], row["status"]) for row in found] == [
        *(("s1", "CD3", "suspect"), ("s1", "CD8", "ok"), ("s1", "Ki/67", "failed"))
    ]
    assert [row["reasons"] for row in found] == [
        *(DOUBT, "", f"{REFUSED} In the corrected slide it is left as it was imaged.")
    ]
    written = texts(found[1])
    assert {name: written[name] for name in ("gain", "gain_low95", "expected_gain", "offset")} == {
        "gain": "1.400",
        "gain_low95": "1.390",
        "expected_gain": "1.500",
        "offset": "5.0",
    }
    assert (written["residual_shift_px"], written["clipped"]) == ("0.050", "0.43")
    assert (written["background_channel"], written["model"]) == ("AF", "translation")
    assert verdict(found).splitlines()[0] == "1 ok, 1 suspect, 1 failed"


def test_a_slide_that_is_not_done_says_what_is_missing(tmp_path):
    place = made_slide(tmp_path, figures=False)
    (place / "details/subtraction.json").unlink()
    found = {row["dye"]: row for row in rows([ENTRY], (), tmp_path)}
    assert found["Ki/67"]["status"] == "failed"  # it is known already
    assert found["Ki/67"]["reasons"] == REFUSED
    lacking = "s1/details/subtraction.json has not been made; logs/s1 holds the logs."
    assert (found["CD8"]["status"], found["CD8"]["reasons"]) == ("incomplete", lacking)
    (place / "slide.json").write_text("{")
    damaged = rows([ENTRY], (), tmp_path)
    assert {row["status"] for row in damaged} == {"failed"}
    assert "slide.json is damaged" in damaged[0]["reasons"]


def test_a_damaged_map_costs_the_rows_of_its_cycle(tmp_path):
    place = made_slide(tmp_path, figures=False)
    (place / "registration/1-3/transform.json").write_text("{")
    states = {row["dye"]: (row["status"], row["reasons"]) for row in rows([ENTRY], (), tmp_path)}
    assert (states["CD3"][0], states["CD8"][0]) == ("suspect", "ok")
    assert states["Ki/67"][0] == "failed"
    assert "registration/1-3/transform.json" in states["Ki/67"][1]


def test_a_map_that_is_not_there_costs_its_numbers_alone(tmp_path):
    place = made_slide(tmp_path, figures=False)
    (place / "registration/1-2/transform.json").unlink()
    row = rows([ENTRY], (), tmp_path)[1]
    assert (row["dye"], row["status"]) == ("CD8", "ok")
    assert not row.get("model")


def test_the_spoilt_share_of_a_marker_is_that_of_its_cycles(tmp_path):
    place = made_slide(tmp_path, figures=False)
    record = SlideRecord.load(place / "slide.json")
    by_reason = {"lost": {"share": 0.05}, "moved": {"share": 0.2}}
    about = {"share": 0.25, "places": 2, "by_reason": by_reason}
    states = {2: CycleState("suspect", ("Cycle 2 is torn.",), spoilt=about)}
    replace(record, cycles=states).save(place / "slide.json")
    assert SlideRecord.load(place / "slide.json").cycles == states
    row = rows([ENTRY], (), tmp_path)[1]
    assert (row["status"], row["reasons"]) == ("suspect", "Cycle 2 is torn.")
    assert (row["spoilt_share"], row["spoilt_reasons"]) == (0.25, "moved 0.2, lost 0.05")


def test_columns_of_markers_are_there_only_with_slides(tmp_path):
    made_slide(tmp_path, figures=False)
    with_slide = table(rows([ENTRY], (), tmp_path)).splitlines()[0].split("\t")
    without = table([{"sample": "a", "dye": "b", "status": "ok"}]).splitlines()[0].split("\t")
    assert with_slide[-4:] == [
        "background_channel",
        "expected_gain",
        "residual_shift_px",
        "clipped",
    ]
    assert not {*with_slide[-4:]} & {*without}


def test_every_marker_and_the_slide_have_pictures(tmp_path):
    place = made_slide(tmp_path)
    files = sorted(path.name for path in (place / "figures").iterdir())
    assert files == ["CD3.png", "CD8.png", "Ki_67.png", "slide.png"]
    first, other = (cv2.imread(str(place / f"figures/{name}.png")) for name in ("CD3", "slide"))
    assert first.shape == (pytest.approx(920, abs=1), 1400, 3)  # by version of matplotlib
    assert other.shape[1] == 1400
    found = rows([ENTRY], (), tmp_path)
    assert slides_of(found) == ["s1"]
    pictures = pack_pictures(tmp_path, [*found, {"sample": "s1"}])
    names = [[picture.name for picture in group] for group in pictures]
    assert names[:2] == [["before", "AF", "after", "figure"]] * 2
    assert names[2:] == [[], ["all markers"]]


def test_each_cycle_is_a_picture_of_its_nuclei_over_those_of_the_reference(tmp_path):
    place = made_slide(tmp_path, figures=False)
    record = SlideRecord.load(place / "slide.json")
    nuclei = [Channel(f"DAPI_{n}", 0, 3 + n, n) for n in (1, 2, 3)]
    slide = replace(
        record.slide, channels=(*nuclei, *record.slide.channels),
        registered_on={n: f"DAPI_{n}" for n in (1, 2, 3)},
    )  # fmt: skip
    states = {2: CycleState("ok"), 3: CycleState("failed", ("No.",))}
    replace(record, slide=slide, cycles=states).save(place / "slide.json")
    labels = np.zeros((3, 4), np.int32)
    labels[2, 3] = 1
    lost = Places(32, labels, np.ones(1, np.uint8), np.full(1, 9.0, np.float32), {}, 0.0, 12)
    write_places(place / "artefacts.geojson", {2: lost, 3: lost}, record.shape)
    window = Window.from_shape(record.shape)
    both, alone = np.zeros((2, *record.shape), np.uint16)
    both[:40, :40] = 500
    alone[:40, :20] = 500
    with OmeTiffSink(
        place / "corrected.ome.tif", record.shape, "uint16",
        [OmeChannel(one) for one in ("DAPI_1", "DAPI_2", "CD3", "CD8")], name="s1", workers=1,
    ) as sink:  # fmt: skip
        for n, plane in enumerate((both, alone, both, both)):
            sink.write(n, window, plane)
    ((name, drawn),) = draw_cycles(place, 100)  # of the failed cycle there is none
    assert name == "cycle 2"
    assert drawn.shape == (*record.shape, 3)
    assert drawn[5, 5].tolist() == [255, 255, 255]
    assert drawn[5, 30].tolist() == [31, 138, 255]  # the reference alone, BGR
    assert drawn[60, 60].tolist() == [0, 0, 0]
    assert drawn[64:, 96:].any()  # hatched
    (pictures,) = pack_pictures(tmp_path, [{"sample": "s1"}])
    assert [(one.name, bool(one.image)) for one in pictures] == [("cycle 2", True)]
    replace(SlideRecord.load(place / "slide.json"), reason="No.").save(place / "slide.json")
    assert [*draw_cycles(place, 100)] == []


NAMES = ["CD3  a", "z\u200bero", "c\x01ontrol", "=sum", "é" * 300]


@pytest.mark.filterwarnings("ignore:Glyph")
@pytest.mark.parametrize("name", NAMES, ids=["blanks", "width", "control", "formula", "long"])
def test_any_name_of_a_marker_has_its_pictures_in_the_report(tmp_path, name):
    markers = (name, "CD8", "Ki/67")
    made_slide(tmp_path, markers=markers)
    entry = SlideEntry("s1", dict.fromkeys(markers, "AF"), "logs/s1")
    write_summary([entry], (), tmp_path, tmp_path / "summary.tsv")
    pairs = read_model(tmp_path)["pairs"]
    assert [row["dye"] for row in pairs] == [*markers]
    pictures = pack_pictures(tmp_path, pairs)
    assert [p.name for p in pictures[0]] == ["before", "AF", "after", "figure"]
    assert not any(p.problem for group in pictures for p in group)


def test_one_damaged_slide_costs_its_own_rows_and_pictures(tmp_path):
    for name in ("s1", "s2"):
        made_slide(tmp_path, name)
    markers = ("CD3", "CD8", "Ki/67")
    entries = [SlideEntry(n, dict.fromkeys(markers, "AF"), "logs") for n in ("s1", "s2")]
    (tmp_path / "s1" / "scale.json").write_text('{"version": 1, "reason": null, "markers": {}}')
    (tmp_path / "s1" / "details/overviews.npz").write_bytes(b"cut")
    found = rows(entries, (), tmp_path)
    assert [row["status"] for row in found[3:]] == ["suspect", "ok", "failed"]
    first, *_, other = pack_pictures(tmp_path, [*found[:3], found[4]])
    assert [(p.name, bool(p.problem)) for p in first] == [("overviews", True), ("figure", False)]
    assert [p.name for p in other] == ["before", "AF", "after", "figure"]
