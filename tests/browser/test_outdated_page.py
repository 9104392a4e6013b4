"""A changed setting, stopped after two of six pairs: every display says which rows are outdated."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from functools import partial

import pytest
from real_runs import BIN, PROJECT, TABLES, command
from served_sites import free_port, served

from unglow.pages.app import site as app
from unglow.pages.app.workplace import Workplace
from unglow.pages.report.live_site import Site
from unglow.results import read_summary

pytestmark = pytest.mark.slow

CHANGE = "detect.fdr: 0.05 -> 0.2"
PAIRS = 6


def wait_for(condition, seconds=120):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    assert condition()


def searched_again(work):
    """Return the samples that were searched with the changed setting."""
    found = set()
    for path in work.glob("results/*/*/details/detection.json"):
        if json.loads(path.read_text())["settings"]["fdr"] == 0.2:
            found.add(path.parts[-4])
    return found


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """Six pairs, and a run with another setting that was killed when it had done two of them."""
    work = tmp_path_factory.mktemp("stopped")
    size = ("--pairs", str(PAIRS), "--size", "512x512", "--sample", "s")
    assert command(work, "unglow", "phantom", *size).code == 0
    first = command(work, "unglow", "run", "--cores", "2", "--", *TABLES)
    assert first.code == 0, first.text
    (work / "config").mkdir()
    (work / "config" / "config.yaml").write_text("detect: {fdr: 0.2}\n")
    words = ("snakemake", "-s", PROJECT / "Snakefile", "--cores", "1", "--", *TABLES)
    environment = os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}"}
    with (work / "log").open("w") as log:
        run = subprocess.Popen(
            [str(BIN / words[0]), *map(str, words[1:])],
            cwd=work, env=environment, start_new_session=True, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        wait_for(lambda: len(searched_again(work)) >= 2)
    finally:
        os.killpg(run.pid, signal.SIGKILL)
        run.wait()
    wait_for(lambda: command(work, "pgrep", "-s", str(run.pid)).text == "")
    done = searched_again(work)
    assert 2 <= len(done) < PAIRS
    return work


def old_of(work):
    """Return the samples whose search is still the old one."""
    return {path.name for path in (work / "raw").iterdir()} - searched_again(work)


def outdated_in(work):
    """Return what `unglow status` says is outdated, by sample."""
    said = json.loads(command(work, "unglow", "status", "--json").text)["pairs"]
    return {pair["sample"]: pair["outdated"] for pair in said if pair["outdated"]}


def test_the_terminal_says_which(stopped):
    marked = outdated_in(stopped)
    assert {*marked} >= old_of(stopped)
    assert PAIRS - 2 <= len(marked) < PAIRS
    assert {*marked.values()} == {CHANGE}
    shown = command(stopped, "unglow", "status").text
    assert shown.count(CHANGE) == len(marked)


def test_the_table_says_so_since_the_run_began_also_without_telemetry(stopped, tmp_path):
    work = tmp_path / "work"
    shutil.copytree(stopped, work)
    shutil.rmtree(work / "results" / "telemetry")
    rows = read_summary(work / "results" / "summary.tsv")
    assert [row["outdated"] for row in rows] == [CHANGE] * PAIRS
    assert {*outdated_in(work)} >= old_of(work)


def test_viewer_says_which(stopped, view):
    for sample in sorted(old_of(stopped))[:1]:
        tab = view(stopped / "results", pair=f"{sample}~SYTO9")
        tab.wait("unglow.pairs.length === 6")
        shown = json.loads(
            tab.run("JSON.stringify(unglow.pairs.filter((p) => p.outdated).map((p) => p.title))")
        )
        assert {title.split()[0] for title in shown} == {*outdated_in(stopped)}
        assert "outdated" in tab.run("document.querySelector('.toolbar').textContent")
        assert CHANGE in tab.run("document.querySelector('.badge[title*=\"->\"]').title")


def test_app_says_which(stopped, open_tab):
    tab = open_tab((1400, 1000))
    made = partial(app.App, workplace=Workplace(stopped))
    with served(Site([stopped / "results"], {app.NAME: made}), free_port(), same_user=True) as site:
        tab.open(f"{site.url}0/{app.NAME}/")
        tab.wait("document.querySelectorAll('#results .card').length === 6", 120)
        cards = json.loads(
            tab.run(
                "JSON.stringify([...document.querySelectorAll('#results .card')]"
                ".map((c) => c.innerText))"
            )
        )
        tab.open("about:blank")
    marked = {card.split()[0] for card in cards if CHANGE in card}
    assert marked == {*outdated_in(stopped)}
