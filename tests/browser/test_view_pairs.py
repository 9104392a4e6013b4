"""Pairs without images, pairs without a map, and what stays when the mode changes."""

from __future__ import annotations

import json

import pytest
from made_results import made_pair
from viewer_hands import framed, press, settled, spot

from unglow.photometry.gain.bright_field import NOT_SEARCHED

pytestmark = pytest.mark.slow

SKIPPED, FAILED, DONE = "A~DAPI", "B~DAPI", "C~DAPI"
REASON = "raw/A holds no pre-stain image: add one."
UNREADABLE = {"a": "undefined", "b": "undefined"}


def choose(tab, pair):
    """Choose a pair in the list of pairs."""
    tab.run(
        "(() => { const list = document.querySelector('select[aria-label=Pair]');"
        f" list.value = {json.dumps(pair)}; list.dispatchEvent(new Event('change')); }})()"
    )
    shown = "!unglow.message.hidden" if pair == SKIPPED else "unglow.settled"
    tab.wait(f"unglow.pair.id === {json.dumps(pair)} && !unglow.busy && {shown}", 120)
    framed(tab)


def errors(tab):
    """Return what a page complains of, but for tiles that are no longer wanted when they come."""
    return [one for one in tab.complaints if "Ignoring tile" not in json.dumps(one)]


def places(tab):
    settled(tab)
    framed(tab)
    return json.loads(tab.run("JSON.stringify(unglow.panes.map((pane) => pane.place()))"))


@pytest.mark.parametrize("state", [{}, UNREADABLE])
def test_it_opens_on_the_first_pair_with_images(view, batch, state):
    tab = view(batch, **state)
    assert tab.run("unglow.pair.id") == FAILED
    assert places(tab)
    tab.run("unglow.address.write()")
    assert "undefined" not in tab.run("location.hash")
    assert not errors(tab)


@pytest.mark.parametrize("state", [{}, UNREADABLE])
def test_pairs_with_images_open_after_a_skipped_one(view, batch, state):
    tab = view(batch, pair=SKIPPED, panel="candidates", **state)
    message = f"This pair was skipped, so it has no images. {REASON}"
    assert tab.run("unglow.message.textContent") == message
    tab.wait("document.querySelector('.candidates').textContent.includes('was skipped')")
    assert REASON in tab.run("document.querySelector('.candidates').textContent")
    assert "registration" not in tab.run("document.querySelector('.candidates p').textContent")
    for pair in (DONE, SKIPPED, FAILED, SKIPPED, DONE):
        choose(tab, pair)
        assert tab.run("document.title").startswith(pair.replace("~", " "))
        assert bool(tab.run("unglow.panes.length")) == (pair != SKIPPED)
        if pair == DONE:
            tab.wait("document.querySelectorAll('.candidates .line').length > 5", 120)
    tab.wait("unglow.message.hidden")
    tab.run("unglow.address.write()")
    assert "undefined" not in tab.run("location.hash")
    assert not errors(tab)


def test_no_control_fails_without_images(view, batch):
    tab = view(batch, pair=DONE, mode="blink", panel="candidates")
    tab.wait("document.querySelectorAll('.candidates .line').length > 5", 120)
    choose(tab, SKIPPED)
    for panel in ("about", "candidates", "landmarks"):
        tab.run(f"unglow.address.set({{ panel: '{panel}' }})")
    tab.run("unglow.address.set({ hz: 4 })")
    tab.run("unglow.address.set({ mode: 'swipe' })")
    tab.run("unglow.address.set({ at: 0.3, marks: 'blocks', source: '1' })")
    tab.run("unglow.address.set({ look: { intensity: { invert: true } } })")
    for text in ("Save picture", "Save crop"):
        button = f"[...document.querySelectorAll('button')].find((b) => b.textContent === '{text}')"
        assert tab.run(f"{button}.disabled")
    assert tab.run("document.querySelector('.look').childElementCount") == 0
    tab.run("window.dispatchEvent(new Event('resize'))")
    framed(tab)
    assert not errors(tab)


SHOWN = "unglow.shown.map(({ layer }) => layer.name)"


def test_an_address_that_names_no_image_opens_the_difference_next_to_post(view, batch):
    tab = view(batch, pair=DONE)
    assert tab.run(SHOWN) == ["difference-linear", "post"]
    tab.run("unglow.address.write()")
    assert "a=difference-linear" in tab.run("location.hash")  # a link stays what it was
    assert view(batch, pair=DONE, a="post").run(SHOWN) == ["post"]
    assert tab.run("unglow.panels.open.name") == "candidates"
    tab = view(batch, pair=FAILED)
    assert tab.run(SHOWN) == ["post"]  # it has no difference
    assert tab.run("unglow.panels.open.name") == "about"
    assert tab.run("document.querySelector('.toolbar .badge').textContent") == "✕ failed"


