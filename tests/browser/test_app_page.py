"""The page of `unglow app` in a browser: choose, name, set, check, run, stop, look."""

from __future__ import annotations

import json
import shutil
from contextlib import ExitStack
from functools import partial

import pytest
import yaml
from keyboard import focus, reach, said, walk
from sentences import long_sentences
from served_sites import free_port, served
from viewer_hands import press

from unglow.pages.app import site as app
from unglow.pages.app.workplace import Workplace
from unglow.pages.report.live_site import Site
from unglow.pages.viewer import site as viewer
from unglow.review.decisions import read_decisions

READY = "document.documentElement.dataset.ready"


@pytest.fixture(scope="module")
def tab(open_tab):
    return open_tab((1400, 1000))


@pytest.fixture
def work(tmp_path, small_raw):
    """A directory with one pair, whose names no rule knows."""
    place = tmp_path / "work"
    (place / "photos").mkdir(parents=True)
    for word, name in (("untreated", "pre"), ("treated", "post")):
        (source,) = small_raw.glob(f"*/*_{name}_*.tif")
        shutil.copy(source, place / "photos" / f"Rock<7>_{word}_SYTO9.tif")
    return place


@pytest.fixture
def show(tab, work):
    """A function that opens the app of the directory in the tab."""
    with ExitStack() as stack:

        def opened(place=work, folders=()):
            made = partial(app.App, workplace=Workplace(place, folders))
            site = Site([place / "results"], {app.NAME: made, viewer.NAME: viewer.Viewer})
            server = stack.enter_context(served(site, free_port(), same_user=True))
            tab.complaints.clear()
            tab.open(f"{server.url}0/{app.NAME}/")
            tab.wait(READY, 120)

        yield opened
    tab.open("about:blank")


def text_of(tab, step):
    return tab.run(f"document.querySelector('#{step}').innerText")


def write(tab, field, text):
    """Write into a field as a hand does."""
    tab.run(f"{field}.focus(); {field}.select && {field}.select()")
    tab.type(text)


def unfold_settings(tab):
    tab.run("void (document.querySelector('#settings details').open = true)")


def test_two_images_that_are_clicked_are_a_pair(tab, show, work):
    show()
    tab.run("document.querySelector('input[name=folder]').click()")
    tab.wait("document.querySelectorAll('#names .thumbs button').length === 2")
    for n in (1, 0):  # whatever is clicked last: the first one is pre
        tab.run(f"document.querySelectorAll('#names .thumbs button')[{n}].click()")
    for n, name in enumerate(("Rock 7", "SYTO9")):
        write(tab, f"document.querySelectorAll('#names form input')[{n}]", name)
    press(tab, "These two are a pair")
    tab.wait("unglow.state.pairs.length === 1")
    header, row = (work / "config" / "samples.tsv").read_text().splitlines()
    assert dict(zip(header.split("\t"), row.split("\t"), strict=False)) == {
        "sample": "Rock 7",
        "dye": "SYTO9",
        "pre": "photos/Rock<7>_untreated_SYTO9.tif",
        "post": "photos/Rock<7>_treated_SYTO9.tif",
    }
    assert "not used" not in text_of(tab, "names")
    assert "unglow init" not in text_of(tab, "names")
    tab.click(*tab.middle("#commands"))
    assert "unglow init" in text_of(tab, "names")
    assert not tab.complaints


def test_of_images_that_are_not_read_only_their_export_is_said(tab, show, tmp_path):
    for name in ("empty", "photos"):
        (tmp_path / name).mkdir()
    (tmp_path / "photos" / "scan_pre_GFP.czi").touch()
    show(tmp_path / "empty", [tmp_path / "photos"])
    assert "bfconvert" in text_of(tab, "images")
    assert "Put some into" not in text_of(tab, "images")


