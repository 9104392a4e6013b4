"""`unglow app`: what it prints, and where it refuses."""

from __future__ import annotations

import http.client
import re
import signal
import subprocess
import sys

from unglow.cli import main, pages


def test_it_prints_its_address_and_the_way_from_another_machine(tmp_path):
    words = [sys.executable, "-m", "unglow", "app", "--no-browser"]
    with subprocess.Popen(
        words,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
        # whatever these tests run in may have it ignored
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    ) as process:
        try:
            port, path = re.search(r":(\d+)(/\S+/0/app/)\n", process.stdout.readline()).groups()
            assert f"ssh -N -L {port}:127.0.0.1:{port} " in process.stdout.readline()
            connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=60)
            for part, content in (("", b"<title>unglow</title>"), ("state.json", b'"folders":[]')):
                connection.request("GET", path + part)
                assert content in connection.getresponse().read()
            connection.close()
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    assert not list(tmp_path.iterdir())  # looking writes nothing


def test_a_folder_that_is_none_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["app", "nowhere"]) == 2
    assert "nowhere is not a directory" in capsys.readouterr().err


def test_without_a_way_to_know_who_asks_it_does_not_start(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pages, "is_mounted", lambda: False)
    assert main(["app"]) == 2
    assert "/proc" in capsys.readouterr().err
