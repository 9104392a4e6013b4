"""Draw the picture of spoilt places of docs/results.md, from a finished phantom with damage.

    unglow phantom --seed 21 --damage lost:120,debris:90,blur:250,fold:60,bleach:200,tile:128
    unglow init raw && unglow run
    python benchmarks/spoilt_picture.py docs/pictures/spoilt.jpg results/phantom/SYTO9

Before staining (registered), after, and the difference with the places that were found hatched, as
figures have them.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl

from unglow.io.zarr import open_store
from unglow.io.zarr.overviews import overview
from unglow.reporting.difference_picture import NoiseColours
from unglow.reporting.figures.difference import hatch_places
from unglow.reporting.figures.style import grey, stretch
from unglow.spoilt.saved_places import ARTEFACTS, read_places

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from unglow.io.zarr import Store

TITLES = "before staining, registered", "after staining", "difference, with excluded places"


def show(axes: Axes, image: Store, post: Store | None = None) -> None:
    """Draw an overview of an image, or of a difference of post as figures do, in level-0 px."""
    view = overview(image)
    if post is None:
        pixels = grey(stretch(view.image))
    else:
        background = overview(post, view.level).image - view.image
        pixels = NoiseColours.of(view.image, background).pixels(view.image, background)
    rows, cols = view.image.shape
    edges = (-0.5, cols * view.step - 0.5, rows * view.step - 0.5, -0.5)
    axes.imshow(pixels, extent=edges)
    axes.set_axis_off()


def draw(target: Path, pair: Path) -> None:
    """Draw one row for a pair, given by the directory of its results."""
    mpl.use("agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415 (after the choice of what draws)

    figure, axes = plt.subplots(1, 3, figsize=(12.6, 4.95), layout="constrained")
    difference = next(pair.glob("difference/*.ome.zarr"))
    post = open_store(pair / "post.ome.zarr")
    show(axes[0], open_store(pair / "aligned_pre.ome.zarr"))
    show(axes[1], post)
    show(axes[2], open_store(difference), post)
    for ax, title in zip(axes, TITLES, strict=True):
        ax.set_title(title, fontsize=12)
    handles = hatch_places(axes[2], read_places(pair / ARTEFACTS))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), fontsize=9)
    figure.savefig(target, dpi=78, pil_kwargs={"quality": 85})


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", type=Path, help="picture to write")
    parser.add_argument("pair", type=Path, help="results of the pair")
    given = parser.parse_args()
    draw(given.target, given.pair)


if __name__ == "__main__":
    main()
