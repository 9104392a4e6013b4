"""Draw pictures of README.md and of the pages, from finished pairs given by their results.

    python benchmarks/pictures.py rows docs/pictures/first.jpg DIR/results/phantom/SYTO9 ...
    python benchmarks/pictures.py rows docs/pictures/slide.jpg DIR/results/slide1/figures/slide.png
    python benchmarks/pictures.py steps docs/pictures demo/results/phantom/SYTO9
    python benchmarks/pictures.py spoilt docs/pictures/spoilt.jpg results/phantom/SYTO9
    python benchmarks/pictures.py good-bad docs/pictures

``rows`` (README, tutorials) shows a window of each pair: before staining (registered), after, the
difference, and the candidates that were listed, for a phantom with the microbes that are truly
there. A figure that a run has drawn (the picture of a slide) becomes a small JPEG.

``steps`` (front page of the site) shows the part of the pair with the most candidates: pre and post
as they came, both in one frame, the grey levels of one against the other, the difference, and the
candidates on post.

``spoilt`` (docs/results.md) shows the difference with the places that were found hatched, as
figures have them, of

    python benchmarks/phantom_damage --seed 21 --damage DAMAGE

with lost:120,debris:90,blur:250,fold:60,bleach:200,tile:128 as DAMAGE.

``good-bad`` (docs/results.md) shows figures side by side, of three phantoms that it runs: as they
should be, with a map that cannot follow the deformation, and with a method that ignores offsets.
"""

from __future__ import annotations

import argparse
import io
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import cv2
import matplotlib as mpl
import numpy as np
from PIL import Image, ImageDraw, ImageFont
from running import command

from unglow.core.windows import Window
from unglow.figures import style
from unglow.figures.difference import hatch_places
from unglow.figures.difference_picture import NoiseColours
from unglow.images.artefacts import ARTEFACTS, read_places
from unglow.images.detection_results import read_candidates
from unglow.images.zarr import open_store
from unglow.images.zarr.reader import overview
from unglow.phantom import Truth
from unglow.photometry.gain.scale import Scale

mpl.use("agg")
from matplotlib import pyplot as plt  # after the choice of what draws

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from unglow.images.zarr import Store

SIDE = 260  # of a window, px
# The difference is smoothed by about the width of a microbe (sigma, px), as in the search.
SMOOTH_PX = 1.3
# Quantiles of the px that are drawn black and white.
IMAGE = (0.01, 0.998)
TITLES = "before staining", "after staining", "difference", "found"
LISTED, TRUE = "#35d0a0", "#ff4fbf"
CIRCLE, LINE = (53, 208, 160), (240, 140, 30)  # red, green, blue
SPOILT_TITLES = "before staining, registered", "after staining", "difference, with excluded places"


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


def read_smooth_difference(pair: Path, window: Window) -> NDArray[np.float32]:
    """Return a window of the difference of a pair, smoothed as for the search."""
    difference = open_store(next(pair.glob("difference*.ome.zarr"))).read(window)
    return np.asarray(cv2.GaussianBlur(difference, (0, 0), SMOOTH_PX))


def draw_row(axes: Sequence[Axes], pair: Path) -> None:
    """Draw the fullest window of a pair into four axes, and print what it shows."""
    candidates = read_candidates(pair / "candidates.csv")
    found = candidates.xy[candidates.is_counted]
    post = open_store(pair / "post.ome.zarr")
    window = fullest(found, post.shape)
    corner = window.x0, window.y0
    before, after = open_store(pair / "aligned_pre.ome.zarr").read(window), post.read(window)
    difference = read_smooth_difference(pair, window)
    low, high = np.nanquantile(after, IMAGE)
    for ax, pixels in zip(axes, (before, after, None, after), strict=True):
        if pixels is None:
            ax.imshow(NoiseColours.from_difference(difference, before).pixels(difference, before))
        else:
            ax.imshow(pixels, cmap="gray", vmin=low, vmax=high, interpolation="nearest")
        ax.set_axis_off()
    shown, true = (points[inside(points, corner)] - corner for points in (found, true_places(pair)))
    circles: dict[str, Any] = {"facecolors": "none", "linewidths": 1.6}
    x, y = shown.T
    axes[3].scatter(x, y, 150, edgecolors=LISTED, label="listed", **circles)
    if len(true):
        x, y = true.T
        axes[3].scatter(x, y, 320, edgecolors=TRUE, label="truth", ls=":", **circles)
        axes[3].legend(fontsize=11, framealpha=0.85)
    print(f"{pair}: {len(shown)} listed, {len(true)} truly there, at (x, y) = {corner}")


def shrink(target: Path, figure: Path) -> None:
    """Write a figure 960 px wide."""
    drawn = np.asarray(cv2.imread(str(figure)))
    size = 960, round(drawn.shape[0] * 960 / drawn.shape[1])
    small = cv2.resize(drawn, size, interpolation=cv2.INTER_AREA)
    cv2.imwrite(str(target), small, [cv2.IMWRITE_JPEG_QUALITY, 84])


