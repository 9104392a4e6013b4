"""Reports in a browser: drawn without an error or a request, whatever names hold, soon enough."""

from __future__ import annotations

import json
import re

import pytest
from keyboard import focus, reach, said, walk
from made_results import drawn_figure, made_pair
from made_telemetry import (
    COLUMNS,
    WALL,
    Made,
    end,
    job,
    many,
    sample,
    state,
    step,
    step_end,
    summary,
)
from pages import acted
from sentences import long_sentences

from unglow.core import rounding
from unglow.core.reasons import explain
from unglow.pages.report.page_model import build_comparison
from unglow.pages.report.report import asset, page, write_report
from unglow.pages.report.run_comparison import runs_of, select_runs

NASTY = "</script><img src=x onerror=document.title='owned'>&amp;\"'"


@pytest.fixture
def made(tmp_path):
    results = tmp_path / "work" / "results"
    made = Made(results)
    made.run(
        {"kind": "total", "t": 0.5, "jobs": {"register": 1}},
        job(0.6, 7, "register"),
        state(1.0, 7, "started"),
        state(9.0, 7, "finished"),
        {"kind": "end", "t": 10.0, "wall": WALL + 10, "outcome": "ok"},
    )
    return made


def test_what_an_attempt_took_is_in_its_panel_and_steps_change_their_unit(made, browse):
    columns = [*COLUMNS, "file", "shmem", "swap", "runnable"]
    lines = [[*sample(n + 0.5, 100 + n), 40, 10, 2, 3] for n in range(4)]
    moved = {"path": "raw/<b>.tif", "read": 1e6, "decoded": 4e6, "kind": "nfs4", "remote": True}
    ends = {"available_before_mb": 9000, "available_after_mb": 8600, "left_behind_mb": 390}
    ends |= {"files_before_mb": 0.0, "files_after_mb": 380.0, "disk_read": 5e5, "disk_written": 0}
    ends |= {"cpu_s": 4.0, "read": 1e6, "written": 0, "opencv_threads": 1, "pixels": 2e6}
    steps = step(0.0, "match", 1), *lines, step_end(2.0, 1)
    made.attempt("register", 2.0, *steps, end(5.0, transfers=[moved], **ends), columns=columns)
    report = write_report(made.results)
    act = """
      unglow.view.resources.choose(unglow.view.model.attempts[0]);
      const unit = document.querySelector("[aria-label='Unit of steps']");
      unit.value = 3;
      unit.dispatchEvent(new Event("change"));
    """
    opened = browse(acted(report, act))
    assert opened.complaints() == []
    for words in (
        "53 MB private, 40 MB file-backed, 10 MB shared, 2.0 MB swapped",
        "9000 MB free before, 8600 MB after; 390 MB less, not used by any process",
        "1 asked for, 2 seen, at most 3 of them ready to run at once, OpenCV uses 1",
        "more threads ready to run than asked for",
        "raw/<b>.tif",
        "nfs4 (network or FUSE)",
        "380 MB of files in memory, most by register s1 DAPI",
        "memory left behind",
    ):
        assert words in opened.text
    row = re.search(r"match(?:</t[dh]>|<[^>]*>)*1(?:<[^>]*>)*([^<]*)", opened.dom)
    assert row[1] == "1.0 s"  # 2 s for 2 Mpx


def test_a_report_opens_from_disk_without_errors_or_requests(made, browse):
    bad = end(3.0, "memory", message="needs more memory", remedy="snakemake --more", needed_mb=600)
    made.attempt("register", 2.0, sample(0.1, 50), sample(2.9, 399), bad, sample="s2")
    made.attempt("register", 5.5, sample(0.1, 50), sample(2.0, 300), end(3.0))
    summary(
        made.results,
        {"sample": "s1", "dye": "DAPI", "status": "ok", "reasons": "", "gain": "1.3"},
        {"sample": "s2", "dye": "DAPI", "status": "failed", "reasons": "no overlap", "gain": ""},
    )
    drawn_figure(made.results, "s1", "DAPI")
    opened = browse(write_report(made.results))
    assert opened.complaints() == []
    assert "data-failed" not in opened.root
    assert int(opened.root["data-ready"]) < 2000
    words = opened.text
    for part in ("Results", "Incidents", "Time and memory", "By rule", "How it was run"):
        assert part in words
    assert words.rindex("no overlap") < words.rindex("1 incident") < words.rindex("By rule")
    for text in ("1 incident", "no overlap", "snakemake --more", "600 MB", "peak memory", "399 MB"):
        assert text in words
    assert opened.dom.count("<canvas") == 3
    assert "data:image/jpeg;base64" in opened.dom


