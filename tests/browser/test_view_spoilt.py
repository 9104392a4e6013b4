"""Spoilt places in the viewer: hatched where they are, listed, and explained by a click."""

from __future__ import annotations

import json

import numpy as np
import pytest
from made_results import made_pair
from viewer_hands import framed, is_drawn_near, place_of, spot, toggle_overlay

from unglow.core.reasons import explain
from unglow.spoilt.outlines import report, write_places
from unglow.spoilt.places import REASONS, Places

SHAPE = (700, 1100)
COLOUR = (0xFF, 0x9F, 0x43)
REASON = explain("torn", at=(300, 200), count=12, limit=1.0)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Results of a pair with a place torn off, which has a hole, and a speck of debris."""
    results = tmp_path_factory.mktemp("spoilt") / "results"
    pair = results / "S1" / "DAPI"
    made_pair(pair)
    labels = np.zeros((22, 35), np.int32)
    labels[5:14, 8:18] = 1
    labels[8:11, 11:14] = 0
    labels[16, 27] = 2
    reasons = np.array([REASONS.index("lost"), REASONS.index("debris")], np.uint8)
    places = Places(32, labels, reasons, np.array([185.46, 7.0], np.float32), {}, 0.0, 770)
    write_places(pair / "artefacts.geojson", places, SHAPE)
    record = json.loads((pair / "details/detection.json").read_text())
    record["spoilt"] = report(places, SHAPE)
    record["reasons"] = [REASON.to_plain()]
    (pair / "details/detection.json").write_text(json.dumps(record))
    return results


@pytest.fixture
def tab(view, results):
    tab = view(results, pair="S1~DAPI", panel="spoilt")
    tab.wait("unglow.panels.open.all.length === 2", 120)
    framed(tab)
    return tab


def hatched(tab, x, y):
    """Whether something near px (x, y) of the image has the colour of spoilt places."""
    return is_drawn_near(tab, x, y, COLOUR)


def state(tab):
    return tab.run("unglow.panels.open.state.textContent")


def test_places_are_hatched_where_they_are(tab):
    assert hatched(tab, 300, 300)
    assert not hatched(tab, 400, 300)  # the hole
    assert hatched(tab, 880, 528)
    assert not hatched(tab, 700, 300)
    toggle_overlay(tab, "spoilt")
    framed(tab)
    assert not hatched(tab, 300, 300)
    toggle_overlay(tab, "spoilt")
    assert tab.complaints == []


def test_a_click_on_a_place_says_why_and_how_strongly(tab):
    assert state(tab).startswith("11 % of the section is spoilt and excluded from the search, in 2")
    tab.click(*spot(tab, 880, 528))
    framed(tab)
    assert state(tab).startswith("debris: post is brighter throughout")
    assert "Strength: 7 times" in state(tab)
    tab.click(*spot(tab, 300, 300))
    framed(tab)
    assert state(tab).startswith("lost: post is as dark as")
    assert "Strength: 185.5 times" in state(tab)
    pressed = "document.querySelector('.spoilt-place[aria-pressed=true]').textContent"
    assert tab.run(pressed).startswith("lost82944 px, 10400 µm², strength 185.5")
    tab.click(*spot(tab, 400, 300))  # the hole is no part of it
    framed(tab)
    assert "Click one" in state(tab)
    assert tab.complaints == []


def test_a_row_leads_to_its_place(tab):
    tab.click(*tab.middle(".spoilt-place[data-id='1']"))
    framed(tab)
    place = place_of(tab)
    assert (place["x"], place["y"]) == pytest.approx((27.5 * 32 - 0.5, 16.5 * 32 - 0.5), abs=1)
    assert "debris" in state(tab)
    assert tab.complaints == []


def test_a_reason_unfolds_its_numbers_and_leads_to_its_place(tab):
    tab.run("unglow.address.set({ panel: 'about' })")
    tab.wait("document.querySelectorAll('.about details.reason').length === 1")
    text = tab.run("document.querySelector('.about .reason').textContent")
    assert text.startswith(REASON)
    assert REASON.numbers in text
    tab.run("document.querySelector('.about .reason button').click()")
    framed(tab)
    place = place_of(tab)
    assert (place["x"], place["y"]) == pytest.approx((300, 200), abs=1)
    assert tab.complaints == []