def test_settings_come_after_the_first_result_with_the_width_that_was_measured(tab, show):
    show()
    opened = "document.querySelector('#settings details').open"
    pair = {"status": "suspect", "details": [{"key": "spot_width"}], "spot_width_px": 7.94}
    tab.run(f"void unglow.settings.advise([{json.dumps({'status': 'running'})}])")
    assert not tab.run(opened)
    tab.run(f"void unglow.settings.advise([{json.dumps(pair | {'searched_width_px': 3})}])")
    assert tab.run(opened)
    press(tab, "Use 7.9")
    assert tab.run("document.getElementById('key-detect.fwhm_px').value") == "7.9"
    assert "1 change not saved" in text_of(tab, "settings")


def test_from_a_folder_of_odd_names_to_results(tab, show, work):
    show()
    tab.run("document.querySelector('input[name=folder]').click()")
    tab.wait("unglow.state.raw === 'photos'")
    assert "No pair was recognised yet" in text_of(tab, "names")
    tab.wait(
        "[...document.querySelectorAll('#names .thumb img')].filter((i) => i.src).length === 2"
    )
    assert "Rock<7>_treated_SYTO9.tif" in text_of(tab, "names")  # text, and no markup

    press(tab, "Name the images")
    for field, text in (("pattern", "Rock<{sample}>_{prepost}_{dye}"), ("pre", "untreated")):
        write(tab, f"unglow.names.editor.{field}", text)
    write(tab, "unglow.names.editor.post", "treated")
    tab.key("Enter")
    tab.wait("document.querySelector('#names').innerText.includes('make 1 pair: 7 SYTO9')")
    write(tab, "document.querySelector('#names tbody input')", "Rock 7")  # by hand, one of two
    tab.wait("document.querySelector('#names').innerText.includes('1 pre and 0 post')")
    press(tab, "Write the sample sheet")
    tab.wait("document.querySelector('#names [role=alert]').innerText.includes('one of each')")
    write(tab, "document.querySelectorAll('#names tbody input')[2]", "Rock 7")
    tab.wait("document.querySelector('#names').innerText.includes('make 1 pair: Rock 7')")
    press(tab, "Write the sample sheet")
    tab.wait("unglow.state.pairs.length === 1")
    assert (work / "config" / "samples.tsv").read_text().splitlines()[1].startswith("Rock 7\tSYTO9")

    unfold_settings(tab)
    write(tab, "document.getElementById('key-detect.fdr')", "2")
    press(tab, "Save")
    tab.wait("document.querySelector('#settings [role=alert]').innerText.includes('detect.fdr')")
    write(tab, "document.getElementById('key-detect.fdr')", "0,1")
    press(tab, "Save")
    tab.wait("document.querySelector('#settings').innerText.includes('Saved')")
    config = yaml.safe_load((work / "config" / "config.yaml").read_text())
    assert config == {"raw": "photos", "detect": {"fdr": 0.1}}
    assert "--config 'detect={fdr: 0.1}'" in tab.run(
        "document.querySelector('#settings code:last-of-type') && [...document.querySelectorAll("
        "'#settings .command code')].map((c) => c.textContent).join()"
    )

    press(tab, "Check")
    tab.wait("document.querySelector('#check').innerText.includes('a run would start')", 120)
    press(tab, "Run")
    tab.wait("unglow.run.running && unglow.news.now.length", 120)
    press(tab, "Stop")
    press(tab, "Back")  # it asks first
    assert tab.run("unglow.run.running")
    press(tab, "Stop")
    press(tab, "End them now")
    tab.wait("!unglow.run.running", 300)
    press(tab, "Run")
    tab.wait(
        "unglow.news.pairs.length && ['ok', 'suspect'].includes(unglow.news.pairs[0].status)", 600
    )
    tab.wait("!unglow.run.running", 300)
    tab.wait("document.querySelector('#results .card img').src.startsWith('data:image')", 120)
    assert "Rock 7 SYTO9" in text_of(tab, "results")
    again = "{pairs: [{...unglow.news.pairs[0], gain: '9.75'}]}"  # the same but for one number
    tab.run(f"unglow.results.update({again})")
    assert "9.75" in text_of(tab, "results")
    before = tab.run("document.querySelector('#names .thumb img').src")
    first, second = sorted((work / "photos").iterdir())
    second.write_bytes(first.read_bytes())  # another image of the same name
    press(tab, "Look again")
    other = "document.querySelector('#names .thumb img').src"
    tab.wait(f"{other}.startsWith('data:') && {other} !== {json.dumps(before)}", 60)
    errors = [c for c in tab.complaints if "status of 400" not in json.dumps(c)]
    assert not errors  # a refusal is in the console too
    tab.follow("document.querySelector('#run .row a')")  # the live page, and back
    back = "document.querySelector('header.head a[href=\"app/\"]')"
    tab.wait(f"Boolean({back})", 120)
    tab.follow(back)
    tab.wait("Boolean(document.querySelector('#results .card a'))", 120)
    tab.follow("document.querySelector('#results .card a')")
    tab.wait("document.querySelector('#view') && " + READY, 120)
    tab.wait("document.title.includes('Rock 7')")


