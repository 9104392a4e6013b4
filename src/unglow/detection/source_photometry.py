"""Brightness of sources in the images, on stamps around their peak px."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.files import replace_file
from unglow.detection.sharp_sources import measure_median_share
from unglow.detection.source_extraction import DEBLENDED, EXTENDED, SOURCE, UNSPLIT
from unglow.images.detection_results import NOT_COUNTED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from unglow.core.arrays import Bools, Floats32
    from unglow.detection.section_mask import Section
    from unglow.detection.snr import Scene, Significance


INCOMPLETE, SATURATED, MISREGISTERED, OUTSIDE, NEAR_SPOILT, SHARP, UNCLEAR = (
    8, 16, 32, 64, 128, 256, 512
)  # fmt: skip
"""Flags: px missing nearby; saturated; the error of the map counts for more than noise; not on the
section; next to a spoilt place; sharper than the optics; in a place that is dense stain or dirt."""
APERTURE_FWHMS = 1.5
"""Radius of the aperture that fluxes are summed over, in widths of the filter."""
_AT_ONCE_PX = 1 << 18
"""Stamps that are measured at a time have this many px."""
_PEAK_PX = 1
"""The brightest px of the difference is at most so far from the peak of the ratio, px."""
_LEAST_MOMENT = 1 / 12
"""Second moment of a source of one px, px squared."""
_MOMENTS = ("xx", "yy")
MEASURED = np.dtype(
    [
        *((name, SOURCE[name]) for name in SOURCE.names or () if name not in _MOMENTS),
        ("x_err", "f4"),
        ("y_err", "f4"),
        ("peak", "f4"),
        ("flux", "f4"),
        ("flux_err", "f4"),
        ("post", "f4"),
        ("pre", "f4"),
        ("error_px", "f4"),
        ("edge_px", "f4"),
        ("median_share", "f4"),
    ]
)
"""A source with its brightness, grey levels, the error of the map, the distance to the edge, and
what is left of it after a median (`unglow.detection.sharp_sources`)."""


def compute_aperture_margin(scene: Scene) -> int:
    """Return how far around a peak px the images are looked at, px."""
    return max(scene.settings.reach, math.ceil(APERTURE_FWHMS * scene.settings.fwhm_px) + 1) + 1


def measure(
    scene: Scene, ratio: Significance, sources: NDArray[np.void], section: Section
) -> NDArray[np.void]:
    """Measure sources, (N,) `SOURCE` to (N,) `MEASURED`.

    *flux* is the sum of the difference over a circle about the barycentre, usable px only, with the
    standard error that noise and map give it; *peak* is the brightest px of the difference at most
    one px from the peak of the signal-to-noise ratio; *post* and *pre* are filtered like the
    difference. The error of the position is 2 sigma over the signal-to-noise ratio, sigma from the
    second moments: as barycentres have on phantoms (the best position has sqrt(2) for the 2).
    """
    out = np.zeros(len(sources), MEASURED)
    for name in SOURCE.names or ():
        if name not in _MOMENTS:
            out[name] = sources[name]
    out["x_err"], out["y_err"] = (
        2 * np.sqrt(np.maximum(sources[name], _LEAST_MOMENT)) / sources["snr"] for name in _MOMENTS
    )
    at_once = max(1, _AT_ONCE_PX // (2 * compute_aperture_margin(scene) + 1) ** 2)
    for start in range(0, len(out), at_once):
        _measure(scene, ratio, out[start : start + at_once])
    col, row = out["col"], out["row"]
    out["error_px"] = scene.error.evaluate(col, row)
    out["flags"][is_misregistered(ratio, sources)] |= MISREGISTERED
    out["flags"][~section.contains(col, row)] |= OUTSIDE
    if scene.spoilt is not None:
        out["flags"][scene.spoilt.is_near(col, row)] |= NEAR_SPOILT
    if scene.unclear is not None:
        out["flags"][scene.unclear.is_near(col, row)] |= UNCLEAR
    out["edge_px"] = section.distance_at(out["x"], out["y"])
    out["median_share"] = measure_median_share(ratio, sources, scene.settings.taps)
    return out


def is_misregistered(ratio: Significance, sources: NDArray[np.void]) -> Bools:
    """Return at which sources (N,) the error of the map counts for more than noise, (N,)."""
    at = sources["row"] - ratio.window.y0, sources["col"] - ratio.window.x0
    return np.asarray(ratio.noise_share[at] < 0.5, np.bool_)


def _measure(scene: Scene, ratio: Significance, out: NDArray[np.void]) -> None:
    """Fill in what comes from stamps, in place."""
    reach = compute_aperture_margin(scene) - 1
    frame = ratio.images.window
    rows, cols = out["row"] - frame.y0, out["col"] - frame.x0
    all_post, all_pre, all_difference = ratio.images.pixels
    steps = np.arange(-reach - 1, reach + 2)
    at = (rows[:, None, None] + steps[None, :, None], cols[:, None, None] + steps[None, None, :])
    wide = all_pre[at]
    inner = (slice(None), slice(1, -1), slice(1, -1))
    difference, post, pre = all_difference[at][inner], all_post[at][inner], wide[inner]
    usable = np.isfinite(difference)
    difference = np.where(usable, difference, np.float32(0))
    aperture = _weigh_aperture(scene, out, reach) * usable
    out["flux"] = (difference * aperture).sum(axis=(1, 2))
    out["flux_err"] = _estimate_flux_error(scene, out, wide, post, aperture)
    near = (slice(None), *(slice(reach - _PEAK_PX, reach + _PEAK_PX + 1),) * 2)
    bright = np.where(usable[near], difference[near], np.float32(-np.inf)).max(axis=(1, 2))
    out["peak"] = np.where(np.isfinite(bright), bright, np.float32(np.nan))
    cut = reach - scene.settings.reach
    core = (slice(None), *(slice(cut, 2 * reach + 1 - cut),) * 2)
    taps = scene.settings.taps.astype(np.float32)
    weights = np.outer(taps, taps) * usable[core]
    total = weights.sum(axis=(1, 2))
    for name, stamp in (("post", post), ("pre", pre)):
        filled = np.where(usable[core], stamp[core], np.float32(0))
        out[name] = (filled * weights).sum(axis=(1, 2)) / total
    out["flags"][(post[near] >= scene.saturation[0]).any(axis=(1, 2))] |= SATURATED
    out["flags"][~usable[core].all(axis=(1, 2))] |= INCOMPLETE


def _weigh_aperture(scene: Scene, out: NDArray[np.void], reach: int) -> Floats32:
    """Share of each px of the stamps inside the circle, (N, side, side), to about a hundredth."""
    radius = APERTURE_FWHMS * scene.settings.fwhm_px
    steps = np.arange(-reach, reach + 1)
    off = {n: (out[n] - out[px])[:, None] for n, px in (("x", "col"), ("y", "row"))}
    dx, dy = steps - off["x"], steps - off["y"]
    away = np.sqrt(dx[:, None, :] ** 2 + dy[:, :, None] ** 2)
    return np.asarray(np.clip(radius + 0.5 - away, 0, 1), dtype=np.float32)


def _estimate_flux_error(
    scene: Scene,
    out: NDArray[np.void],
    wide: Floats32,
    post: Floats32,
    aperture: Floats32,
) -> Floats32:
    """Return standard errors of fluxes: noise of the px, and slope of pre times error of the map.

    Neighbouring px of resampled pre share their noise, so that a sum over many has that of as many
    raw px.
    """
    gain = scene.gain_at(np.stack([out["x"], out["y"]], axis=1))
    pre = np.nan_to_num(wide)
    noise = scene.noise.variance_post(np.nan_to_num(post))
    noise += (gain * gain)[:, None, None] * scene.noise.variance_pre(pre[:, 1:-1, 1:-1])
    noise *= np.float32(scene.noise.spread**2)
    squares = (noise * aperture * aperture).sum(axis=(1, 2))
    across = ((pre[:, 1:-1, 2:] - pre[:, 1:-1, :-2]) * aperture).sum(axis=(1, 2))
    down = ((pre[:, 2:, 1:-1] - pre[:, :-2, 1:-1]) * aperture).sum(axis=(1, 2))
    error = scene.error.evaluate(out["col"], out["row"])
    squares += (gain * gain / 8) * error * error * (across * across + down * down)
    return np.asarray(np.sqrt(squares), dtype=np.float32)


FLAGS = {
    "deblended": DEBLENDED,
    "unsplit": UNSPLIT,
    "extended": EXTENDED,
    "incomplete": INCOMPLETE,
    "saturated": SATURATED,
    "misregistered": MISREGISTERED,
    "outside": OUTSIDE,
    "beside_spoilt": NEAR_SPOILT,
    "sharp": SHARP,
    "stain_or_dirt": UNCLEAR,
}
"""Bit of each word in the column ``flags``."""
UNCOUNTED = sum(FLAGS[word] for word in NOT_COUNTED)
"""Candidates with one of these flags are listed, and not counted."""
_RATES = ("fdr", "fdr_control", "fdr_control_high95")
LISTED = np.dtype([*((n, MEASURED[n]) for n in MEASURED.names or ()), *((n, "f8") for n in _RATES)])
"""A candidate: a source as it was measured, and the false-discovery rate at its signal-to-noise
ratio, by the negative side, by controls and the upper 95 % limit of that; NaN if not known."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name, decimals (None: 5 significant digits), and what GeoJSON calls it."""

    name: str
    decimals: int | None
    label: str


