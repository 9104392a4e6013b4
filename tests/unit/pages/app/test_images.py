"""Small pictures of raw images, names by a pattern, and the pairs that named images make."""

from __future__ import annotations

import base64
import re
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
import tifffile

from unglow.core.errors import InputError
from unglow.images.raw_images import read_header
from unglow.pages.app import images
from unglow.pages.app.images import (
    LONGEST,
    NamedImage,
    NamePattern,
    Thumbnails,
    draw,
    guess,
    make_pairs,
    unique_images,
)
from unglow.workflow.config import load
from unglow.workflow.samples.pair import Pair


def gradient(rows, cols):
    """Brighter to the right, and a bright corner below."""
    image = np.tile(np.linspace(100, 1000, cols), (rows, 1))
    image[-rows // 4 :, : cols // 4] = 4000
    return image.astype(np.uint16)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"tile": (64, 64), "compression": "zlib"},
        {"rowsperstrip": 7, "compression": "zlib"},
        {"rowsperstrip": 600, "compression": "zlib"},
        {"photometric": "rgb"},
    ],
)
@pytest.mark.parametrize("most", [images._MOST_PX, 200_000])
def test_a_picture_looks_like_the_image(tmp_path, monkeypatch, options, most):
    monkeypatch.setattr(images, "_MOST_PX", most)
    image = gradient(600, 900)
    if "photometric" in options:
        image = np.stack([image // 16] * 3, axis=2).astype(np.uint8)
    tifffile.imwrite(tmp_path / "a.tif", image, **options)
    header = read_header(tmp_path / "a.tif")
    if most == 200_000 and options.get("rowsperstrip") == 600:
        with pytest.raises(images.InputError, match="one piece"):
            draw(header)
        return
    picture = draw(header)
    assert picture.shape == (round(600 * LONGEST / 900), LONGEST)
    assert picture[:40, -20:].mean() > picture[:40, :20].mean()
    assert picture[-10:, :20].mean() > 200


def test_a_picture_is_made_once_until_the_file_changes(tmp_path):
    file, made, settings = tmp_path / "a.tif", Thumbnails(), load({})
    tifffile.imwrite(file, gradient(60, 90))
    first = made.describe(file, settings)
    assert (first["about"], first["problem"]) == ("90 x 60 px, uint16", "")
    coded = np.frombuffer(base64.b64decode(first["picture"]), np.uint8)
    assert cv2.imdecode(coded, cv2.IMREAD_UNCHANGED).shape == (60, 90)
    assert made.describe(file, settings) is first
    tifffile.imwrite(file, gradient(64, 90))
    assert made.describe(file, settings)["about"] == "90 x 64 px, uint16"


def test_what_cannot_be_read_has_a_sentence(tmp_path):
    made, settings = Thumbnails(), load({})
    (tmp_path / "a.tif").write_bytes(b"II*\0" + 40 * b"\xff")
    tifffile.imwrite(tmp_path / "b.tif", gradient(400, 400), compression="zlib")
    content = (tmp_path / "b.tif").read_bytes()
    (tmp_path / "b.tif").write_bytes(content[:600] + bytes(200) + content[800:])
    for name in ("a.tif", "b.tif", "none.tif"):
        answer = made.describe(tmp_path / name, settings)
        assert answer["problem"], name
        assert not answer["picture"]


@pytest.mark.parametrize(
    ("harm", "why"),
    [
        ("np.ones(1 << 31)", f"Reading it takes more than {images._MOST_MB:.0f} MB."),
        ("(images.signal.alarm(1), images.threading.Event().wait())", "longer than"),
        ("images.os.abort()", "it may be damaged"),
        ("1 / 0", "it may be damaged"),
    ],
)
def test_what_reading_an_image_does_is_not_done_to_the_app(tmp_path, monkeypatch, harm, why):
    """A library that takes all memory or time, or crashes, reading one image of three."""
    package = tmp_path / "odd"
    package.mkdir()
    (package / "__main__.py").write_text(
        f"""if True:
        import numpy as np
        from unglow.pages.app import images
        read = images.read_header
        images.read_header = lambda p, **more: {harm} if p.stem == "bad" else read(p, **more)
        images._work()"""
    )
    started = images.subprocess.Popen
    monkeypatch.setattr(
        images.subprocess,
        "Popen",
        lambda words, **more: started([sys.executable, str(package)], **more),
    )
    made, settings = Thumbnails(), load({})
    for name in ("good", "bad", "other"):
        tifffile.imwrite(tmp_path / f"{name}.tif", gradient(60, 90))
    for name in ("good", "bad", "other"):
        answer = made.describe(tmp_path / f"{name}.tif", settings)
        assert (name, bool(answer["picture"]), why in answer["problem"]) == (
            name,
            name != "bad",
            name == "bad",
        )


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
        ("*{prepost}", "/x/dry", None),
        ("{sample}({prepost}).{dye}", "A(dry).D", ("pre", "A", "D")),
    ],
)
def test_a_pattern_reads_a_path(pattern, name, found):
    assert NamePattern(pattern, "untreated, dry", "treated").read(name, "S", "X") == found


LONGEST_PATTERN, MOST_STARS = "{prepost}" + 191 * "x", "{prepost}" + 6 * "*a"


@pytest.mark.parametrize(
    ("pattern", "pre", "post", "why"),
    [
        ("{sample}_{dye}", "a", "b", "The pattern needs {prepost}, where "),
        ("{prepost}_{colour}", "a", "b", "{colour} cannot be in a pattern, or not twice; use {sa"),
        ("{prepost}_{prepost}", "a", "b", "{prepost} cannot be in a pattern, or not twice; use "),
        ("{prepost}", "", "b", "Give a word for pre, and another one for post."),
        ("{prepost}", "a", "A", "Give a word for pre, and another one for post."),
        (
            LONGEST_PATTERN + "x",
            "a",
            "b",
            "A pattern has at most 200 characters and 6 stars: shorten it.",
        ),
        (MOST_STARS + "*", "a", "b", "A pattern has at most 200 characters and 6 stars: shorten "),
    ],
)
def test_what_is_no_pattern_is_refused(pattern, pre, post, why):
    with pytest.raises(InputError, match=f"^{re.escape(why)}"):
        NamePattern(pattern, pre, post)
    for accepted in (LONGEST_PATTERN, MOST_STARS):
        NamePattern(accepted, "a", "b")


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
        ([image("a", "pre", "x/y ")], "write another name, for example x-y."),
        ([image("a", "pre", " telemetry")], "unglow itself writes; write another name."),
        ([image("a", "pre", "telemetry/")], "start with a letter or digit; write another name."),
        ([image("a", "post", dye="")], "Dye '' of a is empty; write another name."),
        ([image("a", "both")], "a is neither pre nor post."),
    ],
)
def test_what_is_not_clear_is_said(images, about):
    pairs, problems = make_pairs(images, {})
    assert (pairs, sum(about in problem for problem in problems)) == ([], 1)
    assert len(make_pairs([*images, *images], {})[1]) == len(problems)  # each is said once


def test_an_image_is_named_once():
    with pytest.raises(InputError, match="twice"):
        unique_images([image("a", "pre"), image("a", "post")])
