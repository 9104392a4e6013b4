"""Regions drawn in the viewer, and what the workflow makes of them."""

from __future__ import annotations

import json
from contextlib import suppress

import numpy as np
import pytest
from real_runs import bytes_of, command
from viewer_hands import hatched, press, spot

from unglow.images.detection_results import read_candidates
from unglow.review.regions import change_regions

pytestmark = pytest.mark.slow

PAIR = "phantom~SYTO9"
HOLED = [[[100, 100], [300, 100], [300, 300], [100, 300], [100, 100]]]
HOLED += [[[150, 150], [250, 150], [250, 250], [150, 250], [150, 150]]]
APART = [[[400, 100], [500, 100], [500, 200], [400, 100]]]


def drawn(work):
    return work / "results" / "phantom" / "SYTO9" / "regions.geojson"


def features(work):
    return json.loads(drawn(work).read_text())["features"]


def corners(feature):
    """Return the outline of a feature, px that count from the centre of the first, (N, 2)."""
    ring = np.array(feature["geometry"]["coordinates"][0])
    assert (ring[0] == ring[-1]).all()
    return ring[:-1] - 0.5


def count(tab, number):
    """Wait until so many regions are saved."""
    saved = "unglow.panels.open.saved"
    tab.wait(f"{saved}.all.length === {number} && !{saved}.waiting", 120)


def start_rectangle(tab):
    """Press the button until it is heard: the panel may be drawn again under the mouse."""
    is_on = "unglow.panels.open.drawing.tool === 'rectangle'"
    for _ in range(5):
        press(tab, "Rectangle")
        with suppress(AssertionError):
            tab.wait(is_on, 10)
            return
    pytest.fail("the tool for rectangles does not start")


@pytest.fixture
def regions(view, small_work):
    """The finished small pair with the panel of regions: the tab, and the working directory."""
    return view(small_work / "results", pair=PAIR, panel="regions"), small_work


def test_a_region_that_is_drawn_is_searched_no_more(regions):
    tab, work = regions
    pair = drawn(work).parent
    before = json.loads((pair / "details/detection.json").read_text())
    results = bytes_of(work / "results")
    start_rectangle(tab)
    tab.drag(spot(tab, 200, 150), spot(tab, 700, 500))
    count(tab, 1)
    (feature,) = features(work)
    assert feature["properties"]["classification"]["name"] == "exclude"
    assert np.abs(corners(feature).min(axis=0) - [200, 150]).max() < 1
    assert np.abs(corners(feature).max(axis=0) - [700, 500]).max() < 1
    tab.wait("document.body.innerText.includes('differ from these')", 120)
    press(tab, "Use in the workflow")
    tab.wait(
        "document.body.innerText.includes('These are the regions that the workflow reads.')", 30
    )
    line = tab.run("document.querySelector('.command code').textContent")
    used = work / "raw" / "phantom" / "phantom_post_SYTO9.regions.geojson"
    assert json.loads(used.read_text())["features"] == [feature]

    run = command(work, "bash", "-c", f"{line} --verbose")  # with Snakemake's table of jobs

    assert run.code == 0, run.text
    assert "detect" in run.jobs()
    assert not {"ingest", "register", "align", "scale", "difference"} & set(run.jobs())
    after = json.loads((pair / "details/detection.json").read_text())
    assert after["masked_px"]["excluded"] == pytest.approx(500 * 350, rel=0.01)
    assert after["density_per_mm2"] != before["density_per_mm2"]
    found = read_candidates(pair / "candidates.csv").numbers
    inside = (np.abs(found["x"] - 450) < 240) & (np.abs(found["y"] - 325) < 165)
    assert not inside.any()
    changed = {k for k, v in bytes_of(work / "results").items() if results.get(k) != v}
    assert not [k for k in changed if ".zarr" in k or k.endswith("transform.json")]
    assert not tab.complaints


