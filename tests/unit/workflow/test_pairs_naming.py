"""What file names say, and which names may become folders."""

from __future__ import annotations

import re
import unicodedata

import pytest

from unglow.workflow.samples.naming import SAFE_NAME, one_of, safe_version, take_apart, unsafe


@pytest.mark.parametrize(
    ("name", "sample", "markers", "dye", "rule"),
    [
        ("pre_DAPI.tif", "S1", ("pre",), "DAPI", "whole word"),
        ("POST_DAPI.TIFF", "S1", ("post",), "DAPI", "whole word"),
        ("S1_PreStain_DAPI.tif", "S1", ("pre",), "DAPI", "'PreStain'"),
        ("S1_PREstain_DAPI.tif", "S1", ("pre",), "DAPI", "'PREstain'"),
        ("S1_DAPIPost_Cy3.tif", "S1", ("post",), "Cy3", "'DAPIPost'"),
        ("S1_prestain_DAPI.tif", "S1", ("pre",), "DAPI", "word of staining in 'prestain'"),
        ("S1_pre_run3_DAPI.tif", "S1", ("pre",), "DAPI", "whole word"),
        ("S1_post2_DAPI.tif", "S1", ("post",), "DAPI", "whole word"),
        ("S1-post 2_DAPI.tif", "S1", ("post",), "DAPI", "whole word"),
        ("S1_samplepost_DAPI.tif", "S1", ("post",), "DAPI", "part of a word in 'samplepost'"),
        ("pre_DAPI.ome.tif", "S1", ("pre",), "DAPI", "whole word"),
        # Words that merely contain the letters.
        ("sample_prepared_post_DAPI.tif", "S1", ("post",), "DAPI", "whole word"),
        ("Presley_poststain_DAPI.tif", "S1", ("post",), "DAPI", "word of staining"),
        ("Presley_post_DAPI.tif", "Presley", ("post",), "DAPI", "whole word"),
        ("presley2_Prestain_DAPI.tif", "Presley2", ("pre",), "DAPI", "word of staining"),
        ("Cypress1_post_X.tif", "Cypress1", ("post",), "X", "whole word"),
        ("Cypress1_post_X.tif", "S1", ("post",), "X", "whole word"),
        ("compost_pre_X.tif", "S1", ("pre",), "X", "whole word"),
        ("pre1_post_X.tif", "pre1", ("post",), "X", "whole word"),
        ("Pre-op_1_pre_X.tif", "pre op 1", ("pre",), "X", "whole word"),
        # The dye is never searched, and the sample's name is a last resort.
        ("post_PreRed.tif", "S1", ("post",), "PreRed", "whole word"),
        ("post_DAPI.tif", "post", ("post",), "DAPI", "whole word"),
        # Neither, or both.
        ("S1_DAPI.tif", "S1", (), "DAPI", ""),
        ("Cypress1_DAPI.tif", "S1", (), "DAPI", ""),
        ("pre_run_post_DAPI.tif", "S1", ("pre", "post"), "DAPI", "whole word"),
        ("prepost_DAPI.tif", "S1", ("pre", "post"), "DAPI", "part of a word"),
        ("postDAPI.tif", "S1", ("post",), None, "whole word"),
        ("post_.tif", "S1", ("post",), "", "whole word"),
    ],
)
def test_a_file_name_is_taken_apart(name, sample, markers, dye, rule):
    parts = take_apart(name, sample)
    assert (parts.markers, parts.dye) == (markers, dye)
    assert rule in parts.rule


def test_decomposed_accents_are_the_same_name():
    parts = take_apart(unicodedata.normalize("NFD", "pre_Säure.tif"), "S1")
    assert parts.dye == unicodedata.normalize("NFC", "Säure")
    assert unsafe(parts.dye) is None


@pytest.mark.parametrize(
    "name",
    [
        "S1",
        "Sample 1",
        "Ünï",
        "样品1",
        "a.b",
        "CD3+",
        "x-1_2",
        "7",
        "é",
        "S" * 19,
        "Sample 10 " * 7 + "0123456789",
    ],
)
def test_safe_names(name):
    assert unsafe(name) is None
    assert safe_version(name) == name


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "a..b", "a/b", "a\\b", ".a", "-a", "+a", "_a", " a", "a ", "a.", "a  b", "a\n",
     "a\tb", "a\x00", "a{b}", "a*", "a?", "a[b]", "a,b", "a:b", "a=b", "a'b", 'a"b', "~", "$a",
     "Sample 10 " * 7 + "0123456789a", "S" * 20, "x" + "ab" * 20,
     "".join(map(chr, range(0x20000, 0x20040)))],
)  # fmt: skip
def test_unsafe_names_and_what_they_could_be(name):
    assert unsafe(name) is not None
    assert unsafe(safe_version(name)) is None


def test_the_pattern_needs_no_anchors_inside_a_wildcard():
    assert "^" not in SAFE_NAME.pattern.replace("[^", "")
    assert "$" not in SAFE_NAME.pattern
    assert SAFE_NAME.groups == 0


NUMBERED = [f"slide_{number:04d}" for number in range(1000)]


@pytest.mark.parametrize(
    "names",
    [
        ["S1"],
        ["A", "B", "C"],
        ["a", "ab", "abc", "b"],  # some are the beginning of others
        ["S 1", "S+1", "S-1", "S.1", "S_1", "S^1", "S]1", "S\\1"],
        ["+", "-", "]", "^", "\\", "."],
        ["Probe-ä", "Probe-ö", "Probe", "標本1", "標本2"],
        ["", "field-auto"],
        NUMBERED,
    ],
)
def test_a_constraint_allows_the_names_and_no_others(names):
    made = re.compile(one_of(names))
    assert all(made.fullmatch(name) for name in names)
    near = {name[:-1] for name in names} | {f"{name}{end}" for name in names for end in "1x/]"}
    near |= {name.swapcase() for name in names} | {name.replace(".", "x") for name in names}
    assert not [name for name in near - set(names) if made.fullmatch(name)]
    assert one_of(reversed([*names, *names])) == one_of(names)  # in each parse the same
    assert not set(one_of(names)) & set("{}")  # which Snakemake would fill in


def test_a_constraint_of_no_names_allows_nothing():
    made = re.compile(one_of([]))
    assert one_of([""]) == one_of([])
    assert not any(made.fullmatch(text) for text in ("", "a", "(?!)"))


def test_a_constraint_of_many_names_is_short():
    assert len(one_of(NUMBERED)) < len("|".join(NUMBERED)) / 7
