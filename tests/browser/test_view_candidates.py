"""Candidates in the viewer: found by keys and marks, listed, decided on, and saved next to them."""

from __future__ import annotations

import csv
import json

import pytest
from viewer_hands import place_of

from unglow.review.decisions import read_decisions

pytestmark = pytest.mark.slow
PAIR = "phantom~SYTO9"
#: The most that a search lists.
MANY = 262144
#: The panel; what is asked of it is what the page itself asks.
PANEL = "unglow.panels.all.find((one) => one.name === 'candidates')"
LISTED = f"Array.from({PANEL}.order, (row) => {PANEL}.list.values.id[row])"
LINES = "[...document.querySelectorAll('.table .line')].map((one) => one.innerText.split('\\n'))"
CHOSEN = "document.querySelector('.line[aria-selected=true]').innerText.split('\\n')[0]"
SOURCE = "unglow.address.get('source')"


@pytest.fixture
def looked_at(view, small_work):
    """The viewer with the panel open, and the directory of the pair."""
    return opened(view, small_work), small_work / "results" / "phantom" / "SYTO9"


def opened(view, work, **state):
    tab = view(work / "results", pair=PAIR, panel="candidates", **state)
    tab.wait(f"{PANEL}.order.length && {PANEL}.review.reading === null")
    return tab


def candidates(pair):
    """Return the rows as they are listed: the most significant first."""
    with (pair / "candidates.csv").open(newline="") as stream:
        return sorted(csv.DictReader(stream), key=lambda row: -float(row["snr"]))


def ids_of(pair, count):
    """Return the ids of the first rows."""
    return [int(row["id"]) for row in candidates(pair)[:count]]


def decided(pair):
    return {one.id: one.decision for one in read_decisions(pair / "review.csv")}


def wait_saved(tab):
    tab.wait(f"!{PANEL}.review.sending && !{PANEL}.review.waiting.size")


def test_keys_go_from_candidate_to_candidate(looked_at):
    tab, pair = looked_at
    rows = candidates(pair)
    assert len(rows) > 5
    for row in (rows[0], rows[1]):
        tab.key("n")
        tab.wait(f"{SOURCE} === '{row['id']}'")
        seen = place_of(tab)
        assert (seen["x"], seen["y"]) == pytest.approx((float(row["x"]), float(row["y"])), abs=0.1)
        assert seen["zoom"] >= 4
    tab.key("p")
    tab.wait(f"{SOURCE} === '{rows[0]['id']}'")
    tab.wait("document.querySelectorAll('.stamps canvas').length >= 3")
    first = rows[0]
    text = tab.run("document.querySelector('.values').innerText")
    assert f"{float(first['x']):.2f} ± {float(first['x_err']):.2f} px" in text
    tab.run("document.querySelector('.table').focus()")
    tab.key("ArrowDown")
    tab.wait(f"{SOURCE} === '{rows[1]['id']}'")
    assert tab.run(CHOSEN) == rows[1]["id"]
    assert tab.complaints == []


def test_the_table_is_sorted_and_filtered(looked_at):
    tab, pair = looked_at
    rows = by_snr = candidates(pair)
    assert tab.run(LISTED) == [int(row["id"]) for row in by_snr]
    head = "[...document.querySelectorAll('.head button')]"
    tab.run(f"{head}.find((b) => b.innerText === 'id').click()")
    assert tab.run(LISTED) == sorted(int(row["id"]) for row in rows)
    tab.run(f"{head}.find((b) => b.innerText.startsWith('S/N')).click()")
    assert tab.run(LINES)[0][0] == by_snr[0]["id"]
    least = float(by_snr[3]["snr"])
    tab.run(
        f"(() => {{ const field = document.querySelector('.filters input'); field.value = {least};"
        "field.dispatchEvent(new Event('change')); })()"
    )
    kept = [row for row in by_snr if float(row["snr"]) >= least]
    assert tab.run(LISTED) == [int(row["id"]) for row in kept]
    tab.key("n")
    tab.wait(f"{SOURCE} === '{kept[0]['id']}'")
    assert f"{len(kept)} of {len(rows)} listed" in tab.run(
        "document.querySelector('.counts').innerText"
    )
    tab.run(f"{PANEL}.filters.set({{snr: null, text: 'snr>1e3'}})")
    assert tab.run(LISTED) == []
    tab.run(f"{PANEL}.filters.set({{text: 'brightness>8'}})")
    assert "“brightness>8” is not a condition" in tab.run(
        "document.querySelector('.filters').innerText"
    )


