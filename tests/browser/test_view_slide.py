"""A slide in the viewer: its channels in their colours, presets, spoilt places of what is shown."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from made_slides import made_slide
from viewer_hands import framed, marks

from unglow.core.windows import Window
from unglow.io.tiff.metadata import OmeChannel
from unglow.io.tiff.tiles import OmeTiffSink
from unglow.multiplexed.results import CycleState, SlideRecord
from unglow.multiplexed.slide import Channel
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
    seen = marks(tab)
    orange = np.abs(seen[..., :3] - (0xFF, 0x9F, 0x43)).max(axis=-1) < 40
    return bool((orange & (seen[..., 3] > 100)).any())


def test_a_slide_opens_with_its_channels_and_presets(view, results):
    tab = view(results)
    assert tab.run("unglow.pair.title") == "s1"
    titles = tab.run("unglow.pair.layers.map((layer) => layer.title)")
    assert titles == ["DAPI_1", "DAPI_2", "CD3", "CD8"]
    assert tab.run("unglow.shown[0].look.map") == "#0000ff"  # nuclei are blue
    tabs = tab.run("[...document.querySelectorAll('.tabs button')].map((b) => b.textContent)")
    assert tabs == ["About", "Spoilt"]
    assert "Cycle 3" in tab.run("document.querySelector('.about').textContent")
    (preset,) = tab.run("unglow.pair.presets")
    assert preset["title"] == "DAPI_1 and DAPI_2"
    tab.run("unglow.preset(unglow.pair.presets[0])")
    tab.wait("unglow.settled && unglow.shown.length === 2")
    assert tab.run("unglow.shown.map(({ layer }) => layer.cycle)") == [1, 2]
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
