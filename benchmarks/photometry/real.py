"""A real pair through the real workflow: mouse brain, against cells that another tool expects."""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from registration.pool import save_json
from running import run as run_command
from running import snakemake_words
from tables import table

from photometry.brain import CASES, DYE, PLANES, Case, cell_width, expected_cells, write_layout
from unglow import transform
from unglow.core.machine import processors
from unglow.core.windows import Window
from unglow.detection.coarse_grid import estimate_background
from unglow.detection.search import search
from unglow.detection.section_mask import Section
from unglow.detection.settings import DetectSettings
from unglow.detection.snr import significance
from unglow.detection.source_photometry import UNCOUNTED
from unglow.io.zarr import open_store
from unglow.photometry.gain.scale import Scale
from unglow.workflow.stages.snr import DetectInputs

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from unglow.detection.search import SearchResult
    from unglow.detection.snr import Scene

    Floats = NDArray[np.float64]

AWAY = 0, 1, 2, 9
"""Planes that an expected cell may be away from those of the image."""
WAYS = "difference", "signal alone"
ERROR_P95_PX, BENT_P95_PX = 0.15, 0.5
"""How far the map may be off (p95) of a pre that moved as a whole, and of one that is bent."""
FOUND, FALSE = 0.9, 0.05
"""Share of the cells expected at most two planes away to be found, and of false candidates."""
_JUDGED = 2
_STEP = 8
_SHIFTS = 24, 32, 40
_NORMAL = 1.4826


@dataclass(frozen=True, eq=False)
class Search:
    """One list of candidates, with the signal-to-noise ratio everywhere.

    Attributes
    ----------
    places
        (N, 2) x and y, px.
    snr
        (rows, cols) float32; NaN where nothing was searched.
    threshold, said
        The lowest signal-to-noise ratio of the list, and the share of false ones that it is said to
        have.
    quiet
        Standard deviation of the signal-to-noise ratio away from candidates, from its quartiles.
    """

    places: Floats
    snr: NDArray[np.float32]
    threshold: float
    said: float
    quiet: float


@dataclass(frozen=True, eq=False)
class Outcome:
    """What the workflow made of one case.

    Attributes
    ----------
    case
        The pair.
    true_px
        (N,) distance of the map from the true one at places of the section.
    said_px
        p95 of the error that the map is said to have.
    status, model, reasons
        Of the registration.
    scale
        Of all methods.
    searches
        By `WAYS`: of the workflow's difference, and of post without a subtraction.
    """

    case: Case
    true_px: Floats
    said_px: float
    status: str
    model: str
    reasons: tuple[str, ...]
    scale: Scale
    searches: Mapping[str, Search]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="work in this empty directory, and leave it there"
    )


def run(args: argparse.Namespace) -> int:
    """Run the workflow, print the tables; return 1 where an aim is missed."""
    data: Path | None = args.data
    if data is None:
        print("nothing to do: all of this needs real images")
        return 0
    with tempfile.TemporaryDirectory(prefix="unglow-real-") as temporary:
        directory = args.keep or Path(temporary)
        width = cell_width(data)
        process(data, directory, width)
        outcomes = [judged(case, directory / "results") for case in CASES]
    cells = expected_cells(data)
    print(f"the typical expected cell is {width:.2f} px wide (FWHM), which is what is looked for\n")
    missed = report_maps(outcomes)
    report_gains(outcomes)
    rows = [r for o in outcomes for r in _both_ways(o, outcomes, cells, width)]
    missed |= report_candidates(rows, width)
    save_json(args.json, {"maps": [_map_figures(o) for o in outcomes], "candidates": rows})
    return int(missed)


def process(data: Path, directory: Path, width: float) -> None:
    """Run the workflow on all cases as a user would, up to the candidates."""
    if not (directory / "raw").exists():
        write_layout(data, directory / "raw")
    words = snakemake_words(processors(), {"detect": f"{{fwhm_px: {width:.2f}}}"}, until="detect")
    status, text = run_command(*words, directory=directory)
    if status != 0:
        sys.exit("\n".join(text.splitlines()[-30:]))


def judged(case: Case, results: Path) -> Outcome:
    """Read what the workflow found, and search once more without a subtraction."""
    place = results / case.name / DYE
    found = transform.load(place / "transform.json")
    scale = Scale.load(place / "scale.json", place / "details/gain_map.npz")
    report = json.loads((place / "details/detection.json").read_text(encoding="utf-8"))
    names = {"aligned": "aligned_pre", "difference": f"difference/{scale.default}"}
    inputs = DetectInputs(
        *(
            open_store(place / f"{names.get(name, name)}.ome.zarr")
            for name in ("post", "pre", "aligned", "difference")
        ),
        scale,
        found,
    )
    section = Section.from_pixels(inputs.aligned)
    scene = inputs.scene(DetectSettings(**report["settings"]))
    plain = replace(
        scene,
        difference=inputs.post,
        gain=0.0,
        gain_map=None,
        blur=None,
        background=estimate_background(inputs.post),
    )
    scenes = dict(zip(WAYS, (scene, plain), strict=True))
    return Outcome(
        case,
        _true_error(case, found, section),
        found.error_px.p95,
        found.status,
        found.model_name,
        found.reasons,
        scale,
        {way: _searched(one, section) for way, one in scenes.items()},
    )


