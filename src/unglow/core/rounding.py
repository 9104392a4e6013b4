"""Numbers in words, by one rule: as many digits as the error leaves.

Where an error is known, a value ends where the error does: at two digits of it, or at one that is
large (355 and more of a thousand, as the Particle Data Group does). Numbers that are errors
themselves, such as residuals, have two digits; estimates without an interval four; others three;
counts have all of theirs.
`words.js` of the report writes shares, times and memory the same way.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self, TypeGuard

DASH = "–"
"""Used where there is no number."""
_OF_ERRORS, _OF_OTHERS, _OF_ESTIMATES = 2, 3, 4
# Larger ratios are written as a factor.
_FACTOR = 10
# Decimals of any number: what follows is the arithmetic's own error, as between two equal images.
_FINEST = 8
# What is less counts as next to nothing, so that no ratio to it means anything.
_LITTLE = {"s": 0.05, "MB": 0.5, "bytes": 5e4, "share": 0.005}


def round_digits(value: float, digits: int = 6) -> float:
    """Round to ``digits`` significant digits."""
    return float(f"{value:.{digits}g}") if math.isfinite(value) else value


def decimals(error: float) -> int:
    """Return how many decimals an error leaves; below 0 where it leaves tens or hundreds.

    Never more than 8.
    """
    leading = float(f"{error:.2e}".split("e", maxsplit=1)[0])
    power = int(f"{error:.2e}".split("e")[1])
    if leading >= 9.5:  # 0.98 is written as 1.0
        return min(-power, _FINEST)
    return min(1 - power if leading < 3.55 else -power, _FINEST)


def decimals_of(value: float, digits: int) -> int:
    """Return the decimals that a number with this many significant digits has."""
    return digits - 1 - int(f"{value:.{digits - 1}e}".split("e")[1])


def plain(value: float, places: int) -> str:
    """Return a value rounded to ``places`` decimals (below 0: to tens).

    Trailing zeros are kept, but for those of a number with next to no error.
    """
    # Adding 0 makes 0 of -0.
    text = f"{round(value, places) + 0.0:.{max(places, 0)}f}"
    return _strip_zeros(text) if places == _FINEST else text


class Measured(float):
    """A number that knows its error, which says how many of its digits are written."""

    error: float

    def __new__(cls, value: float, error: float) -> Self:
        """Return ``value`` with its ``error``; NaN where that is not known."""
        made = super().__new__(cls, value)
        made.error = error
        return made

    @classmethod
    def from_value(cls, value: float | None, error: float | None) -> Self | None:
        """Return a number with its error; None where there is no number."""
        return None if value is None else cls(value, math.nan if error is None else error)


def format_measured(value: float | None, error: float | None, unit: str = "") -> str:
    """Return a value in as many digits as its error leaves; in four if that is not known."""
    if not _is_known(value) or not _is_known(error) or error == 0:
        return number(value, unit, digits=_OF_ESTIMATES)
    return _write(plain(value, decimals(abs(error))), unit)


def estimate(value: float | None, interval: Sequence[float] | None, unit: str = "") -> str:
    """Return a value with its interval, as in ``1.300 (1.295 to 1.306)``."""
    found = [_write(text) for text in ends(value, interval)] or [DASH]
    text = "{} ({} to {})".format(*found) if len(found) == 3 else found[0]
    return f"{text} {unit}" if unit else text


def plus_minus(value: float, error: float) -> str:
    """Return a value with its standard error, as in ``12.34 ± 0.15``."""
    if not _is_known(error) or error < 10**-_FINEST:
        return number(value)
    return " ± ".join(_write(plain(v, decimals(error))) for v in (value, error))


def ends(value: float | None, interval: Sequence[float] | None) -> list[str]:
    """Return a value and both ends of its interval in as many digits as its width leaves.

    Half of the width is the error. Four digits and no ends if there is no interval; nothing without
    a value. No commas between thousands, so that programs can read them.
    """
    if not _is_known(value):
        return []
    low, high = interval or (math.nan, math.nan)
    if not (_is_known(low) and _is_known(high) and low != high):
        return [number(value, digits=_OF_ESTIMATES).replace(",", "")]
    return [plain(v, decimals(abs(high - low) / 2)) for v in (value, low, high)]


def number(value: float | None, unit: str = "", *, digits: int = _OF_OTHERS) -> str:
    """Return a number of unknown error for the eye, or a dash where there is none.

    What is before the point is never rounded, and trailing zeros are dropped.
    """
    if not _is_known(value):
        return DASH
    if value == 0:
        return _write("0", unit)
    if abs(value) < 1e-6:
        text = f"{value:.{digits}g}"
        return f"{text} {unit}" if unit else text
    text = plain(value, max(decimals_of(value, digits), 0))
    return _write(_strip_zeros(text), unit)


def uncertainty(value: float | None, unit: str = "") -> str:
    """Return a number that is an error itself, such as a residual: two digits, zeros too."""
    if not _is_known(value) or abs(value) < 1e-6:
        return number(value, unit, digits=_OF_ERRORS)
    return _write(plain(value, max(decimals_of(value, _OF_ERRORS), 0)), unit)


def share(part: float) -> str:
    """Return a share (0 to 1) as a number: two digits of it, or of what is missing to 1."""
    rest = 1 - part if 0.5 < part < 1 else part
    if not 0 < rest < 1:
        return number(part, digits=_OF_ERRORS)
    return _strip_zeros(plain(part, max(decimals_of(rest, _OF_ERRORS), 2)))


def percent(part: float | None, *, least: float = 0.001) -> str:
    """Return a share (0 to 1) in per cent, in the digits of `share`.

    What is nearer to 0 or 1 than ``least``, and not there, is written as less or more than that.
    """
    if not _is_known(part):
        return DASH
    if 0 < part < least:
        return f"< {number(100 * least)} %"
    if 1 - least < part < 1:
        return f"> {number(100 * (1 - least), digits=6)} %"
    if not 0 <= part <= 1:
        return f"{plain(100 * part, 0)} %"
    return f"{number(100 * float(share(part)), digits=6)} %"


def duration(seconds: float) -> str:
    """Return a time in at most two units: ``42 s``, ``3 min 05 s``, ``2 h 10 min``."""
    integer = round(seconds)
    if integer < 60:
        return f"{integer} s"
    if integer < 3600:
        return f"{integer // 60} min {integer % 60:02d} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60:02d} min"


def format_elapsed(seconds: float) -> str:
    """Return a time that was measured: as `duration`, in finer steps below ten seconds."""
    if seconds < 0.0995:
        return f"{1000 * seconds:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 9.95 else duration(seconds)


def memory(mb: float | None) -> str:
    """Return MB with its unit, from 10000 MB on as GB; a question mark if it is not known."""
    if mb is None:
        return "?"
    if mb < 9.95:
        return f"{mb:.1f} MB" if mb >= 0.05 else "0 MB"
    return f"{mb:.0f} MB" if mb < 9999.5 else f"{mb / 1000:.1f} GB"


def gigabytes(mb: float) -> str:
    """Return MB as GB without unit: three figures, or two decimals for little."""
    gb = mb / 1000
    return f"{gb:.2f}" if gb < 9.995 else (f"{gb:.1f}" if gb < 99.95 else f"{gb:.0f}")


_FORMATS: dict[str, Callable[[float], str]] = {
    "s": format_elapsed,
    "MB": memory,
    "bytes": lambda count: memory(count / 1e6),
    "share": percent,
}


def amount(value: float | None, unit: str) -> str:
    """Return a value for a terminal; ``unit`` is ``s``, ``MB``, ``bytes``, ``share`` or empty."""
    if value is None:
        return "-"
    return _FORMATS[unit](value) if unit in _FORMATS else str(value)


def change(before: float, after: float, unit: str) -> str:
    """Return what ``after`` is against ``before``, both in ``unit`` (as `amount`).

    In per cent; more than ten times as much (or as little) as a factor, ``566 x`` or ``1/566 x``;
    from or to next to nothing as a difference.
    """
    if before == after:
        return "same"
    little = _LITTLE[unit]
    if min(abs(before), abs(after)) < little:
        if abs(after - before) < little:
            return "same"
        sign, much = "+" if after > before else "-", abs(after - before)
        return sign + (f"{100 * much:.0f} points" if unit == "share" else amount(much, unit))
    ratio = after / before
    if ratio >= _FACTOR:
        return f"{number(ratio, digits=_OF_ERRORS)} x"
    if ratio <= 1 / _FACTOR:
        return f"1/{number(1 / ratio, digits=_OF_ERRORS)} x"
    return f"{100 * (ratio - 1):+.0f} %".replace("+0 %", "same").replace("-0 %", "same")


def _is_known(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value)


def _strip_zeros(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


def _write(text: str, unit: str = "") -> str:
    """Return digits with commas between thousands, from 10,000 on, and their unit."""
    integer, point, rest = text.partition(".")
    if len(integer.lstrip("-")) > 4:
        text = f"{int(integer):,}{point}{rest}"
    return f"{text} {unit}" if unit else text
