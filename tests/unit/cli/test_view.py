"""`unglow view`: which results and which pair are meant, what is printed, and how it ends."""

from __future__ import annotations

import http.client
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from made_results import refused

from unglow.cli import main
from unglow.cli.view import place_of
from unglow.core.errors import InputError


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    results = tmp_path_factory.mktemp("made") / "work" / "results"
    refused(results / "S 1" / "D~")
    return results


@pytest.fixture
def work(made, tmp_path, monkeypatch):
    shutil.copytree(made.parent, tmp_path / "work")
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def test_a_directory_is_a_working_directory_or_results(work):
    for given in (".", str(work), "results", str(work / "results")):
        results, pair = place_of(given)
        assert (results.resolve(), pair) == (work / "results", None)


def test_a_pair_is_named_or_its_directory_is(work):
    place = work / "results" / "S 1" / "D~"
    (place / "model-any" / "percentile-40").mkdir(parents=True)
    for given in ("S 1/D~", "results/S 1/D~", str(place)):
        results, pair = place_of(given)
        assert (results.resolve(), pair.resolve()) == (work / "results", place)
    deep = place / "model-any" / "percentile-40"
    assert place_of(str(deep)) == (work / "results", deep)


@pytest.mark.parametrize("name", ["S 1/other", "../work/results/S 1/D~x", "nothing", "/nowhere/x"])
def test_what_there_is_not_is_refused_with_a_sentence(work, capsys, name):
    with pytest.raises(InputError):
        place_of(name)
    assert main(["view", name]) == 2
    assert f"unglow view: {name} is neither a directory nor a pair" in capsys.readouterr().err


def test_it_prints_the_address_and_the_tunnel_and_ends_with_the_key(work):
    words = [Path(sys.executable).with_name("unglow"), "view", "S 1/D~", "--no-browser"]
    running = subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        # tests that run in the background of a shell would have it ignored
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )
    opened = running.stdout.readline().split()[1]
    assert "ssh -N -L" in running.stdout.readline()
    url = urlsplit(opened)
    assert url.fragment == "pair=S%25201~D%257E"  # the id, as a value of a query
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=120)
    connection.request("GET", url.path + "pairs.json")
    assert connection.getresponse().status == 200
    running.send_signal(signal.SIGINT)
    assert running.wait(120) == 0
    running.stdout.close()


def test_a_port_that_is_none_is_refused(work, capsys):
    with pytest.raises(SystemExit):
        main(["view", "--port", "0"])
    assert "'0' is not a port" in capsys.readouterr().err
