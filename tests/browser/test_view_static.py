"""The viewer as a folder of files, on a web server that knows nothing of it."""

from __future__ import annotations

import functools
import http.server
import threading

import pytest
from devtools import leave
from viewer_hands import framed

from unglow.cli import main
from unglow.core.errors import UnglowError
from unglow.pages.viewer.static_site import write_site


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Python's own server: it sends whole files, whatever part is asked for."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass


@pytest.fixture
def serve_folder():
    servers = []

    def serve(folder):
        handler = functools.partial(Quiet, directory=str(folder))
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_address[1]}/"

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.slow
def test_a_folder_shows_the_same_on_any_web_server(
    view, view_tab, serve_folder, small_finished, tmp_path
):
    folder = tmp_path / "supplement"
    pairs, size = write_site(small_finished / "results", folder, computed=False, say=print)
    assert (pairs, size) == (1, sum(p.stat().st_size for p in folder.rglob("*") if p.is_file()))
    here = str(small_finished).encode()
    leaks = [p for p in folder.rglob("*json") if here in p.read_bytes()]
    assert not leaks, "where results lie on this machine is nobody's business"
    state = {"pair": "phantom~SYTO9", "a": "difference-linear", "x": 450, "y": 350, "zoom": 4}
    drawn = "unglow.panes[0].viewer.drawer.canvas.toDataURL('image/png')"
    pictures = []
    hashed = "#" + "&".join(f"{key}={value}" for key, value in state.items())
    for url in (serve_folder(folder) + hashed, None):
        if url is None:
            view(small_finished / "results", **state)
        else:
            leave(view_tab)
            view_tab.open(url)
        view_tab.wait("window.unglow && unglow.settled", 120)
        framed(view_tab)
        pictures.append(view_tab.run(drawn))
        assert not view_tab.complaints
        if url is not None:
            names = view_tab.run("unglow.pair.layers.map((layer) => layer.name).join()").split(",")
            assert names[:4] == ["post", "pre", "aligned_pre", "difference-linear"]
            assert not {"snr", "difference-moffat"} & set(names)
            assert view_tab.run("unglow.toolbar.crop.disabled")
            assert "nothing can be saved" in view_tab.run("unglow.pair.why")
    assert pictures[0] == pictures[1]


def test_a_folder_that_exists_is_not_touched(small_finished, tmp_path, capsys):
    (tmp_path / "there").mkdir()
    words = ["view", str(small_finished), "--static", str(tmp_path / "there")]
    assert main(words) != 0
    assert "exists already" in capsys.readouterr().err


def test_a_damaged_result_leaves_no_folder(small_work, tmp_path):
    results = small_work / "results"
    (results / "phantom" / "SYTO9" / "post.ome.zarr" / "0" / "c" / "0" / "0").unlink()
    with pytest.raises(UnglowError, match=r"post\.ome\.zarr.* is missing"):
        write_site(results, tmp_path / "supplement", computed=False, say=print)
    assert not list(tmp_path.glob("*supplement*"))
