"""The results of a pair or slide as later jobs read them."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow import transform as transforms
from unglow.core.digests import Listed
from unglow.core.windows import Window
from unglow.detection.settings import DetectSettings
from unglow.io.detection_results import SearchCounts, read_candidates, read_report
from unglow.io.pair_plan import Plan
from unglow.io.zarr import open_store
from unglow.multiplexed.results import SlideRecord, Subtraction, load_residues, overview_of
from unglow.photometry.cell_moments import CellMoments
from unglow.photometry.difference_histogram import load_methods
from unglow.photometry.gain.bright_field import find_roles
from unglow.photometry.gain.scale import Scale
from unglow.photometry.joint_histogram import JointStatistics
from unglow.registration.block_table import read_blocks
from unglow.review.decisions import Review
from unglow.transform.displacement import load as load_field
from unglow.workflow.stages.snr import DetectInputs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Reader = tuple[str, Callable[[], Any]]


def readers(path: Path, results: Path) -> Iterator[Reader]:
    """Yield the readers of the pair or slide that a file is of, each with a name."""
    parts = path.relative_to(results).parts
    pair = results.joinpath(*parts[:2])
    if path.parent.name == "digests":
        yield "digests", lambda: Listed.read(path)
    if (results / parts[0] / "slide.json") in (results / parts[0]).glob("*"):
        yield from _of_slide(results / parts[0])
    elif len(parts) > 2 and (pair / "digests").is_dir():
        yield from _of_pair(pair)


def _of_pair(pair: Path) -> Iterator[Reader]:
    raw = {role: pair / f"{role}.tif" for role in ("post", "pre")}
    stores = {name: pair / f"{name}.ome.zarr" for name in ("post", "pre", "aligned_pre")}
    stores["difference"] = pair / "difference" / "linear.ome.zarr"
    yield "plan", lambda: Plan.load(pair / "plan.json", raw)
    yield "bright field", lambda: find_roles(pair / "plan.json", "auto")
    yield "transform", lambda: _use_map(transforms.load(pair / "transform.json"))
    yield "field", lambda: load_field(pair / "displacement.npz")
    yield "blocks", lambda: read_blocks(pair / "blocks.csv")
    yield "scale", lambda: _use_scale(Scale.load(pair / "scale.json", pair / "gain_map.npz"))
    yield "statistics", lambda: JointStatistics.load(pair / "statistics.npz")
    yield "bins", lambda: CellMoments.load(pair / "bins.npz")
    yield "histogram", lambda: load_methods(pair / "difference" / "linear.histogram.npz")
    yield "candidates", lambda: read_candidates(pair / "candidates.csv").xy
    yield "detection", lambda: read_report(pair / "detection.json")
    yield "search", lambda: SearchCounts.load(pair / "search.npz").searched_px
    yield "review", lambda: Review.read(pair / "review.csv", pair / "candidates.csv").to_json()
    for name, store in stores.items():
        yield name, lambda store=store: _read_store(store)
    yield "scene", lambda: _use_scene(pair, stores)


def _of_slide(slide: Path) -> Iterator[Reader]:
    yield "slide", lambda: SlideRecord.load(slide / "slide.json")
    yield "subtraction", lambda: _read_slide(slide)
    yield "map", lambda: _use_map(transforms.load(slide / "registration/2-1/transform.json"))
    yield "blocks", lambda: read_blocks(slide / "registration/2-1/blocks.csv")


def _read_slide(slide: Path) -> None:
    markers = list(Subtraction.load(slide / "subtraction.json").markers)
    load_residues(slide / "residues.npz", markers)
    for n in range(len(markers)):
        overview_of(slide / "overviews.npz", n)


def _use_map(found: transforms.Transform) -> None:
    """Map the corners, there and back, and read what figures show."""
    rows, cols = found.post_shape
    corners = np.array([[0, 0], [cols - 1, 0], [0, rows - 1], [cols - 1, rows - 1]], float)
    found.inverse_map(found.resampling_map.map(corners))
    str(found.to_dict())
    str((found.turn_error, found.error_px.median + 1, found.inliers + found.blocks))


def _use_scale(scale: Scale) -> None:
    """Compute with the gain of each method, and with the light where it is uneven."""
    for result in scale.methods.values():
        if result.ok:
            _ = (result.gain or 0) * 2.0 + (result.offset or 0), result.gain_ci95
        if result.gain_map is not None:
            result.gain_map.evaluate_window(Window(0, 16, 0, 16))
    str((scale.to_json(), scale.blur and asdict(scale.blur)))


def _read_store(path: Path) -> None:
    """Read all pixels of all levels."""
    store = open_store(path)
    for level in range(store.levels):
        for window in store.layout.windows(level):
            store.read(window, level)


def _use_scene(pair: Path, stores: dict[str, Path]) -> None:
    """Open what the search reads, and read a window of the difference and of its background."""
    files = {name: path / "zarr.json" for name, path in stores.items()}
    files["aligned"] = files.pop("aligned_pre")
    for name, file in (("transform", "transform.json"), ("scale", "scale.json")):
        files[name] = pair / file
    inputs = DetectInputs.open(files | {"gain_map": pair / "gain_map.npz"})
    inputs.scene(DetectSettings())
    inputs.difference.read(Window(0, 64, 0, 64))
