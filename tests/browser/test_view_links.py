"""The page of the runs leads to the images of a pair, whatever the pair is called."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from made_results import made_pair, refused
from served_sites import free_port, served

from unglow.cli.pages import redirect_file
from unglow.io.detection_results import read_candidates
from unglow.reporting.html.live_site import Site
from unglow.viewer.site import NAME, Viewer

pytestmark = pytest.mark.slow

NASTY = "a b~<img src=x onerror=document.title='owned'>&\"%41+日"


@pytest.fixture(scope="module")
def tab(open_tab):
    return open_tab()


@pytest.fixture
def server(tmp_path):
    with served(Site([tmp_path / "results"], {NAME: Viewer}), free_port()) as server:
        yield server


def test_a_pair_of_any_name_is_opened(tab, server, tmp_path):
    refused(tmp_path / "results" / NASTY / "d'~")
    tab.open(server.url)
    tab.wait("!!document.querySelector('.pair a.look')", 120)
    tab.follow("document.querySelector('.pair a.look')")
    tab.wait("!!(window.unglow && unglow.pair)", 120)
    assert tab.run("unglow.pair.sample") == NASTY
    assert tab.run("unglow.pair.dye") == "d'~"
    assert "owned" not in tab.run("document.title").replace("='owned'", "")
    assert {url.split("/")[2] for url in tab.requests if url.startswith("http")} == {
        f"127.0.0.1:{server.port}"
    }


def test_a_candidate_on_a_card_is_a_click_from_its_place_in_the_viewer(tab, server, tmp_path):
    pair = tmp_path / "results" / "S1" / "DAPI"
    made_pair(pair)
    tab.open(server.url)
    first = "document.querySelector('.pair .links a')"
    tab.wait(f"!!{first}", 120)
    tab.follow(first)
    tab.wait("!!(window.unglow && unglow.settled)", 120)
    listed = read_candidates(pair / "candidates.csv")
    best = listed.xy[listed.is_counted][np.argmax(listed.snr[listed.is_counted])]
    shown = [tab.run(f"unglow.address.get('{key}')") for key in "xy"]
    assert shown == pytest.approx(best, abs=0.06)


def test_a_click_on_a_picture_leads_to_its_place_in_the_viewer(tab, server, tmp_path):
    pair = tmp_path / "results" / "S1" / "DAPI"
    made_pair(pair)
    tab.open(server.url)
    tab.wait("!!document.querySelector('.main-picture button')", 120)
    tab.run("document.querySelector('.main-picture button').click()")
    image = "document.querySelector('dialog.viewer img')"
    tab.wait(f"!!{image} && {image}.naturalWidth > 0", 60)
    left, top, width, height, wide, high = tab.run(
        f"(({{ x, y, width, height }}) => [x, y, width, height, {image}.naturalWidth,"
        f" {image}.naturalHeight])({image}.getBoundingClientRect())"
    )
    scale = min(width / wide, height / high)
    tab.click(left + width / 2 + 0.2 * wide * scale, top + height / 2 - 0.1 * high * scale)
    tab.wait("!!(window.unglow && unglow.settled)", 120)
    rows, cols = tab.run("unglow.pair.shape")
    shown = [tab.run(f"unglow.address.get('{key}')") for key in ("x", "y", "zoom", "a")]
    assert shown[:2] == pytest.approx((0.7 * cols, 0.4 * rows), abs=0.01 * cols)
    assert shown[2:] == [2, "difference-linear"]


def test_a_browser_is_led_to_the_page_and_no_process_shows_the_address(tab, server, tmp_path):
    made_pair(tmp_path / "results" / "S1" / "DAPI")
    with redirect_file(f"{server.url}0/{NAME}/#pair=S1%7EDAPI&a=pre") as file:
        tab.open(file.as_uri())
        tab.wait("!!(window.unglow && unglow.settled)", 120)
    assert tab.run("unglow.address.get('a')") == "pre"
    assert tab.run("document.referrer") == ""
    assert server.token in tab.run("location.pathname")
    assert server.token not in tab.run("document.title")
    shown = []
    for arguments in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            shown.append(arguments.read_text(errors="replace"))
    assert any("chrom" in words for words in shown)
    assert not any(server.token in words for words in shown)