def draw_rows(target: Path, pairs: Sequence[Path]) -> None:
    """Draw one row for each pair, given by the directory of its results; or copy one figure."""
    if pairs[0].suffix == ".png":
        shrink(target, pairs[0])
        return
    size = (16, 0.4 + 4 * len(pairs))
    figure, axes = plt.subplots(len(pairs), 4, figsize=size, squeeze=False)
    figure.set_layout_engine("constrained", h_pad=0.08)
    for row, pair in zip(axes, pairs, strict=True):
        draw_row(row, pair)
    for ax, title in zip(axes[0], TITLES, strict=True):
        ax.set_title(title, fontsize=15)
    figure.savefig(target, dpi=80, pil_kwargs={"quality": 82})


def stretch(pixels: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return grey levels between the quantiles IMAGE as 0 to 255."""
    low, high = np.nanquantile(pixels, IMAGE)
    return (np.clip((np.nan_to_num(pixels) - low) / (high - low), 0, 1) * 255).astype(np.uint8)


def split(left: NDArray[np.uint8], right: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return one picture: the left one above the diagonal, the right one below."""
    rows, cols = np.indices(left.shape[:2])
    joined = np.where(np.less(rows + cols, SIDE)[..., None], left, right)
    cv2.line(joined, (SIDE, 0), (0, SIDE), (255, 255, 255), 3, cv2.LINE_AA)
    return joined


def grey(pixels: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return a stretched image in three equal channels."""
    return np.repeat(stretch(pixels)[..., None], 3, axis=2)


def overlay(post: NDArray[np.float32], pre: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return post in green and pre in magenta: equal is grey."""
    magenta = stretch(pre)
    return np.stack([magenta, stretch(post), magenta], axis=2)


def against(post: NDArray[np.float32], pre: NDArray[np.float32], scale: Scale) -> NDArray[np.uint8]:
    """Return the histogram of grey levels, post upwards and pre to the right, with the gain."""
    known = np.isfinite(pre)
    edges = np.linspace(0, max(float(np.quantile(post, 0.999)), 1.0), SIDE // 4 + 1)
    counts, _, _ = np.histogram2d(post[known], pre[known], bins=(edges, edges))
    shades = 255 - 215 * np.sqrt(np.log1p(counts) / np.log1p(counts.max()))
    shades = cv2.resize(shades[::-1], (SIDE, SIDE), interpolation=cv2.INTER_NEAREST)
    picture = np.repeat(shades.astype(np.uint8)[..., None], 3, axis=2)
    per_level = SIDE / edges[-1]
    gain, offset = scale.default_result.gain, scale.default_result.offset
    if gain is None or offset is None:
        raise SystemExit("the pair has no gain")
    ends = [(x, SIDE - round((gain * x / per_level + offset) * per_level)) for x in (0, SIDE)]
    cv2.line(picture, ends[0], ends[1], LINE, 3, cv2.LINE_AA)
    return picture


def draw_steps(target: Path, pair: Path) -> None:
    """Write the pictures of all steps, SIDE x SIDE px, into a directory."""
    candidates = read_candidates(pair / "candidates.csv")
    found = candidates.xy[candidates.is_counted]
    store = open_store(pair / "post.ome.zarr")
    window = fullest(found, store.shape)
    post = store.read(window).astype(np.float32)
    raw = open_store(pair / "pre.ome.zarr").read(window).astype(np.float32)
    pre = open_store(pair / "aligned_pre.ome.zarr").read(window)
    difference = read_smooth_difference(pair, window)
    marked = grey(post)
    for x, y in found - (window.x0, window.y0):
        if 0 <= x < SIDE and 0 <= y < SIDE:
            cv2.circle(marked, (round(x), round(y)), 11, CIRCLE, 2, cv2.LINE_AA)
    pictures = {
        "images": split(grey(raw), grey(post)),
        "register": split(overlay(post, raw), overlay(post, pre)),
        "gain": against(post, pre, Scale.load(pair / "scale.json")),
        "subtract": NoiseColours.from_difference(difference, pre).pixels(difference, pre)[..., :3],
        "find": marked,
    }
    for name, picture in pictures.items():
        file = str(target / f"step-{name}.jpg")
        cv2.imwrite(file, np.ascontiguousarray(picture)[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 85])


def show(axes: Axes, image: Store, post: Store | None = None) -> None:
    """Draw an overview of an image, or of a difference of post as figures do, in level-0 px."""
    view = overview(image)
    if post is None:
        pixels = style.grey(style.stretch(view.image))
    else:
        background = overview(post, view.level).image - view.image
        pixels = NoiseColours.from_difference(view.image, background).pixels(view.image, background)
    rows, cols = view.image.shape
    edges = (-0.5, cols * view.step - 0.5, rows * view.step - 0.5, -0.5)
    axes.imshow(pixels, extent=edges)
    axes.set_axis_off()


def draw_spoilt(target: Path, pair: Path) -> None:
    """Draw one row for a pair, given by the directory of its results."""
    figure, axes = plt.subplots(1, 3, figsize=(12.6, 4.95), layout="constrained")
    difference = next(pair.glob("difference*.ome.zarr"))
    post = open_store(pair / "post.ome.zarr")
    show(axes[0], open_store(pair / "aligned_pre.ome.zarr"))
    show(axes[1], post)
    show(axes[2], open_store(difference), post)
    for ax, title in zip(axes, SPOILT_TITLES, strict=True):
        ax.set_title(title, fontsize=12)
    handles = hatch_places(axes[2], read_places(pair / ARTEFACTS))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), fontsize=9)
    figure.savefig(target, dpi=78, pil_kwargs={"quality": 85})


DEFORMED = ("--deform-px", "4", "--deform-wavelength-px", "700")
OFFSETS = ("--offset-pre", "3", "--offset-post", "12")
# For each run: options of the phantom, and the configuration.
RUNS = {
    "good": (DEFORMED, "{}\n"),
    "map": (DEFORMED, "register: {model: similarity, field: never, strips: never}\n"),
    "gain": (OFFSETS, "scale: {methods: [percentile]}\n"),
}
# For each figure: the run that spoils it, and why.
FIGURES = {
    "registration": ("map", "bad: the map does not follow the deformation"),
    "map_error": ("map", "bad: the error is large everywhere"),
    "difference": ("map", "bad: bright edges"),
    "joint_histogram": ("gain", "bad: the line misses the band"),
    "candidates": ("gain", "bad: candidates in clusters"),
    "gallery": ("gain", "bad: background instead of spots"),
}
WIDTH, GAP, BAND = 690, 20, 40  # of one figure, between two, of the label above each; px
MOST_KB = 132
COLOURS = {"good": "#1a7f4b", "bad": "#b3402a"}


class Panel(NamedTuple):
    """A figure and the label above it."""

    label: str
    picture: Image.Image


def run_phantom(work: Path, name: str) -> Path:
    """Run a phantom unless its results are there; return the directory of its pair."""
    place = work / name
    options, config = RUNS[name]
    (place / "config").mkdir(parents=True, exist_ok=True)
    (place / "config" / "config.yaml").write_text(config)
    if not (place / "raw").exists():
        command("unglow", "phantom", "--size", "1024x1024", *options, directory=place)
    command("unglow", "run", "--quiet", "--config", "allow_failed=true", directory=place)
    return place / "results" / "phantom" / "SYTO9"


def read_panel(label: str, file: Path) -> Panel:
    """Read a figure and bring it to the width of a panel."""
    picture = Image.open(file).convert("RGB")
    size = WIDTH, round(picture.height * WIDTH / picture.width)
    return Panel(label, picture.resize(size, Image.Resampling.LANCZOS))


def join(panels: list[Panel]) -> Image.Image:
    """Put figures of any height side by side, each below its label."""
    height = BAND + max(panel.picture.height for panel in panels)
    sheet = Image.new("RGB", (len(panels) * (WIDTH + GAP) - GAP, height), "white")
    pen = ImageDraw.Draw(sheet)
    font = ImageFont.truetype(str(Path(mpl.get_data_path(), "fonts/ttf/DejaVuSans-Bold.ttf")), 22)
    for place, panel in enumerate(panels):
        left = place * (WIDTH + GAP)
        colour = COLOURS[panel.label.partition(":")[0]]
        pen.rectangle((left, 0, left + WIDTH - 1, BAND - 6), fill=colour)
        pen.text((left + 10, 3), panel.label, font=font, fill="white")
        sheet.paste(panel.picture, (left, BAND))
    return sheet


def save(sheet: Image.Image, target: Path) -> None:
    """Write a JPEG of at most MOST_KB, as good as that allows."""
    for quality in range(88, 30, -4):
        written = io.BytesIO()
        sheet.save(written, "JPEG", quality=quality, optimize=True)
        if written.tell() <= MOST_KB * 1000:
            break
    target.write_bytes(written.getvalue())
    print(f"{target}: {written.tell() / 1000:.0f} kB, quality {quality}")


def draw_good_and_bad(target: Path, work: Path) -> None:
    """Write all figures of `FIGURES` into a directory, from phantoms that are run in another."""
    figures = {name: run_phantom(work.absolute(), name) / "figures" for name in RUNS}
    for name, (spoilt, label) in FIGURES.items():
        good = read_panel("good", figures["good"] / f"{name}.png")
        bad = read_panel(label, figures[spoilt] / f"{name}.png")
        save(join([good, bad]), target / f"good-bad-{name}.jpg")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("rows", "steps", "spoilt", "good-bad"))
    parser.add_argument("target", type=Path, help="picture to write; or a directory of several")
    parser.add_argument("pairs", type=Path, nargs="*", help="results of pairs, or one figure")
    given = parser.parse_args()
    if given.what == "good-bad":
        with tempfile.TemporaryDirectory() as work:
            draw_good_and_bad(given.target, Path(work))
    elif given.what == "rows":
        draw_rows(given.target, given.pairs)
    else:
        draw = draw_steps if given.what == "steps" else draw_spoilt
        draw(given.target, given.pairs[0])


if __name__ == "__main__":
    main()
