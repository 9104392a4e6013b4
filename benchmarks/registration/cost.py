"""CPU seconds and memory of registration, with a field and without, against the prototype."""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from phantoms import Section, size_of
from running import BIN, WORK, read_telemetry, say, snakemake_words
from running import run as execute
from tables import number, table

from registration.geometry import waves
from registration.judging import inside
from registration.pool import in_children, registered, save_json
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

MOST_OF_PROTOTYPE = 0.5
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
    folder = args.shared / "references" / "prototype"
    prototype = folder if (folder / "reg2.py").is_file() else None
    if prototype is None:
        print(f"no column of the prototype: {folder / 'reg2.py'} does not exist")
    costs: list[Cost] = []
    for text in args.sizes:
        costs += _small(size_of(text), prototype, args.work)
    if args.large:
        costs += _large(args.work)
    save_json(args.json, [asdict(cost) for cost in costs])
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


def _small(shape: tuple[int, int], prototype: Path | None, work: Path) -> list[Cost]:
    """Register one pair in memory: with a field, without, and by the prototype."""
    size = f"{shape[0]}x{shape[1]}"
    with tempfile.TemporaryDirectory(prefix=f"cost-{size}-", dir=work) as name:
        say(f"{size}: making the pair")
        section, folder = pair_of(shape), Path(name)
        for role, frame in (("post", section.shape), ("pre", section.pre_shape)):
            np.save(folder / f"{role}.npy", _whole(getattr(section, role), frame))
        points = section_points(section)
        np.save(folder / "points.npy", points)
        costs = []
        for field in ("auto", "never"):
            say(f"{size}: field: {field}")
            costs += in_children(partial(_in_memory, field, folder), [size], 1)
        if prototype is not None:
            say(f"{size}: prototype")
            costs.append(_by_prototype(size, prototype, folder))
        truth = section.map.to_pre(points)
        return [_judged(cost, folder, truth) for cost in costs]


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


def _by_prototype(size: str, prototype: Path, folder: Path) -> Cost:
    files = [folder / name for name in ("post.npy", "pre.npy", "points.npy", "prototype.json")]
    script = Path(__file__).with_name("prototype.py")
    status, text = execute(BIN / "python", script, prototype, *files, directory=folder)
    if status != 0:
        say(f"{size}: the prototype ended with status {status}:\n{text[-800:]}")
        return Cost(size, "prototype", float("nan"), status="error")
    return Cost(size, "prototype", **json.loads(files[-1].read_text(encoding="utf-8")))


def _judged(cost: Cost, folder: Path, truth: NDArray[np.float64]) -> Cost:
    path = folder / f"{cost.what}.npy"
    if not path.is_file():
        return cost
    return _with_error(cost, np.load(path), truth)


def _with_error(cost: Cost, mapped: NDArray[np.float64], truth: NDArray[np.float64]) -> Cost:
    median, p95 = np.quantile(np.hypot(*(mapped - truth).T), (0.5, 0.95))
    return Cost(**{**asdict(cost), "error_median": float(median), "error_p95": float(p95)})


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
    prototype = {c.size: c.cpu_seconds for c in costs if c.what == "prototype"}
    rows = []
    for c in costs:
        share = c.cpu_seconds / prototype.get(c.size, float("nan"))
        rows.append(
            (
                c.size,
                c.what,
                c.status,
                number(c.cpu_seconds),
                number(share),
                number(c.peak_mb),
                number(c.declared_mb),
                number(c.error_median),
                number(c.error_p95),
            )
        )
    header = ("size", "what", "status", "CPU-s", "/ prototype", "peak MB", "declared")
    print(table((*header, "error px", "p95 px"), rows, left=3))
    aims = [_aim(c, prototype) for c in costs if c.what != "prototype"]
    known = [aim for aim in aims if aim is not None]
    known += [
        (f"{c.size}, {c.what}: error at p95, px", c.error_p95, ERROR_P95_PX)
        for c in costs
        if c.what == "field: auto"
    ]
    cells = [
        (text, number(value), number(limit), f"{value / limit:.2f}" + " !"[not value <= limit])
        for text, value, limit in known
    ]
    peaks = [c for c in costs if np.isfinite(c.declared_mb)]
    cells += [
        (
            f"{c.size}, {c.what}: peak MB within what was declared",
            number(c.peak_mb),
            number(c.declared_mb),
            f"{c.peak_mb / c.declared_mb:.2f}" + " !"[not c.peak_mb <= c.declared_mb],
        )
        for c in peaks
    ]
    print("\n" + table(("aim", "reached", "limit", "ratio"), cells))
    over = any(not value <= limit for _, value, limit in known)
    return int(over or any(not c.peak_mb <= c.declared_mb for c in peaks))


def _aim(cost: Cost, prototype: dict[str, float]) -> tuple[str, float, float] | None:
    """Return what one registration is to cost: text, CPU seconds reached, CPU seconds at most."""
    if cost.size == f"{LARGE[0]}x{LARGE[1]}":
        limit = LARGE_FIELD_CPU if cost.what == "field: auto" else LARGE_GLOBAL_CPU
        return f"{cost.size}, {cost.what}: CPU-s", cost.cpu_seconds, limit
    if cost.what == "field: auto" and cost.size in prototype:
        limit = MOST_OF_PROTOTYPE * prototype[cost.size]
        return f"{cost.size}: half the CPU-s of the prototype", cost.cpu_seconds, limit
    return None
