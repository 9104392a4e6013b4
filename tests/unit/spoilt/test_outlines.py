"""Outlines of places: rings that hold their blocks and nothing else, as GeoJSON."""

from __future__ import annotations

import json

import numpy as np
import pytest

from unglow.core.errors import StoreError
from unglow.images.artefacts import artefacts_json, read_places
from unglow.spoilt.outlines import (
    make_features,
    measure_areas_px,
    report,
    trace_outlines,
    write_places,
)
from unglow.spoilt.places import REASONS, Places


def places(mask, reasons=(1,), side=32):
    labels = np.zeros(np.shape(mask), np.int32)
    labels[:] = mask
    count = int(labels.max())
    given = np.resize(np.array(reasons, np.uint8), count)
    return Places(side, labels, given, np.arange(7, 7 + count, dtype=np.float32), {}, 0.0, 50)


def area(ring):
    x, y = np.array(ring, float)[:, ::-1].T
    return 0.5 * np.sum(x[:-1] * y[1:] - x[1:] * y[:-1])


def test_an_outline_runs_clockwise_and_holes_the_other_way():
    mask = np.array([[1, 1, 1], [1, 0, 1], [1, 1, 1]], np.bool_)
    [[outer, hole]] = trace_outlines(mask)
    assert outer == [(0, 0), (0, 3), (3, 3), (3, 0), (0, 0)]
    assert hole == [(1, 1), (2, 1), (2, 2), (1, 2), (1, 1)]


def test_rings_hold_as_much_as_the_mask():
    random = np.random.default_rng(4)
    for _ in range(100):
        mask = random.random((9, 11)) < 0.6
        rings = [ring for polygon in trace_outlines(mask) for ring in polygon]
        assert all(ring[0] == ring[-1] for ring in rings)
        assert sum(area(ring) for ring in rings) == mask.sum()


def test_places_are_annotations_in_px_from_the_corner_of_post(tmp_path):
    found = places([[0, 1, 1], [2, 0, 0], [2, 0, 0]], reasons=(1, 3))
    path = tmp_path / "artefacts.geojson"
    write_places(path, found, (80, 96))
    collection = json.loads(path.read_text())
    first, second = collection["features"]
    assert first["geometry"] == {
        "type": "Polygon",
        "coordinates": [[[32, 0], [96, 0], [96, 32], [32, 32], [32, 0]]],
    }
    # the last blocks end with the image
    assert second["geometry"]["coordinates"] == [[[0, 32], [32, 32], [32, 80], [0, 80], [0, 32]]]
    assert measure_areas_px(found, (80, 96)).tolist() == [2048, 48 * 32]
    for feature, number in ((first, 0), (second, 1)):
        properties = feature["properties"]
        assert properties["reason"] == REASONS[found.reasons[number]]
        assert properties["classification"]["name"] == f"Spoilt: {properties['reason']}"
        assert properties["measurements"]["Strength"] == found.strengths[number]


def test_places_that_hang_together_at_a_corner_are_one_feature():
    [feature] = make_features(places([[1, 0], [0, 1]]), (64, 64))
    assert feature["geometry"]["type"] == "MultiPolygon"
    assert len(feature["geometry"]["coordinates"]) == 2


def test_no_places_are_an_empty_collection(tmp_path):
    write_places(tmp_path / "none.geojson", Places.empty(), (64, 64))
    assert json.loads((tmp_path / "none.geojson").read_text())["features"] == []


def test_the_report_reports_shares_and_the_largest_places():
    found = report(places([[0, 1, 1], [2, 0, 0], [3, 0, 0]], reasons=(1, 3, 3)), (96, 96))
    assert found["places"] == 3
    assert found["share"] == 4 / 50
    assert found["by_reason"] == {
        REASONS[1]: {"places": 1, "area_px": 2048, "share": 0.04},
        REASONS[3]: {"places": 2, "area_px": 2048, "share": 0.04},
    }
    assert found["largest"][0] == {
        "reason": REASONS[1], "x": 64.0, "y": 16.0, "area_px": 2048, "strength": 7.0,
    }  # fmt: skip


def written(path):
    """Write a large place of two parts that touch at a corner, and one with a hole."""
    labels = np.zeros((5, 8), np.int32)
    labels[0:3, 0:3] = 1
    labels[1, 1] = 0
    labels[0:3, 5] = 2
    labels[3:5, 6:8] = 2
    labels[0, 6:8] = 2
    reasons = np.array([REASONS.index("lost"), REASONS.index("debris")], np.uint8)
    places = Places(32, labels, reasons, np.array([7.0, 21.5], np.float32), {}, 0.0, 40)
    write_places(path, places, (150, 256))


def test_places_are_read_as_they_were_written(tmp_path):
    written(tmp_path / "artefacts.geojson")
    path = tmp_path / "artefacts.geojson"
    assert json.loads(artefacts_json(path)) == json.loads(path.read_text())
    debris, lost = read_places(path)
    # blocks of the last row are cut by the image, after 150 - 128 = 22 px
    assert (debris.reason, debris.strength, debris.area_px) == ("debris", 21.5, 7168 + 1408)
    assert (lost.reason, lost.strength, lost.area_px) == ("lost", 7.0, 8 * 1024)
    assert [len(polygon) for polygon in debris.polygons] == [1, 1]
    ((outline, hole),) = lost.polygons
    assert outline.tolist() == [[0, 0], [96, 0], [96, 96], [0, 96], [0, 0]]
    assert sorted(map(tuple, hole[:-1])) == [(32, 32), (32, 64), (64, 32), (64, 64)]


def test_places_of_a_slide_have_their_cycle(tmp_path):
    path = tmp_path / "artefacts.geojson"
    labels = np.zeros((2, 2), np.int32)
    labels[0, 1] = 1
    own = Places(32, labels, np.zeros(1, np.uint8), np.ones(1, np.float32), {}, 0.0, 4)
    write_places(path, {2: own, 5: own}, (64, 64))
    assert [(one.cycle, one.area_px) for one in read_places(path)] == [(2, 1024), (5, 1024)]
    first, second = json.loads(path.read_text())["features"]
    names = [one["properties"]["classification"]["name"] for one in (first, second)]
    assert len({*names}) == 2
    assert "cycle" not in json.dumps(list(make_features(own, (64, 64))))


def test_without_a_file_there_are_no_places(tmp_path):
    assert read_places(tmp_path / "artefacts.geojson") == []
    content = json.loads(artefacts_json(tmp_path / "artefacts.geojson"))
    assert content == {"type": "FeatureCollection", "features": []}


NO_NUMBER = """{"type": "FeatureCollection", "features": [
{"type": "Feature", "geometry": {"type": "Polygon", "coordinates": [[["x", 1]]]}, """
NO_NUMBER += """"properties": {"reason": "lost", "strength": 1, "area_px": 1}}
]}"""


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\xff", b"[]", b'{"features": [{}]}', b'{"features": 3}', NO_NUMBER.encode()],
)
def test_a_damaged_file_is_refused(tmp_path, content):
    path = tmp_path / "artefacts.geojson"
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"artefacts\.geojson is damaged"):
        read_places(path)


def test_a_file_that_was_cut_off_is_refused_wherever_it_ends(tmp_path):
    path = tmp_path / "artefacts.geojson"
    written(path)
    content = path.read_bytes()
    for end in range(0, len(content.rstrip()), 7):
        path.write_bytes(content[:end])
        with pytest.raises(StoreError, match=r"artefacts\.geojson is damaged"):
            read_places(path)
