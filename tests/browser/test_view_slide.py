"""A slide in the viewer: its channels in their colours, presets, spoilt places of what is shown."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from made_slides import made_slide, register_cycle
from viewer_hands import framed, has_colour, is_drawn_near, marks, settled, toggle_overlay

from unglow.core.windows import Window
from unglow.images.slide_plan import Channel
from unglow.images.tiff.metadata import OmeChannel
from unglow.images.tiff.tiles import OmeTiffSink
from unglow.results.slide_files import CycleState, SlideRecord
from unglow.spoilt.outlines import report, write_places
from unglow.spoilt.places import Places

SHAPE = (96, 128)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A slide with nuclei of two cycles and two markers, and a place that is lost in cycle 2."""
    results = tmp_path_factory.mktemp("slide") / "results"
    place = made_slide(results, figures=False)
    record = SlideRecord.load(place / "slide.json")
    nuclei = [Channel("DAPI_1", 0, 4, 1), Channel("DAPI_2", 0, 5, 2)]
    labels = np.zeros((3, 4), np.int32)
    labels[1, 2] = 1
    lost = Places(32, labels, np.ones(1, np.uint8), np.full(1, 9.0, np.float32), {}, 0.0, 12)
    slide = replace(
        record.slide, channels=(*nuclei, *record.slide.channels),
        registered_on={1: "DAPI_1", 2: "DAPI_2", 3: "Ki/67"},
    )  # fmt: skip
    states = {2: CycleState("ok", spoilt=report(lost, SHAPE)), 3: CycleState("failed", ("No.",))}
    replace(record, slide=slide, cycles=states).save(place / "slide.json")
    write_places(place / "artefacts.geojson", {2: lost}, SHAPE)
    register_cycle(place, SHAPE)
    names = ("DAPI_1", "DAPI_2", "CD3", "CD8")
    with OmeTiffSink(
        place / "corrected.ome.tif", SHAPE, "uint16", [OmeChannel(name) for name in names],
        name="s1", workers=1,
    ) as sink:  # fmt: skip
        for n in range(len(names)):
            ramp = np.linspace(0, 1000 * (n + 1), SHAPE[0] * SHAPE[1]).reshape(SHAPE)
            sink.write(n, Window.from_shape(SHAPE), ramp.astype(np.uint16))
    return results


def hatched(tab):
    """Whether anything is drawn in the colour of spoilt places."""
    return has_colour(marks(tab), (0xFF, 0x9F, 0x43))


def test_a_slide_opens_with_its_channels_and_presets(view, results):
    tab = view(results)
    assert tab.run("unglow.pair.title") == "s1"
    titles = tab.run("unglow.pair.layers.map((layer) => layer.title)")
    assert titles == ["DAPI_1", "DAPI_2", "CD3", "CD8", "error of the map, cycle 2"]
    assert tab.run("unglow.pair.layers[0].colour") == "#0000ff"  # nuclei are blue
    tabs = tab.run("[...document.querySelectorAll('.tabs button')].map((b) => b.textContent)")
    assert tabs == ["About", "Channels", "Spoilt"]
    assert "Cycle 3" in tab.run("document.querySelector('.about').textContent")
    titles = tab.run("unglow.pair.presets.map(({ title }) => title)")
    assert titles == ["DAPI_1 and DAPI_2", "nuclei of all cycles"]
    tab.wait("unglow.settled && unglow.shown.length === 2")  # it opens with the first
    assert tab.run("unglow.address.get('mode')") == "overlay"
    assert tab.run("unglow.shown.map(({ layer }) => layer.cycle)") == [1, 2]
    assert not tab.complaints


def in_the_middle(tab):
    """Return the colour of the px in the middle, [r, g, b]."""
    settled(tab)
    canvas = "unglow.panes[0].viewer.drawer.canvas"
    at = f"{canvas}.width / 2, {canvas}.height / 2, 1, 1"
    return tab.run(f"[...{canvas}.getContext('2d').getImageData({at}).data].slice(0, 3)")


def test_nuclei_of_all_cycles_are_white_where_they_are_equal(view, results):
    tab = view(results)
    tab.run("unglow.preset(unglow.pair.presets[1])")
    tab.wait("unglow.settled && unglow.shown.length === 2")
    both = in_the_middle(tab)
    assert min(both) > 90
    assert max(both) - min(both) < 4
    assert tab.run("document.querySelector('.name').textContent") == "DAPI_1 + DAPI_2"
    preset = tab.run("document.querySelector('select[aria-label=Preset]').selectedOptions[0].label")
    assert preset == "nuclei of all cycles"
    tab.run("unglow.address.set({ layers: 'corrected-0' })")
    tab.wait("unglow.settled && unglow.shown.length === 1")
    assert in_the_middle(tab) == [both[0], 0, 0]  # the first of them is red


