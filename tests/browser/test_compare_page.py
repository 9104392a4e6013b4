"""The page of `unglow compare`, in a real browser."""

from __future__ import annotations

import pytest
from made_results import altered

from unglow.cli import main
from unglow.comparison.measures import Finding
from unglow.comparison.results import Comparison, PairComparison
from unglow.reporting.html.report import page
from unglow.reporting.html.run_comparison import build

READY = "document.documentElement?.dataset.ready || document.documentElement?.dataset.failed"
ROWS = "[...document.querySelectorAll('#results-0 table')[0].tBodies[0].rows]"


@pytest.fixture(scope="module")
def tab(open_tab):
    return open_tab((1280, 900))


def shown(tab, path):
    tab.open(path.absolute().as_uri())
    tab.wait(READY)
    assert tab.run("document.documentElement.dataset.failed || ''") == ""
    assert not tab.complaints
    wide = "[...document.querySelectorAll('.scroll')].map((s) => s.scrollWidth - s.clientWidth)"
    assert max(tab.run(wide)) <= 0


def test_what_differs_is_on_the_page_with_places_and_cost(
    small_finished, small_work, tmp_path, tab
):
    altered(small_work / "results" / "phantom" / "SYTO9")
    target = tmp_path / "compare.html"
    assert main(["compare", str(small_finished), str(small_work), "-o", str(target)]) == 0
    shown(tab, target)
    (cells,) = tab.run(f"{ROWS}.map((row) => [...row.cells].map((cell) => cell.innerText))")
    assert "candidates.csv of B: not as published" in cells[0]
    assert "different" in cells[1]
    assert "map moved 0.20 px" in cells[2]
    assert "gain of linear +1.0 %" in cells[3]
    assert "10 lost" in cells[4]
    assert cells[5:] == ["identical", "ok", "identical"]
    tab.run("document.querySelector('#results-0 details summary').click()")
    lost = "[...document.querySelectorAll('#results-0 details tbody tr')].map((r) => r.innerText)"
    tab.wait(f"{lost}.length === 10")
    assert all("in A alone" in row for row in tab.run(lost))
    assert tab.run("document.querySelectorAll('#compare canvas').length") == 4


def test_five_hundred_pairs_are_sorted_and_names_stay_text(tmp_path, tab):
    name = "<img src=x onerror=alert(1)>"
    bad = Finding("map", "different", "map moved 1 px", 9.0, points=(("lost", 1.0, 2.0, 9.0),))
    away = Finding("pixels", "unknown", "difference images: A has none")
    same = [Finding(what, "identical", what) for what in ("input", "status", "gain", "candidates")]
    pairs = [PairComparison(name, (bad, away, *same))]
    pairs += [PairComparison(f"S{n} D", (Finding("map", "identical", ""), away, *same))
              for n in range(499)]  # fmt: skip
    target = tmp_path / "many.html"
    comparison = Comparison("A", name, tuple(pairs), {"S D": ""}, {}, ("Other settings: x.",))
    target.write_text(page(build([], [comparison]), title="unglow compare"))
    shown(tab, target)
    assert tab.run(f"{ROWS}.length") == 500
    assert tab.run(f"{ROWS}[0].cells[0].innerText") == name
    assert "as far as compared" in tab.run(f"{ROWS}[1].cells[1].innerText")
    tab.run("document.querySelectorAll('#results-0 thead button')[1].click()")
    assert tab.run(f"{ROWS}[0].cells[0].innerText") == name
    tab.run("document.querySelectorAll('#results-0 thead button')[1].click()")
    assert tab.run(f"{ROWS}[499].cells[0].innerText") == name
    text = tab.run("document.body.innerText")
    assert "Other settings: x." in text
    assert "S D is in A alone" in text
    assert tab.run("document.querySelector('#compare')") is None