def test_the_page_forbids_itself_every_request(made):
    text = write_report(made.results).read_text()
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert "default-src &#x27;none&#x27;" in policy
    assert "connect-src &#x27;none&#x27;" in policy
    assert "unsafe" not in policy
    own = re.sub(r"(?s)<script type=.*?</script>", "", text)
    assert not re.findall(r"(?:src|href)=[\"']?https?:", own)


@pytest.mark.parametrize("jobs", [1, 30])  # small models are plain JSON, larger ones packed
def test_html_in_names_is_shown_as_text(made, browse, jobs):
    for n in range(jobs):
        rows = [sample(0.1 * k, 50 + k) for k in range(30)]
        message = f"{NASTY} is no image {n}"
        last = end(3.0, "bad_input", message=message, remedy=f"rm {NASTY}")
        made.attempt(
            "register", 2.0 + n, *rows, last, sample=None, wildcards={"sample": NASTY, "dye": "x"}
        )
    summary(
        made.results,
        {"sample": NASTY, "dye": NASTY, "status": "failed", "reasons": f"because of {NASTY}"},
    )
    opened = browse(write_report(made.results))
    assert opened.complaints() == []
    assert "onerror" not in re.sub(r"&lt;.*?&gt;", "", strip_data(opened.dom))
    assert "<title>unglow report: work</title>" in opened.dom
    words = opened.text
    for text in (f"register {NASTY} x", f"{NASTY} {NASTY}", f"because of {NASTY}", f"rm {NASTY}"):
        assert text in words


def strip_data(dom):
    return re.sub(r'(?s)<script.*?</script>|title="[^"]*"|aria-label="[^"]*"|alt="[^"]*"', "", dom)


def test_results_without_records_of_runs_have_a_report_of_pairs(tmp_path, browse):
    attempt = Made(tmp_path / "results").attempt("plan", 0, end(2.0))
    row = {"sample": "s1", "dye": "DAPI", "status": "suspect", "reasons": "few blocks"}
    summary(tmp_path / "results", row)
    opened = browse(write_report(tmp_path / "results"))
    assert opened.complaints() == []
    assert "few blocks" in opened.text
    assert "not recorded" in opened.text
    attempt.unlink()
    opened = browse(write_report(tmp_path / "results"))
    assert opened.complaints() == []
    assert "few blocks" in opened.text
    assert "no telemetry" in opened.text


def test_a_thousand_jobs_are_reported_and_drawn(tmp_path, browse):
    report = write_report(many(tmp_path / "results").results)
    assert report.stat().st_size < 1_000_000
    opened = browse(report)
    assert opened.complaints() == []
    assert "1000 jobs" in opened.text  # in 1011 attempts
    assert "11 failed" not in opened.text


def test_compared_runs_are_drawn(tmp_path, browse):
    places = [
        many(tmp_path / name / "results", jobs=20, cores=c).results
        for name, c in (("<img src=x onerror=alert(1)>", 1), ("b", 4))
    ]
    place = tmp_path / "compare.html"
    named = select_runs([runs_of(place) for place in places])
    model = build_comparison(named)
    place.write_text(page(model, title="unglow compare"))
    act = "document.querySelectorAll('#resources details').forEach((d) => (d.open = true));"
    opened = browse(acted(place, act))
    assert opened.complaints() == []
    assert "data-failed" not in opened.root
    assert opened.dom.count("<canvas") == 4
    assert "Memory of runs over each other (2)" in opened.text
    assert "<img src=x onerror=alert(1)>" in opened.text


@pytest.fixture(scope="module")
def tab(open_tab):
    return open_tab((1280, 1800))


