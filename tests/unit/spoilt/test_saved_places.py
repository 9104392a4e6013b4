"""Spoilt places are read back as they were written, and a damaged file says so."""

from __future__ import annotations

import json

import numpy as np
import pytest

from unglow.core.errors import StoreError
from unglow.spoilt.outlines import features, write_places
from unglow.spoilt.places import REASONS, Places
from unglow.spoilt.saved_places import artefacts_json, read_places


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
    assert "cycle" not in json.dumps(list(features(own, (64, 64))))


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


def test_a_place_without_a_reason_is_refused(tmp_path):
    path = tmp_path / "artefacts.geojson"
    written(path)
    path.write_text(path.read_text().replace('"reason": "lost", ', ""))
    with pytest.raises(StoreError):
        artefacts_json(path)


def test_a_file_that_was_cut_off_is_refused_wherever_it_ends(tmp_path):
    path = tmp_path / "artefacts.geojson"
    written(path)
    content = path.read_bytes()
    for end in range(0, len(content.rstrip()), 7):
        path.write_bytes(content[:end])
        with pytest.raises(StoreError):
            read_places(path)
