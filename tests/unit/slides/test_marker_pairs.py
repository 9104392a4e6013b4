"""Markers of slides that candidates are looked for in: the pairs that they become."""

from __future__ import annotations

import re

import pytest
from raw_slides import NAMES, TABLE, ome, pair, slide

from unglow.cli.inventory import inventory
from unglow.core.errors import ConfigError
from unglow.pages.viewer.hint_files import choose_target
from unglow.pages.viewer.raw_files import raw_files
from unglow.slides.rules import SLIDES
from unglow.stages.plan import make_plan
from unglow.workflow import job_params
from unglow.workflow.batch import Batch
from unglow.workflow.config import load
from unglow.workflow.job_resources import describe_job
from unglow.workflow.planned_jobs import final_outputs, jobs_of_pair, jobs_of_slide
from unglow.workflow.samples.discovery import discover

CD8 = {"sample": "s1.candidates", "dye": "CD8"}
CD3 = {"sample": "s1.candidates", "dye": "CD3"}


def batch_of(base, candidates, **config):
    return Batch.load({"multiplexed": {"candidates": candidates}, **config}, base, SLIDES)


def find_problems(base, candidates, **config):
    return [problem.message for problem in batch_of(base, candidates, **config).problems]


def test_nothing_is_searched_unless_it_is_asked_for(tmp_path):
    slide(tmp_path)
    assert load({}).multiplexed.candidates == ()
    plain = Batch.load({}, tmp_path, SLIDES)
    assert plain.keys == [("s1", "")]
    assert not any("candidates" in file for file in final_outputs(plain))


def test_a_marker_is_a_pair_of_its_channel_and_that_of_its_background(tmp_path):
    slide(tmp_path)
    batch = batch_of(tmp_path, ["CD8"])
    assert batch.keys == [("s1.candidates", "CD8"), ("s1", "")]
    assert not batch.problems
    found = batch.pairs["s1.candidates", "CD8"]
    assert found.post == found.pre == tmp_path / "raw/s1/image.ome.tif"
    assert job_params.channel_setting(batch, CD8) == {"post": 4, "pre": 1}
    assert batch.layout(CD8, "post").dtype == batch.layout(CD8, "pre").dtype == "uint16"
    headers = batch.headers["s1.candidates", "CD8"]
    plan = make_plan(*headers, channel=job_params.channel_setting(batch, CD8), dye="CD8")
    assert plan.channels == {"post": (4,), "pre": (1,)}
    assert plan.choice["names"] == ("CD8",)
    assert plan.choice["reason"] == "CD8 of post and AF of pre are set for this pair."


def test_channels_of_two_images_keep_their_numbers_whatever_they_are_called(tmp_path):
    ome(tmp_path / "raw/s1/cycle1.ome.tif", ("1", "2", "3"))
    ome(tmp_path / "raw/s1/cycle2.ome.tif", ("1", "0"), seed=1)
    (tmp_path / "raw/s1/markers.csv").write_text(TABLE)
    batch = batch_of(tmp_path, ["CD8"])
    found = batch.pairs["s1.candidates", "CD8"]
    assert (found.post.name, found.pre.name) == ("cycle2.ome.tif", "cycle1.ome.tif")
    headers = batch.headers["s1.candidates", "CD8"]
    assert [header.path for header in headers] == [str(found.post), str(found.pre)]
    plan = make_plan(*headers, channel=job_params.channel_setting(batch, CD8))
    assert plan.channels == {"post": (1,), "pre": (1,)}


def test_the_map_is_that_of_the_cycles_and_none_within_one(tmp_path):
    slide(tmp_path)
    pair(tmp_path)
    batch = batch_of(tmp_path, "all", register={"from": "DAPI"})
    assert [key[1] for key in batch.pairs] == ["DAPI", "CD3", "CD8"]
    assert not batch.maps_from
    assert not batch.problems
    settings = job_params.register_settings(batch, CD8)
    assert settings["cycles"] == "2-1"
    assert "from" not in settings
    made = {file for job in jobs_of_slide(batch, "s1") for file in job.files}
    read = job_params.register_inputs(batch, CD8)["source"]
    assert read == [
        f"<results>/s1/registration/2-1/{n}" for n in ("transform.json", "details/displacement.npz")
    ]
    assert {*read} < made
    assert job_params.register_settings(batch, CD3)["cycles"] == ""
    assert job_params.register_inputs(batch, CD3) == {}
    assert "cycles" not in job_params.register_settings(batch, {"sample": "p1", "dye": "DAPI"})


def test_markers_that_are_left_out_of_the_slide_are_not_searched(tmp_path):
    slide(tmp_path, table=TABLE.replace(",200,", ",200,TRUE"))
    assert [key[1] for key in batch_of(tmp_path, "all").pairs] == ["CD3"]
    batch = batch_of(tmp_path, ["CD8"])
    assert not batch.pairs
    (problem,) = batch.problems
    assert "names 'CD8', from which nothing is subtracted; " in problem.message


