"""The page of the runs leads to the images of a pair, whatever the pair is called."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from made_results import made_pair, refused
from served_sites import free_port, served

from unglow.cli.pages import redirect_file
from unglow.pages.report.live_site import Site
from unglow.pages.viewer.site import NAME, Viewer

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
