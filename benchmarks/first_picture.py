"""Draw the pictures of README.md and of the tutorials, from finished pairs: one row for each.

    python benchmarks/first_picture.py docs/pictures/first.jpg DIR/results/phantom/SYTO9 ...

A window of each: before staining (registered), after, the difference, and the candidates that were
listed, for a phantom with the microbes that are truly there. A figure that a run has drawn (the
picture of a slide) becomes a small JPEG:

    python benchmarks/first_picture.py docs/pictures/slide.jpg DIR/results/slide1/figures/slide.png
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import cv2
import matplotlib as mpl
import numpy as np

from unglow.core.windows import Window
from unglow.io.detection_results import read_candidates
from unglow.io.zarr import open_store
from unglow.phantom import Truth
from unglow.reporting.difference_picture import NoiseColours

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

SIDE = 260
# The difference is smoothed by about the width of a microbe (sigma, px), as in the search.
SMOOTH_PX = 1.3
# Quantiles of the px that are drawn black and white.
IMAGE = (0.01, 0.998)
TITLES = "before staining", "after staining", "difference", "found"
LISTED, TRUE = "#35d0a0", "#ff4fbf"


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


def true_places(pair: Path) -> NDArray[np.float64]:
    """Return where microbes truly are, (N, 2) as (x, y): none, unless the pair is a phantom."""
    *_, sample, dye = pair.resolve().parts
    file = pair.resolve().parents[2] / "raw" / sample / f"{sample}_{dye}_truth.json"
    if not file.exists():
        return np.empty((0, 2))
    microbes = Truth.load(file).microbes
    return np.stack([microbes.x, microbes.y], axis=1)


def draw_row(axes: Sequence[Axes], pair: Path) -> None:
    """Draw the fullest window of a pair into four axes, and print what it shows."""
    candidates = read_candidates(pair / "candidates.csv")
    found = candidates.xy[candidates.is_counted]
    post = open_store(pair / "post.ome.zarr")
    window = fullest(found, post.shape)
    corner = window.x0, window.y0
    before, after = open_store(pair / "aligned_pre.ome.zarr").read(window), post.read(window)
    difference = open_store(next(pair.glob("difference/*.ome.zarr"))).read(window)
    difference = cv2.GaussianBlur(difference, (0, 0), SMOOTH_PX)
    low, high = np.nanquantile(after, IMAGE)
    for ax, pixels in zip(axes, (before, after, None, after), strict=True):
        if pixels is None:
            ax.imshow(NoiseColours.of(difference, before).pixels(difference, before))
        else:
            ax.imshow(pixels, cmap="gray", vmin=low, vmax=high, interpolation="nearest")
        ax.set_axis_off()
    shown, true = (points[inside(points, corner)] - corner for points in (found, true_places(pair)))
    circles = {"facecolors": "none", "linewidths": 1.6}
    axes[3].scatter(*shown.T, s=150, edgecolors=LISTED, label="listed", **circles)
    if len(true):
        axes[3].scatter(*true.T, s=320, edgecolors=TRUE, label="truth", ls=":", **circles)
        axes[3].legend(loc="lower right", fontsize=11, framealpha=0.85)
    print(f"{pair}: {len(shown)} listed, {len(true)} truly there, at (x, y) = {corner}")


def draw(target: Path, pairs: Sequence[Path]) -> None:
    """Draw one row for each pair, given by the directory of its results."""
    mpl.use("agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415 (after the choice of what draws)

    size = (16, 0.3 + 4 * len(pairs))
    figure, axes = plt.subplots(len(pairs), 4, figsize=size, layout="constrained", squeeze=False)
    for row, pair in zip(axes, pairs, strict=True):
        draw_row(row, pair)
    for ax, title in zip(axes[0], TITLES, strict=True):
        ax.set_title(title, fontsize=15)
    figure.savefig(target, dpi=80, pil_kwargs={"quality": 82})


def shrink(target: Path, figure: Path) -> None:
    """Write a figure 960 px wide."""
    drawn = cv2.imread(str(figure))
    size = 960, round(drawn.shape[0] * 960 / drawn.shape[1])
    small = cv2.resize(drawn, size, interpolation=cv2.INTER_AREA)
    cv2.imwrite(str(target), small, [cv2.IMWRITE_JPEG_QUALITY, 84])


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", type=Path, help="picture to write")
    parser.add_argument("pairs", type=Path, nargs="+", help="results of pairs, or one figure")
    given = parser.parse_args()
    if given.pairs[0].suffix == ".png":
        shrink(given.target, given.pairs[0])
    else:
        draw(given.target, given.pairs)


if __name__ == "__main__":
    main()