COLUMNS = (
    Column("x", 3, "x px"),
    Column("y", 3, "y px"),
    Column("x_err", 3, "x error px"),
    Column("y_err", 3, "y error px"),
    Column("peak", None, "Peak"),
    Column("flux", None, "Flux"),
    Column("flux_err", None, "Flux error"),
    Column("snr", 2, "Signal to noise"),
    Column("area_px", 0, "Area px"),
    Column("a", 3, "a px"),
    Column("b", 3, "b px"),
    Column("theta", 3, "theta rad"),
    Column("pre", None, "Pre"),
    Column("post", None, "Post"),
    Column("fdr", 4, "False-discovery rate"),
    Column("fdr_control", None, "False-discovery rate by controls"),
    Column("fdr_control_high95", None, "False-discovery rate by controls, upper limit"),
    Column("error_px", 3, "Map error px"),
    Column("edge_px", 1, "Distance to edge px"),
)
NAMES = ("id", *(c.name for c in COLUMNS[:12]), "flags", *(c.name for c in COLUMNS[12:]))
"""The columns of candidates.csv, in their order."""
_FIELDS = {"area_px": "area"}
"""Fields of `LISTED` whose columns have another name."""
_CORNER_PX = 0.5
"""QuPath counts from the corner of the first px, the table from its centre."""
_AT_ONCE = 512
"""Rows whose cells are made together: numpy gives single numbers slowly."""