def test_no_table_loses_columns_on_a_screen_of_usual_width(made, tab):
    names = ("figures_registration", "figures_candidates", "register", "ingest")
    for n, rule in enumerate(names):
        big = sample(0.1 + n, 9876.5, read=int(123.4e9), written=int(98.7e9), cpu=7000.0)
        ended = end(3900.0 + n, pixels=750e6)
        made.attempt(rule, 2.0 + n, big, ended, declared_mb=9988.0)
    tab.open(write_report(made.results).absolute().as_uri())
    tab.wait("document.documentElement?.dataset.ready")
    tab.run("document.querySelector('#technical').open = true")
    heads = "[...document.querySelectorAll('#rules th, .scroll th')].map((h) => h.innerText)"
    assert {"written", "MB/s", "Mpx/s"} <= set(tab.run(heads))
    wide = "[...document.querySelectorAll('.scroll')].map((s) => s.scrollWidth - s.clientWidth)"
    assert max(tab.run(wide)) <= 0


def test_numbers_are_formatted_as_in_the_package(tab):
    words = "\n".join(
        asset(name).replace("\nexport ", "\n") for name in ("elements.js", "words.js")
    )

    def format_all(function, values):
        return tab.run(f"(() => {{ {words}\nreturn {list(values)}.map((v) => {function}(v)); }})()")

    times = (0.004, 0.0996, 0.5, 9.96, 59.4, 59.6, 3599.7, 5400.0, 200_000.0)
    assert format_all("seconds", times) == [rounding.format_elapsed(t) for t in times]
    sizes = (0.0, 0.04, 0.06, 9.96, 388.4, 9999.4, 9999.6, 123_456.0)
    assert format_all("mb", sizes) == [rounding.memory(mb) for mb in sizes]
    shares = (0.0, 1e-5, 0.0476, 0.05, 0.1234, 0.5, 0.9725, 0.996, 0.99999, 1.0, 1.386)
    assert format_all("percent", shares) == [rounding.percent(s) for s in shares]
    numbers = (0.0, 0.04123, 0.09996, 2.0, 9.996, 1234.56, -3.14159)
    assert format_all("digits", numbers) == [rounding.number(n) for n in numbers]


def test_a_card_has_results_first_and_the_rest_is_folded(tmp_path, tab):
    made_pair(tmp_path / "results" / "A b" / "D")
    row = {"sample": "A b", "dye": "D", "status": "suspect", "reasons": "Few blocks match.",
           "method": "linear", "gain": "1.30", "gain_low95": "1.29", "gain_high95": "1.31",
           "candidates": "40", "candidates_fdr": "0.05", "fdr_low95": "0.01", "fdr_high95": "0.12",
           "offset": "0.25"}  # fmt: skip
    summary(tmp_path / "results", row)
    tab.open(write_report(tmp_path / "results").absolute().as_uri())
    tab.wait("document.querySelector('.main-picture img')?.naturalWidth")
    assert tab.run("document.querySelector('.main-picture img').width") >= 500
    card = tab.run("document.querySelector('.pair').innerText")
    parts = ("suspect", "Few blocks match.", "5 % (1 % to 12 %), about 2 of 40")
    for part in (*parts, "1.30 (1.29 to 1.31)", "unglow view 'results/A b/D'"):
        assert part in card
    assert "offset" not in card
    alone = "[...document.querySelectorAll('.pair img')].every((i) => i.alt.endsWith(' of A b D'))"
    assert tab.run(alone)
    assert not tab.run("document.querySelector('#technical').open")
    tab.run("document.querySelector('nav .to-environment').click()")
    assert tab.run("document.querySelector('#technical').open")
    assert tab.complaints == []


def test_numbers_and_help_of_a_reason_are_folded_under_its_sentence(tmp_path, tab):
    made_pair(tmp_path / "results" / "A" / "D")
    reason = explain("torn", at=(300, 200), count=12, limit=1.0)
    note = explain("scatter", spread=4.7)
    file = tmp_path / "results" / "A" / "D" / "details/detection.json"
    record = json.loads(file.read_text())
    file.write_text(
        json.dumps(record | {"reasons": [reason.to_plain()], "notes": [note.to_plain()]})
    )
    row = {"sample": "A", "dye": "D", "status": "suspect", "reasons": f"Odd. {reason}",
           "notes": note}  # fmt: skip
    summary(tmp_path / "results", row)
    tab.open(write_report(tmp_path / "results").absolute().as_uri())
    text = "document.querySelector('.pair').innerText"
    tab.wait(f"document.querySelectorAll('.pair .reason').length === 2 && {text} !== ''")
    for part in ("Odd.", reason, note):
        assert part in tab.run(text)
    assert "12 blocks" not in tab.run(text)
    tab.run(
        "document.querySelectorAll('.pair details.reason').forEach((part) => (part.open = true))"
    )
    for part in (reason.numbers, note.numbers, f"What helps: {note.help}"):
        assert part in tab.run(text)
    assert "sentence" not in tab.run("document.documentElement.innerText")
    assert tab.complaints == []


