"""Rows of the summary for the markers of a slide, and the figures that are drawn from them."""

from __future__ import annotations

import cv2
from made_slides import DOUBT, REFUSED, made_slide

from unglow.reporting.html.page_model import slides_of
from unglow.reporting.html.thumbnails import packed_pictures
from unglow.reporting.marker_rows import SlideEntry
from unglow.reporting.summary import rows, table, texts, verdict

ENTRY = SlideEntry("s1", {"CD3": "AF", "CD8": "AF", "Ki/67": "AF"}, "logs/s1")


def test_each_marker_has_a_row_and_what_failed_first_speaks(tmp_path):
    made_slide(tmp_path, figures=False)
    found = rows([ENTRY], (), tmp_path)
    assert [(row["sample"], row["dye"], row["status"]) for row in found] == [
        *(("s1", "CD3", "suspect"), ("s1", "CD8", "ok"), ("s1", "Ki/67", "failed")),
    ]
    assert [row["reasons"] for row in found] == [
        *(DOUBT, "", f"{REFUSED} In the corrected slide it is left as it was imaged."),
    ]
    told = texts(found[1])
    assert {name: told[name] for name in ("gain", "gain_low95", "expected_gain", "offset")} == {
        "gain": "1.400",
        "gain_low95": "1.390",
        "expected_gain": "1.500",
        "offset": "5.0",
    }
    assert (told["residual_shift_px"], told["clipped"]) == ("0.050", "0.43")
    assert (told["background_channel"], told["model"]) == ("AF", "translation")
    assert verdict(found).splitlines()[0] == "1 ok, 1 suspect, 1 failed"


def test_a_slide_that_is_not_done_says_what_is_missing(tmp_path):
    place = made_slide(tmp_path, figures=False)
    (place / "subtraction.json").unlink()
    found = {row["dye"]: row for row in rows([ENTRY], (), tmp_path)}
    assert found["Ki/67"]["status"] == "failed"  # it is known already
    assert found["Ki/67"]["reasons"] == REFUSED
    lacking = "s1/subtraction.json has not been made; logs/s1 holds the logs."
    assert (found["CD8"]["status"], found["CD8"]["reasons"]) == ("incomplete", lacking)
    (place / "slide.json").write_text("{")
    damaged = rows([ENTRY], (), tmp_path)
    assert {row["status"] for row in damaged} == {"failed"}
    assert "slide.json is damaged" in damaged[0]["reasons"]


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
    assert first.shape == (920, 1400, 3)
    assert other.shape[1] == 1400
    found = rows([ENTRY], (), tmp_path)
    assert slides_of(found) == ["s1"]
    pictures = packed_pictures(tmp_path, [*found, {"sample": "s1"}])
    names = [[picture.name for picture in group] for group in pictures]
    assert names[:2] == [["before", "AF", "after", "figure"]] * 2
    assert names[2:] == [[], ["all markers"]]
