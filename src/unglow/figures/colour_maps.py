"""Maps of a section: what a registration did to it and how well it is known, in colours.

Values are on grids small enough to draw; there are stripes where no block is, and colour bars.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np

from unglow.figures.style import (
    DPI,
    FAINT,
    INK,
    PAPER,
    SOFT,
    extent,
    framed,
    label,
    panel,
    put_pixels,
    rgb_bytes,
)
from unglow.transform import jacobians

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import ArrayLike, NDArray

    from unglow.core.arrays import Array, Bools, Bytes, Floats

    Place = tuple[float, float, float, float]

    from unglow.transform import Transform
    from unglow.transform.displacement import Displacement


# Cells along the longer side of a section: of what is computed at each of them, and of the error of
# a matrix, which takes longer.
_FINE, _COARSE = 110, 32
# The error of a matrix is estimated from this many blocks at least.
_LEAST_FITTED = 8
# Width of the cells of `find_covered`, in mean distances of blocks.
_NEARBY = 1.5


@dataclass(frozen=True, slots=True)
class Grid:
    """Values on a regular grid over post.

    Attributes
    ----------
    values
        (rows, cols); [i, k] is the value around (x, y) = ``first`` + ``step`` * (k, i).
    step, first
        Distance of the places, and x and y of the first one, level-0 px.
    """

    values: Array
    step: float
    first: float

    def sample(self, frame: tuple[int, int], rows: int, cols: int) -> Array:
        """Return the nearest values for (rows, cols) pixels that share a frame (rows, columns)."""
        nearest = []
        for size, count, length in zip(frame, (rows, cols), self.values.shape, strict=True):
            at = (np.arange(count) + 0.5) * size / count - 0.5
            index = np.rint((at - self.first) / self.step).astype(np.intp)
            nearest.append(np.clip(index, 0, length - 1))
        return np.asarray(self.values[np.ix_(*nearest)])

    def look_up(self, points: Floats) -> Array:
        """Return the nearest values of points (N, 2) (x, y), (N,)."""
        index = np.rint((points[:, ::-1] - self.first) / self.step).astype(np.intp)
        rows, cols = np.clip(index, 0, np.array(self.values.shape) - 1).T
        return np.asarray(self.values[rows, cols])

    def fill(self, values: Floats) -> Grid:
        """Return this grid with other values, (N,) in row order."""
        return Grid(values.reshape(self.values.shape), self.step, self.first)

    def places(self) -> Floats:
        """Points (x, y) of all values in row order, (N, 2)."""
        row, col = np.indices(self.values.shape)
        points = np.column_stack([col.ravel(), row.ravel()]) * self.step + self.first
        return np.asarray(points, np.float64)


def lattice(frame: tuple[int, int], count: int) -> Grid:
    """Return square cells over a frame (rows, columns), ``count`` on its longer side; NaN yet."""
    side = max(frame) / count
    shape = [max(1, round(n / side)) for n in frame]
    return Grid(np.full(shape, np.nan), side, (side - 1) / 2)


def error_of_map(transform: Transform, blocks: NDArray[np.void]) -> Grid:
    """Return the estimated error of the map over post, px; NaN where there are too few blocks.

    With a field it is what the field's file holds; for a matrix alone it is estimated again from
    the blocks, in the way of ``transform.error_px`` (`unglow.registration.quality.map_error`).
    """
    field = transform.displacement
    if field is not None and field.error_px.size:
        return Grid(field.error_px, field.spacing_px, -field.spacing_px)
    unknown = lattice(transform.post_shape, _COARSE)
    fitted = blocks["used"] & ~blocks["held_out"]
    if field is not None or np.count_nonzero(fitted) < _LEAST_FITTED:
        return unknown
    # needed for a matrix alone
    from unglow.registration.phase_correlation import Matches
    from unglow.registration.quality import map_error

    post = np.column_stack([blocks["x"], blocks["y"]])
    pre = np.column_stack([blocks["pre_x"], blocks["pre_y"]])
    matches = Matches(post, pre, blocks["quality"])
    error = map_error(
        transform.model, matches, fitted, blocks["used"], transform.matrix, unknown.places()
    ).lengths
    return unknown.fill(error * 2.0**-transform.octaves)  # pre may be finer or coarser than post


def find_covered(blocks: NDArray[np.void], frame: tuple[int, int]) -> Grid:
    """Return where a block that agrees with the map is near: in a cell or one of the 8 around it.

    Cells are `_NEARBY` times as wide as blocks lie apart on average.
    """
    area = np.ptp(blocks["x"]) * np.ptp(blocks["y"]) if len(blocks) else 0.0
    side = _NEARBY * float(np.sqrt(area / max(len(blocks), 1)))
    side = max(side, max(frame) / _FINE, 1.0)
    rows, cols = (int(n // side) + 1 for n in frame)
    near = np.zeros((rows + 2, cols + 2), dtype=np.bool_)
    used = blocks[blocks["used"]]
    row, col = (
        np.clip((used[name] // side).astype(np.intp), 0, count - 1)
        for name, count in (("y", rows), ("x", cols))
    )
    for down in range(3):
        for right in range(3):
            near[row + down, col + right] = True
    return Grid(near[1:-1, 1:-1], side, (side - 1) / 2)


def displacement_length(field: Displacement, frame: tuple[int, int]) -> Grid:
    """Return the length of the displacement over a frame (rows, columns), px of pre."""
    grid = lattice(frame, _FINE)
    return grid.fill(np.hypot(*field.evaluate(grid.places()).T))


def area_ratio(transform: Transform) -> Grid:
    """Return the area of the map with its field over that of the matrix alone.

    The ratio of the two Jacobian determinants. 1 everywhere without a field.
    """
    grid = lattice(transform.post_shape, _FINE)
    points = grid.places()
    plain = jacobians(transform.matrix, points)
    whole = plain
    if transform.displacement is not None:
        whole = plain + transform.displacement.jacobian(points)
    return grid.fill(np.linalg.det(whole) / np.linalg.det(plain))


def turn_to_post(transform: Transform, vectors: Floats) -> Floats:
    """Turn vectors (N, 2) along the axes of pre into those of post; lengths stay what they are.

    What turns (or mirrors) is the orthogonal part of the matrix at the centre of post: Q of its
    polar decomposition.
    """
    rows, cols = transform.post_shape
    turning = jacobians(transform.matrix, np.array([[(cols - 1) / 2, (rows - 1) / 2]]))[0]
    if not np.isfinite(turning).all():
        return vectors
    left, _, right = np.linalg.svd(turning)
    return np.asarray(vectors @ (left @ right))


STRIPE = "#bcc3cb"
# Width of a stripe (px), height of a colour bar (inches), length of the marks next to one (px).
_STRIPE, _BAR, _MARK = 3, 0.16, 4


@dataclass(frozen=True, slots=True)
class Colours:
    """Which colour a value has.

    Attributes
    ----------
    name
        A matplotlib colormap that is perceptually uniform and can be distinguished by the
        colour-blind.
    low, high
        Values of its ends; what lies beyond has the colour of the end.
    log
        Whether colours follow the logarithm.
    """

    name: str
    low: float
    high: float
    log: bool = False

    def unit(self, values: ArrayLike) -> Floats:
        """Return where values lie between the ends, 0 to 1; NaN stays."""
        given = np.asarray(values, dtype=np.float64)
        low, high = self.low, self.high
        if self.log:
            given = np.log(np.maximum(given, low))
            low, high = np.log(low), np.log(high)
        return np.asarray(np.clip((given - low) / (high - low), 0, 1))

    def paint(self, values: ArrayLike) -> Bytes:
        """Return RGB of values of any shape, (..., 3); light grey where there is none."""
        unit = self.unit(values)
        out = np.array(mpl.colormaps[self.name](unit, bytes=True), np.uint8)[..., :3]
        out[np.isnan(unit)] = rgb_bytes(FAINT)
        return out


@dataclass(frozen=True, slots=True)
class Coverage:
    """Where values over post mean something.

    Attributes
    ----------
    frame
        (rows, columns) of post at level 0.
    near
        Where a block that agrees with the map is near
        (`unglow.figures.colour_maps.find_covered`).
    data
        (rows, cols) of an overview: where aligned pre has data.
    """

    frame: tuple[int, int]
    near: Grid
    data: Bools


def paint_values(values: Array, colours: Colours, near: Bools, data: Bools) -> Bytes:
    """Return RGB of values (rows, cols): striped where not ``near``, grey without ``data``."""
    out = colours.paint(values)
    row, col = np.arange(out.shape[0])[:, None], np.arange(out.shape[1])
    dark = (row + col) // _STRIPE % 2 == 0
    out[~near & dark], out[~near & ~dark] = rgb_bytes(STRIPE), rgb_bytes(PAPER)
    out[~data] = rgb_bytes(FAINT)
    return out


def map_panel(
    figure: Figure, place: Place, values: Grid, colours: Colours, coverage: Coverage
) -> Axes:
    """Show values over post in axes of level-0 px; ``place`` as for `style.panel`."""
    axes = panel(figure, *place)
    axes.set_anchor("N")
    shown = _paint_frame(paper_px(axes, coverage.frame), values, colours, coverage)
    left, right, bottom, top = extent(coverage.frame, 1)
    axes.imshow(shown, extent=(left, right, bottom, top), interpolation="nearest")
    return axes


def map_tile(
    figure: Figure, place: Place, values: Grid, colours: Colours, coverage: Coverage
) -> None:
    """Show values over post without axes, which take ten times as long."""
    left, top, width, height = place
    scale = DPI * min(height / coverage.frame[0], width / coverage.frame[1])
    shown = _paint_frame(scale, values, colours, coverage)
    framed(figure, round(left * DPI), round(top * DPI), shown)


def _paint_frame(scale: float, values: Grid, colours: Colours, coverage: Coverage) -> Bytes:
    """Return RGB of values over the frame, ``scale`` px of paper for each px of level 0."""
    rows, cols = (max(1, round(n * scale)) for n in coverage.frame)
    near = coverage.near.sample(coverage.frame, rows, cols)
    high, wide = coverage.data.shape
    data = coverage.data[np.ix_(np.arange(rows) * high // rows, np.arange(cols) * wide // cols)]
    return paint_values(values.sample(coverage.frame, rows, cols), colours, near, data)


def paper_px(axes: Axes, frame: tuple[int, int]) -> float:
    """Return how many px of paper a level-0 px takes where axes show a frame (rows, columns)."""
    box = axes.get_window_extent()
    return float(min(box.height / frame[0], box.width / frame[1]))


def draw_bar(
    figure: Figure,
    place: tuple[float, float, float],
    colours: Colours,
    ticks: Sequence[tuple[float, str]],
    below: Sequence[str] = (),
) -> None:
    """Draw a colour bar at (left, top, width) inches, with its values, and a line below them."""
    left, top, width = place
    rows, cols = round(_BAR * DPI), round(width * DPI)
    shades = mpl.colormaps[colours.name](np.linspace(0, 1, cols), bytes=True)[:, :3]
    strip = np.array(np.broadcast_to(shades, (rows, cols, 3)), np.uint8)
    strip[[0, -1]] = strip[:, [0, -1]] = rgb_bytes(SOFT)
    for n, (value, text) in enumerate(ticks):
        unit = float(colours.unit(value))
        strip[rows // 2 :, round(unit * (cols - 1))] = rgb_bytes(INK)
        at = left + width * unit
        label(figure, at, top + _BAR + 0.04, text, size=9, color=SOFT, ha="center")
        if below:
            label(figure, at, top + _BAR + 0.25, below[n], size=9, weight="bold", ha="center")
    put_pixels(figure, round(left * DPI), round((top + _BAR) * DPI) - rows, strip)


def upright_bar(
    figure: Figure,
    place: Place,
    shades: Bytes,
    ticks: Sequence[tuple[float, str]],
    name: str = "",
) -> None:
    """Draw an upright colour bar at (left, top, width, height) inches.

    Parameters
    ----------
    shades
        (n, 3) RGB from the lowest value to the highest.
    ticks
        Where along the bar, 0 to 1, and what is written next to it; a short mark for nothing.
    name
        What the values are, written next to them.
    """
    left, top, width, height = place
    rows, cols = round(height * DPI), round(width * DPI)
    strip = np.full((rows, cols + _MARK, 3), 255, np.uint8)
    strip[:, :cols] = shades[np.arange(rows)[::-1] * len(shades) // rows, None]
    strip[[0, -1], :cols] = strip[:, [0, cols - 1]] = rgb_bytes(SOFT)
    for unit, text in ticks:
        mark = _MARK if text else _MARK // 2
        strip[round((1 - unit) * (rows - 1)), cols : cols + mark] = rgb_bytes(SOFT)
        at = left + (cols + _MARK + 4) / DPI, top + height * (1 - unit)
        label(figure, *at, text, size=9, color=SOFT, va="center_baseline")
    put_pixels(figure, round(left * DPI), round(top * DPI), strip)
    if name:
        label(figure, left + width + 0.4, top + height / 2, name, rotation=90, va="center")
