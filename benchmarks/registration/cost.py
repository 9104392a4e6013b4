"""CPU seconds and memory of registration, with a field and without."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from phantoms import Section, size_of
from running import WORK, read_telemetry, say, snakemake_words
from running import run as execute
from tables import number, save_json, table

from registration.geometry import waves
from registration.judging import inside
from unglow import transform
from unglow.core.machine import processors
from unglow.phantom.pair import Raster, write_tiff

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from numpy.typing import NDArray


LARGE = 30000, 25000
LARGE_FIELD_CPU, LARGE_GLOBAL_CPU, BUDGET_MB = 360.0, 40.0, 500
ERROR_P95_PX = 0.12
"""What a field leaves in the middle of the section; far more where it was not tried."""
_DEFORM_PX, _WAVELENGTH_PX = 6.0, 1500.0
_TALLER, _WIDER = 1.02, 1.03
_POINTS = 60


@dataclass(frozen=True)
class Cost:
    """What one job took: CPU seconds, MB of its process, error to the map, px."""

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
    parser.add_argument("--sizes", nargs="*", default=["4096"], metavar="ROWSxCOLS")
    parser.add_argument(
        "--large", action="store_true", help="also 30000 x 25000 px (3 GB of disk, some minutes)"
    )
    parser.add_argument("--work", type=Path, default=WORK, help="where pairs and runs are made")


def run(args: argparse.Namespace) -> int:
    """Measure all sizes, print the table; return 1 where an aim is missed."""
    args.work.mkdir(parents=True, exist_ok=True)
    sizes = [*map(size_of, args.sizes), *([LARGE] if args.large else [])]
    costs = [cost for size in sizes for cost in measure(size, args.work)]
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


def measure(shape: tuple[int, int], work: Path) -> list[Cost]:
    """Run the real jobs on a pair, up to registration, with a field and without."""
    size, section = f"{shape[0]}x{shape[1]}", pair_of(shape)
    points = section_points(section)
    costs = []
    with tempfile.TemporaryDirectory(prefix="cost-", dir=work) as name:
        folder = Path(name)
        say(f"{size}: writing the pair")
        (folder / "raw" / "pair").mkdir(parents=True)
        for role, frame in (("post", section.shape), ("pre", section.pre_shape)):
            pixels = getattr(section, role)
            raster = Raster(frame, np.dtype("uint8"), rgb=False, pixels=pixels, pixel_size_um=0.5)
            path = folder / "raw" / "pair" / f"pair_{role}_SYTO9.tif"
            write_tiff(path, raster, layout="tiles", compression="zlib", workers=processors())
        for field in ("auto", "never"):
            say(f"{size}: field: {field}")
            config = {"memory_per_job": BUDGET_MB, "register": f"{{field: {field}}}"}
            words = snakemake_words(processors(), config, threads=1, until="register")
            status, text = execute(*words, directory=folder)
            results = folder / "results"
            records = [r for r in read_telemetry(results / "telemetry") if r["rule"] == "register"]
            if status != 0 or not records:
                say(f"{size}: the run ended with status {status}:\n{text[-800:]}")
                costs.append(Cost(size, f"field: {field}", float("nan"), status="error"))
                continue
            found = transform.load(results / "pair" / "SYTO9" / "transform.json")
            off = np.hypot(*(found.map(points) - section.map.to_pre(points)).T)
            taken = (records[-1][key] for key in ("cpu_seconds", "peak_mb", "declared_mb"))
            errors = map(float, np.quantile(off, (0.5, 0.95)))
            costs.append(Cost(size, f"field: {field}", *taken, *errors, found.status))
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
