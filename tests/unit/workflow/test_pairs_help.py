"""Files and dyes that help a pair: found next to images, named in the sheet, checked up front."""

from __future__ import annotations

import json

import numpy as np
import pytest
import raw_slides
import tifffile

from unglow.cli import main
from unglow.core.errors import ConfigError
from unglow.workflow import job_params
from unglow.workflow.batch import Batch
from unglow.workflow.job_resources import demand_of
from unglow.workflow.samples.discovery import discover
from unglow.workflow.samples.pair import Pair, map_sources
from unglow.workflow.samples.sheet import read_sheet, sheet_text

MARKS = "x,y\n10,10\n60,70\n"
BOTH = "post_x,post_y,pre_x,pre_y\n10,10,12,9\n60,70,63,68\n"
UNIT = "1 0 0\n0 1 0\n0 0 1\n"
HEADER = "sample\tdye\tpre\tpost"


def add_pair(work, sample="A", dye="X", shape=(96, 80)):
    return raw_slides.pair(work, sample, dye, shape)


def names(dye, sample="A", registration=""):
    return {"sample": sample, "dye": dye, "registration": registration}


# ------------------------------------------------------------------------------ next to the images


def test_landmarks_next_to_the_images_are_found_by_their_names(tmp_path):
    folder = add_pair(tmp_path)
    (folder / "post_X.landmarks.csv").write_text(MARKS)
    (folder / "PRE_x.Landmarks.TSV").write_text(MARKS)
    (folder / "other.csv").write_text("no landmarks")
    add_pair(tmp_path, dye="Y")
    (folder / "pre_Y.landmarks.txt").write_text(BOTH)
    found = discover(tmp_path / "raw")
    assert found.problems == ()
    marks = [[file.name for file in pair.landmarks] for pair in found.pairs]
    assert marks == [["post_X.landmarks.csv", "PRE_x.Landmarks.TSV"], ["pre_Y.landmarks.txt"]]
    batch = Batch.load({}, tmp_path)
    assert batch.problems == ()
    assert job_params.register_inputs(batch, names("X")) == {
        "landmarks": [str(folder / name) for name in marks[0]]
    }


def test_an_ome_tiff_is_named_without_its_double_ending(tmp_path):
    folder = add_pair(tmp_path)
    (folder / "post_X.tif").rename(folder / "post_X.ome.tif")
    (folder / "post_X.landmarks.csv").write_text(BOTH)
    (pair,) = discover(tmp_path / "raw").pairs
    assert [file.name for file in pair.landmarks] == ["post_X.landmarks.csv"]


def test_landmarks_of_no_image_and_two_of_one_are_named(tmp_path):
    folder = add_pair(tmp_path)
    (folder / "post_Z.landmarks.csv").write_text(MARKS)
    add_pair(tmp_path, dye="Y")
    for ending in ("csv", "tsv"):
        (folder / f"post_Y.landmarks.{ending}").write_text(BOTH)
    found = discover(tmp_path / "raw")
    assert [pair.dye for pair in found.pairs] == ["X"]
    lonely, two = found.problems
    assert lonely.kind == "lonely-landmarks"
    assert "post_Z.landmarks.csv: no image " in lonely.message
    assert (two.kind, two.dye) == ("several-files", "Y")
    assert "(post_Y.landmarks.csv, post_Y.landmarks.tsv); keep one." in two.message


def add_with_help(place, ending, text):
    """Make two pairs, and a file next to the post image of the first, A X."""
    folder = add_pair(place)
    add_pair(place, "B")
    (folder / f"post_X.{ending}").write_text(text)


def left_out(place):
    """Return the problem for which of these pairs the first alone is left out."""
    batch = Batch.load({}, place)
    assert list(batch.pairs) == [("B", "X")]
    (problem,) = batch.problems
    assert (problem.sample, problem.dye) == ("A", "X")
    return problem


# -------------------------------------------------------------------------------- in a sample sheet


@pytest.fixture
def base(tmp_path):
    for name in ("a.tif", "b.tif"):
        tifffile.imwrite(tmp_path / name, np.zeros((96, 80), np.uint8))
    (tmp_path / "marks.csv").write_text(MARKS)
    (tmp_path / "both.csv").write_text(BOTH)
    (tmp_path / "start.txt").write_text(UNIT)
    return tmp_path


