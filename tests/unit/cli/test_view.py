"""`unglow view` and `unglow app`: what is meant and printed, where they refuse, how they end."""

from __future__ import annotations

import http.client
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from made_results import refused

from unglow.cli import main, pages
from unglow.cli.directories import place_of
from unglow.cli.pages import redirect_file
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


@contextmanager
def viewing(*words, **environment):
    """Run `unglow view` and give the process with the address that it prints."""
    running = subprocess.Popen(
        [Path(sys.executable).with_name("unglow"), "view", *words],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
        # tests that run in the background of a shell would have it ignored
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )
    with running:
        try:
            yield running, running.stdout.readline().split()[1]
        finally:
            running.kill()


def status_of(url, path):
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=120)
    connection.request("GET", path)
    return connection.getresponse().status


def test_it_prints_the_address_and_the_tunnel_and_ends_with_the_key(work):
    with viewing("S 1/D~", "--no-browser") as (running, address):
        assert "ssh -N -L" in running.stdout.readline()
        url = urlsplit(address)
        assert url.fragment == "pair=S%25201~D%257E"  # the id, as a value of a query
        assert status_of(url, url.path + "pairs.json") == 200
        running.send_signal(signal.SIGINT)
        assert running.wait(120) == 0


@pytest.fixture
def browser(work):
    """A browser that notes what it was given and stays, and variables that have it started."""
    program, given = work / "browser", work / "given"
    program.write_text(f'#!/bin/sh\necho "$@" > {given}.new; mv {given}.new {given}; sleep 600\n')
    program.chmod(0o755)
    places = {"TMPDIR": tempfile.mkdtemp(), "XDG_RUNTIME_DIR": ""}
    Path(places["TMPDIR"]).chmod(0o755)  # others may look there
    yield given, {"DISPLAY": ":99", "BROWSER": f"{program} %s", **places}
    shutil.rmtree(places["TMPDIR"])


def given_file(given):
    """Return the file that the browser was given, as soon as it has started."""
    until = time.monotonic() + 120
    while not given.exists():
        assert time.monotonic() < until
        time.sleep(0.05)
    return Path(unquote(urlsplit(given.read_text().strip()).path))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_browser_is_given_a_file_that_goes_when_the_server_ends(work, browser, number):
    given, variables = browser
    with viewing(**variables) as (running, address):
        file = given_file(given)
        assert urlsplit(given.read_text()).scheme == "file"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
        text = file.read_text()
        assert f'content="0; url={address}"' in text
        assert '<meta name="referrer" content="no-referrer">' in text
        running.send_signal(number)
        assert running.wait(120) == (0 if number == signal.SIGINT else 128 + number)
    assert not file.parent.exists()


def test_a_users_own_directory_for_running_programs_is_used(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with redirect_file("http://127.0.0.1:1/a&b") as file:
        assert file.parent.parent == tmp_path
        assert "http://127.0.0.1:1/a&amp;b" in file.read_text()
    assert not list(tmp_path.iterdir())
    for place in ("", str(tmp_path / "gone")):
        monkeypatch.setenv("XDG_RUNTIME_DIR", place)
        with redirect_file("http://127.0.0.1:1/") as file:
            assert file.parent.parent == Path(tempfile.gettempdir())


#: What another user can find out of processes and their temporary files.
SPY = """
cd /
cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ /proc/[0-9]*/maps /proc/[0-9]*/comm | tr '\\0' ' '
ls -l /proc/[0-9]*/fd
ls -alR "$TMPDIR"
cat "$1"
ls -al "$(dirname "$1")"
echo changed > "$1"
"""


def test_another_user_of_the_machine_learns_nothing_of_the_token(work, browser):
    if os.geteuid() != 0:
        pytest.skip("only root can be another user")
    given, variables = browser
    with viewing(**variables) as (_, address):
        file = given_file(given)
        before = file.read_text()
        url = urlsplit(address)
        token = url.path.split("/")[1]
        nobody = {"user": 65534, "group": 65534, "extra_groups": []}
        spied = subprocess.run(
            ["sh", "-c", SPY, "sh", file],
            capture_output=True,
            text=True,
            errors="replace",
            env={"PATH": os.environ["PATH"], "TMPDIR": variables["TMPDIR"]},
            **nobody,
            check=False,
        )
        assert str(file) in spied.stdout  # it sees the arguments of the browser
        assert token not in spied.stdout + spied.stderr
        assert file.read_text() == before
        for path in ("/", "/0/view/", "/0/view/pairs.json", f"/{token[:-1]}/0/view/pairs.json"):
            assert status_of(url, path) == 403
        # control: it would have found it in a file or an argument
        shown = file.with_name("shown")
        shown.write_text(token)
        shutil.move(shown, file.parent.with_name("shown"))
        read = subprocess.run(
            ["cat", file.parent.with_name("shown")],
            capture_output=True,
            text=True,
            **nobody,
            check=False,
        )
        assert read.stdout == token


@pytest.mark.parametrize("more", [(), ("--static", "out")])
def test_results_without_an_image_are_refused_with_a_sentence(tmp_path, capsys, monkeypatch, more):
    monkeypatch.chdir(tmp_path)
    assert main(["view", *more]) == 2
    assert "no pair with an image to look at yet: run the workflow" in capsys.readouterr().err
    results = tmp_path / "results"
    results.mkdir()
    (results / "summary.tsv").write_text("sample\tdye\tstatus\treasons\nA\tD\tskipped\tNo pre.\n")
    assert main(["view", *more]) == 2
    assert "A D: No pre." in capsys.readouterr().err
    slide = results / "SlideA" / "slide.json"
    slide.parent.mkdir()
    slide.write_text("{}")
    assert main(["view", *more]) == 2
    assert "A D: No pre." in capsys.readouterr().err


@pytest.mark.parametrize("number", ["0", "70000"])
def test_a_port_that_is_none_is_refused(work, capsys, number):
    with pytest.raises(SystemExit):
        main(["view", "--port", number])
    assert f"'{number}' is not a port" in capsys.readouterr().err


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