def test_channels_are_added_up_as_their_boxes_and_colours_say(view, results):
    tab = view(results, panel="channels")
    box = ".channels > div:nth-child({}) input[type={}]"
    for n in (1, 3, 4):
        tab.click(*tab.middle(box.format(n, "checkbox")))
        tab.wait(f"unglow.address.get('layers').includes('corrected-{n - 1}')")
    tab.wait("unglow.settled && unglow.shown.length === 3")
    assert tab.run("unglow.address.get('mode')") == "composite"
    for n, colour in ((1, "#800000"), (3, "#008000"), (4, "#0000ff")):
        chosen = f"document.querySelector('{box.format(n, 'color')}')"
        tab.run(f"{chosen}.value = '{colour}'; {chosen}.dispatchEvent(new Event('change'))")
    tab.wait("unglow.settled && unglow.shown[2].look.map === '#0000ff'")
    red, green, blue = in_the_middle(tab)
    assert abs(red - green) < 4
    assert red == pytest.approx(blue / 2, abs=4)
    assert blue > 90
    again = view(results, mode="composite", layers="corrected-0,gone,corrected-2")
    assert again.run("unglow.shown.map(({ layer }) => layer.name)") == [
        "corrected-0",
        "corrected-2",
    ]
    assert not tab.complaints


def test_every_channel_has_a_contrast_of_its_own(view, results):
    tab = view(results, mode="side", a="corrected-2", b="corrected-3")
    first, second = tab.run("unglow.shown.map(({ look }) => look.limits[1])")
    assert second == pytest.approx(first * 4 / 3, rel=0.01)


def test_spoilt_places_are_those_of_the_cycle_that_is_shown(view, results):
    tab = view(results, a="corrected-1", panel="spoilt")
    tab.wait("unglow.panels.open.all.length === 1")
    framed(tab)
    assert hatched(tab)
    assert "Cycle 2: 8.3 %" in tab.run("unglow.panels.open.state.textContent")
    tab.run("unglow.panels.open.choose(unglow.panels.open.all[0])")
    said = tab.run("unglow.panels.open.state.textContent")
    assert said.startswith("lost: cycle 2 is as dark as glass")
    tab.run("unglow.panels.open.choose(null)")
    tab.run("unglow.address.set({ a: 'corrected-0' })")
    tab.wait("unglow.settled && unglow.shown[0].layer.name === 'corrected-0'")
    framed(tab)
    assert not hatched(tab)


USED, OUT, ARROW = (0x57, 0xD2, 0x7A), (0xFF, 0x55, 0x55), (0xFF, 0xE0, 0x8A)


def test_residuals_and_displacements_are_those_of_the_cycle_that_is_shown(view, results):
    tab = view(results, a="corrected-1", marks="map")
    toggle_overlay(tab, "blocks")
    tab.wait("unglow.files.get('blocks-2.json')")
    framed(tab)
    assert [is_drawn_near(tab, *at, USED) for at in ((30, 30), (64, 64), (100, 80))] == [1, 1, 0]
    assert is_drawn_near(tab, 100, 40, OUT)  # it was not used
    assert not is_drawn_near(tab, 64, 64, ARROW)
    toggle_overlay(tab, "arrows")
    tab.wait("unglow.files.get('arrows-2.json')")
    framed(tab)
    x, y = tab.run("unglow.files.get('arrows-2.json').points[40].slice(0, 2)")
    assert is_drawn_near(tab, x, y, ARROW)
    tab.run("unglow.address.set({ a: 'corrected-0' })")  # of the reference cycle
    tab.wait("unglow.settled && unglow.shown[0].layer.name === 'corrected-0'")
    framed(tab)
    assert not is_drawn_near(tab, 30, 30, USED)
    tab.run("unglow.preset(unglow.pair.presets[0])")  # over each other: the one that moved
    tab.wait("unglow.settled && unglow.shown.length === 2")
    framed(tab)
    assert is_drawn_near(tab, 30, 30, USED)
    assert not tab.complaints


def test_the_error_of_a_map_is_an_image(view, results):
    tab = view(results, a="map_error-2")
    assert tab.run("unglow.shown[0].look.map") == "viridis"
    low, high = tab.run("unglow.shown[0].look.limits")
    assert (low, high) == (pytest.approx(0.05, abs=0.01), pytest.approx(0.4, abs=0.01))
    about = tab.run("document.querySelector('.about').innerText")
    assert "median 0.07 px, 95\u00a0% below 0.2 px" in about
    tab.run("unglow.address.set({ panel: 'channels' })")
    assert tab.wait("document.querySelectorAll('.channels > div').length") == 4  # channels alone
    assert not tab.complaints