def row(base, **cells):
    columns = {"sample": "S", "dye": "X", "pre": "a.tif", "post": "b.tif"} | cells
    path = base / "samples.tsv"
    path.write_text("\n".join("\t".join(line) for line in (columns, columns.values())) + "\n")
    return path


def test_the_sheet_names_files_and_a_dye_and_is_written_back(base):
    path = row(
        base,
        landmarks_pre="marks.csv",
        landmarks_post="./marks.csv",
        initial_transform="start.txt",
        register_from="X",
    )
    (pair,) = read_sheet(path, base=base).pairs
    assert pair.landmarks == (base / "marks.csv", base / "marks.csv")  # post first
    assert pair.initial_transform == base / "start.txt"
    assert pair.register_from == "X"
    text = sheet_text([pair], base)
    assert text.splitlines() == [
        f"{HEADER}\tlandmarks_post\tlandmarks_pre\tinitial_transform\tregister_from",
        "S\tX\ta.tif\tb.tif\tmarks.csv\tmarks.csv\tstart.txt\tX",
    ]
    batch = Batch.load({"samples": "samples.tsv"}, base)
    assert job_params.register_inputs(batch, names("X", "S")) == {
        "landmarks": [str(base / "marks.csv")] * 2,
        "initial": [str(base / "start.txt")],
    }
    assert "from" not in job_params.register_settings(batch, names("X", "S"))
    one = Pair("S", "X", base / "a.tif", base / "b.tif", landmarks=(base / "both.csv",))
    assert sheet_text([one], base).splitlines()[0] == f"{HEADER}\tlandmarks"


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ({"landmarks": "none.csv"}, "line 2, column 'landmarks': there is no "),
        ({"landmarks": "."}, "column 'landmarks': . is a directory; name the file in it."),
        ({"landmarks_post": "marks.csv"}, "column 'landmarks_pre': the cell is empty, but both"),
        ({"landmarks_pre": "marks.csv"}, "column 'landmarks_post': the cell is empty, but both"),
        (
            {"landmarks": "both.csv", "landmarks_pre": "marks.csv"},
            "line 2, column 'landmarks': it holds both images; leave the other two empty.",
        ),
        ({"initial_transform": "star.txt"}, "did you mean "),
    ],
)
def test_files_that_are_not_there_are_named_with_line_and_column(base, cells, message):
    found = read_sheet(row(base, **cells), base=base)
    assert found.pairs == ()
    (problem,) = found.problems
    assert message in problem.message
    assert (problem.sample, problem.dye) == ("S", "X")


def test_a_bad_initial_transform_leaves_out_its_pair(base):
    path = row(base, initial_transform="start.txt")
    path.write_text(path.read_text() + "S\tY\ta.tif\tb.tif\t\n")
    (base / "start.txt").write_text("1 0 900\n0 1 0\n0 0 1\n")
    batch = Batch.load({"samples": "samples.tsv"}, base)
    assert list(batch.pairs) == [("S", "Y")]
    assert "wholly outside of the pre-stain image" in batch.problems[0].message


# -------------------------------------------------------------------------- regions drawn on post


def drawn(*corners, name="Exclude"):
    (x0, y0), (x1, y1) = corners
    ring = [[x0, y0], [x1, y0], [x1, y1], [x0, y1], [x0, y0]]
    return json.dumps(
        {
            "type": "Feature",
            "geometry": {"type": "Polygon", "coordinates": [ring]},
            "properties": {"objectType": "annotation", "classification": {"name": name}},
        }
    )


def test_regions_next_to_the_post_image_are_found_and_read_by_the_search_alone(tmp_path):
    folder = add_pair(tmp_path)
    (folder / "POST_x.Regions.GeoJSON").write_text(drawn((2, 2), (9, 9)))
    add_pair(tmp_path, dye="Y")
    batch = Batch.load({}, tmp_path)
    assert batch.problems == batch.notes == ()
    assert job_params.drawn_regions(batch, names("X")) == [str(folder / "POST_x.Regions.GeoJSON")]
    assert job_params.drawn_regions(batch, names("Y")) == []
    assert job_params.register_inputs(batch, names("X")) == {}
    assert (
        demand_of(batch, "detect", names("X")).fixed > demand_of(batch, "detect", names("Y")).fixed
    )


