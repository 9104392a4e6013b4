"""Closed loops over one slide by four scanners: how far a point is from itself after a loop."""

from __future__ import annotations

import itertools
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import tifffile
from scipy import ndimage
from tables import save_json, table

from registration.bases import SCANNERS
from registration.judging import inside
from registration.pool import in_children, registered

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from registration.geometry import Points
    from unglow.transform import Transform

    Image = NDArray[Any]
    Step = tuple[str, str]

LOOPS = (("A", "Z", "N2"), ("A", "N1", "N2"), ("A", "Z", "N1"), ("Z", "N1", "N2"))
LOOP_P95_PX = 0.28
_STEP, _MARGIN = 32, 16.0
_WINDOW, _TEXTURE = 49, 4.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add no options: there are those of all commands."""


def run(args: argparse.Namespace) -> int:
    """Register all images of a loop, print the table; return 1 where the aim is missed."""
    if args.data is None:
        print("nothing to do: all of this needs real images")
        return 0
    loops = {loop: list(itertools.pairwise((*loop, loop[0]))) for loop in LOOPS}
    steps = sorted({step for loop in loops.values() for step in loop})
    found = dict(in_children(partial(scanned, data=args.data), steps, args.jobs))
    rows, figures = [], {}
    for loop, steps_of in loops.items():
        name = " -> ".join((*loop, loop[0]))
        figures[name] = closure(
            [found[step] for step in steps_of], tissue(slide(args.data, loop[0]))
        )
        is_good = figures[name][1] <= LOOP_P95_PX
        rows.append((name, *(f"{v:.3f}" for v in figures[name]), "" if is_good else "MISSED"))
    save_json(args.json, figures)
    print(table(("loop, px", "median", "p95", "max", f"p95 <= {LOOP_P95_PX:g}"), rows))
    return int(any(p95 > LOOP_P95_PX for _, p95, _ in figures.values()))


def closure(steps: Sequence[Transform], points: Points) -> tuple[float, float, float]:
    """Median, p95 and maximum of how far points (N, 2) are from themselves after all steps, px.

    Points that leave an image on the way do not count.
    """
    at, seen = points, np.ones(len(points), dtype=bool)
    for step in steps:
        at = step.map(at)
        with np.errstate(invalid="ignore"):
            seen &= inside(at, step.pre_shape, _MARGIN)
    off = np.hypot(*(at - points)[seen].T)
    return float(np.median(off)), float(np.quantile(off, 0.95)), float(off.max())


@lru_cache(maxsize=4)
def slide(data: Path, name: str) -> Image:
    """Return the sum of the colours of a scanner's image, (rows, cols) uint16."""
    path = data / "scanners_one_slide" / SCANNERS[f"scanner-{name}"]
    return np.asarray(tifffile.imread(path).sum(axis=2, dtype=np.uint16))


def tissue(image: Image) -> Points:
    """Points (N, 2) of an image, on a grid, that have texture around them."""
    level = image.astype(np.float32) / 3
    mean = ndimage.uniform_filter(level, _WINDOW)
    spread = ndimage.uniform_filter(level * level, _WINDOW) - mean * mean
    y, x = np.mgrid[_STEP // 2 : image.shape[0] : _STEP, _STEP // 2 : image.shape[1] : _STEP]
    known = spread[y, x] > _TEXTURE**2
    return np.column_stack([x[known], y[known]]).astype(np.float64)


def scanned(step: Step, data: Path) -> tuple[Step, Transform]:
    """Register the image of one scanner to that of another."""
    post, pre = (slide(data, name) for name in step)
    return step, registered(post, pre)[0].transform
