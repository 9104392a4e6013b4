"""Registration of phantoms: where each tool puts points whose true place is known."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import cv2
import numpy as np
from running import BIN, command, say
from tables import number

from evidence.tools import read_grey
from unglow.core.machine import processors
from unglow.phantom import Truth

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from evidence.tools import Outcome, Tool

LOST_PX = 5.0
"""A map whose 95th percentile is further off than this is wrong, px."""
_STEP_PX, _BORDER_PX = 24, 64


@dataclass(frozen=True, slots=True)
class Case:
    """A pair: its name, words of `unglow phantom`, and whether there is a map at all."""

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


def make_pair(case: Case, size: int, place: Path) -> tuple[Path, Path, Truth]:
    """Make a pair below a directory; return post, pre and truth."""
    shape = ("--size", f"{size}x{size}")
    command(BIN / "unglow", "phantom", *shape, *case.words, directory=place)
    folder = place / "raw" / "phantom"
    post, pre = (next(folder.glob(f"*_{role}_*.tif")) for role in ("post", "pre"))
    truth = Truth.load(next(folder.glob("*_truth.json")))
    if not case.has_map:
        other = place / "other"
        other.mkdir()
        command(BIN / "unglow", "phantom", *shape, "--seed", "77", directory=other)
        pre.unlink()
        shutil.move(next((other / "raw" / "phantom").glob("*_pre_*.tif")), pre)
        shutil.rmtree(other)
    return post, pre, truth


def find_points(post: Path, pre: Path, truth: Truth) -> NDArray[np.float64]:
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


def measure(tools: Sequence[Tool], size: int, work: Path, *, every_tool: bool) -> list[list[str]]:
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
