"""Files of regions: what QuPath writes is read, damage is reported, nobody's change is lost."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from unglow.core.errors import InputError
from unglow.core.windows import Window, grid
from unglow.review.polygons import Polygon, mask_over
from unglow.review.regions import (
    MOST_BYTES,
    change_regions,
    read_collection,
    read_regions,
    regions_of,
    use_regions,
)

NO_NUMBER = (
    '[{"type": "Feature", "properties": {"classification": {"name": "exclude"}}, "geometry": '
    '{"type": "Polygon", "coordinates": [[[NaN, 1], [2, 2], [3, 1]]]}}]'
)
SQUARE = [[2, 1], [6, 1], [6, 4], [2, 4], [2, 1]]


def feature(name="exclude", rings=(SQUARE,), **more):
    given = {"objectType": "annotation", "classification": {"name": name, "color": [200, 0, 0]}}
    return {
        "type": "Feature",
        "id": "6e7a",
        "geometry": {"type": "Polygon", "coordinates": list(rings)},
        "properties": given,
    } | more


def collection(*features):
    return {"type": "FeatureCollection", "features": list(features)}


def written(tmp_path, content):
    path = tmp_path / "post.regions.geojson"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


@pytest.mark.parametrize("wrap", [collection, lambda f: [f], lambda f: f])
def test_a_region_of_qupath_holds_the_px_that_it_shows(tmp_path, wrap):
    regions = read_regions(written(tmp_path, wrap(feature())), (10, 10))
    assert regions.analyse == ()
    assert regions.notes == ()
    expected = np.zeros((10, 10), bool)
    expected[1:4, 2:6] = True
    assert np.array_equal(regions.exclude[0].to_mask(Window.from_shape((10, 10))), expected)
    assert regions.exclude[0].box == Window(1, 4, 2, 6)
    points = np.array([[2.0, 1.0], [5.4, 3.4], [5.6, 3.0], [1.4, 2.0]])
    assert regions.exclude[0].holds_points(points).tolist() == [True, True, False, False]
    # px 2 and 3 have their centres, 2.5 and 3.5 for QuPath, between these corners
    small = [[1.6, 1.6], [4.4, 1.6], [4.4, 4.4], [1.6, 4.4]]
    assert regions_of("file", [feature(rings=[small])]).exclude[0].box == Window(2, 4, 2, 4)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Exclude", "exclude"),
        ("Ignore*", "exclude"),
        ("analyze", "analyse"),
        ("Region*", "analyse"),
    ],
)
def test_classes_by_their_names_in_any_letter_case(tmp_path, name, kind):
    regions = read_regions(written(tmp_path, collection(feature(name))))
    assert [r.kind for r in (*regions.exclude, *regions.analyse)] == [kind]


def test_other_classes_are_left_aside_with_a_note(tmp_path):
    named = feature()
    named["properties"]["classification"] = {"names": ["Tumor", "Positive"]}
    bare = {"type": "Feature", "geometry": {"type": "Point", "coordinates": [1, 2]}}
    regions = read_regions(written(tmp_path, collection(named, bare, bare)))
    assert not regions.exclude
    assert not regions.analyse
    assert [note.split(": ", 1)[1] for note in regions.notes] == [
        f"{message} left aside; regions are of class 'exclude' or 'analyse'."
        for message in ("1 feature of class 'Tumor: Positive'", "2 features without a class")
    ]


def test_holes_and_several_polygons():
    hole = [[3, 2], [4, 2], [4, 3], [3, 3]]
    several = feature()
    several["geometry"] = {
        "type": "MultiPolygon",
        "coordinates": [[SQUARE, hole], [[[5, 0], [8, 0], [8, 3], [5, 3], [5, 0]]]],
    }
    regions = regions_of("file", [several, feature(rings=[[[0, 8], [2, 8], [2, 9], [0, 9]]])])
    expected = np.zeros((10, 10), bool)
    expected[1:4, 2:6] = True
    expected[2, 3] = False
    expected[0:3, 5:8] = True
    assert np.array_equal(regions.exclude[0].to_mask(Window.from_shape((10, 10))), expected)
    assert regions.exclude[0].box == Window(0, 4, 2, 8)
    expected[8, 0:2] = True
    assert np.array_equal(mask_over(regions.exclude, Window(0, 10, 0, 10)), expected)
    assert np.array_equal(mask_over(regions.exclude, Window(2, 9, 3, 7)), expected[2:9, 3:7])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[{]", r"line 1: it is not JSON"),
        ("[" * 300_001, "more than 300000 points"),
        ("[" * 100_000, "nested too deeply|no GeoJSON needs"),
        ({"type": "Polygon", "coordinates": []}, "object of type 'Polygon'"),
        ({"type": "FeatureCollection"}, "no list of features"),
        ([feature(), 3], "feature 2 is .* GeoJSON Feature"),
        ([feature(geometry=None)], "feature 1 has no geometry"),
        ([feature(geometry={"type": "LineString", "coordinates": []})], "is a LineString"),
        ([feature(rings=[])], "without an outline"),
        ([feature(rings=[[[1, 1], [2, 2], [1, 1]]])], "fewer than three points"),
        ([feature(rings=[[[1, 1], [2, 2], [1, "x"]]])], r'point \[1, "x"\]'),
        (NO_NUMBER, r"point \[NaN, 1\]"),
        ([feature(rings=[[[1, 1], [2, 2], [1e300, 3]]])], r"point \[1e\+300, 3\]"),
        ([feature(rings=[[[90, 90], [99, 90], [99, 99]]])], "x 90 to 99, y 90 to 99,.* outside"),
    ],
)  # fmt: skip
def test_damage_is_reported_in_a_sentence_that_names_the_file(tmp_path, content, message):
    path = written(tmp_path, content)
    with pytest.raises(InputError, match=message) as info:
        read_regions(path, (50, 50))
    assert str(info.value).startswith(str(path))
    assert str(info.value).count("\n") == 0


def test_too_much_is_refused(tmp_path):
    angle = np.linspace(0, 6, 100_001)
    many = np.stack([20 + 9 * np.cos(angle), 20 + 9 * np.sin(angle)], axis=1).round(2).tolist()
    with pytest.raises(InputError, match="100001 vertices"):
        read_regions(written(tmp_path, [feature(rings=[many])]))
    with pytest.raises(InputError, match="larger than 8 MB"):
        read_regions(written(tmp_path, " " * MOST_BYTES + "[]"))


def test_not_text_and_not_there(tmp_path):
    path = tmp_path / "a.geojson"
    with pytest.raises(InputError, match="cannot be read"):
        read_regions(path)
    path.write_bytes(b"\xff\xfe[]")
    with pytest.raises(InputError, match="not UTF-8"):
        read_regions(path)


def test_features_are_put_and_deleted_by_id(tmp_path):
    path = tmp_path / "pair" / "regions.geojson"
    one = change_regions(path, [feature(id="a"), {**feature("analyse"), "id": ""}])
    names = [f["id"] for f in one["features"]]
    assert names[0] == "a"
    assert re.fullmatch(r"[0-9a-f-]{36}", names[1])
    moved = feature("analyse", [[[0, 0], [1, 0], [1, 1]]], id="a")
    moved["properties"]["name"] = "“Falte”, <b>"
    two = change_regions(path, [moved], [names[1], "unknown"])
    assert two["features"] == [moved] == read_collection(path)["features"]
    assert json.loads(path.read_text())["features"] == [moved]
    file = path.stat().st_ino
    assert change_regions(path, [moved], ["unknown"]) == two
    assert path.stat().st_ino == file  # nothing has changed, so it is not written again


def test_nothing_is_written_for_what_is_no_region(tmp_path):
    path = tmp_path / "regions.geojson"
    with pytest.raises(InputError, match="of class 'Tumor'"):
        change_regions(path, [feature(), feature("Tumor")])
    with pytest.raises(InputError, match="feature 1 is a Point"):
        change_regions(path, [feature(geometry={"type": "Point", "coordinates": [1, 1]})])
    assert not path.exists()
    path.write_text("[")
    with pytest.raises(InputError, match="not JSON"):
        change_regions(path, [feature()])
    assert path.read_text() == "["


def test_features_of_a_file_without_ids_keep_apart(tmp_path):
    path = written(
        tmp_path, [{**feature(), "id": 7}, {**feature(), "id": "7"}, {**feature(), "id": ""}]
    )
    assert [f["id"] for f in read_collection(path)["features"]] == ["7", "7-again", "feature-3"]
    assert len(change_regions(path, [], ["7"])["features"]) == 2


def test_many_writers_lose_nothing(tmp_path):
    path = tmp_path / "regions.geojson"
    names = {f"region-{k}" for k in range(24)}
    with ThreadPoolExecutor(24) as pool:
        list(pool.map(lambda name: change_regions(path, [feature(id=name)]), names))
    assert {f["id"] for f in read_collection(path)["features"]} == names


def test_drawn_regions_go_where_the_workflow_reads_them(tmp_path):
    drawn, used = tmp_path / "results" / "regions.geojson", tmp_path / "raw" / "a.regions.geojson"
    change_regions(drawn, [feature(id="a")])
    assert use_regions(drawn, used) is None
    assert read_collection(used) == read_collection(drawn)
    change_regions(drawn, [], ["a"])
    kept = use_regions(drawn, used)
    assert kept == used.with_name("a.regions.geojson.before")
    assert read_collection(used)["features"] == []
    assert [f["id"] for f in read_collection(kept)["features"]] == ["a"]


def test_where_nothing_was_drawn_the_workflow_reads_what_it_did(tmp_path):
    used = written(tmp_path, [feature(id="by hand")])
    assert use_regions(tmp_path / "regions.geojson", used) is None
    assert [f["id"] for f in read_collection(used)["features"]] == ["by hand"]


def test_what_the_workflow_reads_is_what_drawing_begins_with(tmp_path):
    used = written(tmp_path, [feature(id="by hand")])
    drawn = tmp_path / "regions.geojson"
    both = change_regions(drawn, [feature(id="new")], first=used)
    assert [f["id"] for f in both["features"]] == ["by hand", "new"]


def ring(*points):
    return np.array(points, np.float64)


def crossing_rule(rings, col, row):
    """Point in polygon by the plain rule, one ray to the left."""
    inside = False
    for points in rings:
        for (ax, ay), (bx, by) in zip(points, np.roll(points, -1, axis=0), strict=True):
            if min(ay, by) <= row < max(ay, by):
                inside ^= ax + (row - ay) / (by - ay) * (bx - ax) <= col
    return inside


def test_two_that_share_a_side_share_no_px():
    left = Polygon.from_rings([ring((0, 0), (4, 0), (4, 4), (0, 4))])
    right = Polygon.from_rings([ring((4, 0), (9, 0), (9, 4), (4, 4))])
    whole = Window(0, 6, 0, 10)
    assert not (left.to_mask(whole) & right.to_mask(whole)).any()
    assert np.count_nonzero(left.to_mask(whole) | right.to_mask(whole)) == 4 * 9


@pytest.mark.parametrize("seed", range(8))
def test_px_follow_the_crossing_rule_in_every_window(seed):
    rng = np.random.default_rng(seed)
    rings = [rng.uniform(-6, 40, (n, 2)) for n in rng.integers(3, 14, 3)]
    if seed % 2:  # on centres of px as well
        rings = [np.round(r) for r in rings]
    shape = (33, 37)
    expected = [[crossing_rule(rings, c, r) for c in range(shape[1])] for r in range(shape[0])]
    shape_of = Polygon.from_rings(rings)
    assert np.array_equal(shape_of.to_mask(Window.from_shape(shape)), np.array(expected))
    for window in grid(shape, (7, 10)):
        assert np.array_equal(shape_of.to_mask(window), np.array(expected)[window.slices])
    row, col = np.indices(shape).reshape(2, -1)
    some = rng.permutation(row.size)[:200]
    assert np.array_equal(shape_of.holds(col[some], row[some]), np.array(expected).ravel()[some])
    assert not shape_of.holds(np.zeros(0, np.int64), np.zeros(0, np.int64)).any()
