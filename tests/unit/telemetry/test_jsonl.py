"""Append-only files: names, whole lines of several writers, full disks; steps and recording."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import unglow
from unglow.core.progress import is_recording, progress, record_steps, step
from unglow.telemetry import recording
from unglow.telemetry.jsonl import LineFile


def read(path):
    return [json.loads(line) for line in path.read_bytes().split(b"\n") if line]


@pytest.fixture
def messages():
    return []


@pytest.fixture
def file(tmp_path, messages):
    made = LineFile(tmp_path / "a" / "b.jsonl", messages.append)
    yield made
    made.close()


@pytest.fixture
def steps(file):
    record_steps(file, time.monotonic())
    yield lambda: read(file.path)
    record_steps(None)


def test_every_line_is_in_the_file_as_soon_as_it_was_written(file):
    file.write({"a": 1, "path": "caf\udce9 \u2028"})
    assert file.path.read_bytes() == b'{"a":1,"path":"caf\\udce9 \\u2028"}\n'
    file.write([0.1, None, "R"])
    assert read(file.path)[1] == [0.1, None, "R"]


def test_lines_of_two_writers_never_mix(file, messages):
    other = LineFile(file.path, messages.append)
    text = "x" * 3000

    def many(one, name):
        for n in range(200):
            one.write({"name": name, "n": n, "text": text})

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(many, (file, other), "ab"))
    found = read(file.path)
    assert [e["n"] for e in found if e["name"] == "a"] == list(range(200))
    assert [e["n"] for e in found if e["name"] == "b"] == list(range(200))
    assert not messages


def test_a_place_that_cannot_be_written_is_reported_once(tmp_path, messages):
    (tmp_path / "a").write_text("a file in the way")
    made = LineFile(tmp_path / "a" / "b.jsonl", messages.append)
    made.write({"x": 1})
    (sentence,) = messages
    assert sentence == (
        f"telemetry is lost: {tmp_path}/a/b.jsonl could not be written (File exists)"
    )


def test_a_full_disk_is_reported_once_and_a_torn_line_spoils_no_other(file, messages, monkeypatch):
    write, left = os.write, [5, None, 0, 0]

    def short(descriptor, line):
        room = left.pop(0) if left else len(line)
        if room is None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, line[:room]) if room else write(descriptor, line)

    monkeypatch.setattr("unglow.telemetry.jsonl.os.write", short)
    for n in range(5):
        file.write({"n": n})
    assert file.path.read_bytes() == b'{"n":\n{"n":2}\n{"n":3}\n{"n":4}\n'
    assert messages == [
        f"telemetry is lost: {file.path} could not be written (No space left on device)"
    ]


# ------------------------------------------------------------------------------------------- steps


def test_steps_lie_within_steps_and_end_with_an_error_too(steps):
    def read():
        with step("read"):
            with step("decode"):
                time.sleep(0.01)
            raise KeyError

    with pytest.raises(KeyError):
        read()
    with step("write"):
        pass
    found = steps()
    assert [(e.get("name"), e["edge"], e["id"], e.get("in")) for e in found] == [
        ("read", "begin", 1, None),
        ("decode", "begin", 2, 1),
        (None, "end", 2, None),
        (None, "end", 1, None),
        ("write", "begin", 3, None),
        (None, "end", 3, None),
    ]
    times = [e["t"] for e in found]
    assert times == sorted(times)
    assert times[2] - times[1] >= 0.01
    assert {e["kind"] for e in found} == {"step"}


def test_a_step_of_another_thread_lies_within_none(steps):
    def work():
        with step("block"):
            pass

    with step("match"):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert [e["in"] for e in steps() if e["edge"] == "begin"] == [None, None]


def test_progress_is_reported_five_times_a_second_and_at_the_end(steps, monkeypatch):
    now = time.monotonic()
    monkeypatch.setattr("unglow.core.progress.time.monotonic", lambda: now)
    for done in range(1, 101):
        now += 0.03
        progress(done, 100, "block")
    found = [e["done"] for e in steps()]
    assert found == [*range(1, 100, 7), 100]
    assert {(e["of"], e["unit"]) for e in steps()} == {(100, "block")}


def test_outside_a_job_they_do_nothing(file, steps, tmp_path, monkeypatch):
    record_steps(None)
    monkeypatch.chdir(tmp_path)
    before = {path: path.stat().st_size for path in tmp_path.rglob("*")}
    done = []
    with step("read"):
        progress(1, 1, "block")
        done.append("read")
    with pytest.raises(ZeroDivisionError), step("write"):
        done.append(1 / 0)
    assert done == ["read"]
    assert {path: path.stat().st_size for path in tmp_path.rglob("*")} == before
    assert steps() == []
    record_steps(file, time.monotonic())
    with step("match"):
        pass
    # what was not recorded is nobody's parent, and has taken no number
    (begin, end) = steps()
    assert (
        (begin["name"], begin["in"], begin["id"])
        == ("match", None, end["id"])
        == ("match", None, 1)
    )


CODE = "import unglow\nwith unglow.span('a'):\n  with unglow.span('b'): pass\nprint('done')"


def run(place):
    environment = {} if place is None else {recording.SPANS_VARIABLE: str(place)}
    words = [sys.executable, "-c", CODE]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.fixture(autouse=True)
def no_steps():
    record_steps(None)  # whatever ran before in this process
    yield
    record_steps(None)
    recording._opened_by = None


def test_it_does_nothing_outside_a_run(monkeypatch):
    monkeypatch.delenv(recording.SPANS_VARIABLE, raising=False)
    with unglow.span("x"):
        assert not is_recording()


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
    monkeypatch.setenv(recording.SPANS_VARIABLE, str(tmp_path))
    contents = []

    class Sink:
        def write(self, content):
            contents.append(content)

    record_steps(Sink())
    with unglow.span("x"):
        pass
    assert [line["edge"] for line in contents] == ["begin", "end"]
    assert not list(tmp_path.iterdir())
