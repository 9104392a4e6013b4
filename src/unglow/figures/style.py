"""What all figures share: paper, type, colours, image panels, and saving with equal bytes.

Figures are built without pyplot (no global state, no display) and are fed with small arrays only.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle, StepPatch
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from unglow.core.files import replace_file
from unglow.core.progress import step
from unglow.photometry.gain.scale import METHODS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.legend import Legend

    from unglow.core.arrays import Array, Bytes, Floats, Floats32


_P = ParamSpec("_P")

DPI = 100

INK, SOFT, FAINT, PAPER = "#1b1f24", "#59636e", "#d8dee4", "#ffffff"
DISAGREES = "#ff5555"
"""Colour of blocks that do not agree with the map."""
STATUS = {"ok": "#1a7f37", "suspect": "#9a6700", "failed": "#cf222e", "incomplete": SOFT}
# Okabe and Ito's colours, which the colour-blind distinguish.
BLUE, ORANGE, GREEN, SKY = "#0072B2", "#E69F00", "#009E73", "#56B4E9"
METHOD = {name: method.colour for name, method in METHODS.items()}
DIVERGING = LinearSegmentedColormap.from_list(
    "unglow", ["#c8f2ff", "#38b6ff", "#0d4a86", "#000000", "#8a3304", "#ff8a1f", "#fff0b3"]
).with_extremes(bad="#c9ccd1")
# Number of px that give the quantiles of an overview.
_ENOUGH = 1 << 17
_RC = {
    # No other fonts are looked for: figures are the same everywhere.
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.edgecolor": SOFT,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.axisbelow": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "text.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 9.5,
    # Hinting would double the time for a text, and a name may have two dollar signs in it.
    "text.hinting": "none",
    "text.parse_math": False,
}


_STYLE: Any = {k: v for k, v in mpl.rcParamsDefault.items() if not k.startswith("backend")} | _RC
_in_style = contextvars.ContextVar("in style", default=False)


@contextlib.contextmanager
def styling() -> Iterator[None]:
    """Draw with the style of these figures, whatever the user's own matplotlib settings are.

    To change all settings takes some milliseconds: within another one this does nothing.
    """
    if _in_style.get():
        yield
        return
    token = _in_style.set(True)
    try:
        with mpl.rc_context(_STYLE):
            yield
    finally:
        _in_style.reset(token)


@dataclass(frozen=True, eq=False, slots=True)
class Crop:
    """A square at full resolution.

    Attributes
    ----------
    x, y
        Centre in level-0 px of post.
    post, pre, difference
        (n, n) post, aligned pre, and their difference (None where it is not shown); NaN where
        there is no data.
    note
        What is special about the place.
    """

    x: float
    y: float
    post: Array
    pre: Floats32
    difference: Floats32 | None = None
    note: str = ""


def apply_style(draw: Callable[_P, Figure]) -> Callable[_P, Figure]:
    """Draw with the style of these figures, whatever the user's own matplotlib settings are."""

    @functools.wraps(draw)
    def inner(*args: _P.args, **kwargs: _P.kwargs) -> Figure:
        with styling():
            return draw(*args, **kwargs)

    return inner


def sheet(
    width: float, height: float, title: str, *, status: str | None = None, of: str = ""
) -> Figure:
    """Return a figure of ``width`` x ``height`` inches (100 px each) with a title line.

    ``of`` says whose ``status`` it is, if not that of the pair.
    """
    figure = Figure(figsize=(width, height), dpi=DPI, facecolor=PAPER)
    FigureCanvasAgg(figure)
    # Bold type takes about 0.68 of its size per character; the badge needs an inch, or 1.4.
    room = 72 * (width - 0.6 - (0.0 if status is None else 1.4 if of else 1.0))
    size = min(14.0, max(9.0, room / (0.68 * max(len(title), 1))))
    fitting = textwrap.shorten(title, int(room / (0.68 * size)), placeholder=" …")
    label(figure, 0.30, 0.30, fitting, size=size, weight="bold", va="center")
    if status is not None:
        badge = {"boxstyle": "round,pad=0.35", "facecolor": STATUS[status], "edgecolor": "none"}
        look: dict[str, Any] = {"color": PAPER, "weight": "bold", "va": "center", "ha": "right"}
        look |= {"bbox": badge, "linespacing": None}  # which is as high as its letters
        label(figure, width - 0.35, 0.30, f"{of} {status}".strip(), **look)
    return figure


