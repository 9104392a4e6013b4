"""What the page of the app can do: choose a folder, name images, set keys; two pages at once."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from pathlib import Path

import pytest
import yaml
from seeing_app import SeenApp, photos, write_image

from unglow.core.process import Stat, boot_id, host, read
from unglow.pages.app.workplace import Workplace
from unglow.pages.viewer.served_files import page_files
from unglow.workflow.samples.sheet import read_sheet


def test_the_page_shows_what_was_recognised(seen, work):
    state = seen.json("state.json")
    assert [(p["sample"], p["dye"]) for p in state["pairs"]] == [("S1", "DAPI")]
    assert [(f["name"], f["images"], f["chosen"]) for f in state["folders"]] == [
        ("photos", 2, False),
        ("raw", 2, True),
    ]
    assert (state["raw"], state["sheet"]) == ("raw", None)
    assert (state["mistake"], state["why_not"]) == ("", "")
    assert not state["run"]["running"]
    assert state["commands"]["run"] == f"cd {work} && unglow run"
    picture = seen.json(f"image/{state['pairs'][0]['pre']}")
    assert picture["about"] == "128 x 96 px, uint8"
    assert picture["picture"]


def test_a_folder_is_chosen_named_by_a_pattern_and_written_as_sheet(seen, work):
    ids = photos(seen)
    assert yaml.safe_load((work / "config/config.yaml").read_text()) == {"raw": "photos"}
    state = seen.json("state.json")
    assert not state["pairs"]
    assert len(state["problems"]) == 1
    pattern = {"pattern": "{sample}_{prepost}_{dye}", "pre": "untreated", "post": "treated"}
    status, rows = seen.send("pattern", pattern)
    assert status == 200
    assert {r["id"]: (r["role"], r["sample"], r["dye"]) for r in rows} == {
        ids["a_untreated_DAPI.tif"]: ("pre", "a", "DAPI"),
        ids["a_treated_DAPI.tif"]: ("post", "a", "DAPI"),
    }
    status, preview = seen.send("pairs", {"rows": rows})
    assert (status, len(preview["pairs"]), preview["problems"]) == (200, 1, [])
    assert not (work / "config/samples.tsv").exists()
    status, state = seen.send("sheet", {"rows": rows, "version": state["version"]})
    assert (status, state["sheet"]) == (200, "config/samples.tsv")
    (pair,) = read_sheet(work / "config/samples.tsv", base=work).pairs
    assert (pair.key, pair.pre.name) == (("a", "DAPI"), "a_untreated_DAPI.tif")
    status, state = seen.send("names", {"version": state["version"]})
    assert (status, state["sheet"]) == (200, None)
    assert (work / "config/samples.tsv.before").exists()


def test_a_sheet_keeps_what_it_said_of_its_pairs(seen, work):
    (work / "config").mkdir()
    sheet = work / "config/samples.tsv"
    text = "sample\tdye\tpre\tpost\tgroup\nS1\tDAPI\traw/S1/S1_pre_DAPI.tif\t"
    sheet.write_text(f"{text}raw/S1/S1_post_DAPI.tif\tdune\n")
    (pair,) = seen.json("state.json")["pairs"]
    rows = [{"id": pair[role], "role": role, "sample": "S1", "dye": "DAPI"} for role in ("post",)]
    other = next(i["id"] for i in seen.json("state.json")["images"] if i["id"] == pair["pre"])
    rows.append({"id": other, "role": "pre", "sample": "S1", "dye": "DAPI"})
    assert seen.send("sheet", {"rows": rows, "version": seen.version})[0] == 200
    assert read_sheet(sheet, base=work).pairs[0].groups == {"group": "dune"}


def test_settings_are_written_into_the_file_as_it_is(seen, work):
    (work / "config").mkdir()
    file = work / "config/config.yaml"
    file.write_text("# mine\nmemory_per_job: 900\ndetect: {fdr: 0.2}\n")
    form = {key["name"]: key for key in seen.json("settings.json")["keys"]}
    assert (form["detect.fdr"]["value"], form["detect.fdr"]["set"]) == (0.2, True)
    assert (form["register.model"]["value"], form["register.model"]["set"]) == ("auto", False)
    assert form["detect.fdr"]["about"].startswith("Share of the candidates")
    put = {"detect.fdr": 0.01, "register.model": "affine"}
    status, form = seen.send("settings", {"put": put, "version": seen.version})
    assert status == 200
    values = {key["name"]: key["value"] for key in form["keys"]}
    assert (values["detect.fdr"], values["register.model"]) == (0.01, "affine")
    text = "# mine\nmemory_per_job: 900\ndetect: {fdr: 0.01}\nregister:\n  model: affine\n"
    assert file.read_text() == text
    again = {"reset": ["register.model"], "version": form["version"]}
    assert seen.send("settings", again)[0] == 200
    assert "affine" not in file.read_text()


@pytest.mark.parametrize("value", [2, "many", [1], None])
def test_a_value_that_is_not_allowed_is_refused_with_a_sentence(seen, work, value):
    status, said = seen.send("settings", {"put": {"detect.fdr": value}, "version": seen.version})
    assert status == 400
    assert "detect.fdr" in said["error"]
    assert not (work / "config").joinpath("config.yaml").exists()


def test_two_pages_agree(seen, work):
    old = seen.version
    ids = photos(seen)
    new = seen.version
    assert new != old
    rows = [{"id": ids["a_treated_DAPI.tif"], "role": "post", "sample": "a", "dye": "D"}]
    rows += [{"id": ids["a_untreated_DAPI.tif"], "role": "pre", "sample": "a", "dye": "D"}]
    folder = seen.json("state.json")["folders"][0]["id"]
    for name, content in (
        ("settings", {"put": {"detect.fdr": 0.1}}),
        ("sheet", {"rows": rows}),
        ("folder", {"id": folder}),
        ("names", {}),
        ("run", {}),
    ):
        status, said = seen.send(name, {**content, "version": old})
        assert (status, name) == (409, name)
        assert said["error"].endswith((".", "again"))
    assert seen.version == new
    (work / "config/config.yaml").write_text("raw: raw\n")  # in an editor
    assert seen.version != new


def test_a_faulty_file_is_named_and_not_overwritten(seen, work):
    (work / "config").mkdir()
    (work / "config/config.yaml").write_text("detect: {fdrr: 1}\n")
    state = seen.json("state.json")
    assert "fdrr" in state["mistake"]
    status, said = seen.send("settings", {"put": {"detect.fdr": 0.1}, "version": state["version"]})
    assert status == 400
    assert "fdrr" in said["error"]
    assert (work / "config/config.yaml").read_text() == "detect: {fdrr: 1}\n"


def test_folders_that_were_named_are_read_and_links_in_raw_followed(tmp_path, work, monkeypatch):
    far = write_image(tmp_path / "far" / "S2" / "S2_pre_X.tif").parent.parent
    write_image(far / "S2" / "S2_post_X.tif")
    (work / "raw" / "S2").symlink_to(far / "S2")
    monkeypatch.chdir(work)
    with SeenApp(Workplace(work, [Path("../far")])) as seen:
        state = seen.json("state.json")
        assert [p["sample"] for p in state["pairs"]] == ["S1", "S2"]
        assert seen.json(f"image/{state['pairs'][1]['pre']}")["picture"]
        folder = next(f for f in state["folders"] if f["name"] == str(far))
        status, state = seen.send("folder", {"id": folder["id"], "version": state["version"]})
        assert (status, [p["sample"] for p in state["pairs"]]) == (200, ["S2"])
    with SeenApp(Workplace(work)) as seen:  # the folder is not named any more
        state = seen.json("state.json")
        assert str(far) in state["mistake"]
        assert not state["images"]
        assert seen.ask(f"image/{state['pairs'][0]['pre']}")[0].status == 404


def test_the_folder_that_was_named_is_chosen_where_nothing_else_is(tmp_path, work):
    for name in ("before/a_pre_X.tif", "after/a_post_X.tif"):
        write_image(tmp_path / "far" / name)
    (tmp_path / "far/before/scan.czi").touch()
    empty = tmp_path / "empty"
    empty.mkdir()
    far = tmp_path / "far"
    with SeenApp(Workplace(empty, [tmp_path / "none", far / "before", far / "after"])) as seen:
        state = seen.json("state.json")
        assert state["raw"] == str(far / "before")
        # images of the other one can be their partners
        assert {Path(i["name"]).name for i in state["images"]} == {"a_pre_X.tif", "a_post_X.tif"}
        assert ["scan.czi" in note for note in state["notes"]] == [True]
        rows = [
            {"id": image["id"], "role": role, "sample": "a", "dye": "X"}
            for image, role in zip(state["images"], ("pre", "post"), strict=True)
        ]
        status, state = seen.send("sheet", {"version": state["version"], "rows": rows})
        assert (status, [p["sample"] for p in state["pairs"]]) == (200, ["a"])
    with SeenApp(Workplace(work, [far])) as seen:  # raw/ is there
        assert seen.json("state.json")["raw"] == "raw"


@pytest.mark.parametrize("name", ["a.jpg", "S/a_pre_X.czi", "b.nd2"])
def test_where_no_image_is_read_others_are_named_with_their_export(tmp_path, name):
    place = tmp_path / "photos" / name
    place.parent.mkdir(parents=True)
    place.touch()
    (tmp_path / "work").mkdir()
    with SeenApp(Workplace(tmp_path / "work", [tmp_path / "photos"])) as seen:
        state = seen.json("state.json")
    (note,) = state["notes"]
    assert f"`bfconvert -noflat -bigtiff {place.name} {place.stem}.ome.tif`" in note
    assert (state["folders"], state["problems"]) == ([], [])


def test_preflight_is_that_of_the_command(seen):
    found = seen.json("preflight.json?cores=1")
    assert found["text"].startswith("To do: 1 pair (")
    assert "at most 1 job at a time" in found["text"]
    assert not found["refused"]


def test_the_page_asks_for_all_its_modules_at_once():
    files = page_files("unglow.pages.app")
    modules = {name for name in files if name.endswith(".js") and name != "main.js"}
    page = files["index.html"].body.decode()
    assert set(re.findall(r'"modulepreload" href="assets/([^"]+)"', page)) == modules


def test_a_run_is_found_where_the_key_results_leads_now(seen, work):
    assert seen.json("state.json")["mistake"] == ""
    (work / "config").mkdir()
    (work / "config/config.yaml").write_text("results: other\n")
    assert "'other'" in seen.json("state.json")["mistake"]
    with subprocess.Popen(["sleep", "100"]) as process:
        started = Stat.parse(read(process.pid, "stat")).started
        runs = work / "other/telemetry/runs"
        runs.mkdir(parents=True)
        head = {"kind": "run", "wall": 1.0, "pid": process.pid}
        head |= {"host": host(), "boot": boot_id(), "started": started}
        (runs / "a.jsonl").write_text(json.dumps(head) + "\n")
        assert seen.json("watch.json")["run"]["running"]
        assert seen.send("run", {"version": seen.version})[0] == 400
        seen.send("stop", {})
        assert process.wait(60) == -signal.SIGTERM
    assert not seen.json("watch.json")["run"]["running"]


def test_a_directory_that_was_moved_is_not_made_again(seen, work):
    version = seen.version
    moved = work.rename(work.with_name("moved"))
    for verb in ("run", "settings", "sheet", "names", "folder"):
        assert seen.send(verb, {"version": version, "put": {"detect.fdr": 0.1}})[0] == 400
    assert str(work) in seen.json("state.json")["why_not"]
    for page in ("preflight.json",):
        assert seen.ask(page)[0].status == 400
    assert not work.exists()
    assert not (moved / ".snakemake").exists()


VALUES = ("9" * 5000, "2026-13-45", "a\0b", "\ud800", "\x85", "\u2028")
CASES = [(key, value) for key in ("channel", "plane.z", "detect.fdr") for value in VALUES]


@pytest.mark.parametrize(("key", "value"), [*CASES, ("channel", "é" * 510_000)])
def test_no_value_makes_the_configuration_unreadable(seen, work, key, value):
    status, _ = seen.send("settings", {"put": {key: value}, "version": seen.version})
    assert status in (200, 400)
    assert (work / "config/config.yaml").exists() == (status == 200)
    assert seen.ask("settings.json")[0].status == 200
    reset = {"reset": [key], "version": seen.version}
    assert seen.send("settings", reset)[0] == 200


def test_cores_of_5000_digits_are_refused(seen):
    assert seen.ask("preflight.json?cores=" + "9" * 5000)[0].status == 400
