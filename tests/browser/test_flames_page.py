"""Flame graphs in a browser: words on bars, one call alone, names as text."""

from __future__ import annotations

import re

import pytest
from made_telemetry import Made, end, profile
from pages import acted

from unglow.pages.report.report import write_report

NASTY = "<img src=x onerror=document.title='owned'>"


@pytest.fixture
def report(tmp_path):
    """A run in which 1 s of `fit` is followed by 3 s of another call, while a thread waits."""
    made = Made(tmp_path / "work" / "results")
    made.run({"kind": "end", "t": 10.0, "outcome": "ok"})
    path = made.attempt("register", 2.0, end(4.0))
    main, waiting = ("main", "f.py", 1), ("wait", "lib/threading.py", 295)
    seconds = {(main, ("fit", "fit.py", 7)): 1.0, (main, (NASTY, NASTY, 1)): 3.0, (waiting,): 4.0}
    profile(path, seconds)
    return write_report(made.results)


def bars(opened):
    """Words on the bars of the graph."""
    found = re.findall(r'<button[^>]*class="flame[^>]*>(.*?)</button>', opened.dom)
    return [text.replace("&lt;", "<").replace("&gt;", ">") for text in found]


def test_bars_show_name_share_and_seconds_and_names_are_text(report, browse):
    opened = browse(report)
    assert opened.complaints() == []
    assert "data-failed" not in opened.root
    assert sorted(bars(opened)) == sorted(
        [
            "all rules · 100 % · 4.0 s",
            "main · 100 % · 4.0 s",
            f"{NASTY} · 75 % · 3.0 s",
            "fit · 25 % · 1.0 s",
        ]
    )
    assert "<title>unglow report: work</title>" in opened.dom
    assert "1 profiled attempt, 4.0 s of threads" in opened.text


def test_a_call_is_seen_alone_described_and_left_again(report, browse):
    click = """
      const words = (bar) => bar.textContent;
      const bars = () => [...view.flames.bars.querySelectorAll("button")];
      const fit = () => bars().find((b) => words(b).startsWith("fit"));
      fit().click();
    """
    opened = browse(acted(report, click))
    assert bars(opened)[-1] == "fit · 25 % · 1.0 s"
    assert len(bars(opened)) == 3
    assert "fit.py:7" in opened.text
    assert "1 s of threads, 1 s of them in the call itself" in opened.text
    escape = 'fit().dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));'
    opened = browse(acted(report, click + escape))
    assert len(bars(opened)) == 4  # main, with both of its calls
    assert f"{NASTY} · 75 % · 3.0 s" in bars(opened)


def test_a_chosen_time_shows_its_calls_only_and_all_time_all_of_them(report, browse):
    choose = "view.flames.axis.set(2, 2.9); await new Promise(setTimeout);"
    opened = browse(acted(report, choose))
    assert opened.complaints() == []
    assert sorted(bars(opened)) == [
        "all rules · 100 % · 0.9 s", "fit · 100 % · 0.9 s", "main · 100 % · 0.9 s",
    ]  # fmt: skip
    assert "from 2.0 s to 2.9 s" in opened.text
    key = "view.flames.axis.set(...view.flames.axis.full);"
    opened = browse(acted(report, choose + key))
    assert len(bars(opened)) == 4
    assert "1 profiled attempt, 4.0 s of threads" in opened.text


def test_an_attempt_opens_its_graph(report, browse):
    act = """
      view.resources.choose(view.model.attempts[0]);
      view.resources.panel.querySelector("button").click();
    """
    opened = browse(acted(report, act))
    assert opened.complaints() == []
    assert "register s1 DAPI · 100 % · 4.0 s" in bars(opened)


def test_without_profiles_there_is_no_graph(tmp_path, browse):
    made = Made(tmp_path / "results")
    made.run({"kind": "end", "t": 10.0, "outcome": "ok"})
    made.attempt("register", 2.0, end(4.0))
    opened = browse(write_report(made.results))
    assert opened.complaints() == []
    assert re.search(r'<section id="flames"[^>]* hidden', opened.dom)
    assert re.search(r'<a href="#flames"[^>]* hidden', opened.dom)
    assert bars(opened) == []
