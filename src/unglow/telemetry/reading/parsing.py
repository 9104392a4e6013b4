"""Parsing of lines of telemetry so that no line, whatever it holds, can stop a reader.

Whoever may write to a results directory may write such lines. Values that are torn,
nested too deeply or impossible count as not reported.
"""

from __future__ import annotations

import json
import math
from typing import Any

# Lines of ours are nested in fewer levels, and numbers of ours are smaller: of bytes, of seconds
# since some start, and of Unix time (the end of the year 9999).
_DEEPEST = 50
_MOST, _LONGEST_S, _LATEST_S = 1e18, 1e10, 253402300799.0
# Rows are drawn for the threads of a job: no machine that jobs run on has more.
_MOST_THREADS = 1024


def parse_line(line: bytes) -> Any:
    """Return what a line says; None if it is torn, or nested too deeply."""
    try:
        value = json.loads(line, parse_constant=_no_number, parse_float=_finite)
    except (ValueError, RecursionError):
        return None
    brackets = line.count(b"[") + line.count(b"{")
    return None if brackets > _DEEPEST and _depth(value) > _DEEPEST else value


def parse_rows(lines: list[bytes]) -> list[list[Any]]:
    """Return lists, one for each line that holds one; all at once where all do, which is faster."""
    try:
        rows = json.loads(b"[" + b",".join(lines) + b"]", parse_constant=_no_number)
        if len(rows) == len(lines):
            return list(rows)
    except (ValueError, RecursionError):
        pass
    return [row for row in map(parse_line, lines) if isinstance(row, list)]


def number(value: object) -> float | None:
    """Return a number that a size or a count may have, or None for everything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _MOST:
        return None
    return float(value)


def moment(value: object) -> float:
    """Return a time since some start, s; 0 if it is not one."""
    t = number(value)
    return t if t is not None and 0 <= t <= _LONGEST_S else 0.0


def unix_time(value: object) -> float:
    """Return a Unix time, s; 0 if it is not one."""
    t = number(value)
    return t if t is not None and 0 <= t <= _LATEST_S else 0.0


def whole_number(value: object) -> int:
    """Return an integer; 0 if it is not a number."""
    return int(number(value) or 0)


def threads(value: object) -> int:
    """Return a possible number of threads; 1 if it is not one."""
    if isinstance(value, int | float) and value > _MOST_THREADS:
        return _MOST_THREADS
    return max(whole_number(value), 1)


def texts(values: object) -> dict[str, str]:
    """Return a mapping of texts, empty if there is none."""
    return {str(k): str(v) for k, v in values.items()} if isinstance(values, dict) else {}


def strings(values: object) -> tuple[str, ...]:
    """Return a tuple of texts, empty if there is none."""
    return tuple(map(str, values)) if isinstance(values, list | tuple) else ()


def _depth(value: Any) -> int:
    """Return how many levels deep something is nested, up to a little more than is allowed."""
    depth, level = 0, [value]
    while level and depth <= _DEEPEST:
        depth += 1
        inner = [v for v in level if isinstance(v, dict | list)]
        level = [w for v in inner for w in (v.values() if isinstance(v, dict) else v)]
    return depth


def _no_number(_: str) -> None:
    """Stand in for NaN and infinity, which JSON does not have."""


def _finite(text: str) -> float | None:
    value = float(text)
    return value if math.isfinite(value) else None
