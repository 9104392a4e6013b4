"""Pairs from names of files and folders: what is found, and which names mean what."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path

import pytest

from unglow.workflow.samples.discovery import discover
from unglow.workflow.samples.naming import (
    NAME_RULES,
    SAFE_NAME,
    explain_unsafe,
    one_of,
    safe_version,
    take_apart,
)

PROJECT = Path(__file__).parents[3]


def fill(root: Path, *names: str) -> Path:
    for name in names:
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"II*\0")
    return root


def only_problem(raw: Path, kind: str):
    found = discover(raw)
    assert [p.kind for p in found.problems] == [kind]
    message = found.problems[0].message
    assert message.endswith(".")
    assert "\n" not in message
    return found.problems[0]


def test_pairs_are_found_and_sorted(tmp_path):
    raw = fill(
        tmp_path / "raw",
        "S2/pre_DAPI.tif",
        "S2/post_DAPI.tif",
        "S1/S1_PRE_Cy 3.TIF",
        "S1/S1_Post_Cy 3.tiff",
        "S1/pre_run3_DAPI.tif",
        "S1/PostStain_DAPI.tif",
        "S1/truth.json",
        "S1/.hidden_pre_DAPI.tif",
        "S1/._post_DAPI.tif",
        ".cache/pre_X.tif",
    )
    found = discover(raw)
    assert found.problems == ()
    assert [p.key for p in found.pairs] == [("S1", "Cy 3"), ("S1", "DAPI"), ("S2", "DAPI")]
    pair = found.pairs[1]
    assert pair.pre == raw / "S1" / "pre_run3_DAPI.tif"
    assert pair.post == raw / "S1" / "PostStain_DAPI.tif"
    assert pair.rule == ("pre: 'pre' as a whole word; post: 'post' as a whole word in 'PostStain'")
    assert (pair.channel, pair.series, pair.manual_scale) == (None, None, None)
    assert "2 sample folders" in found.layout


@pytest.mark.parametrize(
    ("names", "kind", "parts"),
    [
        ("pre_post_X.tif", "both-markers", "'pre_X.tif' 'post_X.tif'"),
        ("before-after_X.tif", "both-markers", "'before_X.tif'"),
        ("pre/n_post_X.tif", "both-markers", "post"),
        ("scan_X.tif", "no-marker", "'scan_pre_X.tif' 'scan_post_X.tif'"),
        ("postDAPI.tif", "no-underscore", "'post_DAPI.tif'"),
        ("n3-pre-post-X.tif", "no-underscore", "'pre_n3-X.tif' 'post_n3-X.tif'"),
        ("S_after.tif", "no-underscore", "'after_S.tif'."),
        ("zoo_before_GFP.tif", "missing-partner", "'zoo_after_GFP.tif'"),
        ("Unstained_X.tif", "missing-partner", "'Stained_X.tif'"),
        ("X-signal.tif", "missing-partner", "'blank_X.tif'"),
        ("After/X.tif", "missing-partner", "'Before/X.tif'"),
        ("S_PostStain_X.tif", "missing-partner", "'S_PreStain_X.tif'"),
        ("post_.tif", "empty-dye", "'post_DAPI.tif'"),
        ("post_a{b}.tif", "unsafe-name", "'post_a-b.tif'"),
        ("pre_X.tif pre2_X.tif post_X.tif", "two-pre", "pre2_X.tif, pre_X.tif"),
        ("pre_X.tif post_X.tif post_X.tiff", "two-post", "post_X.tif, post_X.tiff"),
        ("pre_dapi.tif post_DAPI.tif", "dye-spelling", "pre_dapi.tif post_DAPI.tif"),
        ("pre_Alexa_488.tif post_Alexa488.tif", "dye-spelling", "488) Alexa488) underscore"),
        ("pre_Syto9.tif post_Sytoo9.tif", "dye-spelling", "Syto9) Sytoo9)"),
        ("a/deep/pre_X.tif", "nested", "a/deep/pre_X.tif"),
        ("pre_X.tif post_X.tif blank/X.tif", "nested", "blank/X.tif"),  # names say it already
    ],
)
def test_names_that_cannot_be_used(tmp_path, names, kind, parts):
    raw = fill(tmp_path / "raw", *(f"S/{name}" for name in names.split()))
    problem = only_problem(raw, kind)
    assert problem.sample == "S"
    for part in parts.split():
        assert part in problem.message
    assert all(path.exists() for path in problem.paths)


def test_dyes_that_differ_in_a_number_are_not_a_slip(tmp_path):
    raw = fill(tmp_path, "S/pre_Alexa488.tif", "S/post_Alexa405.tif")
    assert [p.kind for p in discover(raw).problems] == ["missing-partner"] * 2


@pytest.mark.parametrize("sample", ["a..b", "S{1}", "-x", "S*", "telemetry", "benchmarks"])
def test_sample_folders_that_cannot_be_results(tmp_path, sample):
    raw = fill(tmp_path, f"{sample}/pre_X.tif", f"{sample}/post_X.tif")
    problem = only_problem(raw, "unsafe-name")
    assert "rename the folder" in problem.message
    assert discover(raw).pairs == ()


def test_loose_files_are_named_next_to_good_samples(tmp_path):
    raw = fill(tmp_path, "S/pre_X.tif", "S/post_X.tif", "a.tif", "b.tif", "c.tif", "d.tif")
    problem = only_problem(raw, "loose-files")
    assert "a.tif, b.tif, c.tif and 1 more lie directly in" in problem.message
    assert f"{raw}/<sample>/<anything with pre or post>_<dye>.tif" in problem.message
    assert len(discover(raw).pairs) == 1


@pytest.mark.parametrize("rule", NAME_RULES, ids=lambda rule: rule.pre)
def test_names_are_found_by_each_rule_of_the_table(tmp_path, rule):
    raw = fill(tmp_path / "Rock7" / "raw", rule.pre, rule.post)
    found = discover(raw)
    assert not found.problems
    assert [(p.key, p.pre, p.post) for p in found.pairs] == [
        (("Rock7", "SYTO9"), raw / rule.pre, raw / rule.post)
    ]
    assert rule.about in (PROJECT / "config" / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("pre", "post", "dye"),
    [
        *(("zoo_before_GFP", "zoo_after_GFP", "GFP"), ("Unstained_X", "Stained_X", "X")),
        *(("un-stained_X", "stained_X", "X"), ("S blank X", "S signal X", "X")),
        *(("n3-pre-SYTO9", "n3-post-SYTO9", "SYTO9"), ("after-S_pre_X", "after-S_post_X", "X")),
        *(("pre-Alexa-488", "post-Alexa-488", "Alexa-488"), ("S-X-pre", "S-X-post", "X")),
        *(("A_DAPI_pre", "A_DAPI_PostStain", "DAPI"), ("X_blank", "X_signal", "X")),
        *(("Before staining/X", "after staining/X", "X"), ("pre/n_X", "post/n_X", "X")),
        *(("vor_X", "nach_X", "X"), ("S-nicht gefärbt_X", "S-gefärbt_X", "X")),
        *(("avant_X", "après_X", "X"), ("a_avant_X", "a_apres_X", "X")),
        *(("non_coloré_X", "coloré_X", "X"), ("Ungefaerbt_X", "Gefaerbt_X", "X")),
        *(("S - before stain - X", "S - after stain - X", "X"), ("pre-wash", "post-wash", "wash")),
        *(("pre/n_pre_X", "post/n_X", "X"), ("Presley_before_X", "Presley_after_X", "X")),
    ],
)
def test_other_ways_to_say_pre_and_post(tmp_path, pre, post, dye):
    raw = fill(tmp_path, f"S/{pre}.tif", f"S/{post}.tif", "other/pre_Y.tif", "other/post_Y.tif")
    found = discover(raw)
    assert not found.problems
    assert [p.key for p in found.pairs] == [("S", dye), ("other", "Y")]
    assert (found.pairs[0].pre, found.pairs[0].post) == (
        raw / f"S/{pre}.tif",
        raw / f"S/{post}.tif",
    )


def test_an_image_without_a_word_is_named_as_the_partner_that_is_missing(tmp_path):
    raw = fill(tmp_path / "photos", "R3_X_blank.tif", "R3_X.tif", "R4_X_blank.tif", "R5_X.tif")
    found = {p.sample: p.message for p in discover(raw).problems if p.kind == "missing-partner"}
    assert "rename R3_X.tif as 'R3_signal_X.tif'" in found["R3"]
    assert "R5_X" not in found["R4"]


def test_other_words_make_no_pair_of_a_slide_and_no_problem_of_a_picture(tmp_path):
    raw = fill(tmp_path, "S/cycle1_blank.tif", "S/cycle2_signal.tif", "S/signal.png")
    found = discover(raw, mapped=True)
    assert [slide.name for slide in found.slides] == ["S"]
    assert not found.pairs
    assert not found.problems


def test_landmarks_belong_to_the_image_next_to_them(tmp_path):
    raw = fill(tmp_path, "S/pre/n_X.tif", "S/post/n_X.tif", "S/post/n_X.landmarks.csv")
    (pair,) = discover(raw).pairs
    assert pair.landmarks == (raw / "S" / "post" / "n_X.landmarks.csv",)


def test_images_of_one_sample_as_the_current_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(fill(tmp_path / "S", "pre_X.tif", "post_X.tif", "notes/readme.txt"))
    found = discover(Path())
    assert [p.key for p in found.pairs] == [("S", "X")]
    assert found.layout == ".: the images of S"


def test_folders_for_all_images_before_and_after(tmp_path):
    raw = fill(tmp_path / "S", "before/n_X.tif", "after/n_X.tif", "notes/readme.txt")
    assert [p.key for p in discover(raw).pairs] == [("S", "X")]
    fill(raw, "before/m_X.tif")  # of another sample
    found = discover(raw)
    assert [p.key for p in found.pairs] == [("n", "X")]
    assert [(p.kind, p.sample, p.dye) for p in found.problems] == [("missing-partner", "m", "X")]


@pytest.mark.parametrize(
    ("files", "keys"),
    [
        ("before/R1_D before/R2_D after/R1_D after/R2_D", "R1/D R2/D"),
        ("d1_pre/R1_D d1_pre/R2_D d2_post/R1_D d2_post/R2_D", "R1/D R2/D"),
        ("A_before/D A_after/D B_before/D B_after/D", "A/D B/D"),
        ("R1_pre_D R1_post_D R2_pre_D R2_post_D", "R1/D R2/D"),
        ("Presley_pre_D Presley_post_D x_pre_D x_post_D", "Presley/D x/D"),
        ("A_D_pre A_D_post B_D_pre B_D_post", "A/D B/D"),
        ("day1/R1_pre_D day1/R2_pre_D day2/R1_post_D day2/R2_post_D", "R1/D R2/D"),
        ("day1/R1_pre_D day2/R1_post_D day1/S_pre_E day1/S_post_E", "R1/D day1/E"),
        ("day1/R1/pre_D day2/R1/post_D day1/R2/pre_D day2/R2/post_D", "R1/D R2/D"),
        ("e1/S1/pre_D e1/S1/post_D e2/S1/pre_D e2/S1/post_D", "e1-S1/D e2-S1/D"),
        ("pre/R1/R1_D pre/R2/R2_D post/R1/R1_D post/R2/R2_D", "R1/D R2/D"),
        ("d1_before/R1/D d1_before/R2/D d2_after/R1/D d2_after/R2/D", "R1/D R2/D"),
        ("pre/R1/R1_pre_D pre/R1/R1_post_D", "pre-R1/D"),  # names say it themselves
        ("R1/D_R1_pre R1/D_R1_post R1/E_R1_pre R1/E_R1_post", "R1/D R1/E"),
        ("R1/R1.pre.D R1/R1.post.D", "R1/D"),
        ("A-D-pre A-D-post B-D-pre B-D-post", "A/D B/D"),
        ("R1/R1-x-D-pre R1/R1-x-D-post", "R1/D"),
        ("R1/D/pre R1/D/post R1/E/before R1/E/after R2/D/pre R2/D/post", "R1/D R1/E R2/D"),
        ("A_pre_B/pre_D A_pre_B/post_D A_post_B/pre_D A_post_B/post_D", "A_post_B/D A_pre_B/D"),
        ("logs_pre_D logs_post_D b_pre_D b_post_D", "b/D sample-logs/D"),
    ],
)
def test_images_that_are_called_the_same_but_for_pre_and_post_are_pairs(tmp_path, files, keys):
    raw = fill(tmp_path / "raw", *(f"{name}.tif" for name in files.split()))
    found = discover(raw)
    assert not found.problems
    assert sorted("/".join(p.key) for p in found.pairs) == keys.split()
    for pair in found.pairs:
        pre, post = (str(p.relative_to(raw)) for p in (pair.pre, pair.post))
        assert files.split().count(pre.removesuffix(".tif")) == 1
        assert pre != post


def test_spaces_divide_names_without_an_underscore(tmp_path):
    names = [f"Section {i} DAPI {word}.tif" for i in (3, 4) for word in ("before", "after")]
    found = discover(fill(tmp_path, *names))
    assert [p.key for p in found.pairs] == [("Section 3", "DAPI"), ("Section 4", "DAPI")]
    assert not found.problems


def test_a_number_alone_is_no_dye(tmp_path):
    problem = only_problem(fill(tmp_path, "Section 3 before.tif"), "no-underscore")
    assert "names no dye" in problem.message


@pytest.mark.parametrize(
    ("files", "kinds"),
    [
        ("day1/R1_pre_D day2/R2_post_D", ["missing-partner"] * 2),
        ("day1/R_pre_D day2/R_post_D day3/R_post_D", ["missing-partner"] * 3),
        ("before/R1_D before/R2_D after/R1_D after/R3_D", ["missing-partner"] * 2),
        ("before/R1/D after/R2/D", ["missing-partner"] * 2),
        ("R1/D_c2_R1_pre R1/D_c2_R1_post", ["no-underscore"] * 2),
        ("A/scan_pre_D B/scan_post_D C/scan_pre_D C/scan_post_D", ["missing-partner"] * 2),
        ("S/a_pre_D S/a_post_D S/b_pre_D S/b_post_D", ["two-pre", "two-post"]),
    ],
)
def test_images_that_may_be_of_others_are_no_pairs(tmp_path, files, kinds):
    raw = fill(tmp_path / "raw", *(f"{name}.tif" for name in files.split()))
    assert [p.kind for p in discover(raw).problems] == kinds


def test_folders_without_tiffs_are_left_out_quietly(tmp_path):
    raw = fill(tmp_path, "S/pre_X.tif", "S/post_X.tif", "notes/readme.txt")
    found = discover(raw)
    assert found.problems == ()
    assert "left out: notes" in found.layout


@pytest.mark.parametrize(
    "ending",
    [".svs", ".SVS", ".NDPI", ".ndpi", ".btf", ".ome.btf", ".tf2", ".tf8", ".scn", ".qptiff"],
)
def test_files_of_scanners_are_found_by_the_same_rules(tmp_path, ending):
    raw = fill(tmp_path, f"S/pre_X{ending}", "S/post_X.tif")
    (pair,) = discover(raw).pairs
    assert (pair.dye, pair.pre.name) == ("X", f"pre_X{ending}")
    (raw / "S" / f"pre_X{ending}").rename(raw / "S" / f"pre{ending}")
    assert f"rename it, for example to 'pre_DAPI{ending}'" in " ".join(
        p.message for p in discover(raw).problems
    )


def test_ome_zarr_images_are_folders_and_no_samples(tmp_path):
    raw = fill(tmp_path, "S/pre_X.ome.zarr/zarr.json", "S/post_X.zarr/0/c/0/a.tif")
    (pair,) = discover(raw).pairs
    assert (pair.pre.name, pair.post.name) == ("pre_X.ome.zarr", "post_X.zarr")
    assert not discover(raw).problems
    fill(raw, "loose_X.zarr/zarr.json")
    assert "loose_X.zarr lies directly in" in only_problem(raw, "loose-files").message


def test_where_an_image_was_converted_the_tiff_is_taken(tmp_path):
    raw = fill(tmp_path, "S/pre_X.svs", "S/pre_X.ome.tif", "S/post_X.tiff", "S/post_X.ndpi")
    found = discover(raw)
    assert not found.problems
    assert [(p.pre.name, p.post.name) for p in found.pairs] == [("pre_X.ome.tif", "post_X.tiff")]


@pytest.mark.parametrize("ending", ["czi", "ND2", "lif", "vsi", "mrxs", "ims", "oib", "dcm", "jp2"])
def test_formats_that_are_not_read_are_reported_with_their_export(tmp_path, ending):
    raw = fill(tmp_path, f"S/pre run_X.{ending}", f"S/post_X.{ending}")
    problem = only_problem(raw, "unreadable-format")
    assert (problem.sample, problem.dye) == ("S", "X")
    assert f"`bfconvert -noflat -bigtiff post_X.{ending} post_X.ome.tif`" in problem.message
    assert "unglow does not read" in problem.message
    (tmp_path / "S" / f"post_X.{ending}").unlink()
    fill(tmp_path, "S/post_X.tif")  # one is read: the other is no missing partner
    problem = only_problem(raw, "unreadable-format")
    files = f"'pre run_X.{ending}' 'pre run_X.ome.tif'"
    assert f"`bfconvert -noflat -bigtiff {files}`" in problem.message


def test_what_was_exported_or_is_no_image_of_a_pair_is_not_reported(tmp_path):
    raw = fill(tmp_path, "S/pre_X.ome.tif", "S/post_X.tif", "S/pre_X.czi", "S/post_X.png")
    fill(raw, "S/overview.jpg", "S/acquisition.nd2", "S/post_X.oif.files/a.tif", "T/b.JPG")
    found = discover(raw)
    assert found.problems == ()
    nd2, jpg = found.notes  # but named, with what would make them readable: one for each format
    assert "`bfconvert -noflat -bigtiff acquisition.nd2 acquisition.ome.tif`" in nd2
    assert f"S/overview.jpg, T/b.JPG in {raw}." in jpg
    fill(tmp_path / "two", "slide.vsi", "S/scan.lif", "T/pre_X.tif", "T/post_X.tif", "T/notes.pdf")
    found = discover(tmp_path / "two")
    assert [(p.kind, p.sample, p.dye) for p in found.problems] == [
        ("unreadable-format", None, None),
        ("unreadable-format", "S", None),
    ]
    assert [p.key for p in found.pairs] == [("T", "X")]


UNREAD = {
    ".zip": "Unpack it next to it, for example with `unzip pre_X.zip`.",
    ".tif.gz": "`gunzip pre_X.tif.gz`.",
    ".tar": "`tar -xf pre_X.tar`.",
    **dict.fromkeys(
        [".mha", ".nrrd", ".mcd", ".webp", ".jxl", ".JPG", ".npy", ".afi", ".any0ending", ""],
        " pre_X.ome.tif`",
    ),
}


@pytest.mark.parametrize("ending", UNREAD)
def test_any_file_that_says_pre_or_post_is_named_with_what_helps(tmp_path, ending):
    raw = fill(tmp_path, f"S/pre_X{ending}", "S/post_X.tif", "T/pre_Y.tif", "T/post_Y.tif")
    problem = only_problem(raw, "unreadable-format")
    assert (problem.sample, problem.dye) == ("S", "X")
    assert problem.message.startswith(f"unglow does not read pre_X{ending} in {raw / 'S'}. ")
    assert UNREAD[ending] in problem.message
    (raw / "S" / "post_X.tif").rename(raw / "S" / f"post_X{ending}")
    problem = only_problem(raw, "unreadable-format")  # one sentence for both
    assert (problem.sample, problem.dye, len(problem.paths)) == ("S", "X", 2)
    fill(raw, "S/pre_X.tif", "S/post_X.ome.zarr/zarr.json")  # unpacked or exported
    assert not discover(raw).problems


def test_other_words_and_folders_name_files_that_are_not_read_too(tmp_path):
    raw = fill(tmp_path, "S/before_X.mha", "S/after_X.tif", "T/pre/Y.afi", "T/post/Y.tif")
    found = [(p.kind, p.sample, p.dye) for p in discover(raw).problems]
    assert found == [("unreadable-format", "S", "X"), ("unreadable-format", "T", "Y")]


def test_images_in_zip_files_are_pairs(tmp_path):
    raw = fill(tmp_path, "S/pre_X.ozx", "S/post_X.ome.zarr.zip", "T/pre/Y.OZX", "T/post/Y.tif")
    found = discover(raw)
    assert not found.problems
    assert [p.key for p in found.pairs] == [("S", "X"), ("T", "Y")]


def test_files_that_are_no_images_are_left_out_quietly(tmp_path):
    raw = fill(tmp_path, "S/pre_X.tif", "S/post_X.tif", "S/post_notes/a.txt", "S/post_X.roi.zip")
    endings = "xml txt json csv TSV md5 tif.sha256 log docx pdf yaml"
    fill(raw, *(f"S/post_Y.{ending}" for ending in endings.split()))
    fill(raw, "S/Thumbs.db", "S/.DS_Store", "S/.pre_X.ozx", "S/desktop.ini", "S/x.zip", "S/README")
    assert not discover(raw).problems


def test_raw_directories_that_cannot_be_used(tmp_path):
    missing = only_problem(tmp_path / "nope", "no-raw")
    assert str(tmp_path / "nope") in missing.message
    assert "`unglow phantom`" in missing.message
    assert "--config raw=" in missing.message
    file = fill(tmp_path, "raw.tif") / "raw.tif"
    assert "is a file" in only_problem(file, "no-raw").message
    (tmp_path / "empty").mkdir()
    assert "is empty" in only_problem(tmp_path / "empty", "no-images").message
    notes = fill(tmp_path / "n", "S/readme.txt")
    assert "(S) holds no images that are read (.tif" in only_problem(notes, "no-images").message
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    assert "does not exist" in only_problem(tmp_path / "link", "dangling-link").message


def test_links_are_followed_and_dangling_ones_named(tmp_path):
    store = fill(tmp_path / "store", "one.tif", "sample/pre_Y.tif", "sample/post_Y.tif")
    raw = fill(tmp_path / "raw", "S/post_X.tif")
    (raw / "S" / "pre_X.tif").symlink_to(store / "one.tif")
    (raw / "T").symlink_to(store / "sample")
    assert [p.key for p in discover(raw).pairs] == [("S", "X"), ("T", "Y")]
    (store / "one.tif").unlink()
    problem = only_problem(raw, "dangling-link")
    assert (problem.sample, problem.dye) == ("S", "X")
    assert str(store / "one.tif") in problem.message


def test_two_folders_of_one_name_in_two_unicode_spellings(tmp_path):
    names = [unicodedata.normalize(form, "Gewebeprobe ä") for form in ("NFC", "NFD")]
    raw = fill(tmp_path, *(f"{n}/{m}_X.tif" for n in names for m in ("pre", "post")))
    if len(list(raw.iterdir())) < 2:
        pytest.skip("this file system does not distinguish the two spellings")
    assert only_problem(raw, "same-name").sample == names[0]
    assert discover(raw).pairs == ()


@pytest.mark.parametrize(
    ("name", "sample", "markers", "dye", "rule"),
    [
        ("pre_DAPI.tif", "S1", ("pre",), "DAPI", "whole word"),
        ("POST_DAPI.TIFF", "S1", ("post",), "DAPI", "whole word"),
        ("S1_PreStain_DAPI.tif", "S1", ("pre",), "DAPI", "'PreStain'"),
        ("S1_prestain_DAPI.tif", "S1", ("pre",), "DAPI", "word of staining in 'prestain'"),
        ("S1_pre_run3_DAPI.tif", "S1", ("pre",), "DAPI", "whole word"),
        ("S1_samplepost_DAPI.tif", "S1", ("post",), "DAPI", "part of a word in 'samplepost'"),
        # Words that merely contain the letters.
        ("sample_prepared_post_DAPI.tif", "S1", ("post",), "DAPI", "whole word"),
        ("Presley_post_DAPI.tif", "Presley", ("post",), "DAPI", "whole word"),
        ("presley2_Prestain_DAPI.tif", "Presley2", ("pre",), "DAPI", "word of staining"),
        ("Cypress1_post_X.tif", "Cypress1", ("post",), "X", "whole word"),
        ("compost_pre_X.tif", "S1", ("pre",), "X", "whole word"),
        ("Pre-op_1_pre_X.tif", "pre op 1", ("pre",), "X", "whole word"),
        # The dye is never searched, and the sample's name is a last resort.
        ("post_PreRed.tif", "S1", ("post",), "PreRed", "whole word"),
        ("post_DAPI.tif", "post", ("post",), "DAPI", "whole word"),
        # Neither, or both.
        ("S1_DAPI.tif", "S1", (), "DAPI", ""),
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
    assert explain_unsafe(parts.dye) is None


@pytest.mark.parametrize(
    "name",
    [
        "S1",
        "Sample 1",
        "样品1",
        "a.b",
        "CD3+",
        "x-1_2",
        "7",
        "S" * 19,
        "Sample 10 " * 7 + "0123456789",
    ],
)
def test_safe_names(name):
    assert explain_unsafe(name) is None
    assert safe_version(name) == name


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "a..b", "a/b", "a\\b", ".a", "-a", "+a", "_a", " a", "a ", "a.", "a  b", "a\n",
     "a\tb", "a\x00", "a{b}", "a*", "a?", "a[b]", "a,b", "a:b", "a=b", "a'b", 'a"b', "~", "$a",
     "Sample 10 " * 7 + "0123456789a", "S" * 20, "x" + "ab" * 20,
     "".join(map(chr, range(0x20000, 0x20040)))],
)  # fmt: skip
def test_unsafe_names_and_what_they_could_be(name):
    assert explain_unsafe(name) is not None
    assert explain_unsafe(safe_version(name)) is None


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
