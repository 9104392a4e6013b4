"""CPU seconds and memory of registration, with a field and without."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from phantoms import Section, size_of
from running import WORK, read_telemetry, say, snakemake_words
from running import run as execute
from tables import number, save_json, table

from registration.geometry import waves
from registration.judging import inside
from registration.pool import in_children, registered
from unglow import transform
from unglow.core.machine import processors
from unglow.core.process import status_mb
from unglow.core.windows import grid, map_bounded
from unglow.phantom.pair import Raster, write_tiff
from unglow.registration.register import RegisterSettings

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from unglow.core.windows import Window

LARGE = 30000, 25000
LARGE_FIELD_CPU, LARGE_GLOBAL_CPU, LARGE_BUDGET_MB = 360.0, 40.0, 500
ERROR_P95_PX = 0.12
"""What a field leaves in the middle of the section; far more where it was not tried."""
_DEFORM_PX, _WAVELENGTH_PX = 6.0, 1500.0
_TALLER, _WIDER = 1.02, 1.03
_BLOCK = 1024
_POINTS = 60


@dataclass(frozen=True)
class Cost:
    """What one registration took: CPU seconds, MB of its process, error to the map, px."""

    size: str
    what: str
    cpu_seconds: float
    peak_mb: float = float("nan")
    declared_mb: float = float("nan")
    error_median: float = float("nan")
    error_p95: float = float("nan")
    status: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument("--sizes", nargs="*", default=["4096", "8192"], metavar="ROWSxCOLS")
    parser.add_argument(
        "--large",
        action="store_true",
        help="also a run of 30000 x 25000 px at memory_per_job=500 (3 GB of disk, some minutes)",
    )
    parser.add_argument("--work", type=Path, default=WORK, help="where pairs and runs are made")


def run(args: argparse.Namespace) -> int:
    """Measure all sizes, print the table; return 1 where an aim is missed."""
    args.work.mkdir(parents=True, exist_ok=True)
    costs = [cost for text in args.sizes for cost in _small(size_of(text), args.work)]
    if args.large:
        costs += _large(args.work)
    save_json(args.json, costs)
    return report(costs)


def pair_of(shape: tuple[int, int]) -> Section:
    """Return a deformed pair of any size, which is made window by window."""
    rows, cols = shape
    bends = waves(shape, _DEFORM_PX, _WAVELENGTH_PX, seed=5)
    return Section(shape, (round(rows * _TALLER), round(cols * _WIDER)), bends)


def section_points(section: Section) -> NDArray[np.float64]:
    """Points (N, 2) in the middle of post, where the section surely is, that pre shows too."""
    rows, cols = section.shape
    y, x = np.mgrid[0.2 : 0.8 : _POINTS * 1j, 0.2 : 0.8 : _POINTS * 1j]
    points = np.column_stack([x.ravel() * cols, y.ravel() * rows])
    return points[inside(section.map.to_pre(points), section.pre_shape)]


def _small(shape: tuple[int, int], work: Path) -> list[Cost]:
    """Register one pair in memory, with a field and without."""
    size = f"{shape[0]}x{shape[1]}"
    with tempfile.TemporaryDirectory(prefix=f"cost-{size}-", dir=work) as name:
        say(f"{size}: making the pair")
        section, folder = pair_of(shape), Path(name)
        for role, frame in (("post", section.shape), ("pre", section.pre_shape)):
            np.save(folder / f"{role}.npy", _whole(getattr(section, role), frame))
        points = section_points(section)
        np.save(folder / "points.npy", points)
        truth = section.map.to_pre(points)
        costs = []
        for field in ("auto", "never"):
            say(f"{size}: field: {field}")
            (cost,) = in_children(partial(_in_memory, field, folder), [size], 1)
            costs.append(_with_error(cost, np.load(folder / f"field: {field}.npy"), truth))
        return costs


def _whole(pixels: Any, shape: tuple[int, int]) -> NDArray[np.uint8]:
    out = np.empty(shape, np.uint8)

    def fill(window: Window) -> None:
        out[window.slices] = pixels(window)

    for _ in map_bounded(fill, grid(shape, (_BLOCK, _BLOCK)), processors()):
        pass
    return out


def _in_memory(field: str, folder: Path, size: str) -> Cost:
    images = (np.load(folder / f"{role}.npy") for role in ("post", "pre"))
    found, cpu = registered(*images, RegisterSettings(field=field))
    np.save(folder / f"field: {field}.npy", found.transform.map(np.load(folder / "points.npy")))
    peak_mb = status_mb().get("VmHWM", float("nan"))
    return Cost(size, f"field: {field}", cpu, peak_mb, status=found.transform.status)


def _with_error(cost: Cost, mapped: NDArray[np.float64], truth: NDArray[np.float64]) -> Cost:
    median, p95 = np.quantile(np.hypot(*(mapped - truth).T), (0.5, 0.95))
    return replace(cost, error_median=float(median), error_p95=float(p95))


def _large(work: Path) -> list[Cost]:
    """Run the real jobs on a large pair, up to registration, with a field and without."""
    size = f"{LARGE[0]}x{LARGE[1]}"
    section = pair_of(LARGE)
    points = section_points(section)
    truth = section.map.to_pre(points)
    costs = []
    with tempfile.TemporaryDirectory(prefix="cost-large-", dir=work) as name:
        folder = Path(name)
        say(f"{size}: writing the pair")
        (folder / "raw" / "large").mkdir(parents=True)
        for role, frame in (("post", section.shape), ("pre", section.pre_shape)):
            pixels = getattr(section, role)
            raster = Raster(frame, np.dtype("uint8"), rgb=False, pixels=pixels, pixel_size_um=0.5)
            path = folder / "raw" / "large" / f"large_{role}_SYTO9.tif"
            write_tiff(path, raster, layout="tiles", compression="zlib", workers=processors())
        for field in ("auto", "never"):
            say(f"{size}: field: {field}")
            config = {"memory_per_job": LARGE_BUDGET_MB, "register": f"{{field: {field}}}"}
            words = snakemake_words(processors(), config, threads=1, until="register")
            status, text = execute(*words, directory=folder)
            results = folder / "results"
            records = [r for r in read_telemetry(results / "telemetry") if r["rule"] == "register"]
            if status != 0 or not records:
                say(f"{size}: the run ended with status {status}:\n{text[-800:]}")
                costs.append(Cost(size, f"field: {field}", float("nan"), status="error"))
                continue
            found = transform.load(results / "large" / "SYTO9" / "transform.json")
            last = records[-1]
            cost = Cost(
                size,
                f"field: {field}",
                last["cpu_seconds"],
                last["peak_mb"],
                last["declared_mb"],
                status=found.status,
            )
            costs.append(_with_error(cost, found.map(points), truth))
            shutil.rmtree(results / "telemetry")
    return costs


def report(costs: Sequence[Cost]) -> int:
    """Print the table and what was aimed at; return 1 where an aim is missed."""
    rows = [
        (
            *(c.size, c.what, c.status),
            *map(number, (c.cpu_seconds, c.peak_mb, c.declared_mb, c.error_median, c.error_p95)),
        )
        for c in costs
    ]
    header = ("size", "what", "status", "CPU-s", "peak MB", "declared", "error px", "p95 px")
    print(table(header, rows, left=3))
    aims = []
    for c in costs:
        has_field, name = c.what == "field: auto", f"{c.size}, {c.what}"
        if c.size == f"{LARGE[0]}x{LARGE[1]}":
            most = LARGE_FIELD_CPU if has_field else LARGE_GLOBAL_CPU
            aims.append((f"{name}: CPU-s", c.cpu_seconds, most))
        if has_field:
            aims.append((f"{name}: error at p95, px", c.error_p95, ERROR_P95_PX))
        if np.isfinite(c.declared_mb):
            aims.append((f"{name}: peak MB within what was declared", c.peak_mb, c.declared_mb))
    cells = [
        (text, number(value), number(limit), f"{value / limit:.2f}" + " !"[not value <= limit])
        for text, value, limit in aims
    ]
    print("\n" + table(("aim", "reached", "limit", "ratio"), cells))
    return int(any(not value <= limit for _, value, limit in aims))