def test_the_panel_of_landmarks_changes_nothing_until_it_is_asked_to(view, batch):
    tab = view(batch, pair=DONE)
    tab.run("unglow.address.set({ panel: 'landmarks' })")
    framed(tab)
    assert tab.run(SHOWN) == ["difference-linear", "post"]
    assert "candidates" in tab.run("unglow.address.marks")
    tab.click(*spot(tab, 50, 50))
    points = "unglow.panels.open.marks.points.length"
    assert tab.run(points) == 0
    press(tab, "Show both")
    tab.wait("unglow.panels.open.views.areThere && unglow.settled", 120)
    assert tab.run("unglow.shown.map(({ look }) => Boolean(look.own))") == [False, True]
    tab.run("unglow.panes[0].whole()")
    framed(tab)
    tab.click(*spot(tab, 50, -20))
    tab.wait("!unglow.message.hidden")
    assert tab.run(points) == 0
    tab.click(*spot(tab, 50, 50))
    tab.wait(f"{points} === 1")
    tab.run("unglow.address.set({ panel: 'about' })")
    tab.wait("unglow.settled", 120)
    assert tab.run(SHOWN) == ["difference-linear", "post"]
    assert tab.run("JSON.stringify(unglow.address.get('look'))") == "{}"


@pytest.mark.parametrize("zoom", [None, 1.5])
def test_place_and_scale_stay_when_the_mode_changes(view, batch, zoom):
    place = {} if zoom is None else {"x": 400, "y": 300, "zoom": zoom}
    tab = view(batch, pair=DONE, mode="single", **place)
    (start,) = places(tab)
    for mode in ("side by side", "one image", "swipe", "side by side", "blink", "one image"):
        press(tab, mode)
        for place in places(tab)[:1]:
            assert place == pytest.approx(start, rel=1e-3), mode
    for key in "wv1vwv1":
        tab.key(key)
    tab.wait("unglow.address.get('mode') === 'single' && unglow.panes.length === 1", 120)
    assert places(tab) == [pytest.approx(start, rel=1e-3)]
    for key in "vovkv":
        tab.key(key)
        assert places(tab)[0] == pytest.approx(start, rel=1e-3), key


def test_a_pair_without_a_map_is_seen_whole_at_one_scale(view, batch):
    tab = view(batch, pair=FAILED, a="post", b="pre")
    (start,) = places(tab)
    press(tab, "side by side")
    post, pre = places(tab)
    assert post["zoom"] == pytest.approx(pre["zoom"], rel=1e-6)
    assert post["zoom"] < start["zoom"]
    assert tab.run("unglow.panes.every((pane) => pane.isWhole)")
    press(tab, "one image")
    places(tab)
    tab.run("unglow.go({ x: 300, y: 200, zoom: 3 })")
    press(tab, "side by side")
    post, pre = places(tab)
    assert (post["x"], post["y"], post["zoom"]) == pytest.approx((300, 200, 3), rel=1e-3)
    assert pre["zoom"] == pytest.approx(3, rel=1e-3)


def test_facts_are_in_words_with_units(view, tmp_path):
    made_pair(tmp_path / "C" / "DAPI")
    path = tmp_path / "C" / "DAPI" / "transform.json"
    transform = json.loads(path.read_text()) | {"shift_px": [123.456, -74.2]}
    path.write_text(json.dumps(transform))
    tab = view(tmp_path, pair=DONE, panel="about")
    rows = tab.run(
        "JSON.stringify([...document.querySelectorAll('.about .facts tr')].map((row) =>"
        " [...row.children].map((cell) => cell.textContent)))"
    )
    facts = json.loads(rows)
    assert ["Shift in x and y", "(123.46, -74.2) px"] in facts
    assert ["Gain (95 % interval)", "1.5 (1.4 to 1.6)"] in facts
    assert ["Displacement field", "up to 0.181 px, a node every 128 px"] in facts
    assert not any("_" in text or text.endswith(" px px") for row in facts for text in row)


def test_a_search_that_was_not_done_has_not_failed(view, tmp_path):
    pair = tmp_path / "results" / "A" / "DAPI"
    made_pair(pair)
    record = json.loads((pair / "details/detection.json").read_text())
    record |= {"status": "failed", "reason": NOT_SEARCHED, "candidates": None}
    (pair / "details/detection.json").write_text(json.dumps(record))
    table = pair / "candidates.csv"
    table.write_text(table.read_text().splitlines(keepends=True)[0])
    for panel in ("about", "candidates"):
        tab = view(tmp_path / "results", pair=SKIPPED, panel=panel)
        shown = "document.querySelector('.panels, aside, main').innerText"
        tab.wait(f"{shown}.includes({json.dumps(NOT_SEARCHED)})", 60)
        assert "fail" not in tab.run(shown).lower()
