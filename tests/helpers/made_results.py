"""Results of a small pair, made by the functions of the stages in a second."""

from __future__ import annotations

import json
import shutil
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import cv2
import numpy as np
from made_plan import plan_content
from made_scenes import render
from made_stores import write_store

from unglow.core.records import to_plain
from unglow.detection.settings import DetectSettings
from unglow.images.zarr import open_store, plan_layout
from unglow.photometry import imaging
from unglow.photometry.difference import Matched
from unglow.photometry.gain.scale import MethodResult, Scale
from unglow.photometry.imaging import GainMap, NoiseModel
from unglow.registration.block_table import BLOCK_DTYPE, write_blocks
from unglow.stages.align import AlignedStore
from unglow.stages.detect import detect
from unglow.stages.difference import DifferenceStore
from unglow.stages.snr import DetectInputs
from unglow.transform import Transform
from unglow.transform.displacement import Displacement
from unglow.transform.transform import Quantiles

#: Neither is a whole number of chunks, and there are three levels.
SHAPE, PRE_SHAPE = (700, 1100), (720, 1090)
MATRIX = np.array([[1, 0, 2.25], [0, 1, 4.5], [0, 0, 1.0]])
GAIN, OFFSET = 1.5, 10.0


def image_store(path, image, pixel_size_um=(0.5, 0.25)):
    """Write an image as ingest does."""
    attributes = {"role": path.name.split(".")[0], "grey_levels": "integer"}
    statistics = {"min": float(image.min()), "max": float(image.max())}
    about = {"attributes": attributes, "statistics": statistics}
    return write_store(path, image, pixel_size_um=pixel_size_um, **about)


def drawn_figure(results, sample, dye):
    """Write a figure of the registration of a pair, 300 x 500 px."""
    figures = results / sample / dye / "figures"
    figures.mkdir(parents=True)
    cv2.imwrite(str(figures / "registration.png"), np.full((300, 500, 3), 90, np.uint8))


def refused(folder, reason="No match was found."):
    """Make the results of a pair whose registration failed."""
    _images(folder)
    Transform("failed", SHAPE, PRE_SHAPE, (reason,)).save(folder / "transform.json")


def made_pair(folder):
    """Make the results of a pair: a field, a gain map, three methods of which one has failed."""
    shutil.copytree(_made_once().name, folder, dirs_exist_ok=True)


@cache
def _made_once():
    place = TemporaryDirectory(prefix="made-pair-")
    _make(Path(place.name))
    return place


def _make(folder):
    post, pre = _images(folder)
    found = _transform()
    found.save(folder / "transform.json")
    derived = plan_layout(SHAPE, "float32")
    aligned = AlignedStore(post, pre, found, derived, folder / "aligned_pre.ome.zarr")
    aligned.make(workers=1)
    scale = _scale()
    scale.save(folder / "scale.json")
    imaging.save_gain_map(folder / "details/gain_map.npz", scale.gain_map)
    images = Matched(post, open_store(aligned.path), scale.blur)
    target = folder / "difference.ome.zarr"
    written = DifferenceStore(images, scale, aligned.statistics, ("linear",), derived, target)
    written.make(workers=1)
    written.residues["linear"].histogram.save(folder / "details/difference.histogram.npz")
    judged = folder / "details/difference.blocks.npz"
    written.blocks.save(judged, {"lines": written.lines})
    inputs = DetectInputs(
        post, pre, images.aligned, open_store(target), scale, found, blocks=judged
    )
    names = {"table": "candidates.csv", "geojson": "candidates.geojson"}
    names |= {
        "artefacts": "artefacts.geojson",
        "report": "details/detection.json",
        "search_counts": "details/search.npz",
    }
    targets = {key: folder / name for key, name in names.items()}
    detect(inputs, DetectSettings(), targets, version=1, workers=1)
    blocks = np.zeros(3, BLOCK_DTYPE)
    blocks["x"], blocks["dx"], blocks["used"] = (10, 20, 30), (0.125, -0.5, 2), (True, True, False)
    write_blocks(folder / "details/blocks.csv", blocks)


def _images(folder):
    (folder / "details").mkdir(parents=True, exist_ok=True)
    (folder / "details/plan.json").write_text(json.dumps(plan_content()))
    post = render(MATRIX, SHAPE, gain=GAIN, spots=30)
    pre = render(np.eye(3), PRE_SHAPE)
    images = ("post", post), ("pre", pre)
    return [image_store(folder / f"{name}.ome.zarr", image) for name, image in images]


def _transform():
    flat = Displacement.zeros(SHAPE, 128)
    random = np.random.default_rng(3)
    field = Displacement(
        128,
        random.normal(0, 0.05, flat.coefficients.shape),
        random.uniform(0.02, 0.1, flat.coefficients.shape[1:]).astype(np.float32),
    )
    return Transform(
        "ok",
        SHAPE,
        PRE_SHAPE,
        matrix=MATRIX,
        model="translation",
        displacement=field,
        error_px=Quantiles(0.03, 0.08),
    )


def _scale():
    noise = to_plain(NoiseModel(30.0, 0.1, 20.0, 0.1, spread=3.0))
    light = GainMap(SHAPE, np.array([[1.0, 0.02], [0.01, 0.0]]), (0.9, 1.1), 5.0)
    details = {"noise": noise, "gain_map": {"degree": 1}}
    linear = MethodResult(GAIN, OFFSET, (1.4, 1.6), details, None, (9.0, 11.0), light)
    methods = {
        "linear": linear,
        "moffat": MethodResult(1.25, 0.0, (1.2, 1.3)),
        "percentile": MethodResult.make_failed("There are too few px."),
    }
    return Scale("linear", methods)


def altered(pair):
    """Move the map of a pair by 0.2 px, raise its gain by 1 %, take ten candidates away.

    All rows of candidates that there were are returned.
    """
    path = pair / "transform.json"
    transform = json.loads(path.read_text())
    transform["matrix"][0][2] += 0.2
    transform["shift_px"][0] += 0.2
    path.write_text(json.dumps(transform))
    path = pair / "scale.json"
    scale = json.loads(path.read_text())
    linear = scale["methods"]["linear"]
    linear["gain"] *= 1.01
    linear["gain_ci95"] = [1.01 * end for end in linear["gain_ci95"]]
    path.write_text(json.dumps(scale))
    path = pair / "candidates.csv"
    head, *rows = path.read_text().splitlines(keepends=True)
    path.write_text("".join([head, *rows[10:]]))
    return rows


def made_sweep(done, pair):
    """Make two registrations with two subtractions each of the results of a pair in ``done``."""
    for outer in ("model-affine", "model-any"):
        for inner in ("percentile-40", "percentile-50"):
            place = pair / outer / inner
            (place / "details").mkdir(parents=True)
            for name in (
                "scale.json",
                "details/gain_map.npz",
                "details/detection.json",
                "candidates.csv",
            ):
                shutil.copy(done / name, place / name)
        (pair / outer / "details").mkdir()
        for name in ("transform.json", "details/displacement.npz", "details/blocks.csv"):
            shutil.copy(done / name, pair / outer / name)
        (pair / outer / "aligned_pre.ome.zarr").symlink_to(done / "aligned_pre.ome.zarr")
    (pair / "details").mkdir()
    for name in ("details/plan.json", "post.ome.zarr", "pre.ome.zarr"):
        (pair / name).symlink_to(done / name)
