"""The table of reasons: short plain sentences, each of them used, and what files keep of them."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path

import pytest

from unglow.core.reasons import explain, from_json, list_details, read_table, split_notes, to_json

SRC = Path(__file__).resolve().parents[3] / "src" / "unglow"
MOST_WORDS = 20


@pytest.mark.parametrize("key", read_table())
def test_a_sentence_is_short_and_ends(key):
    sentence = read_table()[key].sentence
    assert len(sentence.split()) <= MOST_WORDS
    assert sentence[-1] in ".?"


def test_each_key_is_used_and_no_sentence_is_there_twice():
    modules = [path for path in SRC.rglob("*.py") if path.name != "reasons.py"]
    text = "".join(path.read_text(encoding="utf-8") for path in modules)
    assert [key for key in read_table() if f'"{key}"' not in text] == []
    assert len({kind.sentence for kind in read_table().values()}) == len(read_table())


def test_a_reason_is_its_sentence_and_comes_back_from_a_file():
    reason = explain("torn", at=(10.04, 20), count=3, limit=1.0)
    assert isinstance(reason, str)
    assert reason.startswith("In some places")
    written = json.loads(json.dumps(to_json([reason, "A refusal in its own words."])))
    again, plain = from_json(written)
    assert again.to_plain() == reason.to_plain() == written[0]
    assert (again.key, again.at) == ("torn", (10.0, 20.0))
    assert plain == "A refusal in its own words."
    for made in (copy.deepcopy(reason), pickle.loads(pickle.dumps(reason))):
        assert made.to_plain() == reason.to_plain()


def test_notes_cast_no_doubt():
    note, doubt = explain("bright_field"), explain("mirrored")
    assert split_notes([note, doubt, "Odd.", doubt]) == ([doubt, "Odd."], [note])
    assert [one["key"] for one in list_details([doubt, "Odd.", note])] == [doubt.key, note.key]


def test_a_reason_of_another_version_is_a_reason():
    (other,) = from_json([explain("torn", count=3, limit=1.0).to_plain() | {"key": "of_tomorrow"}])
    assert split_notes([other]) == ([other], [])