def join_flags(flags: int) -> str:
    """Return flags as words joined by +; empty for none."""
    return "+".join(name for name, bit in FLAGS.items() if flags & bit)


def format_rows(listed: NDArray[np.void]) -> Iterator[dict[str, str]]:
    """Yield the cells of the table of candidates, (N,) `LISTED`, numbered from 1."""
    for start in range(0, len(listed), _AT_ONCE):
        part = listed[start : start + _AT_ONCE]
        columns = {"flags": [join_flags(flags) for flags in part["flags"].tolist()]}
        for c in COLUMNS:
            values = part[_FIELDS.get(c.name, c.name)].tolist()
            columns[c.name] = [_format_cell(float(v), c.decimals) for v in values]
        for number, cells in enumerate(zip(*columns.values(), strict=True), start + 1):
            yield {"id": str(number), **dict(zip(columns, cells, strict=True))}


def write_csv(path: Path, listed: NDArray[np.void]) -> None:
    """Write candidates, (N,) `LISTED`, as candidates.csv, complete or not at all."""
    with replace_file(path) as temporary, temporary.open("w", encoding="utf-8") as stream:
        stream.write(",".join(NAMES) + "\n")
        for cells in format_rows(listed):
            stream.write(",".join(cells[name] for name in NAMES) + "\n")


def write_geojson(path: Path, listed: NDArray[np.void], properties: Mapping[str, Any]) -> None:
    """Write candidates.geojson (RFC 7946, with px for degrees), complete or not at all.

    QuPath takes each feature as a detection with measurements; its coordinates are 0.5 px more than
    those of the table.

    Parameters
    ----------
    path
        File to write or replace.
    listed
        (N,) `LISTED`.
    properties
        Those of the collection as a whole.
    """
    with replace_file(path) as temporary, temporary.open("w", encoding="utf-8") as stream:
        collection = {"type": "FeatureCollection", "properties": dict(properties)}
        head = json.dumps(collection, allow_nan=False)
        stream.write(f'{head[:-1]}, "features": [')
        for number, cells in enumerate(format_rows(listed)):
            stream.write((",\n" if number else "\n") + json.dumps(_make_feature(cells)))
        stream.write("\n]}\n")


def _make_feature(cells: Mapping[str, str]) -> dict[str, Any]:
    x, y = (round(float(cells[name]) + _CORNER_PX, 3) for name in ("x", "y"))
    measurements = {c.label: float(cells[c.name]) for c in COLUMNS if cells[c.name]}
    counted = not set(cells["flags"].split("+")) & set(NOT_COUNTED)
    return {
        "type": "Feature",
        "geometry": {"type": "Point", "coordinates": [x, y]},
        "properties": {
            "objectType": "detection",
            "name": cells["id"],
            "classification": {"name": "Candidate" if counted else "Candidate (not counted)"},
            "flags": cells["flags"],
            "measurements": measurements,
        },
    }


def _format_cell(value: float, decimals: int | None) -> str:
    """Return a number as text, nothing for one that is not known."""
    if not math.isfinite(value):
        return ""
    text = f"{value:.5g}" if decimals is None else f"{value:.{decimals}f}"
    return text.lstrip("-") if float(text) == 0 else text