def test_two_pairs_have_a_table_above_their_cards_and_the_third_reason_is_folded(tmp_path, tab):
    reasons = [explain("torn", at=(300, 200), count=12, limit=1.0), explain("mirrored")]
    reasons.append(explain("scatter", spread=4.7))
    rows = [
        {"sample": name, "dye": "D", "status": status, "candidates": "9", "reasons": "", "gain": g}
        for name, status, g in (("a", "ok", "1.3"), ("b'\"]", "suspect", "1.2"))
    ]
    for row in rows:
        made_pair(tmp_path / "results" / row["sample"] / "D")
    rows[1]["reasons"] = " ".join(reasons)
    file = tmp_path / "results" / rows[1]["sample"] / "D" / "details/detection.json"
    record = json.loads(file.read_text()) | {"reasons": [one.to_plain() for one in reasons]}
    file.write_text(json.dumps(record))
    summary(tmp_path / "results", *rows)
    tab.complaints.clear()
    tab.open(write_report(tmp_path / "results").absolute().as_uri())
    tab.wait("document.querySelectorAll('article.pair').length === 2")
    listed = "[...document.querySelectorAll('.batch tr.link')].map((l) => l.dataset.name)"
    assert tab.run(listed) == ["b'\"] D", "a D"]  # what needs a look comes first
    head = "[...document.querySelectorAll('.batch th button')].find((b) => b.innerText === 'gain')"
    tab.run(f"{head}.click()")
    assert tab.run(listed) == ["a D", "b'\"] D"]
    assert tab.run("window.scrollY") == 0
    tab.run("[...document.querySelectorAll('.batch tr.link')].at(-1).click()")
    tab.wait("window.scrollY > 0")
    seen = "[...document.querySelectorAll('article .reason')].filter((r) => r.checkVisibility())"
    assert tab.run(f"{seen}.length") == 2
    assert tab.complaints == []


def test_a_report_is_read_by_keys_alone(made, tab):
    for name in "ab":
        made_pair(made.results / name / "D")
    made.attempt("register", 2.0, sample(0.1, 50), end(3.0))
    made.attempt("register", 5.0, sample(0.1, 50), end(3.0), sample="s2")
    reason = explain("torn", at=(300, 200), count=12, limit=1.0)
    file = made.results / "b" / "D" / "details/detection.json"
    record = json.loads(file.read_text())
    file.write_text(json.dumps(record | {"reasons": [reason.to_plain()]}))
    rows = [
        {"sample": name, "dye": "D", "status": status, "reasons": why, "gain": gain}
        for name, status, why, gain in (("a", "ok", "", "1.3"), ("b", "suspect", reason, "1.2"))
    ]
    summary(made.results, *rows)
    tab.complaints.clear()
    tab.open(write_report(made.results).absolute().as_uri())
    tab.wait("document.querySelector('.main-picture img')?.naturalWidth", 60)

    order = "[...document.querySelectorAll('.batch tr.link')].map((l) => l.dataset.name)"
    reach(tab, "gain")
    for by, names in (("descending", ["a D", "b D"]), ("ascending", ["b D", "a D"])):
        tab.key("Enter")
        assert tab.run(order) == names
        assert tab.run("document.activeElement.closest('th').ariaSort") == by
    reach(tab, "Open b D")
    tab.key("Enter")
    assert focus(tab) == "b D"
    reach(tab, reason)
    tab.key("Enter")
    assert reason.numbers in tab.run("document.querySelector('#pairs').innerText")

    reach(tab, "difference")
    tab.key("Enter")
    shown = "document.querySelector('dialog[open] .bar b').innerText"
    seen = [tab.run(shown)]
    for _ in range(2):  # the second time what had the focus was drawn again
        tab.key("ArrowRight")
        seen.append(tab.run(shown))
    assert len(set(seen)) == 3
    reach(tab, "1 : 1")
    tab.key(" ")
    assert tab.run("document.querySelector('dialog img').className") == "full"
    tab.key("Escape")
    assert tab.run("!document.querySelector('dialog[open]')")
    assert focus(tab).startswith("difference")

    reach(tab, "Time and memory")
    tab.key("Enter")
    reach(tab, "Charts")
    tab.key("ArrowRight")
    assert "register" in tab.run("document.querySelector('.panel h3').innerText")
    assert long_sentences(said(tab)) == []  # unfolded
    assert walk(tab) == []
    assert tab.complaints == []


