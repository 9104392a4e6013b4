"""`unglow stop`: which processes it ends, and which it leaves alone."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from http import HTTPStatus
from types import SimpleNamespace

import pytest

from unglow.cli import main
from unglow.cli.run import StopButton
from unglow.core.errors import InputError
from unglow.core.process import boot_id, host, ignores, read_start_ticks
from unglow.jobs.run_records import find_running
from unglow.pages.report.live_answers import Request

# Says which signal it got, and ends; deaf to Ctrl-C if that is asked for.
PROGRAM = """
import os, signal, sys, time
def end(number, _):
    os.write(1, b"%d" % number)  # print may be at work when the signal comes
    os._exit(0)
signal.signal(signal.SIGTERM, end)
signal.signal(signal.SIGINT, signal.SIG_IGN if sys.argv[1:] else end)
print("ready", flush=True)
time.sleep(600)
"""


@pytest.fixture
def start():
    """Start processes; the last thing they print is the signal that has ended them."""
    made = []

    def one(*words):
        command = [sys.executable, "-c", PROGRAM, *words]
        made.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        assert made[-1].stdout.readline() == "ready\n"
        return made[-1]

    yield one
    for process in made:
        process.kill()
        process.communicate()


def proof(pid, **changes):
    return {
        "host": host(),
        "boot": boot_id(),
        "pid": pid,
        "started": read_start_ticks(pid),
    } | changes


def write(path, *lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.fixture
def work(tmp_path):
    """A working directory, and what writes the record of a run in it."""

    def run(pid, *lines, **changes):
        head = {"kind": "run", "wall": 1000.0, "directory": str(tmp_path), "results": "results"}
        return write(run_file(tmp_path), head | proof(pid, **changes), *lines)

    return tmp_path, run


def run_file(work):
    return work / "results" / "telemetry" / "runs" / "20261122T060000.000Z-here-1.jsonl"


def got(process):
    return int(process.communicate(timeout=20)[0])


def test_snakemake_is_asked_to_finish_its_jobs(work, start, capsys):
    place, run = work
    snakemake = start()
    run(snakemake.pid)
    assert main(["stop", str(place)]) == 0
    assert got(snakemake) == signal.SIGTERM
    assert "Stopped" in capsys.readouterr().out
    assert main(["stop", str(place)]) == 0
    assert "Nothing runs" in capsys.readouterr().out


@pytest.mark.parametrize(("words", "number"), [((), signal.SIGINT), (("deaf",), signal.SIGTERM)])
def test_now_ends_jobs_as_well_but_not_their_watchdogs(work, start, words, number):
    place, run = work
    snakemake, watchdog, job = start(*words), start(*words), start(*words)
    assert ignores(job.pid, signal.SIGINT) == bool(words)
    run(snakemake.pid)
    write(
        place / "results" / "telemetry" / "S" / "D" / "align" / "1.jsonl",
        {"kind": "attempt", "wall": 1001.0, **proof(watchdog.pid)},
        {"kind": "process", "t": 0.1, "pid": job.pid, "started": read_start_ticks(job.pid)},
    )
    assert main(["stop", "--now", str(place)]) == 0
    assert got(snakemake) == got(job) == number
    assert watchdog.poll() is None


@pytest.mark.parametrize("changes", [{"boot": "before"}, {"started": 1}])
def test_another_process_of_that_number_is_left_alone(work, start, changes):
    place, run = work
    other = start()
    run(other.pid, **changes)
    assert find_running(place / "results") is None
    assert other.poll() is None


def test_a_run_elsewhere_and_a_record_of_others_are_refused(work, start):
    place, run = work
    snakemake = start()
    run(snakemake.pid, host="node7")
    with pytest.raises(InputError, match=r"began on node7 .*unglow stop"):
        find_running(place / "results")
    run(snakemake.pid).chmod(0o666)
    with pytest.raises(InputError, match="others may write to it"):
        find_running(place / "results")
    assert snakemake.poll() is None


def test_the_live_page_asks_a_run_to_end_by_sending(work, start):
    place, run = work
    snakemake = start()
    run(snakemake.pid)
    button = StopButton(SimpleNamespace(results=place / "results"))
    assert button.answer(Request("GET", ())).status == HTTPStatus.METHOD_NOT_ALLOWED
    assert snakemake.poll() is None
    assert b"ends after its running jobs" in button.answer(Request("POST", ())).body
    assert got(snakemake) == signal.SIGTERM
    assert b"Nothing runs" in button.answer(Request("POST", ())).body
    run(snakemake.pid, host="node7")
    assert button.answer(Request("POST", ())).status == HTTPStatus.CONFLICT
