"""Flame graphs in a browser: words on bars, other numbers for another time, names as text."""

from __future__ import annotations

import re

import pytest
from made_telemetry import Made, call, end, stacks

from unglow.reporting.html.report import write_report

NASTY = "<img src=x onerror=document.title='owned'>"


@pytest.fixture
def report(tmp_path):
    """A run in which 1 s of `fit` is followed by 3 s of another call, while a thread waits."""
    made = Made(tmp_path / "work" / "results")
    made.run({"kind": "end", "t": 10.0, "outcome": "ok"})
    path = made.attempt("register", 2.0, end(4.0))
    tree = [
        call(1, 0, "main"),
        call(2, 1, "fit", file="fit.py", line=7),
        call(3, 1, NASTY, file=NASTY),
        call(4, 0, "wait", waits=True),
    ]
    rows = [[t / 100, 2 if t <= 100 else 3, 4] for t in range(1, 401)]
    stacks(path, *tree, *rows)
    return write_report(made.results)


def acted(report, script):
    """Write a copy of a report, without its policy, that does something once it is drawn."""
    text = re.sub('<meta http-equiv="Content-Security-Policy"[^>]*>', "", report.read_text())
    waits = "while (!document.documentElement.dataset.ready) await new Promise(setTimeout);"
    place = report.with_name("acted.html")
    code = f"<script>(async () => {{ {waits} const {{ view }} = unglow; {script} }})();</script>"
    place.write_text(text.replace("</body>", code + "</body>"))
    return place


def bars(opened):
    """Words on the bars of the graph."""
    found = re.findall(r'<button[^>]*class="flame[^>]*>(.*?)</button>', opened.dom)
    return [text.replace("&lt;", "<").replace("&gt;", ">") for text in found]


def test_bars_tell_name_share_and_seconds_and_names_are_text(report, browse):
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


def test_another_time_has_other_numbers(report, browse):
    opened = browse(acted(report, "view.flames.axis.set(2.5, 3.5);"))
    assert opened.complaints() == []
    assert "1.0 s of threads from 2.5 s to 3.5 s" in opened.text
    assert "fit · 50 % · 0.5 s" in bars(opened)
    drag = """
      const over = view.flames.strip.querySelector(".u-over"), box = over.getBoundingClientRect();
      const mouse = (kind, share, target) => target.dispatchEvent(new MouseEvent(kind, {
        bubbles: true, view: window, button: 0, movementX: 9,
        clientX: box.left + share * box.width, clientY: box.top + 20,
      }));
      mouse("mousedown", 0.2, over);
      for (const share of [0.25, 0.3]) mouse("mousemove", share, over);
      mouse("mouseup", 0.3, document);
    """
    opened = browse(acted(report, drag))
    assert opened.complaints() == []
    assert any(text.startswith("fit · 100 %") for text in bars(opened))  # from 2 s to 3 s


def test_a_call_is_seen_alone_told_and_left_again(report, browse):
    click = """
      const words = (bar) => bar.textContent;
      const fit = () => [...view.flames.inside.children].find((b) => words(b).startsWith("fit"));
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


def test_an_attempt_opens_its_graph_and_waiting_is_shown_if_asked_for(report, browse):
    act = """
      view.resources.choose(view.model.attempts[0]);
      view.resources.panel.querySelector("button").click();
      view.flames.controls.querySelector("input").click();
    """
    opened = browse(acted(report, act))
    assert opened.complaints() == []
    assert "8.0 s of threads from 2.0 s to 6.0 s" in opened.text
    assert "register s1 DAPI · 100 % · 8.0 s" in bars(opened)
    assert "wait · 50 % · 4.0 s" in bars(opened)


def test_without_profiles_there_is_no_graph(tmp_path, browse):
    made = Made(tmp_path / "results")
    made.run({"kind": "end", "t": 10.0, "outcome": "ok"})
    made.attempt("register", 2.0, end(4.0))
    opened = browse(write_report(made.results))
    assert opened.complaints() == []
    assert re.search(r'<section id="flames"[^>]* hidden', opened.dom)
    assert re.search(r'<a href="#flames"[^>]* hidden', opened.dom)
    assert bars(opened) == []