def _true_error(case: Case, found: transform.Transform, section: Section) -> Floats:
    shape = found.post_shape
    y, x = np.mgrid[0 : shape[0] : _STEP, 0 : shape[1] : _STEP]
    on = section.contains(x.ravel(), y.ravel())
    points = np.column_stack([x.ravel(), y.ravel()])[on].astype(np.float64)
    away = found.map(points) - case.warp(shape).to_pre(points)
    return np.asarray(np.hypot(*away.T))


def _searched(scene: Scene, section: Section) -> Search:
    found: SearchResult = search(scene, section, workers=1)
    listed = found.list_candidates()
    listed = listed[(listed["flags"] & UNCOUNTED) == 0]
    places = np.column_stack([listed["x"], listed["y"]])
    window = Window.from_shape(scene.post.shape)
    snr = significance(scene, window).snr
    snr[~section.mask_window(window)] = np.nan
    report = found.report(None)
    return Search(
        places,
        snr,
        report["threshold_snr"] or float("nan"),
        report["fdr"] if report["fdr"] is not None else float("nan"),
        _quiet(snr, places, 3 * scene.settings.fwhm_px),
    )


def _quiet(snr: NDArray[np.float32], places: Floats, radius: float) -> float:
    """Return the spread of a signal-to-noise ratio further than a radius from all places."""
    y, x = np.indices(snr.shape)
    known = np.isfinite(snr)
    for col, row in places:
        known &= (x - col) ** 2 + (y - row) ** 2 > radius**2
    values = snr[known]
    return float(_NORMAL * np.median(np.abs(values - np.median(values))))


def near(places: Floats, others: Floats, radius: float) -> NDArray[np.bool_]:
    """Say which places (N, 2) have one of others (M, 2) within a radius."""
    if not len(others):
        return np.zeros(len(places), dtype=np.bool_)
    away = np.hypot(*(places[:, None] - others[None]).T).T
    return np.asarray(away.min(axis=1) <= radius)


def by_chance(places: Floats, others: Floats, radius: float) -> float:
    """Share of places that have another within a radius if all are moved by 24 to 40 px."""
    angles = np.arange(8) * np.pi / 4
    moves = [(r * np.cos(a), r * np.sin(a)) for r in _SHIFTS for a in angles]
    return float(np.mean([near(places + move, others, radius).mean() for move in moves]))


def false_share(one: Search, other: Search, radius: float) -> float:
    """Share of a list that is not there in the next plane, whose noise is its own.

    Where nothing is, the next plane is as often darker than a circle of that radius around the
    place (the median of 16 px on it) as it is brighter: twice the share of candidates where it is
    darker. A cell that ends between the planes counts as false.
    """
    angles = np.arange(16) * np.pi / 8
    circle = radius * np.column_stack([np.cos(angles), np.sin(angles)])
    there = _at(other.snr, one.places[:, None] + np.zeros((1, 1, 2)))[:, 0]
    around = np.nanmedian(_at(other.snr, one.places[:, None] + circle), axis=1)
    known = np.isfinite(there) & np.isfinite(around)
    return float(2 * np.mean(there[known] < around[known])) if known.any() else float("nan")


def _at(image: NDArray[np.float32], places: Floats) -> NDArray[np.float32]:
    """Return the px nearest to places (..., 2) (x, y); NaN outside the image."""
    col, row = np.moveaxis(np.rint(places).astype(int), -1, 0)
    rows, cols = image.shape
    inside = (col >= 0) & (row >= 0) & (col < cols) & (row < rows)
    found = image[np.where(inside, row, 0), np.where(inside, col, 0)]
    return np.where(inside, found, np.float32(np.nan))


def report_maps(outcomes: Sequence[Outcome]) -> bool:
    """Print how far maps are off; say whether an aim is missed."""
    rows, missed = [], False
    for o in outcomes:
        figures = _map_figures(o)
        bad = not figures["p95"] <= (BENT_P95_PX if o.case.bend_px else ERROR_P95_PX)
        missed |= bad
        cells = (f"{figures[name]:.3f}" for name in ("median", "p95", "max"))
        rows.append((o.case.name, o.status, o.model, *cells, f"{o.said_px:.3f}", " !"[bad]))
    print("distance of the map from the true one over the section, px")
    header = ("pair", "status", "model", "median", "p95", "max", "said p95", "")
    print(table(header, rows, left=3))
    for o in outcomes:
        for reason in o.reasons:
            print(f"  {o.case.name}: {reason}")
    return missed


