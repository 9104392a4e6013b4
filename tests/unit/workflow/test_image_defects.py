"""Defects of cameras, stages and files: at most 8 % of a list is false, or a reason says why.

Each is put into a phantom of 8 or of 16 bit that the stages take from its files to its list.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
import tifffile

from unglow.core.windows import Window
from unglow.detection.settings import DetectSettings
from unglow.images.detection_results import read_candidates
from unglow.images.zarr import open_store, plan_layout
from unglow.phantom import PhantomSpec
from unglow.phantom.render import Renderer
from unglow.photometry.difference import Matched
from unglow.photometry.gain.estimate import Evidence, estimate
from unglow.photometry.gain.scale import ScaleSettings
from unglow.registration.register import RegisterSettings
from unglow.stages.align import AlignedStore
from unglow.stages.detect import detect
from unglow.stages.difference import DifferenceStore
from unglow.stages.ingest import SignalStore
from unglow.stages.plan import make_plan
from unglow.stages.register import register_stores
from unglow.stages.snr import DetectInputs
from unglow.workflow.batch import Batch

SIDE, MATCH_PX, MOST_FALSE = 900, 3.0, 0.08


@cache
def phantom(dtype):
    """Return post, pre and the places (N, 2) of the microbes of a phantom."""
    renderer = Renderer(
        PhantomSpec(shape=(SIDE, SIDE), rgb=False, seed=4, dtype=np.dtype(dtype).name,
                    microbes_per_mpx=250.0)
    )  # fmt: skip
    images = (renderer.pixels(k, Window.from_shape(renderer.shape(k))) for k in ("post", "pre"))
    return *images, renderer.microbes.xy


@dataclass(frozen=True)
class Outcome:
    """Reasons of a pair (sentences, and keys of those of its search), and its candidates."""

    reasons: list[str]
    true: int
    false: int

    @property
    def false_share(self) -> float:
        """Share of false ones among those that are counted."""
        return self.false / (self.true + self.false)


def search(work, post, pre, microbes):
    """Take a pair through the stages, from its files to its candidates."""
    (work / "raw" / "P").mkdir(parents=True)
    for role, image in (("post", post), ("pre", pre)):
        path = work / "raw" / "P" / f"P_{role}_D.tif"
        tifffile.imwrite(path, image, photometric="minisblack")
    headers = Batch.load({}, work).headers["P", "D"]
    plan = make_plan(*headers, channel="auto", dye="D")
    for role in ("post", "pre"):
        SignalStore(plan, role, work / f"{role}.ome.zarr").make(workers=2)
    stores = [open_store(work / f"{role}.ome.zarr") for role in ("post", "pre")]
    found = register_stores(*stores, RegisterSettings(), workers=2).transform
    layout = plan_layout(stores[0].shape, "float32")
    made = AlignedStore(*stores, found, layout, work / "aligned_pre.ome.zarr")
    made.make(workers=2)
    aligned = open_store(made.path)
    evidence = Evidence(made.statistics, made.bins, found.resampling_map)
    scale = estimate(evidence, ScaleSettings(methods=("linear",)))
    path = work / "difference.ome.zarr"
    left = DifferenceStore(
        Matched(stores[0], aligned), scale, made.statistics, ("linear",), layout, path
    )
    left.make(workers=2)
    left.blocks.save(work / "blocks.npz", {"lines": left.lines})
    inputs = DetectInputs(
        *stores, aligned, open_store(path), scale, found, None, work / "blocks.npz"
    )
    names = ("table", "geojson", "artefacts", "report", "search_counts")
    targets = {name: work / name for name in names}
    detect(inputs, DetectSettings(), targets, version=1, workers=2)
    report = json.loads(targets["report"].read_text())
    table = read_candidates(targets["table"])
    xy = table.xy[table.is_counted]
    near = np.hypot(*(xy[:, None] - microbes).transpose(2, 0, 1)).min(axis=1, initial=99) < MATCH_PX
    reasons = [*found.reasons, *scale.reasons, *(one["key"] for one in report["reasons"])]
    return Outcome(reasons, int(near.sum()), int((~near).sum()))


def on_section(image, count, seed=1):
    """Draw places on the section, rows and columns."""
    bright = np.argwhere(image > np.quantile(image, 0.5))
    return tuple(bright[np.random.default_rng(seed).integers(0, len(bright), count)].T)


def put(image, places, value, *, side=1):
    """Set squares of px to a value."""
    for row in range(side):
        for col in range(side):
            image[places[0] - row, places[1] - col] = value


def top(image):
    return np.iinfo(image.dtype).max


def draw_lines(image, factor, width, every=200):
    for line in range(every, min(image.shape), every):
        for part in (image[line : line + width], image[:, line : line + width]):
            part[:] = np.minimum(part * factor, top(image))


def draw_tracks(image, count):
    """Draw tracks of particles, 6 px long, in any direction."""
    rng = np.random.default_rng(2)
    for row, col in zip(*on_section(image, count), strict=True):
        angle, along = rng.uniform(0, np.pi), np.arange(6)
        rows, cols = (np.rint(at + along * f(angle)) for at, f in ((row, np.sin), (col, np.cos)))
        image[np.clip(rows, 0, SIDE - 1).astype(int), np.clip(cols, 0, SIDE - 1).astype(int)] = top(
            image
        )


def hot(which, count, **options):
    def change(post, pre):
        for name, image in (("post", post), ("pre", pre)):
            if name in which:
                put(image, on_section(image, count), top(image), **options)

    return change


def clip_pre(share):
    return lambda _, pre: np.minimum(pre, np.quantile(pre, 1 - share).astype(pre.dtype), out=pre)


def lose_px(_, pre):
    put(pre, on_section(pre, 400), 0)


def lose_rows(_, pre):
    pre[50::100] = 0


DEFECTS = {
    "nothing": lambda post, pre: None,
    "0.1 % of pre saturated": clip_pre(0.001),
    "1 % of pre saturated": clip_pre(0.01),
    "400 dead px in pre": lose_px,
    "every 100th row of pre lost": lose_rows,
    "seams 10 %": lambda post, _: draw_lines(post, 1.1, 1),
    "seams 30 %": lambda post, _: draw_lines(post, 1.3, 1),
    "seams 12 %, 2 px": lambda post, _: draw_lines(post, 1.12, 2),
    "seams 100 %, 2 px": lambda post, _: draw_lines(post, 2.0, 2),
    "dark seams": lambda post, _: draw_lines(post, 0.8, 1),
    "dark seams, 2 px": lambda post, _: draw_lines(post, 0.5, 2),
    "5 hot px in post": hot(("post",), 5),
    "50 hot px in post": hot(("post",), 50),
    "20 hot 2 x 2 px in post": hot(("post",), 20, side=2),
    "50 hot px in pre": hot(("pre",), 50),
    "20 hot px in both": hot(("post", "pre"), 20),
    "15 tracks in post": lambda post, _: draw_tracks(post, 15),
}


@pytest.mark.parametrize("name", DEFECTS)
def test_defects_do_not_fill_the_list(tmp_path, name):
    post, pre, microbes = phantom((np.uint8, np.uint16)[list(DEFECTS).index(name) % 2])
    post, pre = post.copy(), pre.copy()
    DEFECTS[name](post, pre)
    found = search(tmp_path, post, pre, microbes)
    assert found.reasons == []
    assert found.true > 60
    assert found.false_share <= MOST_FALSE


@pytest.mark.parametrize("divisor", [2, 3, 5])
def test_few_grey_levels_are_a_reason(tmp_path, divisor):
    post, pre, microbes = phantom(np.uint8)
    found = search(tmp_path, post // divisor, pre // divisor, microbes)
    assert found.false_share <= MOST_FALSE or found.reasons == ["few_levels"]
    assert "few_levels" in found.reasons or divisor < 5


@pytest.mark.parametrize(
    ("fill", "which", "side"),
    [(0, "post", 32), (0, "both", 100), (0, "pre", 100), (65535, "both", 32), (65535, "pre", 250),
     (3000, "pre", 32), (3000, "post", 100), (np.nan, "pre", 100), (np.nan, "post", 250),
     (np.nan, "both", 32)],
)  # fmt: skip
def test_a_hole_has_no_data_and_no_candidates(tmp_path, fill, which, side):
    *images, microbes = phantom(np.uint16)
    dtype = np.float32 if np.isnan(fill) else np.uint16
    images = [image.astype(dtype) for image in images]
    for name, image in zip(("post", "pre"), images, strict=True):
        if which in (name, "both"):
            image[400 : 400 + side, 420 : 420 + side] = fill
    found = search(tmp_path, *images, microbes)
    assert all("not imaged" in one or one == "no_data" for one in found.reasons)
    assert bool(found.reasons) or np.isnan(fill)
    assert found.true > 60
    assert found.false_share <= MOST_FALSE
