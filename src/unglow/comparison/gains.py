"""How far the gains of two results lie apart, in units of their intervals."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.comparison.finding import Finding, lacking, read_json
from unglow.core.rounding import number, uncertainty
from unglow.photometry import gain_map

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_GRID = 32
"""Points along each side of post where gain maps are compared."""


def compare_gains(one: Path, other: Path) -> Finding:
    """Compare two ``scale.json``: gain and offset of each method that both have.

    UnglowError if one of them cannot be read.
    """
    a, b = read_json(one), read_json(other)
    try:
        found = gain_differences(a, b) | _of_light(one, other, a["methods"], b["methods"])
        numbers = _numbers(a["methods"], b["methods"])
    except (KeyError, TypeError, ValueError) as error:
        raise lacking(one.name, error) from error
    beyond = {text: excess for text, excess in found.items() if excess > 1}
    if beyond:
        return Finding("gain", "different", ", ".join(beyond), max(beyond.values()), numbers)
    said = ", ".join(found) or "no gain on either side"
    if (not numbers and found) or any(math.isnan(excess) for excess in found.values()):
        return Finding("gain", "unknown", said, 0.0, numbers)
    return Finding("gain", "equal", said, max(found.values(), default=0.0), numbers)


def gain_differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, float]:
    """Return what differs in words, and how many times the combined interval."""
    found: dict[str, float] = {}
    if a["default"] != b["default"]:
        found[f"the default is {b['default']} in place of {a['default']}"] = math.inf
    blurred = [(content.get("sharpness") or {}).get("blurred") for content in (a, b)]
    if blurred[0] != blurred[1]:
        found["blurred is {1} in place of {0}".format(*(b or "none" for b in blurred))] = math.inf
    for name in {**a["methods"], **b["methods"]}:
        if (name in a["methods"]) != (name in b["methods"]):
            found[f"{name} is in {'A' if name in a['methods'] else 'B'} alone"] = 0.0
    for name, (of_a, of_b) in _shared(a["methods"], b["methods"]).items():
        if of_a["status"] != of_b["status"]:
            found[f"{name} failed in {'A' if of_a['status'] != 'ok' else 'B'} alone"] = math.inf
        if of_a["status"] != "ok" or of_b["status"] != "ok":
            continue
        change, excess = of_b["gain"] / of_a["gain"] - 1, _excess(of_a, of_b, "gain")
        found[f"gain of {name} {_signed(100 * change, '%')}{_times(excess)}"] = excess
        step, excess = of_b["offset"] - of_a["offset"], _excess(of_a, of_b, "offset")
        if step:
            found[f"offset of {name} {_signed(step)}{_times(excess)}"] = excess
    return found


def _numbers(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, float | int]:
    """Return the columns of the table: gain and offset of B against A, and their excess."""
    numbers: dict[str, float | int] = {}
    for name, (of_a, of_b) in _shared(a, b).items():
        if of_a["status"] == of_b["status"] == "ok":
            numbers |= {
                f"{name}_gain_ratio": of_b["gain"] / of_a["gain"],
                f"{name}_gain_intervals": _excess(of_a, of_b, "gain"),
                f"{name}_offset_step": of_b["offset"] - of_a["offset"],
                f"{name}_offset_intervals": _excess(of_a, of_b, "offset"),
            }
    return numbers


def _shared(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    return {name: (a[name], b[name]) for name in a if name in b}


def _excess(a: Mapping[str, Any], b: Mapping[str, Any], key: str) -> float:
    """Return the step from A to B over its error.

    That is both halves of the 95 % intervals that face each other, added in squares. What has no
    interval was given, and has no error.
    """
    return _times_error(b[key] - a[key], a, b, key)


def _times_error(step: float, a: Mapping[str, Any], b: Mapping[str, Any], key: str) -> float:
    upper = int(step > 0)
    halves = [
        abs(one[f"{key}_ci95"][end] - one[key]) if one.get(f"{key}_ci95") else 0.0
        for one, end in ((a, upper), (b, 1 - upper))
    ]
    error = math.hypot(*halves)
    if not step:
        return 0.0
    return abs(step) / error if error else math.inf


def _of_light(
    one: Path, other: Path, a: Mapping[str, Any], b: Mapping[str, Any]
) -> dict[str, float]:
    """Return how far the gain maps of a method lie apart, as `gain_differences`; NaN if unknown."""
    for name, (of_a, of_b) in _shared(a, b).items():
        light = [(method.get("gain_map") or {}).get("sha256") for method in (of_a, of_b)]
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
        change = float(
            np.quantile(np.abs(maps[1].evaluate(points) / maps[0].evaluate(points) - 1), 0.95)
        )
        excess = _times_error(change * of_a["gain"], of_a, of_b, "gain")
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