def test_a_polygon_by_clicks_is_edited_and_undone(regions):
    tab, work = regions
    tab.key("d")
    for x, y in ((300, 200), (600, 220), (640, 460), (100, 100)):
        tab.click(*spot(tab, x, y))
    tab.key("Backspace")
    tab.click(*spot(tab, 280, 440), 2)
    count(tab, 1)
    (feature,) = features(work)
    wanted = np.array([(300, 200), (600, 220), (640, 460), (280, 440)])
    assert np.abs(corners(feature) - wanted).max() < 1
    assert hatched(tab, 450, 330)

    tab.drag(spot(tab, 640, 460), spot(tab, 700, 520))
    tab.wait("unglow.panels.open.saved.past.length === 2 && !unglow.panels.open.saved.waiting", 120)
    assert np.abs(corners(features(work)[0])[2] - [700, 520]).max() < 1

    tab.run("document.querySelector('.region select').value = 'analyse'")
    tab.run("document.querySelector('.region select').dispatchEvent(new Event('change'))")
    tab.wait("document.body.innerText.match(/\\d+ candidates: .* to .* per/)", 120)
    assert not hatched(tab, 450, 330)

    tab.click(*tab.middle(".region input"))
    tab.key("a", "ctrl")
    tab.type('<b>fold</b> & "glue"')
    tab.key("Enter")
    tab.wait("unglow.panels.open.saved.past.length === 4 && !unglow.panels.open.saved.waiting", 120)
    (feature,) = features(work)
    assert feature["properties"]["name"] == '<b>fold</b> & "glue"'
    assert feature["properties"]["classification"]["name"] == "analyse"

    for _ in range(3):
        tab.key("z")
    tab.wait("unglow.panels.open.saved.past.length === 1 && !unglow.panels.open.saved.waiting", 120)
    assert np.abs(corners(features(work)[0]) - wanted).max() < 1
    tab.click(*spot(tab, 450, 330))
    tab.key("Delete")
    count(tab, 0)
    assert features(work) == []
    tab.key("z")
    count(tab, 1)
    assert not tab.complaints


def test_regions_are_drawn_without_a_mouse(regions):
    tab, work = regions
    tab.run("document.activeElement.blur()")
    tab.key("r")
    tab.key("c")
    tab.key("ArrowRight")
    tab.key("ArrowDown")
    tab.key("c")
    count(tab, 1)
    tab.key("d")
    tab.key("Enter")
    tab.wait("document.body.innerText.includes('three corners or more')", 120)
    tab.key("Escape")
    assert len(corners(features(work)[0])) == 4


def test_pre_is_no_place_to_draw(regions):
    tab, work = regions
    tab.run("unglow.address.set({ a: 'pre' })")
    tab.wait("unglow.settled && unglow.shown[0].layer.name === 'pre'", 120)
    start_rectangle(tab)
    tab.drag(spot(tab, 300, 200), spot(tab, 400, 300))
    tab.click(*spot(tab, 300, 200))
    tab.wait("document.body.innerText.includes('px of the post-stain image')", 120)
    assert not drawn(work).exists()


def test_what_somebody_else_draws_is_kept_and_comes_with_the_focus(regions):
    tab, work = regions
    properties = {"classification": {"name": "Ignore*"}, "name": "of QuPath"}
    shapes = {"type": "MultiPolygon", "coordinates": [HOLED, APART]}
    other = {"type": "Feature", "id": "q", "geometry": shapes, "properties": properties}
    change_regions(drawn(work), [other])
    start_rectangle(tab)
    tab.drag(spot(tab, 600, 400), spot(tab, 700, 500))
    count(tab, 2)
    assert len(features(work)) == 2
    assert hatched(tab, 125, 200)
    assert not hatched(tab, 200, 200)
    assert hatched(tab, 475, 130)

    change_regions(drawn(work), [{**other, "id": "r"}])
    tab.run("void window.dispatchEvent(new Event('focus'))")
    count(tab, 3)
    # shapes with holes are named, and stay as they are
    tab.click(*tab.middle(".region[data-id=q] input"))
    tab.key("a", "ctrl")
    tab.type("two")
    tab.key("Enter")
    tab.wait("!unglow.panels.open.saved.waiting", 120)
    named = next(f for f in features(work) if f["id"] == "q")
    assert named["geometry"] == shapes
    assert named["properties"] == {**properties, "name": "two"}
    assert not tab.complaints


def test_where_nothing_can_be_saved_it_says_so(view, small_work, monkeypatch):
    why = "results may not be written, so nothing can be saved there."
    monkeypatch.setattr("unglow.pages.viewer.saving.why_not_writable", lambda *_: why)
    tab = view(small_work / "results", pair=PAIR, panel="regions")
    tab.wait(f"document.body.innerText.includes({json.dumps(why)})", 120)
    assert tab.run("[...document.querySelectorAll('.tools button')].every((b) => b.disabled)")
    tab.key("r")
    tab.drag(spot(tab, 300, 200), spot(tab, 400, 300))
    assert tab.run("unglow.panels.open.saved.all.length") == 0
    assert not drawn(small_work).exists()
