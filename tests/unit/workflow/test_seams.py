"""Seams of either image through the stages: no data in pre, excluded in post, and said."""

from __future__ import annotations

import json

import cv2
import numpy as np
import pytest
from made_stores import write_store

from unglow.core.records import to_plain
from unglow.core.windows import Window
from unglow.detection.section_mask import Section
from unglow.detection.settings import DetectSettings
from unglow.images.zarr import open_store, plan_layout
from unglow.photometry.difference import Matched
from unglow.photometry.gain.scale import MethodResult, Scale
from unglow.photometry.imaging import NoiseModel
from unglow.review.polygons import Polygon, Region, Regions
from unglow.stages.align import AlignedStore
from unglow.stages.detect import detect
from unglow.stages.difference import DifferenceStore
from unglow.stages.snr import DetectInputs
from unglow.transform import Quantiles, Transform

SHAPE = (900, 1000)
ROWS = (150, 450, 750)
SENTENCE = "Seams of {} every 300 px were excluded."
IDENTITY = Transform("ok", SHAPE, SHAPE, matrix=np.eye(3), error_px=Quantiles(0.02, 0.05))


def make_image(seed: int, factor: float = 1.0, film: float = 0.0) -> np.ndarray:
    """Draw the section with the noise of one exposure, rows brighter by a factor, and a film."""
    texture = np.random.default_rng(1).standard_normal(SHAPE).astype(np.float32)
    light = (1000 + 1500 * cv2.GaussianBlur(texture, (0, 0), 2.5)).clip(300, 2500)
    y, x = np.mgrid[: SHAPE[0], : SHAPE[1]]
    light[np.hypot(y - 600, x - 500) < 130] += film
    image = light + np.sqrt(light) * np.random.default_rng(seed).standard_normal(SHAPE)
    image[list(ROWS)] *= factor
    return image.round().astype(np.uint16)


def make(folder, post=1.0, pre=1.0, regions=None, spoilt="auto", film=0.0, lost=None):
    """Return the inputs of a search, its report, and the pixels of aligned pre.

    ``lost`` (rows, cols) are px without a value in both images, of real numbers then.
    """
    stores = []
    for name, drawn in (("post", make_image(2, post, film)), ("pre", make_image(3, pre))):
        image = drawn if lost is None else np.where(lost, np.nan, drawn).astype("f4")
        about = {"min": float(np.nanmin(image)), "max": float(np.nanmax(image))}
        stores.append(
            write_store(
                folder / f"{name}.ome.zarr",
                image,
                plan_layout(SHAPE, image.dtype.name),
                attributes={"grey_levels": "integer"},
                statistics=about,
            )
        )
    layout = plan_layout(SHAPE, "float32")
    aligned = AlignedStore(*stores, IDENTITY, layout, folder / "aligned_pre.ome.zarr")
    aligned.make(workers=2)
    noise = to_plain(NoiseModel(0.0, 1.0, 0.0, 1.0))
    scale = Scale("linear", {"linear": MethodResult(1.0, 0.0, (0.99, 1.01), {"noise": noise})})
    images = Matched(stores[0], open_store(aligned.path), None)
    path = folder / "difference.ome.zarr"
    made = DifferenceStore(images, scale, aligned.statistics, ("linear",), layout, path)
    made.make(workers=2)
    made.blocks.save(folder / "blocks.npz", {"lines": made.lines})
    inputs = DetectInputs(
        *stores, images.aligned, open_store(path), scale, IDENTITY, regions, folder / "blocks.npz"
    )
    names = ("table", "geojson", "artefacts", "report", "search_counts")
    targets = {name: folder / name for name in names}
    detect(inputs, DetectSettings(spoilt=spoilt), targets, version=1, workers=2)
    report = json.loads(targets["report"].read_text())
    return inputs, report, images.aligned.read(Window.from_shape(SHAPE))


