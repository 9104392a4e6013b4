"""Ways to damage nested values: JSON, and YAML, which holds the same."""

from __future__ import annotations

import copy
import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    Edit = Callable[[Any, np.random.Generator], Any]

# Written as a string first: Python has no such number.
_BEYOND = "number beyond all"
_DEEP, _LONG = 20_000, 200_000
_ODD: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 0.5, -0.0, 255, 2**31, 2**53 + 1, 2**63, 2**64, 10**9, 10**30,
    10**400, 1e-320, 1e300, float("nan"), float("inf"), -float("inf"), _BEYOND,
    "", " ", "0", "nan", "ok", "failed", "../../x", "/dev/zero", "a\0b", "\ud800", "é\n\x1b[31m",
    [], {}, [[]], [None], {"": None}, [0, 0], [1, "2"],
)  # fmt: skip
_TYPES: tuple[Callable[[Any], Any], ...] = (
    str, repr, lambda v: [v], lambda v: {"value": v}, lambda _: None, lambda v: not v,
    lambda v: list(v) if isinstance(v, dict | str) else [v, v], lambda v: -1 if v else 10**12,
)  # fmt: skip


def value(content: Any, rng: np.random.Generator) -> Any:
    """Give some values others, often limits of a type."""
    for _ in range(int(rng.integers(1, 3))):
        holder, key = _place(content, rng)
        near = holder[key]
        if isinstance(near, int | float) and not isinstance(near, bool) and rng.random() < 0.3:
            holder[key] = _one(rng, (near + 1, near - 1, -near, near * 2, near * 1e6, near / 3))
        else:
            holder[key] = _one(rng, _ODD)
    return content


def value_type(content: Any, rng: np.random.Generator) -> Any:
    """Give a value another type."""
    holder, key = _place(content, rng)
    holder[key] = _one(rng, _TYPES)(holder[key])
    return content


def keys(content: Any, rng: np.random.Generator) -> Any:
    """Drop or rename a key, drop or repeat an item, or exchange two values."""
    holder, key = _place(content, rng)
    way = int(rng.integers(0, 4))
    if way == 0:
        del holder[key]
    elif way == 1 and isinstance(holder, dict):
        holder[f"{key}{_one(rng, ('', 's', ' '))}x"] = holder.pop(key)
    elif way == 1:
        holder.insert(key, copy.deepcopy(holder[key]))
    else:
        other, second = _place(content, rng)
        holder[key], other[second] = copy.deepcopy(other[second]), copy.deepcopy(holder[key])
    return content


def extreme(content: Any, rng: np.random.Generator) -> Any:
    """Put something very deep, long or of many items in the place of a value, or of everything."""
    deep: Any = 0
    for _ in range(int(rng.integers(2, 900))):
        deep = [deep] if rng.random() < 0.5 else {"a": deep}
    many = {str(k): k for k in range(_LONG // 10)}
    options = (deep, "x" * _LONG, list(range(_LONG)), many, 10**4000)
    made = _one(rng, options)
    if rng.random() < 0.2:
        return made
    holder, key = _place(content, rng)
    holder[key] = made
    return content


EDITS: dict[str, Edit] = {
    "values": value,
    "types": value_type,
    "keys": keys,
    "extremes": extreme,
}


def edited_json(data: bytes, damage: str, rng: np.random.Generator) -> bytes:
    """Return JSON after one of `EDITS`."""
    if damage == "extremes" and rng.random() < 0.2:  # deeper than Python's stack
        return b"[" * _DEEP + (b"]" * _DEEP if rng.random() < 0.5 else b"")
    content = EDITS[damage](json.loads(data), rng)
    text = json.dumps(content)
    return re.sub(f'"{_BEYOND}"', "1e999", text).encode()


def _place(content: Any, rng: np.random.Generator) -> tuple[Any, Any]:
    """Return a list or mapping inside, and a key of it."""
    places = [*_places(content)] or [([0], 0)]
    return _one(rng, places)  # type: ignore[no-any-return]


def _places(content: Any) -> list[tuple[Any, Any]]:
    found = []
    waiting = [content]
    while waiting:
        holder = waiting.pop()
        if isinstance(holder, dict | list):
            inside = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
            # of long lists some stand for all
            for key in inside[:: max(1, len(inside) // 20)]:
                found.append((holder, key))
                waiting.append(holder[key])
    return found


def _one(rng: np.random.Generator, options: Any) -> Any:
    return options[int(rng.integers(0, len(options)))]
