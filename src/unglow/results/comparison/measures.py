"""Findings of a comparison; maps and gains of two results, against their errors and intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from unglow.core.errors import UnglowError
from unglow.core.reasons import from_json
from unglow.core.rounding import number, uncertainty
from unglow.photometry import imaging
from unglow.photometry.gain.scale import Scale
from unglow.registration.block_table import BLOCKS, read_blocks
from unglow.registration.quality import compute_confirmed_reach, nearest
from unglow.transform import apply_matrix, inside_frame
from unglow.transform.transform import read_content, read_field

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from unglow.photometry.gain.scale import MethodResult
    from unglow.results.pair import PairResults
    from unglow.transform.displacement import Displacement

    Points = NDArray[np.float64]
    Methods = Mapping[str, MethodResult]

Verdict = Literal["identical", "equal", "different", "unknown"]
WORDS: dict[Verdict, str] = {
    "different": "different",
    "unknown": "not compared",
    "equal": "equal within errors",
    "identical": "identical",
}
"""Verdicts, worst first, as people read them."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a comparison found of one thing.

    Attributes
    ----------
    what
        ``input``, ``status``, ``map``, ``gain``, ``candidates`` or ``pixels``.
    verdict
        ``identical`` (the same bytes), ``equal`` (within the errors of both sides),
        ``different``, or ``unknown`` where it could not be compared.
    sentence
        What differs and how much, or why it could not be compared; without a point.
    excess
        How many times what errors allow; 0 where nothing differs.
    numbers
        Columns of the table.
    points
        Places in post to look at: a word, x, y (px) and signal-to-noise ratio of each.
    """

    what: str
    verdict: Verdict
    sentence: str
    excess: float = 0.0
    numbers: dict[str, float | int] = field(default_factory=dict)
    points: tuple[tuple[str, float, float, float], ...] = ()


def compare_file(
    what: str, name: str, a: PairResults, b: PairResults, compare: Callable[[Path, Path], Finding]
) -> Finding:
    """Compare a file of two results: by its digests, or else by ``compare``, given both paths."""
    digests = a.digest(name), b.digest(name)
    if digests[0] is not None and digests[0] == digests[1]:
        return Finding(what, "identical", f"{what} identical")
    one, other = a.find(name), b.find(name)
    if one is None or other is None:
        sides = " and ".join(side for side, path in (("A", one), ("B", other)) if path is None)
        differs = "" if None in digests else ", but its digest is another one"
        return Finding(what, "unknown", f"{what}: {name} is not in {sides}{differs}")
    try:
        return compare(one, other)
    except (UnglowError, OSError) as error:
        return Finding(what, "unknown", f"{what}: {error}")


_GRID = 128
"""Points along the longer side of post."""


@dataclass(frozen=True, eq=False)
class _Map:
    """A map whose field is read only if it is needed."""

    path: Path
    content: dict[str, Any]

    @property
    def failed(self) -> bool:
        return self.content["matrix"] is None

    def shape(self, image: str) -> tuple[int, int]:
        rows, cols = self.content[f"{image}_shape"]
        return int(rows), int(cols)

    def blocks(self) -> Points:
        """Return the blocks (N, 2) that the map rests on, x and y; none without their table."""
        try:
            blocks = read_blocks(self.path.parent / BLOCKS)
        except UnglowError:
            return np.zeros((0, 2))
        used = blocks[blocks["used"]]
        return np.column_stack([used["x"], used["y"]])


def compare_maps(one: Path, other: Path) -> Finding:
    """Compare two ``transform.json``, their fields included.

    UnglowError if one of them cannot be read.
    """
    a, b = _Map(one, read_content(one)), _Map(other, read_content(other))
    if a.failed and b.failed:
        return Finding("map", "equal", "no map on either side")
    for side, this in (("A", a), ("B", b)):
        if this.failed:
            reasons = " ".join(from_json(this.content["reasons"])).rstrip(".")
            return Finding("map", "different", f"no map in {side}: {reasons}", math.inf)
    for image in ("post", "pre"):
        if a.shape(image) != b.shape(image):
            sizes = " against ".join("{} x {}".format(*m.shape(image)[::-1]) for m in (a, b))
            return Finding("map", "different", f"{image} has {sizes} px", math.inf)
    return _measure_distance(a, b)


def _measure_distance(a: _Map, b: _Map) -> Finding:
    """Measure the distance between the maps over the section, px of pre."""
    same_field = a.content["displacement"] == b.content["displacement"]  # then it cancels
    fields = (None, None) if same_field else tuple(read_field(m.path, m.content) for m in (a, b))

    def mapped(m: _Map, field: Displacement | None, points: Points) -> Points:
        at = apply_matrix(np.array(m.content["matrix"], np.float64), points)
        return at if field is None else at + field.evaluate(points)

    side = max(a.shape("post")) / _GRID
    y, x = (np.arange(side / 2, n, side) - 0.5 for n in a.shape("post"))
    points = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)  # the middles of square cells
    ends = [mapped(m, field, points) for m, field in zip((a, b), fields, strict=True)]
    seen = inside_frame(ends[0], a.shape("pre")) & inside_frame(ends[1], b.shape("pre"))
    seen &= _find_confirmed(points, np.concatenate([a.blocks(), b.blocks()]), side)
    if not seen.any():
        return Finding(
            "map", "different", "the maps have no point of the section in common", math.inf
        )
    apart = np.hypot(*(ends[1] - ends[0])[seen].T)
    at_x, at_y = points[seen][apart.argmax()]
    median, p95 = (float(v) for v in np.quantile(apart, (0.5, 0.95)))
    errors = [e for m in (a, b) if (e := m.content["error_px"]["p95"]) is not None]
    error = math.hypot(*errors) if errors else math.nan
    numbers = {"map_median_px": median, "map_p95_px": p95, "map_max_px": float(apart.max()),
               "map_max_x": float(at_x), "map_max_y": float(at_y),
               "map_error_px": error}  # fmt: skip
    moved = f"map moved {uncertainty(p95)} px"
    most = f"most {uncertainty(float(apart.max()))} px at x {at_x:.0f}, y {at_y:.0f}"
    if not errors:
        return Finding("map", "unknown", f"{moved}, {most}; its error is unknown", 0, numbers)
    allowed = uncertainty(error)
    excess = p95 / error if error else (math.inf if p95 else 0.0)
    judged = f"within its error of {allowed}" if excess <= 1 else f"its error is {allowed}"
    verdict: Verdict = "equal" if excess <= 1 else "different"
    return Finding("map", verdict, f"{moved} ({judged}), {most}", excess, numbers)


def _find_confirmed(points: Points, blocks: Points, cell: float) -> NDArray[np.bool_]:
    """Mark the points of the section: those near a block, since elsewhere the map is unconfirmed.

    That is as near as a block confirms a map, or in a cell (px) of the lattice next to it.
    """
    if not len(blocks):
        return np.ones(len(points), bool)
    closest = blocks[nearest(points, blocks, 1)[:, 0]]
    reach = max(compute_confirmed_reach(blocks, 0), cell)
    return np.asarray(np.hypot(*(points - closest).T) <= reach)


_LIGHT_GRID = 32
"""Points along each side of post where gain maps are compared."""


def compare_gains(one: Path, other: Path) -> Finding:
    """Compare two ``scale.json``: gain and offset of each method that both have.

    UnglowError if one of them cannot be read.
    """
    a, b = Scale.load(one), Scale.load(other)
    found = gain_differences(a, b) | _compare_light(one, other, a.methods, b.methods)
    numbers = _list_numbers(a.methods, b.methods)
    beyond = {text: excess for text, excess in found.items() if excess > 1}
    if beyond:
        return Finding("gain", "different", ", ".join(beyond), max(beyond.values()), numbers)
    said = ", ".join(found) or "no gain on either side"
    if (not numbers and found) or any(math.isnan(excess) for excess in found.values()):
        return Finding("gain", "unknown", said, 0.0, numbers)
    return Finding("gain", "equal", said, max(found.values(), default=0.0), numbers)


def gain_differences(a: Scale, b: Scale) -> dict[str, float]:
    """Return what differs in words, and how many times the combined interval."""
    found: dict[str, float] = {}
    if a.default != b.default:
        found[f"the default is {b.default} in place of {a.default}"] = math.inf
    blurred = [one.sharpness and one.sharpness.blurred for one in (a, b)]
    if blurred[0] != blurred[1]:
        found["blurred is {1} in place of {0}".format(*(b or "none" for b in blurred))] = math.inf
    for name in {**a.methods, **b.methods}:
        if (name in a.methods) != (name in b.methods):
            found[f"{name} is in {'A' if name in a.methods else 'B'} alone"] = 0.0
    for name, (of_a, of_b) in _pair_methods(a.methods, b.methods).items():
        if of_a.ok != of_b.ok:
            found[f"{name} failed in {'B' if of_a.ok else 'A'} alone"] = math.inf
        if not (of_a.ok and of_b.ok):
            continue
        change = _measure_change(of_a, of_b)
        percents, excess = 100 * (change["gain_ratio"] - 1), change["gain_intervals"]
        found[f"gain of {name} {_format_signed(percents, '%')}{_times(excess)}"] = excess
        if step := change["offset_step"]:
            excess = change["offset_intervals"]
            found[f"offset of {name} {_format_signed(step)}{_times(excess)}"] = excess
    return found


def _list_numbers(a: Methods, b: Methods) -> dict[str, float | int]:
    """Return the columns of the table: gain and offset of B against A, and their excess."""
    return {
        f"{name}_{key}": value
        for name, (of_a, of_b) in _pair_methods(a, b).items()
        if of_a.ok and of_b.ok
        for key, value in _measure_change(of_a, of_b).items()
    }


def _measure_change(a: MethodResult, b: MethodResult) -> dict[str, float]:
    """Return the gain of B over that of A, the step of the offset, and both over their errors."""
    gains, offsets = ([_value(one, key) for one in (a, b)] for key in ("gain", "offset"))
    step = offsets[1] - offsets[0]
    return {
        "gain_ratio": gains[1] / gains[0],
        "gain_intervals": _times_error(gains[1] - gains[0], a, b, "gain"),
        "offset_step": step,
        "offset_intervals": _times_error(step, a, b, "offset"),
    }


def _value(result: MethodResult, key: str) -> float:
    return float(getattr(result, key))


def _pair_methods(a: Methods, b: Methods) -> dict[str, tuple[MethodResult, MethodResult]]:
    return {name: (a[name], b[name]) for name in a if name in b}


def _times_error(step: float, a: MethodResult, b: MethodResult, key: str) -> float:
    """Return a step from A to B over its error.

    That is both halves of the 95 % intervals that face each other, added in squares. What has no
    interval was given, and has no error.
    """
    upper = int(step > 0)
    halves = [
        abs(interval[end] - _value(one, key)) if (interval := getattr(one, f"{key}_ci95")) else 0.0
        for one, end in ((a, upper), (b, 1 - upper))
    ]
    error = math.hypot(*halves)
    if not step:
        return 0.0
    return abs(step) / error if error else math.inf


def _compare_light(one: Path, other: Path, a: Methods, b: Methods) -> dict[str, float]:
    """Compare the gain maps of a method, as `gain_differences` does; NaN if unknown."""
    for name, (of_a, of_b) in _pair_methods(a, b).items():
        light = [(method.details.get("gain_map") or {}).get("sha256") for method in (of_a, of_b)]
        if light[0] == light[1]:
            continue
        if None in light:
            return {f"{name} has a gain map in {'B' if light[0] is None else 'A'} alone": math.inf}
        paths = [path.parent / imaging.GAIN_MAP for path in (one, other)]
        maps = [imaging.load_gain_map(path) if path.is_file() else None for path in paths]
        if maps[0] is None or maps[1] is None or maps[0].shape != maps[1].shape:
            return {f"gain map of {name} is another one and not here to be compared": math.nan}
        y, x = (np.linspace(0, n - 1, _LIGHT_GRID) for n in maps[0].shape)
        points = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
        change = float(
            np.quantile(np.abs(maps[1].evaluate(points) / maps[0].evaluate(points) - 1), 0.95)
        )
        excess = _times_error(change * _value(of_a, "gain"), of_a, of_b, "gain")
        return {
            f"gain map of {name} off by {uncertainty(100 * change, '%')}{_times(excess)}": excess
        }
    return {}


def _format_signed(step: float, unit: str = "") -> str:
    return f"{'-' if step < 0 else '+'}{uncertainty(abs(step), unit)}" if step else "the same"


def _times(excess: float) -> str:
    if excess <= 1:
        return ""
    return f" ({number(excess, digits=2)} times its interval)" if math.isfinite(excess) else ""
