"""Records: what fits is read, and of what does not the field is named."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import msgspec
import pytest

from unglow.core.reasons import Sentence
from unglow.core.records import RecordError, read_record, to_plain, to_record


class Size(msgspec.Struct):
    rows: int
    cols: int


class Record(msgspec.Struct):
    name: str
    gain: float | None
    size: tuple[int, int]
    reasons: list[Sentence]
    levels: dict[int, tuple[float, float]]
    inner: Size = msgspec.field(default_factory=lambda: Size(1, 2))
    flag: bool = False


GOOD = {"name": "a", "gain": 1, "size": [3, 4], "reasons": [], "levels": {"1": [0, 0.5]}, "more": 0}


@pytest.mark.parametrize("change", [{}, {"gain": None}, {"flag": True}, {"reasons": ["a", "b"]}])
def test_what_fits_is_read_and_written_again(tmp_path, change):
    path = tmp_path / "record.json"
    path.write_text(json.dumps(GOOD | change))
    record = read_record(path, Record)
    plain = to_plain(record)
    assert plain["levels"] == {1: [0.0, 0.5]}
    assert to_record(json.loads(json.dumps(plain)), Record) == record


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": 1}, "name"),
        ({"gain": True}, "gain"),
        ({"size": [3.5, 4]}, r"size\[0\]"),
        ({"reasons": "ab"}, "reasons"),
        ({"reasons": [5]}, r"reasons\[0\]"),
        ({"reasons": [{"key": "torn"}]}, r"reasons\[0\]"),
        ({"flag": 0}, "flag"),
        ({"levels": []}, "levels"),
        ({"levels": {"1": [1, None]}}, r"levels\[...\]\[1\]"),
        ({"inner": {"rows": 1}}, r"inner\.cols"),
        ({"\udcff": 1}, ""),
    ],
)
def test_what_does_not_fit_is_named(change, field):
    with pytest.raises(RecordError, match=f"^{field}"):
        to_record(GOOD | change, Record)


@pytest.mark.parametrize("content", [[], None, 5])
def test_other_contents_are_no_records(content):
    with pytest.raises(RecordError, match=r"^its content: "):
        to_record(content, Record)


@pytest.mark.parametrize(
    "text", ["", "{", "NaN", "1e400", "-1e31", "9" * 5000, "[" * 100_000, '"\xff"']
)
def test_what_is_no_json_or_has_numbers_without_an_end_is_refused(tmp_path, text):
    path = tmp_path / "record.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(RecordError):
        read_record(path, Any)


@pytest.mark.parametrize("module", ["core.records", "workflow.settings", "registration.settings"])
def test_types_are_not_collected_as_a_process_ends(module):
    code = (
        "import atexit, gc; atexit.register(lambda: print(gc.get_freeze_count() > 0)); "
        f"import unglow.{module}"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert ended.stdout == b"True\n"


def test_a_fault_of_our_own_code_is_no_damage():
    class Faulty(str):
        __slots__ = ()

        @staticmethod
        def from_plain(value):
            return value.missing

    with pytest.raises(AttributeError):
        to_record("text", Faulty)
