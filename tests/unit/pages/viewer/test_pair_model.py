"""What a page receives about pairs: names, states, tables, and variants of a sweep."""

from __future__ import annotations

import json
import shutil
from urllib.parse import unquote

import cv2
import numpy as np
import pytest
from made_results import GAIN, MATRIX, OFFSET, PRE_SHAPE, SHAPE, made_pair, made_sweep, refused
from seeing import Seen

from unglow.core.reasons import read_table
from unglow.images.detection_results import read_candidates
from unglow.pages.viewer.layers import pairs_of
from unglow.spoilt.outlines import write_places
from unglow.spoilt.places import Places
from unglow.transform import load

PAIR = "pair/S1~DAPI/"
NAMES = [
    *("a b", "<b>&amp;", "quote\"'", "tilde~x", "a%20b", "käse", "日本", "#?x=1", "s;p", "-x"),
    *("back\\slash", "tab\tx", "line\nx", "*", "x'", "(1)", "~", "~~", "%7E", "a+b"),
]


def row(sample, dye="D", **more):
    return {"sample": sample, "dye": dye, "status": "ok"} | more


def test_ids_are_addresses_that_a_browser_leaves_as_they_are(tmp_path):
    rows = [row(name, other) for name in NAMES for other in ("D", *NAMES[:4])]
    pairs = pairs_of(tmp_path, rows)
    assert len(pairs) == len(rows)
    for name, pair in pairs.items():
        assert name.isascii()
        assert not set(name) & set(' "<>`{}#?/\\\t\n&;=+')
        assert tuple(unquote(part) for part in name.split("~")) == pair.names


def test_a_name_that_leads_out_of_the_results_is_no_pair(tmp_path):
    names = ["..", ".", "../x", "/etc", "a/b", "a\0b", ""]
    rows = [*(row(name) for name in names), *(row("a", name) for name in names)]
    assert pairs_of(tmp_path, [*rows, row("a", "b", registration="..")]) == {}


def test_a_name_that_is_no_text_has_an_id(tmp_path):
    (name,) = pairs_of(tmp_path, [row("\udcff")])
    assert name == "%FF~D"


@pytest.mark.parametrize("pair", ["S1~DAPI", "S2~DAPI"])
def test_a_pair_with_images_has_a_small_picture(seen, pair):
    answer, content = seen.ask(f"pair/{pair}/thumbnail.jpg")
    assert answer.status == 200
    picture = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR)
    assert 60 <= max(picture.shape) <= 320
    assert picture.std() > 5


def test_the_pairs_are_listed_with_their_states(seen):
    done, failed = seen.json("pairs.json")
    assert done.pop("candidates") > 20
    assert done == {
        "id": "S1~DAPI",
        "title": "S1 DAPI",
        "sample": "S1",
        "dye": "DAPI",
        "ingestion": "",
        "registration": "",
        "subtraction": "",
        "detection": "",
        "status": "ok",
        "outdated": "",
        "reasons": [],
        "failed": False,
    }
    assert (failed["status"], failed["failed"]) == ("failed", True)
    assert failed["reasons"] == [read_table()["unlike"].sentence]
    assert failed["candidates"] is None


def test_a_pair_says_what_it_is(seen):
    model = seen.json(PAIR + "pair.json")
    assert (model["title"], model["status"], model["help"]) == ("S1 DAPI", "ok", "")
    assert (model["shape"], model["pre_shape"]) == (list(SHAPE), list(PRE_SHAPE))
    assert model["pixel_size_um"] == [0.5, 0.25]
    assert model["matrix"] == MATRIX.tolist()
    assert model["registration"]["error_px"] == {"median": 0.03, "p95": 0.08}
    assert model["scale"]["default"] == "linear"
    linear, failed = (model["scale"]["methods"][name] for name in ("linear", "percentile"))
    assert (linear["gain"], linear["offset"], linear["gain_ci95"]) == (GAIN, OFFSET, [1.4, 1.6])
    assert (failed["gain"], failed["reason"]) == (None, "There are too few px.")
    assert model["detection"]["settings"]["fwhm_px"] == 3
    assert model["detection"]["threshold_snr"] > 3
    assert "by_threshold" not in model["detection"]
    assert (model["live"], model["writable"], model["why"]) == (True, True, "")
    assert model["variants"] == []


def test_a_pair_that_failed_shows_both_images_and_what_helps(seen):
    model = seen.json("pair/S2~DAPI/pair.json")
    assert [layer["name"] for layer in model["layers"]] == ["post", "pre"]
    assert model["matrix"] is model["scale"] is model["detection"] is None
    assert "Landmarks" in model["help"]
    assert model["reasons"] == [read_table()["unlike"].sentence]
    for table in ("candidates", "blocks"):
        assert seen.json(f"pair/S2~DAPI/{table}.json")["rows"] == []
    assert seen.json("pair/S2~DAPI/arrows.json")["points"] == []


def test_landmarks_are_no_help_where_an_image_is_at_fault(tmp_path):
    refused(tmp_path / "S1" / "DAPI", "The post-stain image is empty.")
    with Seen(tmp_path) as shown:
        model = shown.json(PAIR + "pair.json")
    assert (len(model["layers"]), model["help"]) == (2, "")