def panel(figure: Figure, left: float, top: float, width: float, height: float) -> Axes:
    """Return axes placed in inches from the top left corner of the figure."""
    full_width, full_height = figure.get_size_inches()
    place = (
        left / full_width,
        1 - (top + height) / full_height,
        width / full_width,
        height / full_height,
    )
    return figure.add_axes(place)


def label(figure: Figure, left: float, top: float, text: str, **look: Any) -> None:
    """Write text at inches from the top left corner of the figure, in the words of matplotlib."""
    width, height = figure.get_size_inches()
    usual: dict[str, Any] = {"color": INK, "va": "top", "linespacing": 1.2}
    figure.text(left / width, 1 - top / height, text, **usual | look)


def write_facts(
    figure: Figure,
    rows: Sequence[tuple[str, str]],
    *,
    left: float,
    top: float,
    line: float,
    values: float,
    align: str = "left",
    bold: int = 0,
    size: float | None = None,
) -> None:
    """Write names, and next to them their values, one line each.

    Names begin at ``left``, values begin or end at ``values`` as they are aligned (inches); the
    first ``bold`` values are set in bold type.
    """
    for n, (name, value) in enumerate(rows):
        label(figure, left, top + line * n, name, color=SOFT, size=size)
        weight = "bold" if n < bold else "normal"
        label(figure, values, top + line * n, value, ha=align, weight=weight, size=size)


def place_legend(
    figure: Figure, handles: Sequence[Artist], left: float, top: float, **look: Any
) -> Legend:
    """Put a legend with its upper left corner at inches from that of the figure."""
    width, height = figure.get_size_inches()
    corner = left / width, 1 - top / height
    return figure.legend(handles=handles, loc="upper left", bbox_to_anchor=corner, **look)


def graph(
    axes: Axes, x: str, y: str, *, top: tuple[Sequence[tuple[float, str]], str] | None = None
) -> None:
    """Dress axes as a graph with named axes, with a scale of its own at the ``top`` if given."""
    axes.set(xlabel=x, ylabel=y)
    axes.grid(visible=True)
    axes.spines[["right", "top"]].set_visible(False)
    if top is not None:
        places, name = top
        above = axes.secondary_xaxis("top")
        above.set_xticks([at for at, _ in places], [text for _, text in places])
        above.set_xlabel(name)


def extent(shape: Sequence[int], step: float) -> tuple[float, float, float, float]:
    """Return the edges of an overview in level-0 px: left, right, bottom, top."""
    rows, cols = shape[:2]
    return -0.5, cols * step - 0.5, rows * step - 0.5, -0.5


def image(axes: Axes, pixels: Bytes, step: float, *, y_label: bool = True) -> None:
    """Show an overview (rows, cols, 3 or without colours) with axes in level-0 px."""
    colours = pixels if pixels.ndim == 3 else np.repeat(pixels[..., None], 3, axis=-1)
    left, right, bottom, top = extent(pixels.shape, step)
    axes.imshow(colours, extent=(left, right, bottom, top))
    map_axes(axes, y_label=y_label)


def map_axes(axes: Axes, *, y_label: bool = True) -> None:
    """Dress axes whose data are level-0 px of post."""
    axes.set_facecolor(FAINT)
    axes.autoscale(enable=False)  # marks beyond the frame do not widen it
    axes.tick_params(labelleft=y_label)
    axes.apply_aspect()
    box = axes.get_window_extent()
    axes.locator_params(axis="x", nbins=int(np.clip(box.width / 45, 1, 5)))
    axes.locator_params(axis="y", nbins=int(np.clip(box.height / 45, 1, 5)))
    axes.set_xlabel("x (px)")
    if y_label:
        axes.set_ylabel("y (px)")


