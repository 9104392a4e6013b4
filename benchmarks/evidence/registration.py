"""Tools that register a pair, and where each puts points whose true place is known."""

from __future__ import annotations

import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import cv2
import numpy as np
import tifffile
from phantom_damage.pair import DamagedTruth
from running import BIN, PROJECT, command, measure, say, snakemake_words
from tables import number

from unglow import open_results
from unglow.core.machine import processors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

PEERS = Path(__file__).parent / "peers"
# What a script in peers/ prints before what its tool says of the result.
_SAYS = "says: "
MOST_S = 900.0
"""A tool that takes longer is ended, s."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a tool gave for a pair.

    Attributes
    ----------
    mapped
        (N, 2) places in pre (x, y), px; None if there is no map.
    said
        What the tool itself says of its result; '' if it says nothing.
    cpu_s, peak_mb
        Processor time of the whole command, and memory of the largest of its processes.
    """

    mapped: NDArray[np.float64] | None = None
    said: str = ""
    cpu_s: float = float("nan")
    peak_mb: float = float("nan")


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool: its name with what it was set to, and what runs it on a pair.

    ``run`` takes the directory that holds raw/, the images (post, pre), and points of post.
    ``is_deformable`` says which maps these settings look for; None if the tool decides.
    """

    name: str
    run: Callable[[Path, tuple[Path, Path], NDArray[np.float64]], Outcome]
    missing: str = ""
    is_deformable: bool | None = None


def run_unglow(place: Path, _: tuple[Path, Path], points: NDArray[np.float64]) -> Outcome:
    """Register with unglow: the entire snakemake command up to the map."""
    taken = measure(*snakemake_words(processors(), {}, until="register"), directory=place)
    (pair,) = open_results(place / "results").pairs.values()
    status = str(pair.registration["status"])
    mapped = None if status == "failed" else pair.transform.map(points)
    return Outcome(mapped, status, taken.cpu_s, taken.peak_mb)


def make_peer(
    name: str,
    script: str,
    python: Path,
    *more: str,
    grey: bool = True,
    is_deformable: bool | None = None,
) -> Tool:
    """Return a tool that a script in peers/ runs in an environment of its own.

    It gets ``grey`` images as float32 in .npy files, so that it needs no reader, or the TIFF files.
    """

    def run(place: Path, raw: tuple[Path, Path], points: NDArray[np.float64]) -> Outcome:
        place = Path(tempfile.mkdtemp(dir=place))  # others may run on this pair at the same time
        given, mapped = place / "points.npy", place / "mapped.npy"
        np.save(given, points)
        mapped.unlink(missing_ok=True)
        images = raw
        if grey:
            images = (place / "post.npy", place / "pre.npy")
            for source, target in zip(raw, images, strict=True):
                np.save(target, read_grey(source))
        words = (python, PEERS / script, *images, given, mapped, *more)
        taken = measure("timeout", MOST_S, *words, directory=place)
        found = np.load(mapped) if taken.status == 0 and mapped.is_file() else None
        lines = [line for line in taken.text.splitlines() if line.startswith(_SAYS)]
        said = lines[0].removeprefix(_SAYS) if lines else ""
        said = said if found is not None else f"exit status {taken.status}"
        return Outcome(found, said, taken.cpu_s, taken.peak_mb)

    missing = "" if python.is_file() else f"no environment {python.parent.parent.name}"
    return Tool(name, run, missing, is_deformable)


def read_grey(path: Path) -> NDArray[np.float32]:
    """Read a TIFF image as (rows, cols), the brightest channel of each px."""
    image = tifffile.imread(path)
    return np.asarray(image.max(axis=-1) if image.ndim == 3 else image, np.float32)


def all_tools(environments: Path) -> list[Tool]:
    """Return unglow and the tools whose environments may be below a directory."""

    def python(name: str) -> Path:
        return environments / name / "bin" / "python"

    greedy, elastix, exo2micro = map(python, ("greedy", "elastix", "exo2micro"))
    return [
        Tool("unglow", run_unglow),
        make_peer("greedy, affine", "greedy.py", greedy, is_deformable=False),
        make_peer(
            "greedy, affine + deformable", "greedy.py", greedy, "deformable", is_deformable=True
        ),
        make_peer("elastix, rigid + affine", "elastix.py", elastix, is_deformable=False),
        make_peer(
            "elastix, + B-spline 128 px", "elastix.py", elastix, "bspline", is_deformable=True
        ),
        make_peer("exo2micro 2.4", "run_exo2micro.py", exo2micro, grey=False),
    ]


# Pairs, and what a map of them is worth

LOST_PX = 5.0
"""A map whose 95th percentile is further off than this is wrong, px."""
_STEP_PX, _BORDER_PX = 24, 64


@dataclass(frozen=True, slots=True)
class Case:
    """A pair: its name, options of `phantom_damage`, and whether there is a map at all."""

    name: str
    words: tuple[str, ...]
    has_map: bool = True

    @property
    def is_deformed(self) -> bool:
        """Whether no affine map is right."""
        return "--deform-px" in self.words


CASES = (
    Case("shift and rotation", ()),
    Case("2 px smooth", ("--deform-px", "2")),
    Case("6 px smooth", ("--deform-px", "6")),
    Case("softer post", ("--blur-post-px", "1.5")),
    Case("much new signal", ("--microbes-per-mpx", "400")),
    Case("debris and a fold", ("--damage", "debris:90,fold:60")),
    Case("another section", (), has_map=False),
)
HEADER = ("pair", "tool", "median", "p95", "result", "CPU s", "MB")


def make_pair(case: Case, size: int, place: Path) -> tuple[Path, Path, DamagedTruth]:
    """Make a pair below a directory; return post, pre and truth."""
    shape = ("--size", f"{size}x{size}")
    maker = PROJECT / "benchmarks" / "phantom_damage"
    command(sys.executable, maker, *shape, *case.words, directory=place)
    folder = place / "raw" / "phantom"
    post, pre = (next(folder.glob(f"*_{role}_*.tif")) for role in ("post", "pre"))
    truth = DamagedTruth.load(next(folder.glob("*_truth.json")))
    if not case.has_map:
        other = place / "other"
        other.mkdir()
        command(BIN / "unglow", "phantom", *shape, "--seed", "77", directory=other)
        pre.unlink()
        shutil.move(next((other / "raw" / "phantom").glob("*_pre_*.tif")), pre)
        shutil.rmtree(other)
    return post, pre, truth


def find_points(post: Path, pre: Path, truth: DamagedTruth) -> NDArray[np.float64]:
    """Return points (x, y) of the section in post that pre has, away from borders, (N, 2) px."""
    image = read_grey(post)
    rows, cols = image.shape
    y, x = np.mgrid[
        _BORDER_PX : rows - _BORDER_PX : _STEP_PX, _BORDER_PX : cols - _BORDER_PX : _STEP_PX
    ]
    points = np.column_stack([x.ravel(), y.ravel()]).astype(np.float64)
    smooth = cv2.GaussianBlur(image, (0, 0), 12)
    level = 0.25 * np.median(smooth)
    inside = smooth[points[:, 1].astype(int), points[:, 0].astype(int)] > level
    shape = read_grey(pre).shape
    mapped = truth.map(points)
    seen = ((mapped > _BORDER_PX) & (mapped < np.array(shape[::-1]) - _BORDER_PX)).all(axis=1)
    return points[inside & seen & ~truth.is_damaged(points)]


def judge(case: Case, outcome: Outcome, truth: NDArray[np.float64]) -> tuple[str, str, str]:
    """Return median and 95th percentile of the error, px, and what the result is worth."""
    if outcome.mapped is None:
        refused = outcome.said or "no result"
        return "-", "-", f"refused ({refused})" if case.has_map else "refused, as it should be"
    if not case.has_map:
        is_named = outcome.said not in ("", "ok")
        return "-", "-", f"says {outcome.said}" if is_named else "**wrong without a word**"
    off = np.hypot(*(outcome.mapped - truth).T)
    median, p95 = (float(np.quantile(off, share)) for share in (0.5, 0.95))
    if p95 <= LOST_PX:
        worth = outcome.said or "says nothing"
    else:
        is_named = outcome.said not in ("", "ok")
        worth = f"wrong, says {outcome.said}" if is_named else "**wrong without a word**"
    return f"{median:.3f}", f"{p95:.3f}", worth


def choose_tools(case: Case, tools: Sequence[Tool]) -> list[Tool]:
    """Return the tools whose kind of map a pair needs, the deformable or the affine ones."""
    return [tool for tool in tools if tool.is_deformable in (None, case.is_deformed)]


def run_tools(
    tools: Sequence[Tool], place: Path, raw: tuple[Path, Path], points: NDArray[np.float64]
) -> list[Outcome | None]:
    """Run tools on a pair, one on each processor; None for those that are missing."""

    def run(tool: Tool) -> Outcome | None:
        if tool.missing:
            return None
        say(f"{place.name}: {tool.name}")
        return tool.run(place, raw, points)

    with ThreadPoolExecutor(processors()) as pool:
        return list(pool.map(run, tools))


def measure_tools(
    tools: Sequence[Tool], size: int, work: Path, *, every_tool: bool
) -> list[list[str]]:
    """Return the rows of the table: each pair with each tool, or those of `choose_tools`."""
    rows = []
    for n, case in enumerate(CASES):
        place = work / f"registration-{n}"
        place.mkdir(parents=True)
        post, pre, truth = make_pair(case, size, place)
        points = find_points(post, pre, truth)
        true = truth.map(points)
        chosen = tools if every_tool else choose_tools(case, tools)
        for tool, outcome in zip(
            chosen, run_tools(chosen, place, (post, pre), points), strict=True
        ):
            if outcome is None:
                rows.append([case.name, tool.name, "-", "-", tool.missing, "-", "-"])
                continue
            taken = (outcome.cpu_s, outcome.peak_mb)
            rows.append([case.name, tool.name, *judge(case, outcome, true), *map(number, taken)])
        shutil.rmtree(place, ignore_errors=True)
    return rows
