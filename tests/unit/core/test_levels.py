"""Levels of results: names of rows, and directories of variants recognised by their content."""

from __future__ import annotations

import pytest

from unglow.core.levels import (
    DETAILS,
    LEVELS,
    RESULT_OF,
    name_of,
    names_of,
    nearest,
    place_of,
    variants_in,
)

ROW = {"sample": "s", "dye": "D", "registration": "model-affine", "detection": "fdr-0.1"}


def test_a_row_is_named_by_the_levels_that_it_has(tmp_path):
    assert names_of(ROW) == ("s", "D", "", "model-affine", "", "fdr-0.1")
    assert name_of(ROW | {"method": "linear"}) == "s D model-affine fdr-0.1"
    assert place_of(tmp_path, ROW) == tmp_path / "s/D/model-affine/fdr-0.1"
    assert place_of(tmp_path, ROW, "registration") == tmp_path / "s/D/model-affine"
    assert place_of(tmp_path, ROW, "ingestion") == tmp_path / "s/D"


def made(pair, swept):
    """Make the results of one variant, with directories on some levels and their neighbours."""
    place, names = pair, {}
    for level, name in RESULT_OF.items():
        if level in swept:
            place, names = place / f"{level}-1", {**names, level: f"{level}-1"}
        for other in ("figures", DETAILS, "post.ome.zarr/0"):
            (place / other).mkdir(parents=True, exist_ok=True)
        (place / name).touch()
    return place, names


@pytest.mark.parametrize(
    "swept",
    [*[(level,) for level in RESULT_OF], ("subtraction", "detection"), tuple(RESULT_OF), ()],
)
def test_a_directory_reports_which_levels_were_swept(tmp_path, swept):
    place, names = made(tmp_path / "s" / "D", swept)
    found = [*variants_in(tmp_path / "s" / "D")]
    assert found[0] == (tmp_path / "s" / "D", {})
    assert found[-1] == (place, names)
    assert len(found) == 1 + len(swept)
    row = {"sample": "s", "dye": "D", **names}
    assert place_of(tmp_path, row) == place
    for level, name in RESULT_OF.items():
        assert nearest(place, name) == place_of(tmp_path, row, level) / name
    assert nearest(place / "figures" / "a" / "b", "nothing.json") is None


def test_variants_are_found_in_the_order_of_a_walk(tmp_path):
    for outer in ("b", "a"):
        for inner in ("y", "x"):
            (tmp_path / outer / inner).mkdir(parents=True)
            (tmp_path / outer / inner / "scale.json").touch()
        (tmp_path / outer / "transform.json").touch()
    places = [place.relative_to(tmp_path).as_posix() for place, _ in variants_in(tmp_path)]
    assert places == [".", "a", "a/x", "a/y", "b", "b/x", "b/y"]
    assert [*variants_in(tmp_path / "missing")] == [(tmp_path / "missing", {})]
    assert LEVELS[:2] == ("sample", "dye")
