"""How far the gains of two results lie apart, in units of their intervals."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import numpy as np

from unglow.comparison.finding import Finding
from unglow.core.rounding import number, uncertainty
from unglow.photometry import gain_map
from unglow.photometry.gain.scale import Scale

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from unglow.photometry.gain.scale import MethodResult

    Methods = Mapping[str, MethodResult]
    Quantity = Literal["gain", "offset"]

_GRID = 32
"""Points along each side of post where gain maps are compared."""


def compare_gains(one: Path, other: Path) -> Finding:
    """Compare two ``scale.json``: gain and offset of each method that both have.

    UnglowError if one of them cannot be read.
    """
    a, b = Scale.load(one), Scale.load(other)
    found = gain_differences(a, b) | _compare_light(one, other, a.methods, b.methods)
    numbers = _numbers(a.methods, b.methods)
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
    for name, (of_a, of_b) in _shared(a.methods, b.methods).items():
        if of_a.ok != of_b.ok:
            found[f"{name} failed in {'B' if of_a.ok else 'A'} alone"] = math.inf
        if not (of_a.ok and of_b.ok):
            continue
        change, excess = _ratio(of_a, of_b) - 1, _excess(of_a, of_b, "gain")
        found[f"gain of {name} {_signed(100 * change, '%')}{_times(excess)}"] = excess
        step, excess = _step(of_a, of_b, "offset"), _excess(of_a, of_b, "offset")
        if step:
            found[f"offset of {name} {_signed(step)}{_times(excess)}"] = excess
    return found


def _numbers(a: Methods, b: Methods) -> dict[str, float | int]:
    """Return the columns of the table: gain and offset of B against A, and their excess."""
    numbers: dict[str, float | int] = {}
    for name, (of_a, of_b) in _shared(a, b).items():
        if of_a.ok and of_b.ok:
            numbers |= {
                f"{name}_gain_ratio": _ratio(of_a, of_b),
                f"{name}_gain_intervals": _excess(of_a, of_b, "gain"),
                f"{name}_offset_step": _step(of_a, of_b, "offset"),
                f"{name}_offset_intervals": _excess(of_a, of_b, "offset"),
            }
    return numbers


def _shared(a: Methods, b: Methods) -> dict[str, tuple[MethodResult, MethodResult]]:
    return {name: (a[name], b[name]) for name in a if name in b}


def _value(result: MethodResult, key: Quantity) -> float:
    return float(getattr(result, key))


def _ratio(a: MethodResult, b: MethodResult) -> float:
    return _value(b, "gain") / _value(a, "gain")


def _step(a: MethodResult, b: MethodResult, key: Quantity) -> float:
    return _value(b, key) - _value(a, key)


def _excess(a: MethodResult, b: MethodResult, key: Quantity) -> float:
    """Return the step from A to B over its error.

    That is both halves of the 95 % intervals that face each other, added in squares. What has no
    interval was given, and has no error.
    """
    return _times_error(_step(a, b, key), a, b, key)


def _times_error(step: float, a: MethodResult, b: MethodResult, key: Quantity) -> float:
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
    """Return how far the gain maps of a method lie apart, as `gain_differences`; NaN if unknown."""
    for name, (of_a, of_b) in _shared(a, b).items():
        light = [(method.details.get("gain_map") or {}).get("sha256") for method in (of_a, of_b)]
        if light[0] == light[1]:
            continue
        if None in light:
            return {f"{name} has a gain map in {'B' if light[0] is None else 'A'} alone": math.inf}
        maps = [gain_map.load(p.with_name("gain_map.npz")) if p.with_name("gain_map.npz").is_file()
                else None for p in (one, other)]  # fmt: skip
        if maps[0] is None or maps[1] is None or maps[0].shape != maps[1].shape:
            return {f"gain map of {name} is another one and not here to be compared": math.nan}
        y, x = (np.linspace(0, n - 1, _GRID) for n in maps[0].shape)
        points = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
        change = float(np.quantile(np.abs(maps[1].at(points) / maps[0].at(points) - 1), 0.95))
        excess = _times_error(change * _value(of_a, "gain"), of_a, of_b, "gain")
        return {
            f"gain map of {name} off by {uncertainty(100 * change, '%')}{_times(excess)}": excess
        }
    return {}


def _signed(step: float, unit: str = "") -> str:
    return f"{'-' if step < 0 else '+'}{uncertainty(abs(step), unit)}" if step else "the same"


def _times(excess: float) -> str:
    if excess <= 1:
        return ""
    return f" ({number(excess, digits=2)} times its interval)" if math.isfinite(excess) else ""