def test_from_a_folder_to_a_judged_candidate_by_keys_alone(tab, show, work):
    for name in ("Rock8-after-DAPI.tif", "Rock8-before-DAPI.tif"):
        shutil.copy(next((work / "photos").iterdir()), work / "photos" / name)
    show()
    tab.run("document.querySelector('input[name=folder]').checked = false")
    reach(tab, "photos")
    tab.key(" ")
    tab.wait("unglow.state.raw === 'photos'", 60)
    assert tab.run("document.activeElement.name") == "folder"
    reach(tab, "Name the images")
    tab.key("Enter")
    tab.wait(
        "unglow.names.editor && unglow.names.editor.preview.innerText.includes('photos DAPI')", 60
    )
    tab.type("Rock<{sample}>_{prepost}_{dye}")
    for field, words in (("Words for pre", "untreated"), ("Words for post", "treated")):
        reach(tab, field)
        tab.type(words)
    tab.key("Enter")
    tab.wait("document.querySelector('#names').innerText.includes('make 2 pairs')", 60)
    assert "fits 2 of 4 images" in text_of(tab, "names")
    for role in ("untreated", "treated"):  # the others are one image twice
        reach(tab, f"What Rock8-{'before' if role == 'untreated' else 'after'}-DAPI.tif is")
        tab.key("Home")
    tab.wait("document.querySelector('#names').innerText.includes('make 1 pair')", 60)
    reach(tab, "Write the sample sheet")
    tab.key("Enter")
    tab.wait("!unglow.names.editor && unglow.state.pairs[0].dye === 'SYTO9'", 60)
    assert tab.run("document.activeElement.closest('section').id") == "names"
    reach(tab, "Check")  # the link to the step, then its button
    tab.key("Enter")
    reach(tab, "Check")
    tab.key("Enter")
    tab.wait("document.querySelector('#check').innerText.includes('a run would start')", 120)

    reach(tab, "Run")
    tab.key("Enter")
    tab.wait("!unglow.run.stop.disabled", 120)
    reach(tab, "Stop")
    tab.key("Enter")
    tab.wait("Boolean(document.querySelector('dialog[open]'))", 20)
    tab.key("Escape")
    assert tab.run("!document.querySelector('dialog[open]')")
    assert focus(tab) == "Stop"
    tab.wait("!unglow.run.folded.hidden", 60)
    reach(tab, "What the run prints")
    tab.key("Enter")
    assert tab.run("unglow.run.folded.open")
    tab.wait("!unglow.run.running && unglow.news.pairs.length && unglow.news.now.length === 0", 600)
    assert focus(tab) == "What the run prints"  # whatever was drawn again meanwhile
    assert long_sentences(said(tab), wrapped=True) == []  # with what a terminal shows
    tab.wait("document.querySelector('#results .card img').src.startsWith('data:image')", 60)
    assert walk(tab) == []

    reach(tab, "Open the viewer")
    tab.key("Enter")
    tab.wait("document.querySelector('#view') && window.unglow && unglow.settled", 120)
    tab.wait("document.querySelectorAll('.table .line').length > 1", 60)
    assert long_sentences(said(tab)) == []
    assert walk(tab) == []
    reach(tab, "flux")
    tab.key("Enter")
    tab.run("unglow.panels.all.find(({ name }) => name === 'candidates').decided()")
    assert focus(tab) == "flux ▾"  # the table was drawn again twice
    reach(tab, "Overlays")
    tab.key("Enter")
    reach(tab, "residual blocks")
    tab.key(" ")
    assert tab.run("unglow.address.marks").count("blocks") == 1
    assert tab.run("document.activeElement.name") == "blocks"
    tab.key("Escape")
    assert focus(tab).startswith("Overlays")
    reach(tab, "About")
    tab.key("Enter")
    assert focus(tab) == "About"
    reach(tab, "Candidates")
    tab.key("Enter")
    tab.key("n")
    tab.key("a")
    tab.wait("document.querySelector('.chosen [role=alert]').innerText === 'Saved.'", 60)
    (decided,) = (work / "results").glob("*/*/review.csv")
    assert [one.decision for one in read_decisions(decided)] == ["accepted"]