def test_memory_disk_and_time_of_the_jobs_are_planned(tmp_path):
    slide(tmp_path, shape=(3000, 4000))
    batch = batch_of(tmp_path, ["CD8"])
    rules = [job.rule for job in jobs_of_pair(batch, *CD8.values())]
    assert rules[:3] == ["ingest", "register", "align"]
    assert "detect" in rules
    known = {rule: describe_job(batch, rule, CD8, 0, missing=True) for rule in rules}
    # two channels of 24 MB, and what their coarser levels and metadata add
    assert 48 < known["ingest"]["disk_mb"] < 80
    assert 40 < known["ingest"]["demand"].peak_mb(2000, 2) < 400
    assert known["detect"]["mpx"] == 12.0


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("CD33", "names 'CD33', which no slide has; did you mean 'CD3'?"),
        ("DAPI", "names 'DAPI', from which nothing is subtracted; the names are CD3, CD8."),
    ],
)
def test_a_wrong_name_is_reported_with_the_right_one_and_stops_nothing(tmp_path, name, sentence):
    slide(tmp_path)
    whole = f"config key 'multiplexed.candidates' {sentence}"
    assert find_problems(tmp_path, [name, "CD8"]) == [whole]
    assert batch_of(tmp_path, [name, "CD8"]).keys == [("s1.candidates", "CD8"), ("s1", "")]


def test_a_name_that_one_of_the_slides_has_is_right(tmp_path):
    slide(tmp_path)
    slide(tmp_path, "s2", table=TABLE.replace("CD8", "CD9"))
    assert batch_of(tmp_path, ["CD3", "CD9"]).keys == [
        ("s1.candidates", "CD3"),
        ("s2.candidates", "CD3"),
        ("s2.candidates", "CD9"),
        ("s1", ""),
        ("s2", ""),
    ]
    assert not find_problems(tmp_path, ["CD3", "CD9"])


def test_what_cannot_have_a_folder_of_its_own_is_reported(tmp_path):
    slide(tmp_path, table=TABLE.replace("CD8", "Ki/67"), names=NAMES)
    (problem,) = batch_of(tmp_path, "all").problems
    assert (problem.sample, problem.dye) == ("s1.candidates", "Ki/67")
    assert problem.message == (
        "Slide s1: candidates in Ki/67 need a folder, but the name 'Ki/67' may hold only letters, "
        "digits, '-', '+', '_' and single spaces or dots between them, and has to start with a "
        "letter or digit; rename it, or leave the marker out of multiplexed.candidates."
    )
    pair(tmp_path, "s1.candidates")
    assert find_problems(tmp_path, ["CD3"]) == [
        (
            "Candidates in markers of the slide s1 would go to s1.candidates, but a sample or "
            "slide is called so already: rename its folder."
        )
    ]


def test_settings_that_do_not_go_with_markers_are_reported(tmp_path):
    slide(tmp_path)
    with pytest.raises(
        ConfigError, match=re.escape("nothing for markers of slides (multiplexed.candidates)")
    ):
        batch_of(tmp_path, ["CD8"], sweep={"channel": ["0", "1"]})
    assert find_problems(tmp_path, ["CD8"], scale={"methods": ["exposure"]}) == [
        (
            "s1.candidates CD8 is a pair, of which no exposure times are taken: add another method "
            "to scale.methods, and to scale.default if that is set."
        )
    ]


def test_a_survey_marks_what_is_searched(tmp_path, monkeypatch):
    slide(tmp_path)
    monkeypatch.chdir(tmp_path)
    settings = load({"multiplexed": {"candidates": ["CD8", "CD88"]}})
    report = inventory(discover(tmp_path / "raw"), settings)
    assert report["slides"][0]["candidates"] == ["CD8"]
    assert [p["message"] for p in report["problems"]] == [
        "config key 'multiplexed.candidates' names 'CD88', which no slide has; did you mean 'CD8'?"
    ]
    assert "candidates" not in inventory(discover(tmp_path / "raw"), load({}))["slides"][0]


def test_the_viewer_knows_that_no_landmarks_are_read_for_a_marker(tmp_path):
    slide(tmp_path)
    (tmp_path / "config").mkdir()
    (tmp_path / "config/config.yaml").write_text("multiplexed: {candidates: [CD8]}\n")
    results = tmp_path / "results"
    raw = raw_files(results, *CD8.values())
    assert raw.regions_target is None
    target = choose_target(raw, results / "s1.candidates/CD8")
    assert str(target.note).startswith("CD8 is a marker of a slide, for which no landmarks")
