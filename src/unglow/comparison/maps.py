"""How far the maps of two results lie apart, against the errors that they tell."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.comparison.finding import Finding, lacking, read_json
from unglow.core.errors import StoreError, UnglowError
from unglow.core.rounding import uncertainty
from unglow.registration.block_table import read_blocks
from unglow.registration.quality import compute_confirmed_reach, inside_frame, nearest
from unglow.transform import apply_matrix, displacement

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from unglow.transform.displacement import Displacement

    Points = NDArray[np.float64]

_GRID = 128
"""Points along the longer side of post."""


@dataclass(frozen=True, eq=False)
class _Map:
    """What a ``transform.json`` says, of whatever version: a missing error is NaN."""

    path: Path
    content: dict[str, Any]

    @property
    def failed(self) -> bool:
        return self.content["matrix"] is None

    @property
    def error_px(self) -> float:
        told = (self.content.get("error_px") or {}).get("p95")
        return math.nan if told is None else float(told)

    @property
    def field_digest(self) -> str | None:
        return (self.content.get("displacement") or {}).get("sha256")

    def field(self) -> Displacement | None:
        """Return the field of the map."""
        entry = self.content.get("displacement")
        if entry is None:
            return None
        field = displacement.load(self.path.with_name(entry["path"]))
        if field is None or field.digest != entry["sha256"]:
            raise StoreError(f"{self.path.with_name(entry['path'])} does not belong to {self.path}")
        return field

    def shape(self, image: str) -> tuple[int, int]:
        rows, cols = self.content[f"{image}_shape"]
        return int(rows), int(cols)

    def blocks(self) -> Points:
        """Return the blocks (N, 2) that the map rests on, x and y; none if their table is away."""
        try:
            blocks = read_blocks(self.path.with_name("blocks.csv"))
        except UnglowError:
            return np.zeros((0, 2))
        used = blocks[blocks["used"]]
        return np.column_stack([used["x"], used["y"]])


def compare_maps(one: Path, other: Path) -> Finding:
    """Compare two ``transform.json``, their fields included.

    UnglowError if one of them cannot be read.
    """
    a, b = _Map(one, read_json(one)), _Map(other, read_json(other))
    try:
        if a.failed or b.failed:
            return _failed(a, b)
        for image in ("post", "pre"):
            if a.shape(image) != b.shape(image):
                sizes = " against ".join("{} x {}".format(*m.shape(image)[::-1]) for m in (a, b))
                return Finding("map", "different", f"{image} has {sizes} px", math.inf)
        return _apart(a, b)
    except (KeyError, TypeError, ValueError) as error:
        raise lacking(one.name, error) from error


def _failed(a: _Map, b: _Map) -> Finding:
    if a.failed and b.failed:
        return Finding("map", "equal", "no map on either side")
    side, without = ("A", a) if a.failed else ("B", b)
    reasons = " ".join(without.content["reasons"])
    return Finding("map", "different", f"no map in {side}: {reasons.rstrip('.')}", math.inf)


def _apart(a: _Map, b: _Map) -> Finding:
    """Measure how far the maps lie apart over the section, px of pre."""
    same_field = a.field_digest == b.field_digest  # then it cancels, and need not be here
    fields = (None, None) if same_field else (a.field(), b.field())

    def mapped(m: _Map, field: Displacement | None, points: Points) -> Points:
        at = apply_matrix(np.array(m.content["matrix"], np.float64), points)
        return at if field is None else at + field.evaluate(points)

    points = _lattice(a.shape("post"))
    ends = [mapped(m, field, points) for m, field in zip((a, b), fields, strict=True)]
    seen = inside_frame(ends[0], a.shape("pre")) & inside_frame(ends[1], b.shape("pre"))
    seen &= _near(points, np.concatenate([a.blocks(), b.blocks()]), max(a.shape("post")) / _GRID)
    if not seen.any():
        return Finding("map", "different", "the maps share no place of the section", math.inf)
    apart = np.hypot(*(ends[1] - ends[0])[seen].T)
    x, y = points[seen][apart.argmax()]
    median, p95 = (float(v) for v in np.quantile(apart, (0.5, 0.95)))
    told = [m.error_px for m in (a, b) if math.isfinite(m.error_px)]
    error = math.hypot(*told) if told else math.nan
    numbers = {"map_median_px": median, "map_p95_px": p95, "map_max_px": float(apart.max()),
               "map_max_x": float(x), "map_max_y": float(y), "map_error_px": error}  # fmt: skip
    moved = f"map moved {uncertainty(p95)} px"
    most = f"most {uncertainty(float(apart.max()))} px at x {x:.0f}, y {y:.0f}"
    if not told:
        return Finding("map", "unknown", f"{moved}, {most}; its error is not told", 0, numbers)
    allowed = uncertainty(error)
    excess = p95 / error if error else (math.inf if p95 else 0.0)
    told_so = f"within its error of {allowed}" if excess <= 1 else f"its error is {allowed}"
    return Finding.within("map", excess, f"{moved} ({told_so}), {most}", numbers)


def _lattice(shape: tuple[int, int]) -> Points:
    """Points (x, y) in the middle of square cells over a frame (rows, columns), (N, 2)."""
    side = max(shape) / _GRID
    y, x = (np.arange(side / 2, n, side) - 0.5 for n in shape)
    return np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)


def _near(points: Points, blocks: Points, cell: float) -> NDArray[np.bool_]:
    """Mark the points of the section: those near a block, since elsewhere nothing tells the map.

    That is as near as a block confirms a map, or in a cell (px) of the lattice beside it.
    """
    if not len(blocks):
        return np.ones(len(points), bool)
    closest = blocks[nearest(points, blocks, 1)[:, 0]]
    reach = max(compute_confirmed_reach(blocks, 0), cell)
    return np.asarray(np.hypot(*(points - closest).T) <= reach)