def test_another_page_and_an_editor_are_followed(tab, show, work):
    show()
    (work / "config").mkdir()
    (work / "config" / "config.yaml").write_text("raw: photos\ndetect: {fdr: 0.2}\n")
    tab.wait("unglow.state.raw === 'photos'", 60)
    tab.wait("document.getElementById('key-detect.fdr').value === '0.2'", 60)
    unfold_settings(tab)
    write(tab, "document.getElementById('key-detect.fdr')", "0.3")
    (work / "config" / "config.yaml").write_text("raw: photos\ndetect: {fdr: 0.4}\n")
    press(tab, "Save")
    tab.wait("document.querySelector('#settings [role=alert]').innerText.includes('try again')", 60)
    assert "0.4" in (work / "config" / "config.yaml").read_text()


HOLD = """
(() => {
  const { fetch } = window;
  window.held = [];
  window.fetch = (path, ...rest) => path !== "settings.json" ? fetch(path, ...rest)
    : new Promise((go) => held.push(() => go(fetch(path, ...rest))));
  window.release = () => { window.fetch = fetch; held.forEach((go) => go()); };
})()"""


@pytest.mark.parametrize("config", ["raw: photos\n", "detect: {fdr: 0.4}\n"])
def test_a_late_answer_takes_nothing_from_who_writes_meanwhile(tab, show, work, config):
    show()
    unfold_settings(tab)
    field = "document.getElementById('key-detect.fdr')"
    tab.run(HOLD)
    (work / "config").mkdir()
    (work / "config" / "config.yaml").write_text(config)
    tab.wait("held.length", 60)
    write(tab, field, "0.3")
    tab.run("release()")
    version = "unglow.settings.version === unglow.state.version"
    if "fdr" in config:  # these are other settings: Save says so
        tab.run("new Promise((done) => setTimeout(done, 1000))")
    else:
        tab.wait(version, 60)
    assert tab.run(f"[{field}.value, document.activeElement === {field}]") == ["0.3", True]
    press(tab, "Save")
    said = "try again" if "fdr" in config else "Saved"
    tab.wait(f"document.querySelector('#settings [role=alert]').innerText.includes('{said}')", 60)


@pytest.mark.parametrize("width", [1400, 800, 420])
def test_nothing_is_wider_than_the_window_and_every_field_has_a_name(tab, show, width):
    tab._ask(
        "Emulation.setDeviceMetricsOverride",
        width=width, height=900, deviceScaleFactor=1, mobile=False,
    )  # fmt: skip
    try:
        show()
        tab.run("document.querySelector('input[name=folder]').click()")
        tab.wait("unglow.state.raw === 'photos'")
        press(tab, "Name the images")
        tab.run("document.querySelectorAll('details').forEach((d) => (d.open = true))")
        root = "document.documentElement"
        assert tab.run(f"{root}.scrollWidth <= {root}.clientWidth")
        nameless = (
            "[...document.querySelectorAll('input, select, button')].filter((e) => !(e.labels && "
            "e.labels.length) && !e.getAttribute('aria-label') && !e.textContent.trim()).length"
        )
        assert tab.run(nameless) == 0
    finally:
        tab._ask("Emulation.clearDeviceMetricsOverride")
