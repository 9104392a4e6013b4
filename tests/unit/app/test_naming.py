"""Names by a pattern, and the pairs that named images make."""

from __future__ import annotations

from pathlib import Path

import pytest

from unglow.app.naming import NamedImage, NamePattern, guess, make_pairs, unique_images
from unglow.core.errors import InputError
from unglow.workflow.samples import Pair


@pytest.mark.parametrize(
    ("pattern", "name", "found"),
    [
        ("{sample}_{prepost}_{dye}", "A_untreated_SYTO9", ("pre", "A", "SYTO9")),
        ("{sample}_{prepost}_{dye}", "A_Treated_SYTO9", ("post", "A", "SYTO9")),
        ("{sample}/{dye}-{prepost}*", "Rock 7/DAPI-dry 003", ("pre", "Rock 7", "DAPI")),
        ("{prepost}/{sample}_{dye}", "treated/a_b_c", ("post", "a", "b_c")),
        ("{sample}_{prepost}", "A_untreated", ("pre", "A", "X")),
        ("*{prepost}*", "scan untreated 5", ("pre", "S", "X")),
        ("{sample}_{prepost}_{dye}", "A_other_SYTO9", None),
        ("{sample}_{prepost}_{dye}", "x/A_untreated_SYTO9/y", None),
        ("{sample}({prepost}).{dye}", "A(dry).D", ("pre", "A", "D")),
    ],
)
def test_a_pattern_reads_a_path(pattern, name, found):
    assert NamePattern(pattern, "untreated, dry", "treated").read(name, "S", "X") == found


@pytest.mark.parametrize(
    ("pattern", "pre", "post"),
    [
        *(("{sample}_{dye}", "a", "b"), ("{prepost}_{colour}", "a", "b"), ("{prepost}", "", "b")),
        *(
            ("{prepost}_{prepost}", "a", "b"),
            ("{prepost}", "a", "A"),
            ("{prepost}" + 300 * "x", "a", "b"),
        ),
        ("{prepost}" + 7 * "*a", "a", "b"),
    ],
)
def test_what_is_no_pattern_is_refused(pattern, pre, post):
    with pytest.raises(InputError):
        NamePattern(pattern, pre, post)


def test_a_long_name_that_nearly_fits_is_read_in_no_time():
    pattern = NamePattern("{sample}*a*a*a*a*a*{dye}_{prepost}", "pre", "post")
    assert pattern.read("a" * 120) is None


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("Rock3-before-DAPI.tif", ("pre", "Rock3", "DAPI")),
        ("Rock 6/post/SYTO9.tif", ("post", "Rock 6", "SYTO9")),
        ("brain/unstained.tif", ("pre", "brain", "")),
        ("pre/Rock7_DAPI.tif", ("pre", "Rock7", "DAPI")),
        ("Rock7/notes/scan_12.tif", ("", "notes", "")),
        ("pre_and_post_DAPI.tif", ("", "", "")),
        ("IMG_0042.tif", ("", "", "")),
    ],
)
def test_what_a_name_says_is_a_beginning(name, found):
    image = guess(Path("raw") / name, Path("raw"))
    assert (image.role, image.sample, image.dye) == found


def image(name, role, sample="S", dye="D"):
    return NamedImage(Path(name), role, sample, dye)


def test_images_make_pairs_and_keep_what_the_sheet_says_of_them():
    known = Pair("S", "D", Path("old"), Path("older"), control=True, channel="G")
    images = [image("a", "pre"), image("b", "post", " S "), image("c", "pre", "T")]
    pairs, problems = make_pairs([*images, image("d", "post", "T")], {known.key: known})
    assert not problems
    assert [(p.key, p.pre.name, p.post.name) for p in pairs] == [
        (("S", "D"), "a", "b"),
        (("T", "D"), "c", "d"),
    ]
    assert (pairs[0].control, pairs[0].channel, pairs[1].control) == (True, "G", False)


@pytest.mark.parametrize(
    ("images", "about"),
    [
        ([image("a", "pre")], "1 pre and 0 post"),
        ([image("a", "pre"), image("b", "pre"), image("c", "post")], "2 pre and 1 post"),
        ([image("a", "pre", "..")], "Sample '..'"),
        ([image("a", "pre", "telemetry")], "Sample 'telemetry'"),
        ([image("a", "post", dye="")], "Dye ''"),
        ([image("a", "both")], "neither pre nor post"),
    ],
)
def test_what_is_not_clear_is_said(images, about):
    assert any(about in problem for problem in make_pairs(images, {})[1])


def test_an_image_is_named_once():
    with pytest.raises(InputError, match="twice"):
        unique_images([image("a", "pre"), image("a", "post")])