@pytest.fixture
def batch(made, tab):
    """A report of 30 pairs, two of which failed or have an unusual gain, opened in the tab."""
    rows = [
        {"sample": f"s{n:02d}", "dye": ("DAPI", "SYTO9")[n % 2], "status": "ok", "reasons": "",
         "gain": f"{1.3 + n / 1000:.3f}", "gain_low95": f"{1.29 + n / 1000:.3f}",
         "gain_high95": f"{1.31 + n / 1000:.3f}", "candidates": str(100 - n),
         "density_per_mm2": str(20 + n), "density_low95": str(10 + n),
         "density_high95": str(40 + n),
         "spoilt_share": "0", "spoilt_reasons": "",
         "group": "wet" if n < 12 else "dry", "date": f"2026-11-{n + 1:02d}"}
        for n in range(30)
    ]  # fmt: skip
    rows[17] |= {"status": "failed", "reasons": f"no overlap {NASTY}", "gain": "", "candidates": ""}
    rows[5]["gain"], rows[9]["status"] = "2.500", "suspect"
    rows[5]["gain_high95"] = "2.510"
    rows[3] |= {"spoilt_share": "0.024", "spoilt_reasons": "lost 0.021, out of focus 0.0028"}
    rows[8] |= {"spoilt_share": "0.0005", "spoilt_reasons": "lost 0.0005"}
    summary(made.results, *rows)
    drawn_figure(made.results, "s05", "SYTO9")
    tab.complaints.clear()
    tab.open(write_report(made.results).absolute().as_uri())
    tab.wait(
        "document.documentElement?.dataset.ready"
        " && Boolean(document.querySelector('.batch tr.link'))"
    )
    return tab


NAMES = "[...document.querySelectorAll('.batch tr.link')].map((l) => l.dataset.name.slice(0, 3))"


CHOOSE = (
    "(name, value) => { const one = [...document.querySelectorAll('.controls select')]"
    ".find((s) => s.ariaLabel.endsWith(name)); one.value = value;"
    " one.dispatchEvent(new Event('change')); }"
)


def test_of_many_pairs_those_that_need_a_look_come_first(batch):
    names = batch.run(NAMES)
    assert names[:4] == ["s17", "s09", "s05", "s00"]
    assert len(names) == 30
    why = batch.run("[...document.querySelectorAll('.batch .why')].map((w) => w.textContent)")
    assert why[0] == f"no overlap {NASTY}"
    assert why[2].startswith("gain 2.500 (")
    assert "above the others" in why[2]
    assert why[3] == ""
    assert batch.run("document.querySelectorAll('.batch .odd').length") == 1
    assert batch.run("document.querySelectorAll('.pair').length") == 0
    assert "30 pairs, 1 with outlying values" in batch.text
    assert batch.complaints == []


def test_many_pairs_are_sorted_and_filtered(batch):
    def head(name):
        batch.run(
            "[...document.querySelectorAll('.batch thead button')]"
            f".find((b) => b.textContent === {name!r}).click()"
        )

    head("candidates")
    assert batch.run(NAMES)[:2] == ["s00", "s01"]
    head("candidates")
    assert batch.run(NAMES)[:2] == ["s29", "s28"]
    assert batch.run(NAMES)[-1] == "s17"  # without a number: last either way
    head("state")
    assert batch.run(NAMES)[0] == "s17"
    batch.run(f"({CHOOSE})('group', 'wet')")
    assert len(batch.run(NAMES)) == 12
    assert "12 of 30 pairs" in batch.text
    batch.run(f"({CHOOSE})('status', 'outlying values')")
    assert batch.run(NAMES) == ["s05"]