def test_regions_of_pre_of_no_image_and_two_of_one_are_named(tmp_path):
    folder = add_pair(tmp_path)
    (folder / "pre_X.regions.geojson").write_text("")
    (folder / "post_Z.regions.geojson").write_text("")
    add_pair(tmp_path, dye="Y")
    for name in ("post_Y.regions.geojson", "post_Y.REGIONS.geojson"):
        (folder / name).write_text("")
    found = discover(tmp_path / "raw")
    assert found.pairs == ()
    messages = {problem.dye: problem.message for problem in found.problems}
    assert "post_Z.regions.geojson: no image " in messages[None]
    assert "pre_X.regions.geojson is of the pre-stain image" in messages["X"]
    assert "has 2 files of regions " in messages["Y"]


@pytest.mark.parametrize("ending", ["regions.geojson", "landmarks.csv"])
def test_a_directory_of_such_a_name_is_not_ignored(tmp_path, ending):
    folder = add_pair(tmp_path)
    add_pair(tmp_path, "B")
    (folder / f"post_X.{ending}").mkdir()
    assert f"post_X.{ending}" in left_out(tmp_path).message
    (folder / f"post_X.{ending}").rename(folder / f"other.{ending}")
    (problem,) = Batch.load({}, tmp_path).problems
    assert f"other.{ending}: no image " in problem.message


def test_what_is_of_another_class_is_reported(tmp_path):
    folder = add_pair(tmp_path)
    (folder / "post_X.regions.geojson").write_text(drawn((2, 2), (9, 9), name="Tumor"))
    (note,) = Batch.load({}, tmp_path).notes
    assert "post_X.regions.geojson: 1 feature of class 'Tumor' left aside" in note


def test_the_sheet_names_regions_and_is_written_back(base):
    (base / "drawn.geojson").write_text(drawn((2, 2), (9, 9)))
    (pair,) = read_sheet(row(base, regions="drawn.geojson"), base=base).pairs
    assert pair.regions == base / "drawn.geojson"
    assert pair.files[-1] == pair.regions
    assert sheet_text([pair], base).splitlines() == [
        f"{HEADER}\tregions",
        "S\tX\ta.tif\tb.tif\tdrawn.geojson",
    ]
    (problem,) = read_sheet(row(base, regions="draw.geojson"), base=base).problems
    assert "column 'regions': there is no " in problem.message
    assert "did you mean" in problem.message


# --------------------------------------------------------------------------- the map of another dye


def pairs_of(**wanted):
    """Pairs of a sample, by dye, with what their register_from says."""
    made = [Pair("S", dye, *2 * [None], register_from=source) for dye, source in wanted.items()]
    return {pair.key: pair for pair in made}


def sources_of(pairs, dye=None, shapes=None):
    return map_sources(pairs, shapes or dict.fromkeys(pairs, (1, 1)), dye)


def test_one_dye_gives_its_map_to_the_others_and_cells_override_it():
    found, problems = sources_of(pairs_of(A=None, B=None, C="C", D="C"), "A")
    assert found == {("S", "B"): "A", ("S", "D"): "C"}
    assert problems == []
    assert sources_of(pairs_of(A=None, B=None)) == ({}, [])


@pytest.mark.parametrize(
    ("wanted", "dye", "left_out", "message"),
    [
        ({"B": None, "C": None}, "A", ["B", "C"], "A, which this sample has not, or not in usable"),
        ({"A": None, "B": "a"}, None, ["B"], "(other dyes: A); add the images of a, or let it reg"),
        ({"A": None, "B": "A", "C": "B"}, None, ["C"], "the map of B, which takes that of A inst"),
        ({"A": "B", "B": "A"}, None, ["A", "B"], "the map of B, which takes that of A instead of"),
    ],
)
def test_a_dye_that_is_absent_or_takes_its_map_elsewhere_is_refused(wanted, dye, left_out, message):
    found, problems = sources_of(pairs_of(**wanted), dye)
    assert [p.dye for p in problems] == left_out
    assert message in problems[0].message
    assert problems[0].message.startswith(f"Sample S, dye {left_out[0]} is to take the map of ")
    assert "register_from" in problems[0].message
    assert not {("S", d) for d in left_out} & set(found)


