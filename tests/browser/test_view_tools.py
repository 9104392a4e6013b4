"""Tools of the viewer: contrast, zoom, the overview map, the list of pairs, keys, saved tables."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from made_results import made_pair
from viewer_hands import framed, place_of, press, settled, toggle_overlay

from unglow.core.windows import Window
from unglow.images.zarr import open_store

pytestmark = pytest.mark.slow

PAIR = "C~DAPI"
LIMITS = "unglow.shown[0].look.limits"


@pytest.fixture
def tab(view, batch):
    """A part of post in the viewer, at one px of the image per px of the screen."""
    tab = view(batch, pair=PAIR, a="post", x=300, y=250, zoom=2)
    settled(tab)
    return tab


def resize(tab, width, height=800):
    """Make the window of a tab that large, px."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    tab._ask("Emulation.setDeviceMetricsOverride", **size)
    framed(tab)


def counted(tab):
    """Open the histograms, and wait until they show what is seen."""
    tab.key("h")
    tab.wait("[...unglow.contrast.rows.values()].every((row) => row.isCounted)", 60)


def shown_px(tab, results, name="post"):
    """Return the px of an image that are seen, in order."""
    x, y, width, height = tab.run(
        "(({ x, y, width, height }) => [x, y, width, height])(unglow.panes[0].bounds())"
    )
    store = open_store(results / "C" / "DAPI" / f"{name}.ome.zarr")
    x0, y0, x1, y1 = (round(v) for v in (x, y, x + width, y + height))
    return np.sort(store.read(Window(y0, y1, x0, x1).clip(store.shape)), axis=None)


def test_two_rows_hold_all_tools(tab):
    outside = (
        "[...document.querySelectorAll('.toolbar button, .toolbar select, .toolbar input')]"
        ".filter((tool) => tool.offsetParent && !tool.closest('.menu'))"
        ".filter((tool) => tool.getBoundingClientRect().right > innerWidth).length"
    )
    for mode in ("single", "blink", "swipe", "side"):
        shown = {"mode": mode, "a": "difference-linear", "b": "aligned_pre"}  # two bars of colours
        tab.run(f"unglow.address.set({json.dumps(shown)})")
        tab.wait("unglow.settled", 120)
        for width in (1400, 1280, 800):
            resize(tab, width)
            assert tab.run("document.querySelector('.toolbar').offsetHeight") < 70, (mode, width)
            assert tab.run(outside) == 0, (mode, width)
    resize(tab, 1280, 900)


def test_automatic_contrast_is_of_what_is_seen(tab, batch):
    before = tab.run(LIMITS)
    counted(tab)
    press(tab, "Auto")
    tab.wait(f"{LIMITS}[1] !== {before[1]}")
    values = shown_px(tab, batch)
    assert tab.run(LIMITS) == pytest.approx(np.percentile(values, [0.5, 99.8]), rel=0.01)
    press(tab, "Reset")
    tab.wait(f"{LIMITS}[1] === {before[1]}")
    assert not tab.complaints


def test_the_histogram_is_of_the_px_that_are_seen(tab, batch):
    counted(tab)
    sample = np.array(tab.run("[...[...unglow.contrast.rows.values()][0].samples[0]]"))
    values = shown_px(tab, batch)
    assert len(sample) > 1e4
    shares = [1, 25, 50, 75, 99]
    assert np.percentile(sample, shares) == pytest.approx(np.percentile(values, shares), rel=0.02)
    tab.run("unglow.go({ x: 900, y: 500, zoom: 4 })")
    tab.wait("unglow.settled", 120)
    row = "[...unglow.contrast.rows.values()][0]"
    tab.wait(f"{row}.samples[0].length < {len(sample)}", 60)


def test_handles_set_the_limits_by_mouse_and_by_keys(tab):
    counted(tab)
    low, high = tab.run(LIMITS)
    start, end = (
        tab.run(
            f"(() => {{ const box = document.querySelectorAll('.handle')[{n}]"
            ".getBoundingClientRect(); return [box.x + box.width / 2, box.y + 20]; })()"
        )
        for n in (1, 0)
    )
    tab.drag(start, [(start[0] + end[0]) / 2, start[1]])
    middle = (low + high) / 2
    tab.wait(f"Math.abs({LIMITS}[1] - {middle}) < {0.02 * middle}")  # moves arrive one by one
    assert tab.run(LIMITS)[0] == pytest.approx(low, rel=0.02)
    half = tab.run(LIMITS)[1]
    place = place_of(tab)
    tab.key("ArrowLeft")  # the handle has the focus
    tab.wait(f"{LIMITS}[1] < {half}")
    assert place_of(tab) == place
    assert tab.run("document.activeElement.getAttribute('role')") == "slider"
    assert not tab.complaints


def test_zero_stays_in_the_middle_of_a_difference(tab):
    tab.run("unglow.address.set({ a: 'difference-linear' })")
    tab.wait("unglow.settled && unglow.shown[0].layer.kind === 'difference'", 120)
    counted(tab)
    tab.run("[...unglow.contrast.rows.values()][0].move(1, 500)")
    tab.wait(f"{LIMITS}[1] === 500")
    assert tab.run(LIMITS) == [-500, 500]


def test_an_image_has_a_contrast_of_its_own_if_asked(tab):
    counted(tab)
    shared = "[...document.querySelectorAll('.contrast label')].at(-1)"
    assert tab.run(f"{shared}.textContent") == "same for post, pre, aligned pre"
    tab.run(f"{shared}.querySelector('input').click()")
    tab.run("[...unglow.contrast.rows.values()][0].change({ limits: [5, 50] })")
    tab.wait(f"{LIMITS}[1] === 50")
    tab.run("unglow.address.set({ a: 'aligned_pre' })")
    tab.wait("unglow.settled && unglow.shown[0].layer.name === 'aligned_pre'", 120)
    assert tab.run(LIMITS)[1] != 50
    tab.run("unglow.address.set({ a: 'post' })")
    tab.wait(f"unglow.settled && {LIMITS}[1] === 50", 120)
    tab.run(f"{shared}.querySelector('input').click()")
    tab.wait(f"{LIMITS}[1] !== 50")


