"""`unglow.span`: nothing outside a run, steps in a file of the process inside one."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import unglow
from unglow.core import progress
from unglow.telemetry.recording import span as spans

CODE = "import unglow\nwith unglow.span('a'):\n  with unglow.span('b'): pass\nprint('done')"


def run(place):
    environment = {} if place is None else {spans.VARIABLE: str(place)}
    words = [sys.executable, "-c", CODE]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.fixture(autouse=True)
def no_steps():
    progress.record_steps(None)  # whatever ran before in this process
    yield
    progress.record_steps(None)
    spans._opened_by = None


def test_it_does_nothing_outside_a_run(monkeypatch):
    monkeypatch.delenv(spans.VARIABLE, raising=False)
    with unglow.span("x"):
        assert not progress.is_recording()


def test_spans_are_steps_in_a_file_of_the_process(tmp_path):
    assert run(tmp_path) == "done\n"
    [file] = tmp_path.iterdir()
    head, *lines = map(json.loads, file.read_text().splitlines())
    assert head["kind"] == "spans"
    assert [(line.get("name"), line["edge"]) for line in lines] == [
        *(("a", "begin"), ("b", "begin"), (None, "end"), (None, "end"))
    ]
    assert lines[1]["in"] == lines[0]["id"]


@pytest.mark.parametrize("make", ["file", "missing"])
def test_a_place_that_cannot_be_written_is_no_reason_to_fail(tmp_path, make):
    place = tmp_path / "x"
    if make == "file":
        place.write_text("")
    assert run(place) == "done\n"


def test_a_job_that_records_its_steps_writes_no_second_file(tmp_path, monkeypatch):
    monkeypatch.setenv(spans.VARIABLE, str(tmp_path))
    contents = []

    class Sink:
        def write(self, content):
            contents.append(content)

    progress.record_steps(Sink())
    with unglow.span("x"):
        pass
    assert [line["edge"] for line in contents] == ["begin", "end"]
    assert not list(tmp_path.iterdir())
