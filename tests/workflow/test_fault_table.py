"""Every fault that images, disks and users have shown us: right, or one sentence; never garbage.

What a single stage decides (formats, doubtful pairs) goes through the same functions that the
scripts call. Pairs that a run leaves out or ends as failed: `test_bad_inputs`.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass

import cv2
import numpy as np
import pytest
import tifffile
from real_runs import BIN, PROJECT, TABLES, bytes_of, command, snakemake, summary_of

from unglow.core.windows import Window
from unglow.images.pair_plan import Plan
from unglow.images.zarr import open_store, plan_layout
from unglow.photometry.gain.estimate import Evidence, estimate
from unglow.photometry.gain.scale import Scale, ScaleSettings
from unglow.registration.register import RegisterSettings
from unglow.results.pair import judge
from unglow.stages.align import AlignedStore
from unglow.stages.ingest import SignalStore
from unglow.stages.plan import make_plan
from unglow.stages.register import register_stores
from unglow.workflow.batch import Batch

pytestmark = pytest.mark.workflow

GAIN = 1.3


@dataclass(frozen=True)
class Phantom:
    """Images of the small phantom, the files that hold them, and its true map."""

    rgb: tuple[np.ndarray, np.ndarray]
    matrix: np.ndarray

    @property
    def post(self):
        return self.rgb[0][..., 1]

    @property
    def pre(self):
        return self.rgb[1][..., 1]


@pytest.fixture(scope="module")
def phantom(small_raw):
    (source,) = (p for p in small_raw.iterdir() if p.is_dir())
    images = [tifffile.imread(next(source.glob(f"*_{role}_*.tif"))) for role in ("post", "pre")]
    (truth,) = source.glob("*truth.json")
    return Phantom(tuple(images), np.array(json.loads(truth.read_text())["map"]["matrix"]))


def write(raw, post, pre, **options):
    """Make the files of sample P, dye D."""
    (raw / "P").mkdir(parents=True)
    for role, image in (("post", post), ("pre", pre)):
        tifffile.imwrite(
            raw / "P" / f"P_{role}_D.tif", image, **({"photometric": "minisblack"} | options)
        )


def pixels(store):
    """All pixels of level 0."""
    return store.read(Window(0, store.shape[0], 0, store.shape[1]))


# ------------------------------------------------------------------------ disk and settings


def test_what_cannot_be_written_is_one_sentence_and_a_rerun_ends_right(small_work, small_finished):
    (pair,) = (small_work / "results").glob("*/SYTO9")
    limited = f"ulimit -f 400; exec {BIN}/snakemake -s {PROJECT}/Snakefile --cores 2"  # 400 kB
    store, histogram = pair / "difference.ome.zarr", pair / "details/difference.histogram.npz"
    for name in ("registration.png", store.name):
        if name == store.name:
            shutil.rmtree(store)
            histogram.unlink()
        else:
            (pair / "figures" / name).unlink()
        run = command(small_work, "bash", "-c", limited)
        assert run.code == 1
        assert f"{name} could not be written (File too large)" in run.text
        assert "see that its file system has free space" in run.text
        assert "Traceback" not in run.text
    row = next(iter(summary_of(small_work).values()))
    assert row["status"] == "incomplete"
    assert not [p for p in pair.rglob(".*") if p.name != ".snakemake_timestamp"]
    again = snakemake(small_work)
    assert again.code == 0, again.text
    assert bytes_of(small_work / "results") == bytes_of(small_finished / "results")


def test_a_replaced_raw_image_reruns_everything_that_follows(small_work):
    (post,) = (small_work / "raw").rglob("*_post_*.tif")
    before = next(iter(summary_of(small_work).values()))
    tifffile.imwrite(post, (tifffile.imread(post) * 0.8).astype(np.uint8), photometric="rgb")
    run = snakemake(small_work, *TABLES)
    assert run.code == 0, run.text
    assert {"ingest", "register", "align", "scale", "difference"} <= set(run.jobs())
    assert run.jobs()["ingest"] == 1
    after = next(iter(summary_of(small_work).values()))
    assert float(after["gain"]) == pytest.approx(0.8 * float(before["gain"]), rel=0.02)


# ------------------------------------------------------------------------ formats, stage by stage


def stored(work):
    """Ingest the pair as the jobs would; its plan and its stores."""
    batch = Batch.load({}, work)
    assert ("P", "D") in batch.pairs, batch.problems
    headers = batch.headers["P", "D"]
    plan = make_plan(*headers, channel="auto", dye="D")
    for role in ("post", "pre"):
        SignalStore(plan, role, work / f"{role}.ome.zarr").make(workers=2)
    return plan, *(open_store(work / f"{role}.ome.zarr") for role in ("post", "pre"))


# ------------------------------------------------------------------------ right, or not believed


def verdict(work, tmp_path, method="linear"):
    """Register, align and scale a pair as the jobs would; status, reasons, transform, gain."""
    plan, post, pre = stored(work)
    plan.save(tmp_path / "details/plan.json")
    found = register_stores(post, pre, RegisterSettings(), workers=2).transform
    layout = plan_layout(post.shape, "float32")
    aligned = AlignedStore(post, pre, found, layout, tmp_path / "aligned.ome.zarr")
    aligned.make(workers=2)
    settings = ScaleSettings(default=method)
    scale = (
        Scale.make_failed(" ".join(found.reasons), settings)
        if found.has_failed
        else estimate(Evidence(aligned.statistics, aligned.bins, found), settings)
    )
    read = Plan.load(tmp_path / "details/plan.json")
    status, reasons, _ = judge(read, found.to_dict(), scale, None)
    return status, " ".join(reasons), found, scale.methods[method].gain


def resized(image, factor):
    how = cv2.INTER_AREA if factor < 1 else cv2.INTER_LINEAR
    return cv2.resize(image, None, fx=factor, fy=factor, interpolation=how)


def after(pre_map, phantom):
    """The true matrix where pre was changed by a 3 x 3 map of its pixels."""
    return np.array(pre_map, dtype=float) @ phantom.matrix


def turned(phantom, quarter):
    height, width = phantom.pre.shape
    return {
        1: [[0, 1, 0], [-1, 0, width - 1], [0, 0, 1]],
        2: [[-1, 0, width - 1], [0, -1, height - 1], [0, 0, 1]],
    }[quarter]


def floats(phantom, scale=1.0):
    return [image.astype(np.float32) * np.float32(scale) for image in (phantom.post, phantom.pre)]


def with_holes(phantom):
    post, pre = floats(phantom)
    post[200:260, 300:400], pre[:40], pre[300:310, 300:310] = np.nan, np.nan, np.inf
    return post, pre


# name: post and pre, and the map that pre's pixels went through
RIGHT = {
    "float with NaN": lambda p: (*with_holes(p), np.eye(3)),
    "float 0 to 1": lambda p: (*floats(p, 1 / 255), np.eye(3)),
    "float of small values": lambda p: (*floats(p, 1e-4), np.eye(3)),
    "other size": lambda p: (p.post, np.pad(p.pre, ((150, 0), (150, 0))),
                             [[1, 0, 150], [0, 1, 150], [0, 0, 1]]),
    "90 degrees": lambda p: (p.post, np.rot90(p.pre), turned(p, 1)),
    "180 degrees": lambda p: (p.post, np.rot90(p.pre, 2), turned(p, 2)),
    "double magnification": lambda p: (p.post, resized(p.pre, 2),
                                       [[2, 0, 0.5], [0, 2, 0.5], [0, 0, 1]]),
    "in a corner of post": lambda p: (np.pad(p.post, ((0, 700), (0, 900))), p.pre, np.eye(3)),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_an_unusual_pair_is_registered_and_scaled_right(phantom, tmp_path, name):
    post, pre, change = RIGHT[name](phantom)
    write(tmp_path / "raw", post, np.ascontiguousarray(pre))
    status, reasons, found, gain = verdict(tmp_path, tmp_path)
    assert status == "ok", reasons
    points = np.array([[100.0, 100], [800, 100], [100, 600], [800, 600], [450, 350]])
    wanted = np.c_[points, np.ones(5)] @ after(change, phantom).T
    px = np.sqrt(np.linalg.det(change))  # of post, in px of pre
    assert np.hypot(*(found.map(points) - wanted[:, :2]).T).max() < 0.3 * px
    assert gain == pytest.approx(GAIN, rel=0.025)


NOT_BELIEVED = {
    "half magnification": (lambda p: (p.post, resized(p.pre, 0.5)), "suspect"),
    "mirrored": (lambda p: (p.post, np.ascontiguousarray(p.pre[:, ::-1])), "failed"),
    "pre black": (lambda p: (p.post, p.pre * 0), "failed"),
    "constant": (lambda p: (p.post * 0 + 7, p.pre * 0 + 5), "failed"),
    "saturated everywhere": (lambda p: (p.post * 0 + 255, p.pre), "failed"),
    "saturated in the section": (
        lambda p: (np.clip(p.post.astype(int) * 12, 0, 255).astype(np.uint8), p.pre), "suspect"),
    "nothing but NaN": (lambda p: [f * np.nan for f in floats(p)], "failed"),
    "64 x 64": (lambda p: (p.post[300:364, 300:364], p.pre[300:364, 300:364]), "failed"),
    "one row": (lambda p: (p.post[300:301], p.pre[300:301]), "failed"),
    "one pixel": (lambda p: (p.post[300:301, 300:301], p.pre[300:301, 300:301]), "failed"),
    "a mask": (lambda p: (p.post > 50, p.pre > 40), "suspect"),
}  # fmt: skip
OFFSETS = {
    "below zero": lambda p: [f - 20 for f in floats(p)],
    "camera offset": lambda p: [np.clip(i.astype(int) + 20, 0, 255).astype(np.uint8)
                                for i in (p.post, p.pre)],
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_BELIEVED)
def test_a_pair_that_cannot_be_right_never_ends_ok(phantom, tmp_path, name):
    make, expected = NOT_BELIEVED[name]
    write(tmp_path / "raw", *make(phantom))
    status, reasons, _, gain = verdict(tmp_path, tmp_path)
    assert status == expected, (reasons, gain)
    assert reasons.endswith((".", ")."))


@pytest.mark.parametrize("name", OFFSETS)
def test_offsets_of_cameras_matter_to_ratios_and_not_to_the_line(phantom, tmp_path, name):
    write(tmp_path / "raw", *OFFSETS[name](phantom))
    status, reasons, _, gain = verdict(tmp_path, tmp_path)
    assert status == "ok", reasons
    assert gain == pytest.approx(GAIN, rel=0.01)
    status, reasons, _, ratio = verdict(tmp_path, tmp_path, method="moffat")
    assert status == "suspect", (reasons, ratio)
    assert "makes every ratio wrong" in reasons or "makes the ratio wrong" in reasons
