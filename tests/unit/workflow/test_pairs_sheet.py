"""Sample sheets: what is read, and errors that name file, line and column."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from unglow.core.errors import InputError
from unglow.core.files import write_text
from unglow.results.groups import is_in_summary
from unglow.workflow.samples.discovery import discover
from unglow.workflow.samples.naming import LONGEST, RESERVED, SAFE_NAME
from unglow.workflow.samples.pair import Pair
from unglow.workflow.samples.sheet import find_unwritable, read_sheet, sheet_text

HEADER = "sample\tdye\tpre\tpost"
ROW = "S1\tDAPI\ta.tif\tb.tif"


@pytest.fixture
def base(tmp_path):
    for name in ("a.tif", "b.tif", "c.tif", "ä ö.tif"):
        (tmp_path / name).write_bytes(b"II*\0")
    return tmp_path


def sheet(base: Path, *lines: str, name: str = "samples.tsv", coding: str = "utf-8") -> Path:
    path = base / name
    path.write_bytes("\n".join(lines).encode(coding))
    return path


def test_all_columns(base):
    path = sheet(
        base,
        "# written by hand",
        "",
        HEADER + "\tchannel\tseries\tmanual_scale",
        "S2\tDA PI\ta.tif\tä ö.tif\tR+G\t2\t1.25",
        "# S3 is broken",
        f"S1\tDAPI\t{base / 'a.tif'}\tb.tif\t\t\t",
    )
    found = read_sheet(path, base=base)
    assert found.problems == ()
    assert found.pairs == (
        Pair("S1", "DAPI", base / "a.tif", base / "b.tif", rule="line 6 of samples.tsv"),
        Pair(
            "S2", "DA PI", base / "a.tif", base / "ä ö.tif", "R+G", 2, 1.25, "line 4 of samples.tsv"
        ),
    )


@pytest.mark.parametrize(
    ("name", "coding", "separator"),
    [
        ("s.csv", "utf-8", ","),
        ("s.csv", "utf-8-sig", ";"),
        ("s.tsv", "utf-8-sig", "\t"),
        ("s.txt", "utf-16", "\t"),
    ],
)
def test_what_spreadsheets_write(base, name, coding, separator):
    lines = [HEADER + "\t\t", ROW + "\t\t", "\t\t\t\t\t", ""]
    lines = [line.replace("\t", separator).replace("S1", '"S1"') + "\r" for line in lines]
    found = read_sheet(sheet(base, *lines, name=name, coding=coding), base=base)
    assert [p.key for p in found.pairs] == [("S1", "DAPI")]
    assert found.problems == ()


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "is empty; its first line"),
        ([HEADER.replace("\t", ",")], "separated by commas, not tabs"),
        (["sample\tdye\tpre"], "line 1: the header lacks post"),
        ([HEADER + "\tchanel"], "column 5: there is no column 'chanel'; did you mean 'channel'?"),
        ([HEADER + "\tMy slide"], "'My slide'; remove it, or name it group_my_slide if it says"),
        (["# x", "Sample\tStain\tpre\tpost"], "line 2, column 2: there is no column 'Stain'; did"),
        ([HEADER.replace("dye", "Stain")], "'Stain'; did you mean 'dye'?"),
        ([HEADER + "\tgain"], "did you mean 'manual_scale'?"),
        ([HEADER + "\tpre"], "line 1, column 5: 'pre' is there twice"),
        (["sample\t\tdye\tpre\tpost"], "line 1, column 2: the column has no name"),
        ([HEADER, ROW + "\tG"], "line 2, column 5: 'G' stands beyond the last named column (post)"),
        ([HEADER, 'S1\t"DAPI\ta.tif\tb.tif'], "line 2: the quotation marks do not match"),
    ],
)  # fmt: skip
def test_sheets_that_cannot_be_used(base, lines, message):
    path = sheet(base, *lines)
    with pytest.raises(InputError) as error:
        read_sheet(path, base=base)
    assert message in str(error.value)
    assert str(path) in str(error.value)


def test_absent_and_undecodable_sheets(base):
    with pytest.raises(InputError, match=r"nope\.tsv"):
        read_sheet(base / "nope.tsv", base=base)
    with pytest.raises(InputError, match="line 2: this is not UTF-8"):
        read_sheet(sheet(base, HEADER, "Sä\tX\ta.tif\tb.tif", coding="latin-1"), base=base)


@pytest.mark.parametrize(
    ("cells", "column", "message"),
    [
        ({"sample": ""}, "sample", "the cell is empty"),
        ({"sample": "a/b"}, "sample", "'a/b' may hold only letters"),
        ({"sample": "telemetry"}, "sample", "unglow itself writes"),
        ({"dye": "x" * 81}, "dye", "81 characters"),
        ({"sample": "x" * 21}, "sample", "ends in 20 times the same"),
        (
            {"dye": "".join(map(chr, range(0x20000, 0x20000 + 64)))},
            "dye",
            "longer than the 240 bytes",
        ),
        ({"series": "two"}, "series", "'two' is not a whole number from 0"),
        ({"series": "-1"}, "series", "'-1' is not a whole number from 0"),
        ({"manual_scale": "-1"}, "manual_scale", "'-1' is not a number above 0"),
        ({"manual_scale": "nan"}, "manual_scale", "'nan' is not a number above 0"),
        ({"manual_scale": "1,3"}, "manual_scale", "write decimals with a point"),
        ({"control": "maybe"}, "control", "'maybe' cannot be used; whether the section"),
        ({"order": "first"}, "order", "'first' is not a number"),
        ({"date": "23.11.2026"}, "date", "'23.11.2026' cannot be used; day on which"),
        ({"date": "2026-02-29 12:00"}, "date", "cannot be used; day on"),
        ({"group_slide": "x" * 81}, "group_slide", "cannot be used; group that the pair"),
        ({"pre": "nope.tif"}, "pre", "there is no"),
        ({"pre": "aa.tif"}, "pre", "did you mean"),
        ({"post": "."}, "post", "is a directory"),
        ({"post": "lost.tif"}, "post", "is a link to"),
    ],
)
def test_a_bad_row_is_a_problem_of_its_own(base, cells, column, message):
    (base / "lost.tif").symlink_to(base / "gone.tif")
    row = {"sample": "S1", "dye": "X", "pre": "a.tif", "post": "b.tif"}
    row |= {"channel": "", "series": "", "manual_scale": "", "control": ""} | cells
    path = sheet(base, "\t".join(row), "\t".join(row.values()), "S2\tX\tb.tif\tc.tif")
    found = read_sheet(path, base=base)
    assert [p.key for p in found.pairs] == [("S2", "X")]
    (problem,) = found.problems
    assert problem.message.startswith(f"{path}, line 2, column '{column}': ")
    assert message in problem.message
    assert problem.message.endswith(".")


@pytest.mark.parametrize(
    ("cell", "control"),
    [
        *((cell, True) for cell in ("true", "Yes", "1", "TRUE")),
        *((cell, False) for cell in ("false", "no", "0", "")),
    ],
)
def test_a_control_is_said_to_be_one_in_plain_words(base, cell, control):
    path = sheet(base, HEADER + "\tcontrol", f"{ROW}\t{cell}")
    (pair,) = read_sheet(path, base=base).pairs
    assert pair.control is control
    again = sheet(base, sheet_text([pair], base), name="again.tsv")
    assert read_sheet(again, base=base).pairs[0].control is control
    assert ("control" in again.read_text()) is control


def test_a_column_by_another_name_is_understood(base):
    with pytest.raises(InputError, match="did you mean 'control'"):
        read_sheet(sheet(base, HEADER + "\tunstained"), base=base)


def test_one_file_twice_and_one_pair_twice(base):
    path = sheet(base, HEADER, "S1\tX\ta.tif\ta.tif", ROW, "S2\tX\ta.tif\tc.tif", ROW)
    found = read_sheet(path, base=base)
    assert [p.key for p in found.pairs] == [("S2", "X")]
    same, twice = found.problems
    assert (same.kind, same.sample, same.dye) == ("same-file", "S1", "X")
    assert (twice.kind, twice.sample, twice.dye) == ("duplicate", "S1", "DAPI")
    assert "lines 3 and 5" in twice.message


def test_paths_start_at_the_working_directory_and_the_message_says_so(base):
    (base / "config").mkdir()
    (base / "config" / "own.tif").write_bytes(b"II*\0")
    path = sheet(base, HEADER, "S1\tX\town.tif\tb.tif", name="config/samples.tsv")
    (problem,) = read_sheet(path, base=base).problems
    assert "paths start at the working directory" in problem.message
    assert str(base / "config" / "own.tif") in problem.message


def test_an_ome_zarr_image_is_a_folder_and_no_other_folder_is_an_image(base):
    (base / "a.ome.zarr").mkdir()
    (base / "plain").mkdir()
    (base / "b.tif").touch()
    head, more = "sample\tdye\tpre\tpost", "T\tD\tplain\tb.tif"
    found = read_sheet(sheet(base, head, "S\tD\ta.ome.zarr\tb.tif", more), base=base)
    assert [pair.pre.name for pair in found.pairs] == ["a.ome.zarr"]
    assert "plain is a directory; name the file in it" in found.problems[0].message


def test_a_sheet_without_rows(base):
    (problem,) = read_sheet(sheet(base, HEADER), base=base).problems
    assert problem.kind == "empty-sheet"


def test_a_written_sheet_is_read_back(base):
    for name in ("pre_X.tif", "post_X.tif", "ta\tb pre_Y.tif", 'quo"te post_Y.tif'):
        folder = base / "raw" / "S 1"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"II*\0")
    pairs = discover(base / "raw").pairs
    assert len(pairs) == 2
    path = sheet(base, sheet_text(pairs, base))
    again = read_sheet(path, base=base)
    assert again.problems == ()
    assert [(p.key, p.pre, p.post) for p in again.pairs] == [(p.key, p.pre, p.post) for p in pairs]
    assert "raw/S 1/pre_X.tif" in path.read_text()
    full = Pair("S", "D", base / "a.tif", Path("/elsewhere/b.tif"), "G", 1, 1.5)
    assert sheet_text([full], base).splitlines() == [
        "sample\tdye\tpre\tpost\tchannel\tseries\tmanual_scale",
        "S\tD\ta.tif\t/elsewhere/b.tif\tG\t1\t1.5",
    ]


def test_columns_of_groups_are_kept_as_they_are_written(base):
    path = sheet(
        base,
        HEADER + "\tgroup\tGroup_Slide\tdate\torder",
        "S1\tD\ta.tif\tb.tif\twet, warm\t3\t2026-11-23 14:05\t2",
        "S2\tD\tb.tif\tc.tif\tdry\t\t\t",
    )
    found = read_sheet(path, base=base)
    assert found.problems == ()
    groups = {"group": "wet, warm", "group_slide": "3", "date": "2026-11-23 14:05", "order": "2"}
    assert [p.groups for p in found.pairs] == [groups, {"group": "dry"}]
    again = sheet(base, sheet_text(found.pairs, base), name="again.tsv")
    assert [p.groups for p in read_sheet(again, base=base).pairs] == [groups, {"group": "dry"}]


def test_the_schema_is_sound_and_says_what_the_code_says(project):
    rules = yaml.safe_load((project / "config" / "schemas" / "samples.schema.yaml").read_text())
    Draft202012Validator.check_schema(rules)
    assert rules["additionalProperties"] is False
    for rule in rules["properties"].values():
        assert rule["description"].strip()
    described = {name for name in rules["properties"] if is_in_summary(name)}
    assert described == {"group", "treatment", "replicate", "date", "order"}
    for name in ("sample", "dye"):
        rule = rules["properties"][name]
        assert rule["pattern"] == f"^{SAFE_NAME.pattern}$"
        assert rule["maxLength"] == LONGEST
    assert set(rules["properties"]["sample"]["not"]["enum"]) == RESERVED


ODD = ["\u00a0", "\u2028", "\u2003", "\x85", "\x1c", "\ufeff", *"~#=\"'\t ,", "~nouser"]


@pytest.mark.parametrize("place", ["{}raw/{}", "raw{}/{}", "raw/{}{}"])
@pytest.mark.parametrize(
    ("odd", "writable"),
    [*((odd, True) for odd in ODD), *((odd, False) for odd in ("\n", "\r", "\r\n", "\udce9"))],
)
def test_a_sheet_is_written_only_if_it_reads_back_as_the_same_pairs(base, place, odd, writable):
    images = [base / place.format(odd, name) for name in ("a_pre.tif", "a_post.tif")]
    images[0].parent.mkdir(exist_ok=True)
    for image in images:
        image.write_bytes(b"II*\0")
    pair, good = Pair("S", "D", *images), Pair("T", "D", base / "a.tif", base / "b.tif")
    problems = find_unwritable([pair, good], base)
    assert [problem.paths for problem in problems] == ([] if writable else [tuple(images)])
    if writable:
        write_text(base / "odd.tsv", sheet_text([pair, good], base))
        (again, _) = read_sheet(base / "odd.tsv", base=base).pairs
        assert (again.pre, again.post) == tuple(images)
    else:
        with pytest.raises(InputError) as refused:
            sheet_text([pair, good], base)
        assert "a_pre.tif" in str(refused.value)
        assert "\n" not in str(refused.value)


def test_sentences_about_long_cells_and_many_lines_stay_short(tmp_path):
    path = tmp_path / "samples.tsv"
    head = "sample\tdye\tpre\tpost\n"
    for text in (f"{head}a\tD\t{'x' * 9000}\tb.tif\n", f"{head}a\tD\ta.tif\tb.tif\t{'x' * 9000}\n"):
        path.write_text(text)
        with pytest.raises(InputError) as error:
            read_sheet(path, base=tmp_path)
        assert len(str(error.value)) < 1500 + len(str(path))
    path.write_text(head + "a\tD\ta.tif\tb.tif\n" * 5000)
    (problem,) = read_sheet(path, base=tmp_path).problems
    assert "5000 times" in problem.message
    assert len(problem.message) < 500 + len(str(path))


@pytest.mark.parametrize("name", ["9" * 5000, "regions\u2028a", "regions\x85a", "r\x00"])
def test_names_of_columns_that_nobody_expects_make_one_short_line(tmp_path, name):
    sheet = tmp_path / "samples.tsv"
    sheet.write_text(f"sample\tdye\tpost\tpre\t{name}\na\tD\ta.tif\tb.tif\tx\n", encoding="utf-8")
    with pytest.raises(InputError) as error:
        read_sheet(sheet, base=tmp_path)
    assert len(str(error.value).splitlines()) == 1
    assert len(str(error.value)) < 800
    assert "samples.tsv" in str(error.value)
