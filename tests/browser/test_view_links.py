"""The page of the runs leads to the images of a pair, whatever the pair is called."""

from __future__ import annotations

import threading

import pytest
from made_results import refused
from test_monitor_page import free_port, tab  # noqa: F401 (a fixture)

from unglow.reporting.html.live_server import Server
from unglow.reporting.html.live_site import Site
from unglow.viewer.site import NAME, Viewer

NASTY = "a b~<img src=x onerror=document.title='owned'>&\"%41+日"


@pytest.mark.slow
def test_a_pair_of_any_name_is_opened(tab, tmp_path):  # noqa: F811
    results = tmp_path / "results"
    refused(results / NASTY / "d'~")
    server = Server(Site([results], {NAME: Viewer}), free_port())
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}).start()
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
    server.shutdown()
    server.server_close()