def test_spoilt_shares_are_a_column_a_filter_and_a_sentence(batch):
    heads = batch.run(
        "[...document.querySelectorAll('.batch thead button')].map((b) => b.textContent)"
    )
    cells = (
        "[...document.querySelectorAll('.batch tr.link')].map((l) => "
        f"[l.dataset.name.slice(0, 3), l.children[{heads.index('spoilt')}].textContent])"
    )
    shown = dict(batch.run(cells))
    assert (shown["s03"], shown["s08"], shown["s00"]) == ("2.4 %", "< 0.1 %", "0 %")
    batch.run(f"({CHOOSE})('spoilt place', 'any spoilt place')")
    assert batch.run(NAMES) == ["s03", "s08"]
    batch.run(f"({CHOOSE})('spoilt place', 'out of focus')")
    assert batch.run(NAMES) == ["s03"]
    batch.run("document.querySelector('.batch tr.link').click()")
    sentence = "2.4 % of the section: lost 2.1 %, out of focus 0.28 %"
    assert sentence in batch.run("document.querySelector('.batch .pair').textContent")
    assert batch.complaints == []


def test_a_row_of_many_opens_by_keys_and_shows_its_pictures(batch):
    batch.run("document.querySelectorAll('.batch tr.link .open')[2].focus()")
    assert batch.run("document.activeElement.closest('tr').dataset.name") == "s05 SYTO9"
    batch.key("Enter")
    batch.wait("document.querySelector('.batch .pair .thumb img')?.naturalWidth === 500")
    assert batch.run("document.activeElement.ariaExpanded") == "true"
    batch.run("document.querySelector('.thumb').click()")
    batch.wait("document.querySelector('dialog[open] img').naturalWidth === 500")
    batch.key("Escape")
    batch.run("document.querySelector('.batch .open[aria-expanded=true]').focus()")
    batch.key("Enter")
    assert batch.run("document.querySelectorAll('.batch .pair').length") == 0
    assert batch.complaints == []


def test_a_card_that_cannot_be_drawn_is_a_sentence_and_the_others_are_drawn(batch):
    batch.run(
        "{ const { viewer } = unglow.view; const pictures = viewer.pictures.bind(viewer);"
        " viewer.pictures = (n, ...more) => { if (n === 17) throw new Error('torn');"
        " return pictures(n, ...more); }; }"
    )
    batch.run("document.querySelectorAll('.batch tr.link').forEach((line) => line.click())")
    cards = batch.run("[...document.querySelectorAll('.batch .detail')].map((c) => c.textContent)")
    assert cards[0] == "The card of s17 SYTO9 cannot be shown (Error: torn)."
    assert len(cards) == 30
    assert all(card.startswith(name) for card, name in zip(cards[1:], ("s09", "s05"), strict=False))


@pytest.mark.parametrize(
    ("outcome", "counts", "expected"),
    [
        ("ok", {"suspect": 3}, ["3 suspect"]),
        ("failed", {"ok": 8, "failed": 1}, ["1 failed", "8 ok"]),
        ("failed", {"skipped": 1, "ok": 1}, ["1 skipped", "1 ok"]),
        ("failed", {"ok": 2}, ["failed", "2 ok"]),  # because of something else
        ("interrupted", {"waiting": 2}, ["interrupted", "2 waiting"]),
    ],
)
def test_the_head_counts_pairs_and_says_ok_only_of_those_that_are(
    tmp_path, tab, outcome, counts, expected
):
    made = Made(tmp_path / "work" / "results")
    states = [state for state, n in counts.items() for _ in range(n)]
    ended = {"kind": "end", "t": 10.0, "wall": WALL + 10, "outcome": outcome}
    made.run(ended, pairs=[[f"s{n}", "D"] for n in range(len(states))])
    rows = [{"sample": f"s{n}", "dye": "D", "status": s} for n, s in enumerate(states)]
    summary(made.results, *rows)
    tab.open(write_report(made.results).absolute().as_uri())
    tab.wait(
        "document.documentElement?.dataset.ready && Boolean(document.querySelector('.head .badge'))"
    )
    badges = "[...document.querySelectorAll('.head .badge')].map((b) => b.textContent.slice(2))"
    assert tab.run(badges) == expected
