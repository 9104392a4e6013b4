"""The small files of a slide, written and read again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from unglow.core.errors import StoreError
from unglow.images.slide_plan import Channel, Slide
from unglow.photometry.difference_histogram import DifferenceHistogram
from unglow.photometry.gain.scale import MethodResult, Scale
from unglow.results.slide_files import (
    MarkerOverview,
    MarkerScale,
    MarkerSubtraction,
    SlideRecord,
    Subtraction,
    load_residues,
    load_scales,
    name_figure_files,
    overview_of,
    save_overviews,
    save_residues,
    save_scales,
)

SLIDE = Slide(
    "s1",
    (Path("/raw/s1/cycle1.ome.tif"), Path("/raw/s1/cycle2.ome.tif")),
    (
        Channel("DAPI", 0, 0),
        Channel("AF", 0, 1, exposure=100.0),
        Channel("CD3/CD8", 1, 0, cycle=2, exposure=150.0, background="AF"),
        Channel("Ki.67", 0, 2, background="AF"),
    ),
    {1: "DAPI", 2: "CD3/CD8"},
)


def test_a_slide_is_read_as_it_was_written_without_where_it_was(tmp_path):
    path = tmp_path / "s1" / "slide.json"
    path.parent.mkdir()
    record = SlideRecord(SLIDE, (300, 400), "uint16", (0.5, 0.5), ("a", "b"))
    record.save(path)
    found = SlideRecord.load(path)
    assert found.slide.channels == SLIDE.channels
    assert found.slide.name == "s1"
    assert found.slide.registered_on == SLIDE.registered_on
    assert [str(image) for image in found.slide.images] == ["cycle1.ome.tif", "cycle2.ome.tif"]
    assert (found.shape, found.dtype, found.pixel_size_um) == ((300, 400), "uint16", (0.5, 0.5))
    assert (found.fingerprints, found.reason) == (("a", "b"), None)


def test_scales_are_read_as_they_were_written(tmp_path):
    path = tmp_path / "scale.json"
    measured = Scale("linear", {"linear": MethodResult(1.4, 2.0, (1.39, 1.41))}, reasons=("A.",))
    scales = {
        "CD3/CD8": MarkerScale(measured, 1.5, (0.1, -0.2), 0.03, 40),
        "Ki.67": MarkerScale(Scale.make_failed("No map.")),
    }
    save_scales(path, SLIDE, scales)
    assert load_scales(path) == scales
    path.write_text('{"version": 1, "markers": {"CD3/CD8": {}}}')
    with pytest.raises(StoreError, match="damaged"):
        load_scales(path)


def test_what_became_of_markers_is_read_as_it_was_written(tmp_path):
    markers = {name: MarkerSubtraction("linear", 0.25, 0.0, (0.0, 9.0)) for name in ("b", "a")}
    subtraction = Subtraction("uint16", "nearest", ("corrected.ome.tif",), markers)
    subtraction.save(tmp_path / "details/subtraction.json")
    assert Subtraction.load(tmp_path / "details/subtraction.json") == subtraction
    histograms = [DifferenceHistogram.create(-n, n, 1) for n in range(12)]
    names = [f"marker.{n}" for n in range(12)]
    save_residues(tmp_path / "details/residues.npz", histograms)
    found = load_residues(tmp_path / "details/residues.npz", names)
    assert [found[name].low for name in names] == [-n for n in range(12)]
    with pytest.raises(StoreError, match="damaged"):
        load_residues(tmp_path / "details/residues.npz", [*names, "one more"])


def test_overviews_are_read_one_by_one(tmp_path):
    path = tmp_path / "details/overviews.npz"
    drawn = [MarkerOverview(*(np.full((2, 3), 10 * n + k, "f4") for k in range(3))) for n in (1, 2)]
    save_overviews(path, drawn, 8.0)
    for n, expected in enumerate(drawn):
        found, step = overview_of(path, n)
        assert step == 8.0
        np.testing.assert_array_equal(found.after, expected.after)
    with pytest.raises(StoreError, match="damaged"):
        overview_of(path, 2)


def test_each_marker_has_a_figure_of_its_own():
    names = ["CD3/CD8", "CD3 CD8", "cd3_cd8", "Ki.67", "..", "slide", "α-SMA"]
    files = name_figure_files(names)
    assert [*files] == names
    assert [*files.values()] == [
        *("CD3_CD8.png", "CD3_CD8_2.png", "cd3_cd8_3.png"),
        *("Ki.67.png", "marker.png", "slide_2.png", "α-SMA.png"),
    ]
