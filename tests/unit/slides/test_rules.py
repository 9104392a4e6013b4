"""Slides of a run: how they are found, what is known of them before anything runs."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import tifffile
import yaml
from raw_slides import NAMES, TABLE, ome, pair, slide
from snakemake.rules import Wildcards

from unglow.core.errors import ConfigError, InputError
from unglow.core.windows import Window
from unglow.images.raw_images import open_reader
from unglow.images.slide_plan import KnownSlide
from unglow.slides.channels import choose_richest
from unglow.slides.rules import SLIDES, read_slides, remove_placeholders
from unglow.slides.slide import compute_expected_gains
from unglow.workflow import job_params
from unglow.workflow.batch import Batch
from unglow.workflow.config import load
from unglow.workflow.header_cache import CACHE, HeaderCache
from unglow.workflow.job_resources import demand_of, describe_job
from unglow.workflow.planned_jobs import final_outputs, jobs_of_slide
from unglow.workflow.samples.discovery import discover
from unglow.workflow.stage_table import CORRECTED


def problem_of(base, config=None):
    (problem,) = Batch.load(config or {}, base, SLIDES).problems
    return problem.message


def test_slides_and_pairs_are_found_side_by_side(tmp_path):
    slide(tmp_path)
    pair(tmp_path)
    batch = Batch.load({}, tmp_path, SLIDES)
    assert batch.keys == [("p1", "DAPI"), ("s1", "")]
    known = batch.slides["s1"].slide
    assert [one.name for one in known.kept] == ["DAPI", "CD3", "DAPI_2", "CD8"]
    assert known.moves == ((1, 2),)
    assert known.registered_on == {1: "DAPI", 2: "DAPI_2"}
    assert not batch.problems


def test_without_the_wing_of_slides_they_are_skipped(tmp_path):
    slide(tmp_path)
    pair(tmp_path)
    batch = Batch.load({}, tmp_path)
    assert batch.keys == [("p1", "DAPI")]
    assert [(one.kind, one.sample) for one in batch.problems] == [("slide", "s1")]


def test_one_image_for_each_cycle_in_the_order_in_which_people_count(tmp_path):
    table = "marker_name,background\n" + "".join(f"A{n},\nB{n},A1\n" for n in range(1, 12))
    for n in range(1, 12):
        ome(tmp_path / f"raw/s1/cycle{n}.ome.tif", ("a", "b"))
    (tmp_path / "raw/s1/markers.csv").write_text(table)
    known = Batch.load({}, tmp_path, SLIDES).slides["s1"].slide
    assert [image.name for image in known.images[8:]] == [f"cycle{n}.ome.tif" for n in (9, 10, 11)]
    assert [(one.image, one.cycle) for one in known.channels[-2:]] == [(10, 11), (10, 11)]
    assert [b for a, b in known.moves if a == 1] == [*range(2, 12)]  # each to the frame
    assert known.loops == tuple((n, n + 1) for n in range(2, 11))
    assert len(known.moves) == 19


def test_nothing_is_done_for_a_marker_that_is_removed(tmp_path):
    table = TABLE.replace(",200,", ",200,TRUE")
    slide(tmp_path, table=table)
    batch = Batch.load({}, tmp_path, SLIDES)
    known = batch.slides["s1"].slide
    assert known.subtracted == {"CD3": "AF"}
    assert known.moves == ((1, 2),)  # its nuclei are kept
    slide(tmp_path, table=table.replace("2,DAPI_2,,20,", "2,DAPI_2,,20,TRUE"))
    batch = Batch.load({}, tmp_path, SLIDES)
    assert batch.slides["s1"].slide.moves == ()
    assert "slide_register" not in {job.rule for job in jobs_of_slide(batch, "s1")}
    slide(tmp_path, table=re.sub(r"(CD3,AF,\d+,)", r"\1TRUE", table))
    pair(tmp_path)
    assert "removes all channels that have a background, so nothing would" in problem_of(tmp_path)


def test_names_and_exposure_times_of_the_image_stand_in_for_a_table(tmp_path):
    slide(tmp_path, table="", exposures=(0.02, 0.1, 0.1, 0.02, 0.2))
    config = {"multiplexed": {"backgrounds": {"AF": ["CD3", "CD8"]}}}
    known = Batch.load(config, tmp_path, SLIDES).slides["s1"].slide
    assert known.subtracted == {"CD3": "AF", "CD8": "AF"}
    assert known.channel("CD8").exposure == pytest.approx(200)
    bare = re.sub(r",\d+00?,", ",,", TABLE)
    slide(tmp_path, "s2", table=bare, exposures=(0.02, 0.1, 0.1, 0.02, 0.2))
    again = Batch.load({}, tmp_path, SLIDES).slides["s2"].slide
    assert again.channel("CD8").exposure == pytest.approx(200)


@pytest.mark.parametrize(
    ("change", "config", "sentence"),
    [
        ({"table": TABLE[: TABLE.rindex("2,CD8")]}, {}, "has 4 rows, but"),
        ({"names": NAMES[:4]}, {}, "image.ome.tif has 4 channels: give one row"),
        ({"dtype": np.complex64}, {}, "complex"),
        ({}, {"register": {"on": "CD8"}}, "of which cycle 1 has none (DAPI, AF, CD3)."),
        (
            {"table": TABLE.replace(",200,", ",,")},
            {"scale": {"methods": ["exposure"]}},
            "the exposure time of CD8 is not known",
        ),
    ],
)
def test_a_slide_that_cannot_be_used_is_left_out_with_a_sentence(
    tmp_path, change, config, sentence
):
    slide(tmp_path, "bad", **change)
    found, (problem,) = read_slides(
        discover(tmp_path / "raw").slides, load(config), HeaderCache(tmp_path / CACHE)
    )
    assert not found
    assert (problem.sample, problem.dye) == ("bad", None)
    assert sentence in problem.message


def test_backgrounds_in_a_circle_are_refused(tmp_path):
    pair(tmp_path)
    slide(tmp_path, table=TABLE.replace(",AF,,100,TRUE", ",AF,CD8,100,"))
    assert "subtracts backgrounds in a circle (AF from CD8 from AF)" in problem_of(tmp_path)
    slide(tmp_path, table="")
    (tmp_path / "raw/s1/markers.csv").unlink(missing_ok=True)
    config = {"multiplexed": {"backgrounds": {"AF": ["CD3"], "CD3": ["CD8"], "CD8": ["AF"]}}}
    assert "in a circle (AF from CD8 from CD3 from AF)" in problem_of(tmp_path, config)
    chain = {"multiplexed": {"backgrounds": {"AF": ["CD3"], "CD3": ["CD8"]}}}
    known = Batch.load(chain, tmp_path, SLIDES).slides["s1"].slide
    assert known.subtracted == {"CD3": "AF", "CD8": "CD3"}


def test_a_channel_name_that_no_file_can_have_is_refused(tmp_path):
    pair(tmp_path)
    slide(tmp_path, table=TABLE.replace("CD8", "é" * 101))
    assert "has a channel name of 202 bytes, 'ééé" in problem_of(tmp_path)
    slide(tmp_path, table=TABLE.replace("CD8", "é" * 100))
    assert not Batch.load({}, tmp_path, SLIDES).problems


def test_a_cycle_has_one_frame_and_cycles_may_differ(tmp_path):
    one_cycle = TABLE.replace("2,DAPI_2", "1,DAPI_2").replace("2,CD8", "1,CD8")
    slide(tmp_path, names=NAMES[:3])
    ome(tmp_path / "raw/s1/second.ome.tif", NAMES[3:], shape=(96, 120), dtype=np.uint8)
    pair(tmp_path)
    known = Batch.load({}, tmp_path, SLIDES).slides["s1"]
    assert (known.shape, known.dtype) == ((96, 128), "uint16")
    assert known.header_of(2).shape == (96, 120)
    wanted = {"multiplexed": {"reference": "DAPI_2"}}
    other = Batch.load(wanted, tmp_path, SLIDES).slides["s1"]
    assert (other.shape, other.slide.moves) == ((96, 120), ((2, 1),))
    assert "has no cycle '7'" in problem_of(tmp_path, {"multiplexed": {"reference": 7}})
    (tmp_path / "raw/s1/markers.csv").write_text(one_cycle.replace("cycle_number", "round"))
    ome(tmp_path / "raw/s1/third.ome.tif", NAMES[3:])
    assert "has 5 rows" in problem_of(tmp_path)
    (tmp_path / "raw/s1/markers.csv").write_text(TABLE)
    assert "has 2 cycles one after the other" in problem_of(tmp_path)


def test_a_cycle_can_have_several_images_but_an_image_one_cycle(tmp_path):
    for n in range(4):
        ome(tmp_path / f"raw/s1/{n}.ome.tif", ("a",))
    table = tmp_path / "raw/s1/markers.csv"
    head = "cycle_number,marker_name,background\n"
    table.write_text(f"{head}1,DAPI,\n1,AF,\n1,CD3,AF\n2,CD8,AF\n")
    known = Batch.load({}, tmp_path, SLIDES).slides["s1"].slide
    assert [(one.image, one.cycle) for one in known.channels] == [(0, 1), (1, 1), (2, 1), (3, 2)]
    (tmp_path / "raw/s1/3.ome.tif").unlink()
    ome(tmp_path / "raw/s1/2.ome.tif", ("a", "b"))  # of both cycles
    pair(tmp_path)
    assert "has 2 cycles one after the other" in problem_of(tmp_path)


def test_several_backgrounds_are_named_in_one_cell(tmp_path):
    two = TABLE.replace("2,DAPI_2,,20,", "2,AF_2,,100,TRUE").replace(",AF,200,", ",AF;AF_2,200,")
    slide(tmp_path, table=two)
    known = Batch.load({}, tmp_path, SLIDES).slides["s1"].slide
    assert known.subtracted == {"CD3": "AF", "CD8": "AF;AF_2"}
    assert known.channel("CD8").backgrounds == ("AF", "AF_2")
    assert compute_expected_gains(known, known.channel("CD8")) == (
        0,
        2,
    )  # in the cycle of the second
    record = job_params.slide_record(Batch.load({}, tmp_path, SLIDES), {"sample": "s1"})
    assert KnownSlide.from_dict(json.loads(json.dumps(record))).slide.channels == known.channels
    slide(tmp_path, table=two.replace("AF;AF_2", "AF;XY"))
    pair(tmp_path)
    assert "no channel is called 'XY'" in problem_of(tmp_path)
    slide(tmp_path, table=two.replace("AF;AF_2", "AF;AF"))
    assert "'AF' is named twice" in problem_of(tmp_path)
    slide(tmp_path, table=two.replace("2,AF_2,,100,TRUE", "2,AF_2,CD8,100,"))
    assert "in a circle (AF_2 from CD8 from AF_2)" in problem_of(tmp_path)


def test_a_table_without_an_image_says_what_to_add(tmp_path):
    pair(tmp_path)
    (tmp_path / "raw/s1").mkdir()
    (tmp_path / "raw/s1/markers.csv").write_text(TABLE)
    assert "no image is next to it" in problem_of(tmp_path)


def test_exposure_times_are_no_method_for_a_pair(tmp_path):
    slide(tmp_path)
    pair(tmp_path)
    assert "no exposure times are known" in problem_of(
        tmp_path, {"scale": {"methods": ["exposure"]}}
    )
    batch = Batch.load({"scale": {"methods": ["exposure", "linear"]}}, tmp_path, SLIDES)
    names = {"sample": "p1", "dye": "DAPI"}
    assert job_params.scale_settings(batch, names)["methods"] == ["linear"]
    assert job_params.slide_scale_settings(batch, {})["methods"] == ["exposure", "linear"]


@pytest.mark.parametrize(
    ("output", "images"),
    [
        ("tiff", ["corrected.ome.tif"]),
        ("zarr", ["corrected.ome.zarr/zarr.json"]),
        ("both", ["corrected.ome.tif", "corrected.ome.zarr/zarr.json"]),
    ],
)
def test_the_jobs_of_a_slide_and_what_they_take_are_planned(tmp_path, output, images):
    slide(tmp_path)
    batch = Batch.load({"multiplexed": {"output": output}}, tmp_path, SLIDES)
    jobs = {job.rule: job for job in jobs_of_slide(batch, "s1")}
    assert [*jobs] == ["slide_register", "slide_scale", "slide_subtract", "slide_figures"]
    made = [file for file in jobs["slide_subtract"].files if "corrected.ome" in file]
    assert made == [f"<results>/s1/{image}" for image in images]
    assert {*made} < {*final_outputs(batch)}
    known = {
        rule: describe_job(batch, rule, jobs[rule].wildcards, 0, missing=True) for rule in jobs
    }
    assert known["slide_register"]["title"] == "s1 1-2"
    for rule in jobs:
        assert 40 < known[rule]["demand"].peak_mb(2000, 2) < 400
        names = {"sample": "s1", "cycle": "1-2"}
        handed = Wildcards(fromdict=names)  # as Snakemake hands them over
        assert demand_of(batch, rule, handed) == demand_of(batch, rule, names)


def test_a_map_does_not_hang_on_what_is_done_with_the_channels(tmp_path):
    slide(tmp_path)
    names = {"sample": "s1", "cycle": "1-2"}
    before = job_params.registered_slide(Batch.load({}, tmp_path, SLIDES), names)
    (tmp_path / "raw/s1/markers.csv").write_text(TABLE.replace(",200,", ",300,TRUE"))
    batch = Batch.load({}, tmp_path, SLIDES)
    assert job_params.registered_slide(batch, names) == before
    record = job_params.slide_record(batch, names)
    assert KnownSlide.from_dict(record) == batch.slides["s1"]
    assert record["channels"][4]["exposure"] == 300


THREE = (
    "cycle_number,marker_name,background\n1,DAPI,\n1,AF,\n2,DAPI_2,\n2,CD3,AF\n"
    "3,DAPI_3,\n3,CD8,AF\n"
)


@pytest.mark.parametrize(("reference", "scored"), [(None, "1-2 1-3"), (3, "3-1 3-2")])
def test_cycles_are_scored_against_the_reference_and_loops_are_not(tmp_path, reference, scored):
    slide(tmp_path, table=THREE, names=("DAPI", "AF", "DAPI_2", "CD3", "DAPI_3", "CD8"))
    about = {"multiplexed": {"reference": reference}}
    batch = Batch.load(about, tmp_path, SLIDES)
    found = []
    for a, b in batch.slides["s1"].slide.moves:
        names = {"sample": "s1", "cycle": f"{a}-{b}"}
        own = KnownSlide.from_dict(job_params.registered_slide(batch, names))
        assert own.slide.frame_cycle == a
        assert own.shape == batch.slides["s1"].shape
        if job_params.finds_spoilt(batch, names):
            found.append(f"{a}-{b}")
        off = Batch.load({**about, "detect": {"spoilt": "never"}}, tmp_path, SLIDES)
        assert not job_params.finds_spoilt(off, names)
    assert " ".join(found) == scored


def test_cells_of_other_columns_go_to_the_subtraction_alone(tmp_path):
    slide(tmp_path)
    names = {"sample": "s1"}
    before = job_params.slide_record(Batch.load({}, tmp_path, SLIDES), names)
    own = iter(("Filter,Clone no.,", "x,a;b", "y,", "z, c ,", ",,", "w,d,"))
    rows = (f"{row},{next(own)}" for row in TABLE.splitlines())
    (tmp_path / "raw/s1/markers.csv").write_text("\n".join(rows))
    batch = Batch.load({}, tmp_path, SLIDES)
    assert job_params.slide_record(batch, names) == before
    cells = job_params.slide_own_cells(batch, names)
    assert cells == {
        "DAPI": {"Filter": "x", "Clone no.": "a;b"},
        "CD3": {"Filter": "z", "Clone no.": "c"},
        "DAPI_2": {"Filter": "", "Clone no.": ""},
        "CD8": {"Filter": "w", "Clone no.": "d"},
    }
    assert KnownSlide.from_dict(before, cells) == batch.slides["s1"]


def test_a_slide_that_was_refused_has_no_image_that_a_run_would_miss(tmp_path):
    slide(tmp_path)
    place = tmp_path / "results/s1"
    (place / "corrected.ome.zarr").mkdir(parents=True)
    stumps = [place / "corrected.ome.tif", place / "corrected.ome.zarr/zarr.json"]
    config = {"multiplexed": {"output": "both"}}
    record = place / "details/subtraction.json"
    record.parent.mkdir()
    for status, asked in (("ok", True), ("failed", False), ("of another version", True)):
        record.write_text(json.dumps({"status": status}))
        made = final_outputs(Batch.load(config, tmp_path, SLIDES))
        assert [f"<results>/s1/{image}" in made for image in CORRECTED.values()] == [asked] * 2
    for stump in stumps:
        stump.touch()
    remove_placeholders(tmp_path / "results", ["s1", "s2"])
    assert all(stump.is_file() for stump in stumps)  # it was not refused
    record.write_text('{"status": "failed"}')
    remove_placeholders(tmp_path / "results", ["s1", "s2"])
    assert [*place.rglob("*")] == [record.parent, record]
    stumps[0].write_text("an image")
    remove_placeholders(tmp_path / "results", ["s1"])
    assert stumps[0].read_text() == "an image"


def test_the_channel_that_shows_most_is_taken_where_no_name_decides(tmp_path):
    names = ("flat", "AF", "CD3", "other", "CD8")
    slide(tmp_path, names=names, table=TABLE.replace("DAPI_2", "other").replace("DAPI", "flat"))
    path = tmp_path / "raw/s1/image.ome.tif"
    pixels = tifffile.imread(path)
    pixels[[2, 4], 32:64, 32:64] += 5000
    tifffile.imwrite(path, pixels, metadata={"axes": "CYX", "Channel": {"Name": list(names)}})
    known = Batch.load({}, tmp_path, SLIDES).slides["s1"]
    assert known.slide.registered_on == {}
    chosen = choose_richest(known.slide, known.headers, (1, 2))
    assert chosen.registered_on == {1: "CD3", 2: "CD8"}
    assert choose_richest(known.slide, known.headers, ()) is known.slide


def test_a_key_that_yaml_takes_for_a_truth_is_a_name():
    assert load(yaml.safe_load("register: {on: DAPI}")).register.on == "DAPI"
    given = load(yaml.safe_load("multiplexed: {backgrounds: {1: [2, CD8], AF: all}}"))
    assert given.multiplexed.backgrounds == {"1": ["2", "CD8"], "AF": "all"}
    for key, sentence in (("outputs", "did you mean 'output'?"), ("dtyp", "did you mean 'dtype'?")):
        with pytest.raises(ConfigError, match=sentence.replace("?", r"\?")):
            load({"multiplexed": {key: "tiff"}})


def test_pages_of_a_plain_stack_are_channels(tmp_path):
    pixels = np.arange(3 * 64 * 80, dtype=np.uint16).reshape(3, 64, 80)
    (tmp_path / "raw/s1").mkdir(parents=True)
    tifffile.imwrite(tmp_path / "raw/s1/stack.tif", pixels, metadata=None, photometric="minisblack")
    (tmp_path / "raw/s1/markers.csv").write_text("marker_name,background\nDAPI,\nAF,\nCD3,AF\n")
    known = Batch.load({}, tmp_path, SLIDES).slides["s1"]
    assert known.shape == (64, 80)
    with open_reader(known.headers[0]) as reader:
        found = reader.read(Window(0, 64, 0, 80), [2])
    np.testing.assert_array_equal(found[0], pixels[2])


@pytest.mark.parametrize("kind", ["imagej", "ome"])
@pytest.mark.parametrize("axis", ["T", "Z"])
def test_channels_that_a_file_calls_times_or_planes_are_channels(tmp_path, kind, axis):
    pixels = np.arange(3 * 64 * 80, dtype=np.uint16).reshape(3, 64, 80)
    (tmp_path / "raw/s1").mkdir(parents=True)
    options = {"imagej": kind == "imagej", "ome": kind == "ome", "metadata": {"axes": f"{axis}YX"}}
    tifffile.imwrite(tmp_path / "raw/s1/stack.tif", pixels, photometric="minisblack", **options)
    table = tmp_path / "raw/s1/markers.csv"
    table.write_text("marker_name,background\nDAPI,\nAF,\nCD3,AF\n")
    with open_reader(Batch.load({}, tmp_path, SLIDES).slides["s1"].headers[0]) as reader:
        np.testing.assert_array_equal(reader.read(Window(0, 64, 0, 80)), pixels)
    table.write_text("marker_name,background\nAF,\nCD3,AF\n")
    with pytest.raises(InputError, match=r"has 2 rows, but .* 3 channels"):
        Batch.load({}, tmp_path, SLIDES)