def test_a_clean_pair_has_none(tmp_path):
    inputs, report, aligned = make(tmp_path)
    assert report["notes"] == []
    assert report["spoilt"]["by_reason"] == {}
    assert "seams" not in inputs.aligned.attributes
    assert np.isfinite(aligned).all()


@pytest.mark.parametrize("factor", [0.9, 1.1, 1.3])
def test_seams_of_post_are_excluded_and_said(tmp_path, factor):
    _, report, aligned = make(tmp_path, post=factor)
    assert [one["sentence"] for one in report["notes"]] == [SENTENCE.format("post")]
    assert report["spoilt"]["by_reason"]["seam"]["places"] == 3
    assert report["masked_px"]["spoilt"] == 3 * 7 * 1000
    assert report["spoilt"]["share"] == pytest.approx(3 * 7 / 900, rel=0.05)
    assert report["candidates"] == 0
    assert np.isfinite(aligned).all()
    features = json.loads((tmp_path / "artefacts").read_text())["features"]
    assert [one["properties"]["reason"] for one in features] == ["seam"] * 3


def test_seams_are_left_if_nothing_is_to_be_excluded(tmp_path):
    _, report, _ = make(tmp_path, post=1.3, spoilt="never")
    assert report["masked_px"]["spoilt"] == 0
    assert report["notes"] == []


def count_in(x0, y0, x1, y1):
    """Return regions of which one says that a box is to be searched."""
    ring = np.array([[x0, y0], [x1, y0], [x1, y1], [x0, y1]], np.float64)
    return Regions((), (Region("analyse", "here", (Polygon.from_rings([ring]),)),))


def test_regions_to_count_in_overrule(tmp_path):
    inputs, _, _ = make(tmp_path, post=1.3, regions=count_in(100, 400, 400, 500))
    section = Section.from_pixels(inputs.aligned)
    seams = inputs.places(section, DetectSettings())[0].seams
    assert [seam.place for seam in seams.lines] == [ROWS[0], ROWS[2]]


def test_much_debris_is_a_reason(tmp_path):
    _, report, _ = make(tmp_path, film=400.0)
    assert report["spoilt"]["by_reason"]["debris"]["share"] > 0.05
    assert "debris" in [one["key"] for one in report["reasons"]]


def test_debris_in_a_region_to_count_in_is_searched(tmp_path):
    _, report, _ = make(tmp_path, film=400.0, regions=count_in(300, 400, 700, 800))
    assert "debris" not in report["spoilt"]["by_reason"]


@pytest.mark.parametrize("factor", [0.0, 0.7, 1.4])
def test_seams_of_pre_are_no_data_and_said(tmp_path, factor):
    _, report, aligned = make(tmp_path, pre=factor)
    lost = np.isnan(aligned).all(axis=1).nonzero()[0].tolist()
    # what is interpolated from px of a seam and next to it
    assert lost == [row + k for row in ROWS for k in range(-3, 3)]
    assert np.isnan(aligned).sum() == len(lost) * SHAPE[1]
    assert [one["sentence"] for one in report["notes"]] == [SENTENCE.format("pre")]
    assert report["candidates"] == 0


@pytest.mark.parametrize(
    ("lost", "share", "key"),
    [
        (np.arange(SHAPE[0]) % 10 > 1, 1.0, "no_data"),  # 80 % of the rows, and those next to them
        (np.arange(SHAPE[0]) > 650, 0.279, "no_data"),
        (np.arange(SHAPE[0]) > 850, 0.057, "some_data"),
        (np.arange(SHAPE[0]) > 890, 0.012, None),
    ],
)
def test_a_section_without_much_of_its_data_is_doubtful_and_some_is_a_note(
    tmp_path, lost, share, key
):
    _, report, aligned = make(tmp_path, lost=np.repeat(lost[:, None], SHAPE[1], axis=1))
    assert np.isnan(aligned).mean() == pytest.approx(share, abs=1e-3)
    reasons, notes = ({one["key"] for one in report[name]} for name in ("reasons", "notes"))
    assert ("no_data" in reasons, "some_data" in notes) == (key == "no_data", key == "some_data")