def test_images_of_other_sizes_share_no_map():
    pairs = pairs_of(A=None, B="A")
    _, (problem,) = sources_of(pairs, shapes={("S", "A"): (1, 2), ("S", "B"): (1, 3)})
    assert "whose images have other sizes" in problem.message


def test_a_batch_knows_inputs_and_settings_of_pairs_that_take_a_map(tmp_path):
    for dye in ("X", "Y"):
        add_pair(tmp_path, dye=dye)
    add_pair(tmp_path, "B", dye="Y")
    add_pair(tmp_path, "C", dye="X")
    add_pair(tmp_path, "C", dye="Y", shape=(100, 80))
    batch = Batch.load({"register": {"from": "X"}}, tmp_path)
    assert batch.maps_from == {("A", "Y"): "X"}
    assert sorted(batch.pairs) == [("A", "X"), ("A", "Y"), ("C", "X")]
    assert [(p.sample, p.dye, p.kind) for p in batch.problems] == [
        ("B", "Y", "source"),
        ("C", "Y", "source"),
    ]
    assert job_params.register_inputs(batch, names("X")) == {}
    assert job_params.register_inputs(batch, names("Y")) == {
        "source": ["<results>/A/X/transform.json", "<results>/A/X/details/displacement.npz"]
    }
    assert job_params.register_settings(batch, names("Y")) == {
        **job_params.register_settings(batch, names("X")),
        "from": "X",
    }
    assert "from" not in job_params.register_settings(batch, names("X"))


def test_a_variant_takes_the_map_of_the_same_variant_and_from_is_not_swept(tmp_path):
    for dye in ("X", "Y"):
        add_pair(tmp_path, dye=dye)
    settings = {"register": {"from": "X"}, "sweep": {"register.blocks": [100, 200]}}
    batch = Batch.load(settings, tmp_path)
    found = job_params.register_inputs(batch, names("Y", registration="blocks-100"))
    assert found["source"][0] == "<results>/A/X/blocks-100/transform.json"
    with pytest.raises(ConfigError, match=r"'sweep\.register\.from'"):
        Batch.load({"sweep": {"register.from": ["X", "Y"]}}, tmp_path)


def test_a_dye_may_be_called_like_a_number(tmp_path):
    for dye in ("488", "555"):
        add_pair(tmp_path, dye=dye)
    assert Batch.load({"register": {"from": 488}}, tmp_path).maps_from == {("A", "555"): "488"}


def test_a_map_of_another_dye_and_an_initial_transform_exclude_each_other(base):
    path = row(base, initial_transform="start.txt", register_from="Y")
    path.write_text(path.read_text() + "S\tY\ta.tif\tb.tif\t\t\n")
    batch = Batch.load({"samples": "samples.tsv"}, base)
    assert list(batch.pairs) == [("S", "Y")]
    assert "has an initial transform as well; remove the latter" in batch.problems[0].message


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("landmarks.csv", MARKS, "post_X.landmarks.csv is alone, so it has to hold post_x"),
        (
            *("landmarks.csv", BOTH.replace("60,70", "160,70")),
            "(160.0, 70.0) is outside of the post-stain image",
        ),
        ("landmarks.csv", "", "post_X.landmarks.csv is empty"),
        ("regions.geojson", "[{", "post_X.regions.geojson, line 1: it is not JSON"),
        ("regions.geojson", drawn((200, 200), (300, 300)), "x 200 to 300, y 200 to 300, and so"),
    ],
)
def test_bad_landmarks_or_regions_leave_out_their_pair_alone(
    tmp_path, file, text, message, monkeypatch, capsys
):
    add_with_help(tmp_path, file, text)
    assert message in left_out(tmp_path).message
    monkeypatch.chdir(tmp_path)
    assert main(["survey"]) == 1
    shown = message.split(",")[0] if file == "regions.geojson" else message
    assert shown in " ".join(capsys.readouterr().out.split())
