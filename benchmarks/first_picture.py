"""Draw the picture at the top of README.md, from the finished run of `make demo`.

    python benchmarks/first_picture.py demo docs/pictures/first.jpg

A window of the phantom: before staining (registered), after, and what is left when the glow is
subtracted, with the candidates that were listed and the microbes that are truly there.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np

from unglow.core.windows import Window
from unglow.io.candidates_csv import read_candidates
from unglow.io.zarr import open_store
from unglow.phantom import Truth

if TYPE_CHECKING:
    from numpy.typing import NDArray

SIDE = 420
# Quantiles of the px that are drawn black and white: of images, and of a difference.
IMAGE, DIFFERENCE = (0.01, 0.998), (0.0002, 0.9998)


def fullest(points: NDArray[np.float64], shape: tuple[int, int]) -> Window:
    """Return the window of SIDE px with the most points (x, y), on a grid of half its side."""
    corners = [
        (x, y)
        for y in range(0, shape[0] - SIDE, SIDE // 2)
        for x in range(0, shape[1] - SIDE, SIDE // 2)
    ]
    x, y = max(corners, key=lambda at: int(inside(points, at).sum()))
    return Window(y, y + SIDE, x, x + SIDE)


def inside(points: NDArray[np.float64], at: tuple[int, int]) -> NDArray[np.bool_]:
    """Return which points (x, y) lie well inside the window with this corner."""
    low = np.array(at) + SIDE * 0.03
    return np.all((points > low) & (points < low + SIDE * 0.94), axis=1)


def draw(work: Path, target: Path) -> None:
    """Draw the picture of a working directory in which the demo has been run."""
    results = work / "results" / "phantom" / "SYTO9"
    truth = Truth.load(work / "raw" / "phantom" / "phantom_SYTO9_truth.json")
    candidates = read_candidates(results / "candidates.csv")
    found = candidates.xy[candidates.counted]
    post = open_store(results / "post.ome.zarr")
    window = fullest(found, post.shape)
    corner = window.x0, window.y0
    difference = next(results.glob("difference/*.ome.zarr"))
    panels = {
        "before staining, registered": open_store(results / "aligned_pre.ome.zarr").read(window),
        "after staining": post.read(window),
        "the glow subtracted": open_store(difference).read(window),
    }
    mpl.use("agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415 (after the choice of what draws)

    figure, axes = plt.subplots(1, 3, figsize=(12, 4.3), layout="constrained")
    for ax, (name, pixels) in zip(axes, panels.items(), strict=True):
        low, high = np.nanquantile(pixels, DIFFERENCE if ax is axes[2] else IMAGE)
        ax.imshow(pixels, cmap="gray", vmin=low, vmax=high, interpolation="nearest")
        ax.set_title(name, fontsize=13)
        ax.set_axis_off()
    real = np.stack([truth.microbes.x, truth.microbes.y], axis=1)
    shown, true = (points[inside(points, corner)] - corner for points in (found, real))
    circles = {"facecolors": "none", "linewidths": 1.4}
    axes[2].scatter(*shown.T, s=170, edgecolors="#35d0a0", label="listed", **circles)
    axes[2].scatter(*true.T, s=330, edgecolors="#ff4fbf", label="truly there", ls=":", **circles)
    axes[2].legend(loc="lower right", fontsize=10, framealpha=0.85)
    figure.savefig(target, dpi=80, pil_kwargs={"quality": 88})
    print(f"{target}: {len(shown)} listed, {len(true)} truly there, at (x, y) = {corner}")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("work", type=Path, help="the directory demo/ that `make demo` has made")
    parser.add_argument("target", type=Path, help="picture to write")
    given = parser.parse_args()
    draw(given.work, given.target)


if __name__ == "__main__":
    main()