def test_a_decision_is_saved_at_once_and_undone(looked_at):
    tab, pair = looked_at
    first, second, third = candidates(pair)[:3]
    ids = ids_of(pair, 3)
    tab.key("n")
    tab.key("r")
    wait_saved(tab)
    assert decided(pair) == {ids[0]: "rejected"}
    tab.wait("document.querySelector('.chosen [role=alert]').innerText === 'Saved.'")
    decision = read_decisions(pair / "review.csv")[0]
    assert (decision.x, decision.y) == pytest.approx((float(first["x"]), float(first["y"])))
    assert tab.run(SOURCE) == second["id"]  # it goes on by itself
    tab.key("a")
    tab.key("u")
    wait_saved(tab)
    assert decided(pair) == dict(zip(ids, ("rejected", "accepted", "unsure"), strict=True))
    assert "3 decided · 1 accepted · purity 0.50" in tab.run(
        "document.querySelector('.counts').innerText"
    )
    tab.key("z")
    wait_saved(tab)
    assert decided(pair) == {ids[0]: "rejected", ids[1]: "accepted"}
    assert tab.run(SOURCE) == third["id"]
    tab.key("Z", "shift")
    wait_saved(tab)
    assert decided(pair)[ids[2]] == "unsure"
    tab.key("c")
    tab.key("m")
    tab.type("a fold, “perhaps”")
    tab.key("Enter")
    wait_saved(tab)
    assert read_decisions(pair / "review.csv")[-1].note == "a fold, “perhaps”"
    assert tab.complaints == []


def test_those_that_are_decided_leave_a_list_of_the_undecided(looked_at):
    tab, pair = looked_at
    count = len(candidates(pair))
    tab.run(f"{PANEL}.filters.set({{decision: 'undecided'}})")
    tab.key("n")
    for left in range(count - 1, count - 4, -1):
        tab.key("a")
        wait_saved(tab)
        assert len(tab.run(LISTED)) == left
    *first, fourth = ids_of(pair, 4)
    assert decided(pair) == dict.fromkeys(first, "accepted")
    assert tab.run(SOURCE) == str(fourth)