def powers_of_ten(axis: Axis) -> None:
    """Label a logarithmic axis 10⁰, 10¹, 10² as plain text: formulas take a parser and 0.1 s."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: power_of_ten(value)))
    # All of 2 to 9 would be four times as many ticks, each of which takes a millisecond.
    axis.set_minor_locator(LogLocator(subs=(2, 5), numticks=1000))
    axis.set_minor_formatter(NullFormatter())


def power_of_ten(value: float) -> str:
    """Return a power of ten as text, such as 10⁴."""
    digits = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
    return "10" + f"{np.log10(value):.0f}".translate(digits)


def steps(axes: Axes, counts: Array, edges: Floats, **style: Any) -> None:
    """Draw a histogram; the limits of the axes are left to the caller.

    To find them matplotlib would look at each side of each bin in Python.
    """
    line = {"linewidth": 0.0} if style.setdefault("fill", False) else {}
    axes.add_artist(StepPatch(counts, edges, **(line | style)))


def tile(
    figure: Figure, left: float, top: float, side: float, pixels: Bytes, title: str = ""
) -> None:
    """Show a small RGB image, px by px in a frame, at inches from the top left corner.

    Axes would take ten times as long, and these have nothing to measure.
    """
    size = round(side * DPI)
    rows, cols = (np.arange(size) * n // size for n in pixels.shape[:2])
    bottom = round((top + side) * DPI)
    framed(figure, round(left * DPI), bottom - size, pixels[np.ix_(rows, cols)])
    if title:
        label(figure, left, top - 0.04, title, va="bottom", size=9, color=SOFT)


def framed(figure: Figure, left: int, top: int, pixels: Bytes) -> None:
    """Put RGB px of the paper in a frame on it; the place is px from the top left corner."""
    rows, cols, _ = pixels.shape
    shown = np.empty((rows + 2, cols + 2, 3), np.uint8)
    shown[:] = rgb_bytes(SOFT)
    shown[1:-1, 1:-1] = pixels
    put_pixels(figure, left - 1, top - 1, shown)


def put_pixels(figure: Figure, left: int, top: int, pixels: Bytes) -> None:
    """Put RGB px of the paper on it; the place is px from the top left corner."""
    bottom = round(figure.bbox.height) - top - len(pixels)
    figure.figimage(pixels, left, bottom, origin="upper")


def picture(figure: Figure, place: tuple[float, float, float, float], pixels: Bytes) -> None:
    """Show an RGB image in a frame at (left, top, width, height) inches, as large as fits."""
    axes = panel(figure, *place)
    axes.set_anchor("NW")
    axes.imshow(pixels)
    axes.set(xticks=[], yticks=[])


def grey(unit: Floats32) -> Bytes:
    """Return grey RGB of values from 0 to 1; light where there is none."""
    shades = np.rint(255 * np.nan_to_num(unit)).astype(np.uint8)
    out = np.repeat(shades[..., None], 3, axis=-1)
    out[np.isnan(unit)] = rgb_bytes(FAINT)
    return out


def rgb_bytes(colour: str) -> Bytes:
    """Return a colour as three bytes, RGB."""
    return np.asarray(np.rint(255 * np.array(to_rgb(colour))), np.uint8)


def diverging(values: Floats32, limit: float) -> Bytes:
    """Return RGB of values from -limit to limit."""
    return np.asarray(DIVERGING((values + limit) / (2 * limit), bytes=True)[..., :3], np.uint8)


def stretch(pixels: Array, reference: Array | None = None) -> Floats32:
    """Map grey values to 0..1 between the 1 % and 99.7 % quantiles of ``reference``, square root.

    NaN stays NaN.
    """
    values = np.asarray(pixels, np.float32)
    finite = np.asarray(values if reference is None else reference, np.float32)
    finite = finite[np.isfinite(finite)]
    if finite.size == 0:
        return np.zeros_like(values)
    some = finite[:: max(1, finite.size // _ENOUGH)]
    low, high = (np.float32(v) for v in np.quantile(some, (0.01, 0.997)))
    unit = values - low
    unit /= max(high - low, np.float32(1e-6))
    with np.errstate(invalid="ignore"):
        np.clip(unit, 0, 1, out=unit)
    return np.asarray(np.sqrt(unit, out=unit))


def dim(pixels: Array, dark: float, span: float) -> Bytes:
    """Return an overview (rows, cols) as dull grey levels, ``dark`` to ``dark + span`` (0..1)."""
    unit = dark + span * np.nan_to_num(stretch(pixels))
    return np.asarray(np.rint(255 * unit), np.uint8)


def overlay(post: Floats32, pre: Floats32) -> Bytes:
    """Return an RGB overlay of stretched images: post green, pre magenta, equal ones grey."""
    out = np.empty((*post.shape, 3), np.uint8)
    for channel, unit in enumerate((pre, post, pre)):
        out[..., channel] = np.rint(255 * np.nan_to_num(unit))
    return out


def checker(post: Floats32, pre: Floats32) -> Array:
    """Return grey RGB of stretched images, post and pre in turn, six along each side."""
    row, col = (np.arange(n) * 6 // n for n in post.shape)
    return grey(np.where((row[:, None] + col) % 2 == 0, post, pre))


def nice(value: float) -> float:
    """Return the largest of 1, 2, 5 times a power of ten that is not above ``value``."""
    power = 10.0 ** np.floor(np.log10(value))
    return float(max(n for n in (1, 2, 5) if n * power <= value * (1 + 1e-9)) * power)


def scale_bar(axes: Axes, pixel_size_um: float | None) -> None:
    """Draw a bar of a round length in um near the lower left corner, if the pixel size is known."""
    if pixel_size_um is None or not pixel_size_um > 0:
        return
    left, right = axes.get_xlim()
    bottom, top = axes.get_ylim()
    width, height = right - left, bottom - top
    micrometres = nice(0.25 * width * pixel_size_um)
    bar = micrometres / pixel_size_um
    x, y = left + 0.04 * width, bottom - 0.05 * height
    axes.add_patch(
        Rectangle((x, y), bar, 0.012 * height, facecolor=PAPER, edgecolor=INK, linewidth=0.8)
    )
    text = f"{micrometres / 1000:g} mm" if micrometres >= 1000 else f"{micrometres:g} µm"
    outline = [withStroke(linewidth=2.5, foreground=INK)]
    axes.text(
        x + bar / 2,
        y - 0.01 * height,
        text,
        color=PAPER,
        ha="center",
        va="bottom",
        weight="bold",
        path_effects=outline,
    )


def frame(axes: Axes, crop: Crop, number: int, size: int) -> None:
    """Mark on an overview where a crop comes from; small crops get a square that can be seen."""
    left, right = axes.get_xlim()
    side = max(size, 0.02 * (right - left))
    corner = (crop.x - side / 2, crop.y - side / 2)
    axes.add_patch(Rectangle(corner, side, side, fill=False, edgecolor="#ffe14d", linewidth=1.4))
    outline = [withStroke(linewidth=2.5, foreground=INK)]
    axes.annotate(
        str(number),
        (crop.x + side / 2, crop.y - side / 2),
        xytext=(3, 1),
        textcoords="offset points",
        color="#ffe14d",
        weight="bold",
        path_effects=outline,
    )


@step("draw and save")
def save_png(figure: Figure, path: Path | str) -> None:
    """Write a PNG, whole or not at all; no time, program or path is in it."""
    with styling(), replace_file(Path(path)) as temporary:
        figure.savefig(
            temporary, format="png", metadata={"Software": None}, pil_kwargs={"compress_level": 2}
        )