def _map_figures(o: Outcome) -> dict[str, Any]:
    median, p95 = np.quantile(o.true_px, (0.5, 0.95))
    said = {"status": o.status, "model": o.model, "said_p95": o.said_px}
    return {"pair": o.case.name, **said, "median": median, "p95": p95, "max": o.true_px.max()}


def report_gains(outcomes: Sequence[Outcome]) -> None:
    """Print gain and offset of each method."""
    rows = []
    for o in outcomes:
        for method, found in o.scale.methods.items():
            if found.gain is None:
                rows.append((o.case.name, method, "-", "", "", found.reason or ""))
                continue
            low, high = found.gain_ci95 or (float("nan"),) * 2
            light = found.details.get("gain_map")
            span = "" if light is None else "light {:.2f} to {:.2f}".format(*light["range"])
            noise = found.details.get("noise")
            spread = "" if noise is None else f"{noise['spread']:.2f}"
            interval = f"{low:.3f} to {high:.3f}"
            rows.append(
                (
                    o.case.name,
                    method,
                    f"{found.gain:.3f}",
                    interval,
                    f"{found.offset:.1f}",
                    spread,
                    span,
                )
            )
    print("\ngain and offset of each method, and the spread over noise of the default one")
    header = ("pair", "method", "gain", "95 % interval", "offset", "spread", "gain map")
    print(table(header, rows, left=2))


def report_candidates(figures: Sequence[Mapping[str, Any]], width: float) -> bool:
    """Print lists of candidates against the expected cells; say whether an aim is missed."""
    rows, missed = [], False
    for f, plain in zip(figures[::2], figures[1::2], strict=True):
        bad = f["found"][_JUDGED] < FOUND * f["expected"][_JUDGED] or f["false"] > FALSE
        bad |= f["candidates"] <= plain["candidates"]
        missed |= bad
        rows += [(*_cells(f), " !"[bad]), (*_cells(plain), "")]
    print(
        f"\ncandidates against expected cells, within {width:.1f} px\n"
        "quiet: standard deviation of S/N away from candidates; false: share of candidates, as the "
        "next plane has it\nchance: share of expected cells that would be found if moved by 24 to "
        "40 px\nlisted: share of candidates that are among the expected cells of any plane"
    )
    depth = (f"dz {away}" if away == 0 else f"dz <= {away}" for away in AWAY)
    header = ("pair", "on", "n", "S/N >=", "quiet", "fdr", "false", *depth, "chance", "listed", "")
    print(table(header, rows, left=2))
    return missed


def _cells(f: Mapping[str, Any]) -> tuple[str, ...]:
    counts = (str(f["candidates"]), f"{f['threshold']:.2f}", f"{f['quiet']:.2f}")
    shares = (_share(f[name]) for name in ("said", "false"))
    recalls = (f"{f['found'][away]} of {f['expected'][away]}" for away in AWAY)
    return (
        f["pair"],
        f["way"],
        *counts,
        *shares,
        *recalls,
        _share(f["chance"]),
        _share(f["listed"]),
    )


def _both_ways(
    o: Outcome, outcomes: Sequence[Outcome], cells: Floats, width: float
) -> list[dict[str, Any]]:
    twin = _twin(o.case, outcomes)
    return [
        _against(o, way, None if twin is None else twin.searches[way], cells, width) for way in WAYS
    ]


def _twin(case: Case, outcomes: Sequence[Outcome]) -> Outcome | None:
    """Return the same case of the other plane."""
    if len(case.planes) > 1:
        return None
    names = {case.name.replace(str(case.planes[0]), str(z)) for z in PLANES} - {case.name}
    return next(o for o in outcomes if o.case.name in names)


def _against(
    o: Outcome, way: str, twin: Search | None, cells: Floats, width: float
) -> dict[str, Any]:
    found = o.searches[way]
    seen = near(cells[:, :2], found.places, width)
    away = np.abs(cells[:, 2, None] - np.array(o.case.planes)).min(axis=1)
    listed = near(found.places, cells[:, :2], width)
    return {
        "pair": o.case.name,
        "way": way,
        "candidates": len(found.places),
        "threshold": found.threshold,
        "quiet": found.quiet,
        "said": found.said,
        "false": float("nan") if twin is None else false_share(found, twin, 3 * width),
        "expected": {k: int((away <= k).sum()) for k in AWAY},
        "found": {k: int((seen & (away <= k)).sum()) for k in AWAY},
        "chance": by_chance(cells[:, :2], found.places, width),
        "listed": float(listed.mean()) if len(listed) else float("nan"),
    }


def _share(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.3f}"