def test_a_mark_is_clicked(looked_at):
    tab, pair = looked_at
    rows = candidates(pair)
    row = rows[len(rows) // 2]
    tab.run(f"unglow.go({{x: {float(row['x']) + 5}, y: {float(row['y']) - 8}, zoom: 3}})")
    tab.wait("unglow.settled")
    left, top = tab.run(f"unglow.panes[0].screenAt({row['x']}, {row['y']})")
    x, y = tab.run("(({x, y}) => [x, y])(unglow.panes[0].element.getBoundingClientRect())")
    around = f"{left} - 12, {top} - 12, 25, 25"
    drawn = f"unglow.panes[0].marks.getContext('2d').getImageData({around}).data.some((v) => v > 0)"
    assert tab.run(drawn)
    tab.click(x + left, y + top)
    tab.wait(f"{SOURCE} === '{row['id']}'")
    assert tab.run(CHOSEN) == row["id"]
    assert place_of(tab)["zoom"] == pytest.approx(3)  # nothing moves


def test_a_link_leads_to_the_candidate(view, small_work):
    row = candidates(small_work / "results" / "phantom" / "SYTO9")[2]
    tab = opened(view, small_work, source=row["id"])
    tab.wait(f"unglow.settled && Math.abs(unglow.panes[0].place().x - {row['x']}) < 0.1", 120)
    assert tab.run(CHOSEN) == row["id"]


def test_what_cannot_be_saved_is_said_and_kept(looked_at):
    tab, pair = looked_at
    (pair / "review.csv").write_text("something else\n")
    tab.key("n")
    tab.key("r")
    tab.wait("document.querySelector('.chosen [role=alert]').innerText.includes('Not saved (1)')")
    assert "review.csv" in tab.run("document.querySelector('.chosen [role=alert]').innerText")
    assert tab.run(LINES)[0][-1] == "rejected – unsaved"
    assert (pair / "review.csv").read_text() == "something else\n"
    (pair / "review.csv").unlink()
    tab.run("document.querySelector('.chosen [role=alert] button').click()")
    wait_saved(tab)
    assert decided(pair) == {ids_of(pair, 1)[0]: "rejected"}
    assert tab.run(LINES)[0][-1] == "rejected"


def test_what_another_browser_decides_is_seen(looked_at):
    tab, pair = looked_at
    tab.key("n")
    tab.key("a")
    wait_saved(tab)
    sent = json.dumps(
        {"changes": [{**about(candidates(pair)[4]), "decision": "rejected", "note": ""}]}
    )
    tab.run(
        "fetch(new URL(unglow.home + 'review', unglow.base), {method: 'POST', headers: "
        f"{{'Content-Type': 'application/json'}}, body: {json.dumps(sent)}}}).then((r) => r.status)"
    )
    tab.run("void window.dispatchEvent(new Event('focus'))")
    ids = ids_of(pair, 5)
    tab.wait(f"{PANEL}.list.decided[{PANEL}.list.row({ids[4]})] === 2")
    tab.key("u")
    wait_saved(tab)
    assert decided(pair) == {ids[0]: "accepted", ids[1]: "unsure", ids[4]: "rejected"}


def about(row):
    return {"id": int(row["id"]), "x": float(row["x"]), "y": float(row["y"])}


def test_read_only_results_are_looked_at_only(view, small_work, monkeypatch):
    pair = small_work / "results" / "phantom" / "SYTO9"
    why = f"{pair} may not be written."
    # root may write anywhere, so that permissions alone would not keep a test from it
    monkeypatch.setattr("unglow.pages.viewer.saving.why_not_writable", lambda *_: why)
    tab = opened(view, small_work)
    tab.key("n")
    tab.wait(f"{SOURCE} === '{ids_of(pair, 1)[0]}'")
    assert tab.run("[...document.querySelectorAll('[data-decision]')].every((one) => one.disabled)")
    assert why in tab.run("document.querySelector('.chosen').innerText")
    tab.key("r")
    assert why in tab.run("unglow.message.innerText")
    assert not (pair / "review.csv").exists()


def test_the_worst_block_and_the_keys(looked_at):
    tab, pair = looked_at
    with (pair / "details/blocks.csv").open(newline="") as stream:
        used = [row for row in csv.DictReader(stream) if row["used"] == "1"]
    worst = max(used, key=lambda row: float(row["dx"]) ** 2 + float(row["dy"]) ** 2)
    tab.key("l")
    tab.wait(f"unglow.message.innerText.startsWith('Residual 1 of {len(used)}')")
    seen = place_of(tab)
    assert (seen["x"], seen["y"]) == pytest.approx((float(worst["x"]), float(worst["y"])), abs=0.1)
    tab.key("l")
    tab.wait(f"unglow.message.innerText.startsWith('Residual 2 of {len(used)}')")
    tab.key("?")
    known = tab.wait("document.querySelector('dialog[open] .keys').innerText")
    assert "largest residual" in known
    assert "blink" in known


def test_a_pair_without_a_search_says_why(view, small_work):
    pair = small_work / "results" / "phantom" / "SYTO9"
    for name in ("candidates.csv", "details/detection.json"):
        (pair / name).unlink()
    tab = view(small_work / "results", pair=PAIR, panel="candidates")
    tab.wait("document.querySelector('.candidates').innerText.includes('has not been done')", 120)
    tab.key("n")
    tab.key("g")
    tab.wait("unglow.message.innerText.startsWith('Dark spots are not known')", 120)
    assert tab.complaints == []


def test_the_brightest_negative_is_looked_at(looked_at):
    tab, pair = looked_at
    found = json.loads((pair / "details/detection.json").read_text())["brightest_negatives"]
    assert found
    tab.key("g")
    tab.wait(f"unglow.message.innerText.startsWith('Dark spot 1 of {len(found)}')", 120)
    seen = place_of(tab)
    assert (seen["x"], seen["y"]) == pytest.approx(tuple(found[0][:2]), abs=0.1)


def test_a_long_list_is_walked_through(view, small_work):
    pair = small_work / "results" / "phantom" / "SYTO9"
    head, first, *_ = (pair / "candidates.csv").read_text().splitlines()
    _, _, _, rest = first.split(",", 3)
    places = (f"{n},{n % 600 + 0.5},{n * 7 % 800 + 0.5},{rest}\n" for n in range(1, MANY + 1))
    (pair / "candidates.csv").write_text(f"{head}\n" + "".join(places))
    tab = opened(view, small_work)
    tab.run("document.querySelector('.table').focus()")
    tab.key("ArrowDown")
    tab.key("End")
    tab.wait(f"{SOURCE} === '{MANY}'")
    assert tab.run(CHOSEN) == str(MANY)
    assert 5 < len(tab.run(LINES)) < 100
    tab.key("r")
    wait_saved(tab)
    assert decided(pair) == {MANY: "rejected"}
    assert tab.complaints == []
