"""A page of the monitor in a browser that stays open while a run goes on."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from devtools import leave
from made_results import drawn_figure
from made_telemetry import WALL, Made, end, job, profile, sample, state, summary
from running_jobs import held
from served_sites import free_port, served

from unglow.pages.report.live_answers import JSON, Answer
from unglow.pages.report.live_site import Site
from unglow.results import runs
from unglow.telemetry.reading.plan import Machine

NASTY = "</script><img src=x onerror=document.title='owned'>&amp;\"'"
TOTAL = {"kind": "total", "t": 0.5, "jobs": {"register": 2}}


@pytest.fixture(scope="module")
def tab(open_tab):
    return open_tab()


@pytest.fixture
def made(tmp_path, monkeypatch):
    """A run that the machine of the test takes for one that goes on."""
    made = Made(tmp_path / "work" / "results")
    lives = Machine(host="elsewhere", now=WALL + 60)
    monkeypatch.setattr(runs, "Machine", lambda: lives)
    return made


@pytest.fixture
def serve(tab):
    """A function that shows results directories in the tab; returns the server."""
    with ExitStack() as stack:

        def show(*places, parts=None):
            server = stack.enter_context(served(Site(places, parts), free_port()))
            leave(tab)  # so that the page before asks no more
            tab.open(server.url)
            tab.wait("window.unglow && document.querySelector('.live [role=status]').textContent")
            return server

        yield show


def append(path, *lines):
    with path.open("a") as stream:
        stream.writelines(json.dumps(line) + "\n" for line in lines)


def test_a_page_follows_a_run(made, tab, serve):
    run = made.run(TOTAL, job(1, 1, "register"), state(1, 1, "started"))
    first = made.attempt("register", 2, sample(1, 100), sample(5, 150))
    server = serve(made.results)
    assert tab.wait("document.querySelector('.live [role=status]').textContent.startsWith('live')")
    assert "150 MB" in tab.run("document.querySelector('#now').innerText")
    tab.run("document.querySelector('#environment details summary').click()")

    append(first, sample(6, 222), end(7.0, peak_mb=333.0))
    append(
        run, state(9, 1, "finished"), job(10, 2, "register", sample=NASTY), state(10, 2, "started")
    )
    lacked = {"message": f"needs more than {NASTY}", "remedy": "snakemake --more"}
    made.attempt("register", 11, sample(2, 80), end(3.0, "memory", **lacked), sample=NASTY)
    second = made.attempt("register", 15, sample(2, 87), sample=NASTY, number=2)
    tab.wait("document.querySelector('#now').innerText.includes('87 MB')")
    seen = tab.text
    assert f"register {NASTY} DAPI (attempt 2)" in seen
    assert f"needs more than {NASTY}" in seen
    assert "snakemake --more" in seen
    assert "1 of 2" in seen
    assert tab.run("document.title").startswith("1 of 2 · unglow monitor: work/results")
    opened = "[...document.querySelectorAll('#environment details')].some((d) => d.open)"
    assert tab.run(opened)  # what a reader opened stays open

    append(second, end(5.0, peak_mb=99.0))
    append(run, state(21, 2, "finished"), {"kind": "end", "t": 22.0, "outcome": "ok"})
    tab.wait("document.querySelector('.live').innerText.includes('nothing runs')")
    assert tab.run("document.querySelector('#now').hidden")
    assert tab.complaints == []
    assert tab.requests
    assert [url for url in tab.requests if not url.startswith(server.url)] == []


ROWS = """[...document.querySelectorAll('#now table')[0].tBodies[0].rows]
  .map((row) => [...row.cells].map((cell) => cell.innerText.trim()))"""


def test_a_page_follows_a_real_run_with_a_pair_that_fails(tab, serve, tmp_path, project):
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    settings = {"cwd": tmp_path, "env": os.environ | {"PATH": path}, "stderr": subprocess.STDOUT}
    words = ("--size", "600x700", "--rotation-deg", "1", "--shift-px", "12", "-9")
    for seed, name in enumerate(("odd", "well")):
        phantom = ("unglow", "phantom", *words, "--seed", str(seed), "--sample", name)
        subprocess.run(phantom, check=True, stdout=subprocess.DEVNULL, **settings)
    raw = tmp_path / "raw"
    shutil.copy(raw / "well" / "well_post_SYTO9.tif", raw / "odd" / "odd_post_SYTO9.tif")
    server = serve(tmp_path / "results")  # before there is anything
    command = ("snakemake", "-s", project / "Snakefile", "--cores", "2", "--until", "align")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **settings) as run:
        now = "document.querySelector('#now').innerText"
        with held(tmp_path, "align"):  # by then odd has failed, or well is registered
            tab.wait(f"/align [^]* MB/.test({now})")
            tab.wait("Boolean(document.querySelector('#now .curve'))")
            pairs = "document.querySelector('.pairs-progress').innerText"
            failed = tab.wait(f"/odd[^]*do not match/.test({pairs}) && {pairs}")
            assert "The two images do not match" in failed
            bars = {rule: (jobs, words) for rule, jobs, words in tab.run(ROWS)}
            assert {rule: jobs[-4:] for rule, (jobs, _) in bars.items()} == dict.fromkeys(
                ("ingest", "register", "align"), "of 2"
            )
            assert re.search("1 running", bars["align"][1])
            head = tab.run("document.querySelector('#now header').innerText")
            assert re.search(r"\d of 6 jobs · about .* left \(.* to .*\)", head)
        output, _ = run.communicate(timeout=400)
        assert run.returncode == 0, output
    tab.wait("document.querySelector('.live').innerText.includes('nothing runs')")
    assert tab.run("document.querySelector('#now').hidden")
    assert "6 jobs finished, none failed" in tab.run(
        "document.querySelector('#technical').textContent"
    )
    assert tab.run("window.unglow.view.model.runs[0].outcome") == "ok"
    assert tab.complaints == []
    assert [url for url in tab.requests if not url.startswith(server.url)] == []


def test_the_flame_graph_of_a_running_job_is_asked_for_when_it_is_opened(made, tab, serve):
    made.run(TOTAL, job(1, 1, "register"), state(1, 1, "started"), config={"profile": True})
    running = made.attempt("register", 2, sample(1, 100))
    main = ("main", "f.py", 1)
    profile(running, {(main, ("fit", "fit.py", 7)): 1.0})
    serve(made.results)
    tab.wait("Boolean(document.querySelector('#flames button'))")
    assert not any("/flames" in url for url in tab.requests)
    tab.run("document.querySelector('#technical').open = true")
    tab.run("document.querySelector('#flames button').click()")
    graph = "document.querySelector('#flames').innerText"
    tab.wait(f"{graph}.includes('fit · 100 % · 1.0 s')")
    profile(running, {(main, ("fit", "fit.py", 7)): 1.0, (main, (NASTY, "b.py", 2)): 3.0})
    tab.run("document.querySelector('#flames button').click()")
    tab.wait(f"{graph}.includes('75 % · 3.0 s')")
    assert NASTY in tab.run(graph)
    assert tab.complaints == []


def test_the_log_of_a_chosen_job_is_followed(made, tab, serve):
    made.run(TOTAL)
    log = made.results.parent / "logs" / "a.log"
    log.parent.mkdir()
    log.write_text(f"first {NASTY}\n")
    made.attempt("register", 2, sample(1, 100), log="logs/a.log")
    serve(made.results)
    tab.wait("Boolean(document.querySelector('#now tr.link'))")
    tab.run("document.querySelector('#now tr.link').click()")
    shown = "document.querySelector('dialog.log[open] pre')?.textContent"
    assert tab.wait(shown) == f"first {NASTY}\n"
    with log.open("a") as stream:
        stream.write("second\n")
    tab.wait(f"{shown}.endsWith('second\\n')")
    assert tab.complaints == []


# what a shell starts in the background ignores Ctrl-C, and all that it starts in turn
MONITOR = """
import signal, sys
from unglow.cli import main
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(main())
"""


def test_a_page_says_when_the_monitor_is_gone(made, tab):
    made.run(TOTAL)
    words = ("monitor", "--web", "--port", str(free_port()), str(made.results.parent))
    program = subprocess.Popen(
        [sys.executable, "-c", MONITOR, *words], stdout=subprocess.PIPE, text=True
    )
    try:
        lines = [program.stdout.readline() for _ in range(3)]
        url = re.fullmatch(r"Open (http://127\.0\.0\.1:\d+/[\w-]{20,}/)\n", lines[0])[1]
        assert lines[1].startswith("From another machine, first: ssh -N -L ")
        tab.open(url)
        tab.wait("window.unglow && document.querySelector('.live').innerText.includes('as of')")
        program.send_signal(signal.SIGINT)
        assert program.wait(120) == 0
    finally:
        program.kill()
        program.communicate()
    tab.wait("document.querySelector('.live').innerText.includes('does not answer')")


def test_pictures_come_by_themselves(made, tab, serve):
    made.run(TOTAL, {"kind": "end", "t": 1.0, "outcome": "ok"})
    summary(made.results, {"sample": "s1", "dye": "DAPI", "status": "ok", "reasons": ""})
    drawn_figure(made.results, "s1", "DAPI")
    serve(made.results)
    tab.wait("document.querySelectorAll('#pairs .thumb img').length === 1")
    tab.run("document.querySelector('#pairs .thumb').click()")
    tab.wait("document.querySelector('dialog[open] img').naturalWidth === 500")
    assert tab.complaints == []


def test_of_many_pairs_small_pictures_come_in_view_and_all_with_their_card(made, tab, serve):
    made.run(TOTAL, {"kind": "end", "t": 1.0, "outcome": "ok"})
    row = {"dye": "DAPI", "status": "ok", "reasons": ""}
    summary(made.results, *({"sample": f"s{n}"} | row for n in range(90)))
    drawn_figure(made.results, "s4", "DAPI")
    serve(made.results)
    tab.wait("document.querySelectorAll('.batch tr.link').length === 90")
    asking = "performance.getEntriesByType('resource').filter((one) => /pictures/.test(one.name))"
    tab.run("document.querySelector('.batch').scrollIntoView()")
    assert 0 < tab.wait(f"{asking}.length") < 90
    tab.run("document.querySelector('.batch tr.link[data-name=\"s4 DAPI\"]').click()")
    tab.wait("document.querySelectorAll('#pairs .thumb img').length === 1")
    seen = [url.rpartition("/")[2] for url in tab.requests if "pictures" in url]
    assert "pictures?pair=s4%20DAPI" in seen
    assert all(url.endswith("&small=1") for url in seen if "s4%20" not in url)
    assert tab.complaints == []


def test_several_directories_are_a_click_apart(made, tab, serve, tmp_path):
    made.run(TOTAL)
    other = Made(tmp_path / "other")
    other.run({"kind": "end", "t": 1.0, "outcome": "failed"})
    serve(made.results, other.results)
    tab.wait("document.querySelector('.places').innerText.includes('failed')")
    tab.follow("document.querySelectorAll('.places a')[1]")
    tab.wait("document.title.includes('other') && Boolean(window.unglow)")
    assert re.search(r"/1/$", tab.run("location.pathname"))


class Heard:
    """A part of the site that keeps what is sent to it."""

    def __init__(self):
        self.methods = []

    def answer(self, request):
        self.methods.append(request.method)
        return Answer.text(json.dumps({"text": "It ends."}), JSON)


def test_a_run_is_stopped_after_a_question(made, tab, serve):
    made.run(TOTAL, job(1, 1, "register"), state(1, 1, "started"))
    made.attempt("register", 2, sample(1, 100))
    heard, button = Heard(), "document.querySelector('.live button')"
    serve(made.results, parts={"stop": lambda _: heard})
    assert tab.wait(f"{button} && !{button}.hidden && {button}.innerText") == "Stop the run"
    tab.run("window.alert = (said) => (window.said = said)")
    tab.run(f"window.confirm = () => false; {button}.click()")
    tab.run(f"window.confirm = () => true; {button}.click()")
    assert tab.wait("window.said") == "It ends."
    assert heard.methods == ["POST"]