def test_tables_are_numbers(seen, finished):
    table = seen.json(PAIR + "candidates.json")
    found = read_candidates(finished / "S1" / "DAPI" / "candidates.csv")
    rows = [dict(zip(table["columns"], cells, strict=True)) for cells in table["rows"]]
    assert [r["id"] for r in rows] == list(range(1, len(found) + 1))
    np.testing.assert_array_equal([r["x"] for r in rows], found.numbers["x"])
    assert [r["flags"] for r in rows] == list(found.flags)
    assert {r["fdr_control"] for r in rows} == {None}
    report = json.loads((finished / "S1" / "DAPI" / "details/detection.json").read_text())
    assert table["negatives"] == report["brightest_negatives"] != []
    blocks = seen.json(PAIR + "blocks.json")
    first = dict(zip(blocks["columns"], blocks["rows"][0], strict=True))
    assert (first["x"], first["dx"], first["used"]) == (10, 0.125, 1)


def test_spoilt_places_are_shown_as_they_are_in_their_file(finished, tmp_path):
    results = tmp_path / "results"
    shutil.copytree(finished, results)
    place = results / "S1/DAPI/artefacts.geojson"
    labels = np.zeros((22, 35), np.int32)
    labels[5:14, 8:18] = 1
    places = Places(32, labels, np.zeros(1, np.uint8), np.ones(1, np.float32), {}, 0.0, 770)
    write_places(place, places, SHAPE)
    with Seen(results) as shown:
        artefacts = shown.json(PAIR + "artefacts.geojson")
        assert artefacts == json.loads(place.read_text())
        assert artefacts["features"][0]["properties"]["reason"] == "not stored"
        place.write_text('{"features": [{}]}')
        answer, body = shown.ask(PAIR + "artefacts.geojson")
        assert answer.status == 500
        assert "artefacts.geojson is damaged" in json.loads(body)["error"]
        place.unlink()  # as in results of versions that did not look for them
        assert shown.json(PAIR + "artefacts.geojson")["features"] == []
        assert shown.json("pair/S2~DAPI/artefacts.geojson")["features"] == []


def test_arrows_are_the_field_on_a_grid(seen, finished):
    arrows = seen.json(PAIR + "arrows.json")
    points = np.array(arrows["points"])
    assert 1500 < len(points) <= 2600
    found = load(finished / "S1/DAPI/transform.json")
    moved = found.map(points[:, :2]) - (points[:, :2] + MATRIX[:2, 2])
    np.testing.assert_allclose(points[:, 2:], moved, atol=1e-4)
    assert np.diff(np.unique(points[:, 0])).tolist() == pytest.approx(
        [arrows["spacing_px"]] * (len(np.unique(points[:, 0])) - 1)
    )


def test_names_of_any_kind_lead_to_their_pairs(finished, tmp_path):
    results = tmp_path / "results"
    names = ["a b~<i>'", 'käse"%20', "100%", "日本 #1?"]
    for name in names:
        (results / name).mkdir(parents=True)
        (results / name / "d ~e").symlink_to(finished / "S2" / "DAPI")
    with Seen(results) as shown:
        listed = shown.json("pairs.json")
        assert sorted(pair["sample"] for pair in listed) == sorted(names)
        for pair in listed:
            model = shown.json(f"pair/{pair['id']}/pair.json")
            assert (model["sample"], model["dye"]) == (pair["sample"], "d ~e")
            answer, _ = shown.ask(f"pair/{pair['id']}/{model['layers'][0]['url']}/0/c/0/0")
            assert answer.status == 200


def test_variants_of_a_sweep_share_images_and_know_each_other(finished, tmp_path):
    results = tmp_path / "results"
    made_sweep(finished / "S1" / "DAPI", results / "S1" / "DAPI")
    with Seen(results) as shown:
        ids = [one["id"] for one in shown.json("pairs.json")]
        assert ids[0] == "S1~DAPI~model-affine~percentile-40"
        assert len(ids) == 4
        model = shown.json(f"pair/{ids[3]}/pair.json")
        assert model["variants"] == ids[:3]
        assert len(model["layers"]) == 8
        assert {layer.get("problem") for layer in model["layers"]} == {None}
        places = {layer["name"]: layer["place"] for layer in model["layers"]}
        assert places["post"] == "S1/DAPI"
        assert places["aligned_pre"] == places["map_error"] == "S1/DAPI/model-any"
        assert places["difference-linear"] == "S1/DAPI/model-any/percentile-50"
        computed = [layer["name"] for layer in model["layers"] if layer["computed"]]
        assert "difference-linear" in computed
        for name in computed:
            answer, _ = shown.ask(f"pair/{ids[3]}/layers/{name}.zarr/0/c/0/0")
            assert answer.status == 200
        assert len(shown.json(f"pair/{ids[3]}/blocks.json")["rows"]) == 3


def test_a_result_that_is_made_again_is_shown_again(tmp_path, monkeypatch):
    monkeypatch.setattr("unglow.pages.viewer.site._LOOK_S", 0.0)
    place = tmp_path / "results" / "S1" / "DAPI"
    made_pair(place)
    key = PAIR + "layers/difference-moffat.zarr/0/c/0/0"
    with Seen(tmp_path / "results") as shown:
        answer, before = shown.ask(key)
        text = (place / "scale.json").read_text()
        (place / "scale.json").write_text(text.replace('"gain": 1.25', '"gain": 1.375'))
        again, after = shown.ask(key)
        assert answer.getheader("ETag") != again.getheader("ETag")
        assert before != after
