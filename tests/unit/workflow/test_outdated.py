"""What results were made with: the table of what jobs are given, and what is said of changes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from parsed_rules import jobs_of
from raw_slides import pair, slide

from unglow.core.digests import Listed, hash_file, list_of, write
from unglow.core.made_with import LEFT_OUT, UNKNOWN, Lists, find_changes, record
from unglow.core.records import to_plain
from unglow.slides.rules import SLIDES
from unglow.workflow.batch import Batch
from unglow.workflow.outdated import GIVEN, inputs_of, params_of

#: A sweep on all levels but the first, exports, controls, and dyes that take over a map.
MANY = {
    "exports": {"tiff": ["post", "pre", "aligned_pre", "difference", "snr"]},
    "scale": {"default": "control", "write": "all"},
    "sweep": {"register.blocks": [300, 400], "detect.fdr": [0.05, 0.1]},
    "register": {"from": "D"},
}
RING = [[2, 2], [90, 2], [90, 70], [2, 70], [2, 2]]
ABOUT = {"objectType": "annotation", "classification": {"name": "Exclude"}}
REGIONS = {
    "type": "Feature",
    "geometry": {"type": "Polygon", "coordinates": [RING]},
    "properties": ABOUT,
}


def fill(work):
    """Make two dyes of a sample with landmarks and regions, and a control of one of them."""
    folder = pair(work, "stained", "D")
    (folder / "post_D.landmarks.csv").write_text(
        "post_x,post_y,pre_x,pre_y\n10,10,12,9\n60,70,63,68\n"
    )
    (folder / "post_D.regions.geojson").write_text(json.dumps(REGIONS))
    pair(work, "stained", "E")
    pair(work, "plain", "D")
    images = "raw/{0}/pre_{1}.tif\traw/{0}/post_{1}.tif"
    rows = [
        "\t".join((name, dye, images.format(name, dye), control))
        for name, dye, control in (
            *(("stained", "D", ""), ("stained", "E", "")),
            ("plain", "D", "true"),
        )
    ]
    (work / "sheet.tsv").write_text("\n".join(["sample\tdye\tpre\tpost\tcontrol", *rows]) + "\n")


#: Rules whose jobs there are but for some configurations.
SOME = {*(rule for rule in GIVEN if rule.startswith(("export", "slide"))), "snr"}
SOME |= {"figures_registration", "difference_method"}


@pytest.mark.parametrize(
    ("config", "missing"),
    [
        ({}, {rule for rule in SOME if not rule.startswith("slide")}),
        ({**MANY, "samples": "sheet.tsv"}, {rule for rule in SOME if rule.startswith("slide")}),
    ],
    ids=["folders", "sheet"],
)
def test_the_table_has_what_the_rules_give(tmp_path, monkeypatch, config, missing):
    monkeypatch.chdir(tmp_path)
    fill(tmp_path)
    slide(tmp_path)
    batch = Batch.load(config, slide_rules=SLIDES)
    seen, given_inputs = set(), set()
    for rule, wildcards, params, inputs, _ in jobs_of(tmp_path, config):
        if rule in ("all", "summary", "verdict", "slide_part"):
            continue
        seen.add(rule)
        given = {name: value for name, value in params.items() if name not in LEFT_OUT}
        assert json.loads(json.dumps(to_plain(params_of(batch, rule, wildcards)))) == given, rule
        mine = {*inputs_of(batch, rule, wildcards)}
        assert {f for f in inputs if not f.startswith("results/")} <= mine <= {*inputs}, rule
        given_inputs |= {Path(file).name for file in mine}
    assert seen == {*GIVEN} - missing
    own = {"scale.json", "search.npz", "transform.json"}
    if not config:
        own = {"post_D.landmarks.csv", "post_D.regions.geojson", "image.ome.tif"}
    assert {*own, "post_E.tif"} <= given_inputs


# ------------------------------------------------------------------------------ what has changed


@pytest.fixture
def made(tmp_path, monkeypatch):
    """The list of a job that has read a result and a raw image, and what it was given."""
    monkeypatch.chdir(tmp_path)
    raw, place = Path("raw.tif"), Path("results/s/d")
    raw.write_bytes(b"x" * 9000)
    (place / "details/digests").mkdir(parents=True)
    for name in ("before.json", "after.json"):
        (place / name).write_text("{}")
    write(list_of(place, "align"), [place / "before.json"])
    params = {
        "version": 3,
        "memory": {"a": 1},
        "settings": {"fdr": 0.05, "min_snr": 3},
        "slide": {"registered_on": {1: "DNA", 10: "DNA_10"}},
    }
    given = {"raw": str(raw), "parts": ["raw.tif"], "some": [str(place / "before.json")]}
    target = list_of(place, "detect")
    write(target, [place / "after.json"], record(params, given, place))
    return target, params, [str(raw)]


def changes(target, params, inputs):
    lists = Lists(Path("results"))
    return [*find_changes(lists.find(str(target)), "detect", params, inputs, lists)]


def test_nothing_is_outdated_by_memory_nor_by_another_time_of_equal_bytes(made):
    target, params, inputs = made
    assert changes(*made) == []
    os.utime("raw.tif", (1, 1))
    assert changes(target, {**params, "memory": {"a": 2}}, inputs) == []
    listed = Listed.read(target)
    assert listed.whole
    assert [path.name for path in listed.digests] == ["after.json"]


def test_a_change_of_settings_or_version_is_said_with_both_values(made):
    target, params, inputs = made
    now = {**params, "version": 4, "settings": {"fdr": 0.2, "min_snr": 3}}
    assert {*changes(target, now, inputs)} == {"detect.version: 3 -> 4", "detect.fdr: 0.05 -> 0.2"}
    long = {**params, "settings": {"fdr": [*range(99)], "min_snr": 3}}
    assert changes(target, long, inputs) == ["detect.fdr changed"]


def test_other_inputs_are_named(made):
    target, params, inputs = made
    Path("raw.tif").write_bytes(b"y" * 9000)
    assert changes(*made) == ["detect: another raw.tif"]
    Path("raw.tif").unlink()
    assert changes(*made) == ["detect: another raw.tif"]
    Path("raw.tif").write_bytes(b"x" * 9000)
    assert changes(target, params, [*inputs, "marks.csv"]) == ["detect: another marks.csv"]
    assert changes(target, params, []) == ["detect: another raw.tif"]
    place = target.parents[2]
    (place / "before.json").write_text("{ }")
    write(list_of(place, "align"), [place / "before.json"])
    assert changes(*made) == ["detect: another before.json"]


def test_each_list_is_read_once_and_not_looked_for_below_each_store(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    place, stores = Path("results/s/d"), [f"{n}.zarr" for n in range(9)]
    for store in stores:
        (place / store).mkdir(parents=True)
        (place / store / "zarr.json").write_text(store)
        list_of(place, store).parent.mkdir(parents=True, exist_ok=True)
        write(list_of(place, store), [place / store / "zarr.json"])
    reads, listed, read, listdir = [], [], Listed.read, os.listdir
    monkeypatch.setattr(Listed, "read", lambda path: reads.append(path) or read(path))
    monkeypatch.setattr(os, "listdir", lambda path: listed.append(path) or listdir(path))
    lists = Lists(Path("results"))
    found = {store: lists.digest_of(f"{place}/{store}/zarr.json") for store in stores * 2}
    assert found == {store: hash_file(place / store / "zarr.json") for store in stores}
    assert all(lists.find(str(list_of(place, store))).whole for store in stores)
    assert sorted(reads) == sorted(list_of(place, store) for store in stores)
    assert len(listed) <= 4  # of the working directory, results, sample and pair


@pytest.mark.parametrize("line", ["", "# made with {\n", "# made with [1]\n"])
def test_a_list_without_a_record_is_unknown_and_still_a_list(made, line):
    target, params, inputs = made
    head, _, *rows = target.read_text().splitlines(keepends=True)
    target.write_text("".join([head, line, *rows]))
    assert Listed.read(target).whole
    assert changes(target, params, inputs) == [UNKNOWN]
