"""Results of a slide, written by the functions that write real ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from unglow.images.slide_plan import Channel, Slide
from unglow.photometry.difference_histogram import DifferenceHistogram
from unglow.photometry.gain.scale import MethodResult, Scale
from unglow.registration.block_table import BLOCK_DTYPE, write_blocks
from unglow.results.slide_files import (
    MarkerOverview,
    MarkerScale,
    MarkerSubtraction,
    SlideRecord,
    Subtraction,
    save_overviews,
    save_residues,
    save_scales,
)
from unglow.slides.figures import draw_slide
from unglow.transform import Quantiles, Transform
from unglow.transform.displacement import Displacement

#: Why the map of the third cycle failed.
REFUSED = "No position fits."
DOUBT = "The exposure times promise a gain of 1.5."


def register_cycle(place, shape=(96, 128)):
    """Write a deformed map of the second cycle of a slide, with three blocks; return its field."""
    flat = Displacement.zeros(shape, 32)
    error = np.full(flat.coefficients.shape[1:], 0.05, np.float32)
    error[:, :2] = 0.4  # at its left side
    noise = np.random.default_rng(3).normal(0, 0.5, flat.coefficients.shape)
    field = Displacement(32, noise, error)
    own = place / "registration" / "1-2"
    Transform(
        "ok", shape, shape, matrix=np.eye(3), model="translation + field", displacement=field,
        residual_px=Quantiles(0.07, 0.2), error_px=Quantiles(0.05, 0.4),
    ).save(own / "transform.json")  # fmt: skip
    blocks = np.zeros(3, BLOCK_DTYPE)
    blocks["x"], blocks["y"] = (30, 64, 100), (30, 64, 40)
    blocks["dx"], blocks["used"] = (0.125, -0.25, 2), (True, True, False)
    write_blocks(own / "details/blocks.csv", blocks)
    return field


def made_slide(results, name="s1", markers=("CD3", "CD8", "Ki/67"), *, figures=True):
    """Write the results of a slide: all of its markers well, but for the last, whose cycle failed.

    The first one is in doubt.
    """
    place = results / name
    (place / "registration" / "1-2").mkdir(parents=True)
    (place / "registration" / "1-3").mkdir()
    cycles = [2] * (len(markers) - 1) + [3]
    channels = [Channel("AF", 0, 0, exposure=100.0, removed=True)]
    channels += [
        Channel(marker, 0, n, cycle, 150.0, "AF")
        for n, (marker, cycle) in enumerate(zip(markers, cycles, strict=True), 1)
    ]
    slide = Slide(name, (Path(f"{name}.ome.tif"),), tuple(channels), {1: "AF", 2: "AF", 3: "AF"})
    SlideRecord(slide, (96, 128), "uint16", (0.5, 0.5), ("print",)).save(place / "slide.json")
    shapes = (96, 128), (96, 128)
    good = Transform("ok", *shapes, matrix=np.eye(3), model="translation")
    good.save(place / "registration/1-2/transform.json")
    Transform("failed", *shapes, reasons=(REFUSED,)).save(place / "registration/1-3/transform.json")
    gain = MethodResult(1.4, 5.0, (1.39, 1.41), offset_ci95=(4.0, 6.0))
    well = MarkerScale(Scale("linear", {"linear": gain}), 1.5, (0.03, -0.04), 0.01, 30)
    doubtful = MarkerScale(Scale("linear", {"linear": gain}, reasons=(DOUBT,)), 1.5)
    scales = dict.fromkeys(markers, well)
    scales |= {markers[0]: doubtful, markers[-1]: MarkerScale(Scale.make_failed(REFUSED), 1.5)}
    save_scales(place / "scale.json", slide, scales)
    subtractions = {
        one: MarkerSubtraction("linear", 0.42, 0.01, (0.0, 900.0)) for one in markers[:-1]
    }
    Subtraction("uint16", "nearest", ("corrected.ome.tif",), subtractions).save(
        place / "details/subtraction.json"
    )
    random = np.random.default_rng(1)
    histogram = DifferenceHistogram.create(-50, 400, 1)
    histogram.add(random.normal(0, 10, (96, 128)).astype(np.float32))
    save_residues(place / "details/residues.npz", [histogram] * len(subtractions))
    before, background = (random.poisson(n, (96, 128)).astype(np.float32) for n in (150, 100))
    after = np.clip(before - 1.4 * background - 5, 0, None)
    overviews = [MarkerOverview(before, background, after)] * len(subtractions)
    save_overviews(place / "details/overviews.npz", overviews, 1.0)
    if figures:
        files = (*place.glob("*.json"), *place.glob("details/*.*"))
        paths = {path.stem: path for path in files}
        draw_slide(paths, place / "figures", name)
    return place
