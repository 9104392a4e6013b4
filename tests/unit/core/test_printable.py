"""Names of others: what is shown of them cannot act on a terminal or in a spreadsheet."""

from __future__ import annotations

import csv
import logging

import pytest

from unglow.core.errors import InputError
from unglow.core.printable import (
    PlainFormatter,
    cell,
    escape_controls,
    escape_formula,
    printable,
    shorten,
    unescape_formula,
)
from unglow.results import verdict
from unglow.results.summary import table
from unglow.workflow.samples.discovery import discover

NASTY = "a\x1b[31mb\r\x9b2J\u202ec"


def test_what_is_printed_keeps_lines_and_writes_out_other_bytes():
    shown = printable(f"{NASTY}\tx\n  y\udce9 é日").split("\n")
    assert shown == [r"a\x1b[31mb\r\x9b2J\u202ec x", r"  y\xe9 é日"]
    assert escape_controls("\udce9\x1b") == "\udce9\\x1b"


def test_a_sentence_about_a_file_cannot_act():
    assert str(InputError(f"{NASTY} is empty")) == r"a\x1b[31mb\r\x9b2J\u202ec is empty"


def test_a_line_of_a_log_cannot_act():
    record = logging.LogRecord("unglow", logging.INFO, "", 0, "%s read", (NASTY,), None)
    assert PlainFormatter("%(levelname)s %(message)s").format(record) == (
        r"INFO a\x1b[31mb\r\x9b2J\u202ec read"
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        *(("=1+1", "'=1+1"), ("-rf", "'-rf"), ("+x", "'+x"), ("@x", "'@x"), ("\t=1", "'=1")),
        *(("-0.5", "-0.5"), ("+3", "+3"), ("S1", "S1"), ("a=b", "a=b"), ("", "")),
        ("\x1b=1+1", "\\x1b=1+1"),
    ],
)
def test_no_cell_is_a_formula_and_numbers_are_numbers(text, shown):
    assert cell(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        *("=1+1", "'=1+1", "''=1", "-rf", "@x", "\t=1", " \r\n+x", "' =1", "-0.5", "'-0.5"),
        *("'quoted'", "'", "", "CD3+", "it's = 1", "a\n=1", " "),
    ],
)
def test_a_cell_that_is_read_back_is_the_same_and_no_formula(text):
    written = escape_formula(text)
    assert unescape_formula(written) == text
    assert written in (text, f"'{text}")
    assert written.lstrip()[:1] not in ("=", "+", "-", "@") or float(written) is not None


@pytest.mark.parametrize("sample", ["=1+1", "-rf", "@x", "e\x1b[31mred"])
def test_a_folder_that_is_left_out_is_plain_text_in_the_summary(tmp_path, sample):
    folder = tmp_path / sample
    folder.mkdir()
    for role in ("pre", "post"):
        (folder / f"{role}_X.tif").touch()
    (problem,) = discover(tmp_path).problems
    left_out = {"sample": sample, "dye": "", "status": "failed", "reasons": problem.message}
    text = table([left_out])
    (row,) = csv.DictReader(text.splitlines(), delimiter="\t")
    assert row["sample"][0] not in "=+-@"
    assert "\x1b" not in text + problem.message + verdict([left_out])


def test_a_long_name_is_shortened_in_the_middle():
    assert shorten("L" * 40, 40) == "L" * 40
    assert shorten("front" + "L" * 250 + "back", 12) == "frontL…Lback"


def test_an_error_is_one_line_whatever_names_it_holds():
    assert str(InputError("the sheet /a/x\ny is gone.")) == "the sheet /a/x\\ny is gone."