def test_the_map_of_the_whole_shows_and_moves_the_view(tab):
    is_shown = "!document.querySelector('.overview').hidden"
    tab.wait(is_shown)
    box = "document.querySelector('.overview').getBoundingClientRect()"
    left, top, width, height = tab.run(
        f"[{box}.x + 1, {box}.y + 1, {box}.width - 2, {box}.height - 2]"
    )
    tab.click(left + 0.7 * width, top + 0.6 * height)
    framed(tab)
    place = place_of(tab)
    rows, cols = tab.run("unglow.pair.shape")
    assert (place["x"], place["y"]) == pytest.approx((0.7 * cols, 0.6 * rows), abs=0.02 * cols)
    assert place["zoom"] == pytest.approx(2, rel=1e-3)
    toggle_overlay(tab, "map")
    framed(tab)
    assert not tab.run(is_shown)
    toggle_overlay(tab, "map")
    press(tab, "whole")
    framed(tab)
    assert not tab.run(is_shown)  # there is nothing outside
    assert tab.run("unglow.panes[0].isWhole")


def test_buttons_zoom_about_the_middle(tab):
    start = place_of(tab)
    for text, zoom in (("+", 3), ("−", 2), ("1 : 1", 1)):
        press(tab, text)
        framed(tab)
        place = place_of(tab)
        assert place["zoom"] == pytest.approx(zoom, rel=1e-3)
        assert (place["x"], place["y"]) == pytest.approx((start["x"], start["y"]), abs=1)


def test_pairs_are_listed_with_pictures_the_skipped_ones_last(view, batch):
    tab = view(batch, panel="pairs")
    assert tab.run("unglow.pair.id") == "B~DAPI"
    tab.wait("document.querySelectorAll('.pair-row img').length === 2", 60)
    rows = tab.run("[...document.querySelectorAll('.pair-row')].map((row) => row.innerText)")
    assert [row.split() for row in rows] == [
        ["B", "DAPI", "✕", "failed", "No", "match", "was", "found."],
        ["C", "DAPI", "✓", "ok", "30", "candidates"],
        [
            "A",
            "DAPI",
            "–",
            "skipped",
            *["raw/A", "holds", "no", "pre-stain", "image:", "add", "one."],
        ],
    ]
    sizes = "[...document.querySelectorAll('.pair-row img')].every((image) => image.naturalWidth)"
    tab.wait(sizes)
    tab.key(".")
    tab.wait("unglow.pair.id === 'C~DAPI' && unglow.settled", 120)
    tab.key(".")  # to a pair without images, and back
    tab.wait("unglow.pair.id === 'A~DAPI' && !unglow.busy", 120)
    tab.key(",")
    tab.wait("unglow.pair.id === 'C~DAPI' && unglow.settled", 120)
    tab.click(*tab.middle(".pair-row"))
    tab.wait("unglow.pair.id === 'B~DAPI' && unglow.settled", 120)
    assert tab.run("document.querySelector('[aria-current=true]').dataset.id") == "B~DAPI"
    assert not tab.complaints


def test_keys_are_shown_by_a_key_and_by_a_button(tab):
    tab.key("?")
    assert "histogram" in tab.wait("document.querySelector('dialog[open] .keys').innerText")
    mode = tab.run("unglow.address.get('mode')")
    tab.key("b")  # belongs to the view, which is behind the list
    assert tab.run("unglow.address.get('mode')") == mode
    tab.key("?")
    assert not tab.run("document.querySelector('dialog').open")
    press(tab, "?")
    assert tab.run("document.querySelector('dialog').open")
    press(tab, "Close")
    assert not tab.run("document.querySelector('dialog').open")


def test_accepted_candidates_are_saved_as_csv(view, tmp_path):
    pair = tmp_path / "results" / "S1" / "DAPI"
    made_pair(pair)
    tab = view(tmp_path / "results", pair="S1~DAPI", panel="candidates")
    tab.wait("document.querySelectorAll('.candidates .line').length > 5", 120)
    assert tab.run("unglow.panels.open.export.disabled")
    tab.key("n")
    tab.key("n")
    source = tab.run("unglow.address.get('source')")
    tab.key("m")
    tab.type('=round, "bright"')
    tab.key("Enter")
    tab.key("a")
    tab.wait("!unglow.panels.open.export.disabled", 60)
    tab.run(
        "URL.createObjectURL = (blob) => { blob.text().then((text) => (window.saved = text));"
        " return 'data:,'; }; HTMLAnchorElement.prototype.click = function () {"
        " window.savedAs = this.download; }"
    )
    press(tab, "Save accepted")
    text = tab.wait("window.saved")
    assert tab.run("window.savedAs") == "S1_DAPI_accepted.csv"
    (saved,) = csv.DictReader(text.splitlines())
    with (pair / "candidates.csv").open(newline="") as stream:
        (listed,) = [row for row in csv.DictReader(stream) if row["id"] == source]
    assert (saved.pop("decision"), saved.pop("note")) == ("accepted", '\'=round, "bright"')
    assert saved.pop("flags") == listed.pop("flags")
    assert [*saved] == [*listed]
    numbers = [[float(v) if v else None for v in row.values()] for row in (saved, listed)]
    assert numbers[0] == numbers[1]
