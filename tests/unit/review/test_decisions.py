"""review.csv: texts come back as they were, nobody's decision is lost, new lists find theirs."""

from __future__ import annotations

import csv
import multiprocessing
from datetime import UTC, datetime

import pytest

from unglow.core.errors import InputError
from unglow.review.decisions import (
    COLUMNS,
    LONGEST_NOTE,
    Listed,
    Review,
    change_review,
    read_decisions,
)

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)


def candidates(path, points):
    lines = ["id,x,y,snr,flags"]
    lines += [f"{n},{x:.3f},{y:.3f},9.00," for n, (x, y) in enumerate(points, 1)]
    path.write_text("\n".join(lines) + "\n")
    return path


def change(number, x, y, decision="accepted", note=""):
    return {"id": number, "x": x, "y": y, "decision": decision, "note": note}


@pytest.fixture
def pair(tmp_path):
    candidates(tmp_path / "candidates.csv", [(10, 10), (30, 11), (11.5, 40), (80, 80)])
    return tmp_path


def decided(pair, *changes):
    return change_review(pair / "review.csv", changes, pair / "candidates.csv", NOW)


def list_decisions(review):
    return {one["id"]: one["decision"] for one in review.to_json()}


def test_a_decision_is_a_row_with_its_time_and_list(pair):
    decided(pair, change(2, 30, 11, "rejected", "dust"))
    with (pair / "review.csv").open(newline="") as stream:
        (row,) = csv.DictReader(stream)
    digest = Listed.read(pair / "candidates.csv").digest
    assert row == {
        "id": "2",
        "x": "30.0",
        "y": "11.0",
        "decision": "rejected",
        "note": "dust",
        "time": "2026-03-04T05:06:07Z",
        "candidates": digest,
    }
    assert len(digest) == 12


NOTES = [
    'dust, "big"',
    "two\nlines",
    "mac\rline\r\nend",
    "Grün 🦠 \u202e",
    "=1+1",
    "'",
    "",
    " ",
    "a,\\",
]


@pytest.mark.parametrize("note", NOTES)
def test_notes_come_back_as_they_were(pair, note):
    decided(pair, change(1, 10, 10, "unsure", note), change(2, 30, 11, "accepted", "next"))
    assert [one.note for one in read_decisions(pair / "review.csv")] == [note, "next"]


@pytest.mark.parametrize("note", ["=HYPERLINK(1)", "'=1", "@x", "-rf", "\t=1", "'quoted'", "-0.5"])
def test_a_note_is_no_formula_in_the_file_and_comes_back_unchanged(pair, note):
    for _ in range(2):  # written, read and written again
        decided(pair, change(2, 30, 11, "rejected", note), change(1, 10, 10))
        assert read_decisions(pair / "review.csv")[0].note == note
        with (pair / "review.csv").open(newline="") as stream:
            written = next(csv.DictReader(stream))["note"]
        assert written == (note if note in ("'quoted'", "-0.5") else f"'{note}")


def test_decisions_match_the_rows_of_the_table(pair):
    review = decided(pair, change(2, 30, 11, "rejected", "dust"), change(9, 500, 500))
    assert review.columns == (["", "rejected", "", ""], ["", "dust", "", ""])
    # whoever sorts the table by brightness has another file, and the same candidates
    lines = (pair / "candidates.csv").read_text().splitlines()
    (pair / "candidates.csv").write_text("\n".join([lines[0], *lines[:0:-1]]) + "\n")
    review = Review.read(pair / "review.csv", pair / "candidates.csv")
    assert review.columns[0] == ["", "", "rejected", ""]
    assert list_decisions(decided(pair, change(4, 80, 80))) == {
        2: "rejected",
        4: "accepted",
        None: "accepted",
    }


def test_what_is_decided_again_takes_the_place_and_what_is_taken_back_goes(pair):
    decided(pair, change(1, 10, 10), change(2, 30, 11), change(3, 11.5, 40, "unsure"))
    review = decided(pair, change(2, 30, 11, "rejected"), change(1, 10, 10, ""))
    assert [one.id for one in review.decisions] == [2, 3]
    assert list_decisions(review) == {2: "rejected", 3: "unsure"}
    assert decided(pair, change(2, 30, 11, ""), change(3, 11.5, 40, "")).decisions == ()
    assert read_decisions(pair / "review.csv") == []


def test_a_new_list_finds_its_decisions_by_position(pair):
    decided(pair, change(1, 10, 10), change(2, 30, 11, "rejected"), change(4, 80, 80, "unsure"))
    candidates(pair / "candidates.csv", [(0, 0), (10.9, 10.8), (32.1, 11), (11.5, 40)])
    review = Review.read(pair / "review.csv", pair / "candidates.csv")
    assert list_decisions(review) == {2: "accepted", None: "unsure"}
    alone = [one for one in review.to_json() if one["id"] is None]
    assert [(one["x"], one["y"]) for one in alone] == [(30, 11), (80, 80)]
    # what is decided on the new list is about it, the others stay as they are
    review = decided(pair, change(4, 11.5, 40), change(2, 10.9, 10.8, "rejected"))
    assert [one.decision for one in review.decisions] == [
        *("rejected", "rejected", "unsure", "accepted")
    ]
    digests = [one.candidates for one in review.decisions]
    assert digests[0] == digests[3] == review.listed.digest not in digests[1:3]


def test_partners_are_one_to_one_and_the_nearest_first(pair):
    decided(pair, change(1, 10, 10, "accepted"), change(2, 30, 11, "rejected"))
    candidates(pair / "candidates.csv", [(28.5, 11), (29.5, 11), (10, 12), (10, 8.5)])
    review = Review.read(pair / "review.csv", pair / "candidates.csv")
    assert list_decisions(review) == {4: "accepted", 2: "rejected"}


def test_who_looks_at_an_earlier_list_decides_on_the_place(pair):
    candidates(pair / "candidates.csv", [(0, 0), (10.5, 10), (80, 80)])
    review = decided(pair, change(1, 10, 10, "rejected"))
    assert [(one.id, one.x) for one in review.decisions] == [(2, 10.5)]
    review = decided(pair, change(7, 50, 50, "unsure", "was here"))
    assert [(one.id, one.candidates) for one in review.decisions][1] == (0, "")
    assert [one.decision for one in decided(pair, change(9, 50, 51, "")).decisions] == ["rejected"]


def test_without_candidates_decisions_keep_their_places(tmp_path):
    change_review(tmp_path / "review.csv", [change(None, 5, 6)], tmp_path / "candidates.csv", NOW)
    review = Review.read(tmp_path / "review.csv", tmp_path / "candidates.csv")
    assert [(one["id"], one["x"], one["y"]) for one in review.to_json()] == [(None, 5, 6)]


@pytest.mark.parametrize(
    "line",
    ["1,2,3,accepted", "x,2,3,accepted,,,", "1,nan,3,accepted,,,", "1,2,3,perhaps,,,",
     '1,2,3,accepted,"open,,'],
)  # fmt: skip
def test_a_damaged_file_is_reported_and_stays_as_it_is(pair, line):
    path = pair / "review.csv"
    text = ",".join(COLUMNS) + "\n" + line + "\n"
    path.write_text(text)
    with pytest.raises(InputError, match=f"^{path}, line 2: "):
        decided(pair, change(1, 10, 10))
    assert path.read_text() == text


def test_a_spreadsheet_may_have_saved_it(pair):
    rows = [",".join(COLUMNS), "1,10,10,accepted,ok,2026,x", ""]
    (pair / "review.csv").write_bytes(b"\xef\xbb\xbf" + "\r\n".join(rows).encode())
    assert [one.note for one in read_decisions(pair / "review.csv")] == ["ok"]


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        "accepted",
        change(1, 10, 10, "maybe"),
        change(1, float("nan"), 10),
        change(1, "ten", 10),
        change(1, 10, 10, "accepted", "x" * (LONGEST_NOTE + 1)),
        change(1, 10, 10, "accepted", 5),
    ],
)
def test_what_is_no_change_changes_nothing(pair, wrong):
    with pytest.raises(InputError):
        decided(pair, change(2, 30, 11), wrong)
    assert not (pair / "review.csv").exists()


def _decide(pair, numbers):
    for k in numbers:
        change_review(pair / "review.csv", [change(None, 100.0 * k, 5)], pair / "candidates.csv")


def test_processes_that_decide_at_once_lose_nothing(pair):
    spawned = multiprocessing.get_context("spawn")
    parts = [range(1, 40, 3), range(2, 40, 3), range(3, 40, 3)]
    workers = [spawned.Process(target=_decide, args=(pair, part)) for part in parts]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    made = read_decisions(pair / "review.csv")
    assert sorted(one.x for one in made) == [100.0 * k for k in range(1, 40)]
