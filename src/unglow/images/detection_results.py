"""What the search for candidates has written: candidates.csv, detection.json and search.npz.

Without the libraries of the search itself, for figures, exports and pairs that read it of others.
"""

from __future__ import annotations

import csv
import math
import sys
from array import array
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from unglow.core.archive import load_arrays, make_damage_error, save_arrays
from unglow.core.errors import InputError
from unglow.core.files import limit_lines, open_text
from unglow.core.reasons import Sentence
from unglow.core.records import RecordError, read_record, to_record

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from unglow.core.arrays import Bools, Floats, Ints
    from unglow.core.windows import Window

    Counts = Ints


_NEEDED = ("id", "x", "y", "snr", "flags")
SHOWN = ("x", "y", "snr", "fdr")
"""Columns that figures show."""
NOT_COUNTED = ("outside", "beside_spoilt", "sharp", "misregistered")
"""Words in the column ``flags`` of those that are listed and not counted as candidates."""
_Number = float | None
_Interval = tuple[float, float] | None


class _Settings(msgspec.Struct):
    fwhm_px: float = math.nan
    fdr: float = math.nan
    spoilt: str = ""


class _Control(msgspec.Struct):
    reason: str | None
    sample: str = ""


class _Reason(msgspec.Struct):
    places: int
    area_px: int
    share: float


class _Place(msgspec.Struct):
    reason: str
    x: float
    y: float
    area_px: int
    strength: float = math.nan


class _Spoilt(msgspec.Struct):
    share: float
    places: int
    by_reason: dict[str, _Reason]
    largest: list[_Place]
    widths: dict[str, float] = msgspec.field(default_factory=dict)
    below_share: float = math.nan


class _Failed(msgspec.Struct, tag_field="status", tag="failed"):
    reason: str


class _Searched(msgspec.Struct, tag_field="status", tag="ok"):
    """What detection.json holds of a search."""

    reason: None = None
    method: str = ""
    candidates: int | None = None
    fdr: _Number = None
    density_per_mm2: _Number = None
    density_ci95_per_mm2: _Interval = None
    is_control: bool = False
    settings: _Settings = msgspec.field(default_factory=_Settings)
    not_counted: int | None = None
    searched_px: int | None = None
    fdr_control: _Number = None
    threshold_snr: _Number = None
    spot_width_px: _Number = None
    area_mm2: _Number = None
    fdr_ci95: _Interval = None
    fdr_control_ci95: _Interval = None
    masked_px: dict[str, int] = msgspec.field(default_factory=dict)
    controls: list[_Control] | None = None
    by_threshold: list[dict[str, float | _Interval]] = msgspec.field(default_factory=list)
    brightest_negatives: list[tuple[float, float, float]] = msgspec.field(default_factory=list)
    completeness: dict[str, Any] | None = None
    reasons: list[Sentence] = msgspec.field(default_factory=list)
    notes: list[Sentence] = msgspec.field(default_factory=list)
    spoilt: _Spoilt | None = None


@dataclass(frozen=True, eq=False)
class Candidates:
    """The rows of candidates.csv.

    Attributes
    ----------
    numbers
        Name of each column but ``flags`` to its (N,) float64; NaN where a cell is empty.
    flags
        N texts, words joined by +.
    """

    numbers: dict[str, Floats]
    flags: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.flags)

    @property
    def xy(self) -> Floats:
        """(N, 2) positions (x, y), px of post, pixel centres at integers."""
        return np.column_stack([self.numbers["x"], self.numbers["y"]])

    @property
    def snr(self) -> Floats:
        """(N,) signal-to-noise ratios."""
        return self.numbers["snr"]

    @property
    def fdr(self) -> Floats:
        """(N,) false-discovery rates of all at least as significant; NaN where not known."""
        return self.numbers.get("fdr", np.full(len(self), np.nan))

    @cached_property
    def is_counted(self) -> Bools:
        """(N,) which ones are counted."""
        return np.array([not set(f.split("+")) & set(NOT_COUNTED) for f in self.flags], bool)


def read_candidates(path: Path, columns: Collection[str] | None = None) -> Candidates:
    """Read candidates.csv, a row at a time: 8 bytes are kept of each cell.

    Parameters
    ----------
    path
        The table.
    columns
        Names of the columns of numbers to keep, those that there are; all of them if None.

    Raises
    ------
    InputError
        It cannot be read, or is not such a table.
    """
    try:
        with open_text(path) as stream:
            rows = csv.reader(limit_lines(stream), strict=True)
            names = next(rows, [])
            if missing := [name for name in _NEEDED if name not in names]:
                raise InputError(
                    f"{path} is not a candidates.csv of unglow: it has no column "
                    f"{', '.join(missing)}."
                )
            wanted = [name for name in names if columns is None or name in columns]
            cells = {name: array("d") for name in wanted if name != "flags"}
            flags: list[str] = []
            for row in rows:
                named = dict(zip(names, row, strict=True))
                flags.append(sys.intern(named["flags"]))
                for name, column in cells.items():
                    column.append(float(named[name] or "nan"))
        numbers = {name: np.array(column) for name, column in cells.items()}
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}).") from error
    except (ValueError, csv.Error) as error:
        raise InputError(f"{path} is damaged or was edited; delete it and run again.") from error
    return Candidates(numbers, tuple(flags))


def read_report(path: Path) -> dict[str, Any]:
    """Read detection.json.

    Raises
    ------
    InputError
        It cannot be read, or is not such a report.
    """
    try:
        report = read_record(path, dict[str, Any])
        to_record(report, _Failed | _Searched)
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}).") from error
    except RecordError as error:
        raise InputError(
            f"{path} is damaged or was edited ({error}); delete it and run again."
        ) from error
    return report


GRID = 48
"""Squares along the longer side of an image. It is divisible by 2, 3, 4, 6, 8 and 12, so that a
figure may join that many."""


def square_px(shape: tuple[int, int]) -> int:
    """Return the side of the squares of an image of ``shape``, px."""
    return max(1, -(-max(shape) // GRID))


def make_empty_squares(shape: tuple[int, int]) -> Counts:
    """Return a count of 0 for each square of an image of ``shape``, (rows, cols) int64."""
    side = square_px(shape)
    return np.zeros([-(-n // side) for n in shape], np.int64)


def count_per_square(searched: Bools, window: Window, shape: tuple[int, int]) -> Counts:
    """Count px in the squares of an image.

    Parameters
    ----------
    searched
        ``window.shape`` bool: the px that count.
    window
        Where they are in the image.
    shape
        Rows and columns of the image.

    Returns
    -------
    (rows, cols) int64, a count for each square of the entire image.
    """
    side = square_px(shape)
    firsts, starts = [], []
    for first, end in ((window.y0, window.y1), (window.x0, window.x1)):
        squares = np.arange(first // side, (end - 1) // side + 1)
        starts.append(np.maximum(squares * side - first, 0))
        firsts.append(int(squares[0]))
    down, across = starts
    # sums of rows are many times as fast as `reduceat`, which is left with few numbers
    lines = [part.sum(axis=0, dtype=np.uint32) for part in np.split(searched, down[1:])]
    counts = np.add.reduceat(np.stack(lines), across, axis=1, dtype=np.int64)
    out = make_empty_squares(shape)
    out[tuple(slice(f, f + n) for f, n in zip(firsts, counts.shape, strict=True))] = counts
    return out


@dataclass(frozen=True, eq=False)
class SearchCounts:
    """Counts of a search.

    Attributes
    ----------
    lowest
        Lowest signal-to-noise ratio.
    bright, dark
        (bins,) int64: sources on the section in each step of the ratio, as
        `unglow.detection.rates.Sides` has them; dark are those of the negated difference.
    searched
        (rows, cols) int64: px of the section that were searched, in squares of ``side_px``.
    side_px
        Side of a square, px.
    reason
        Why nothing was searched; empty if something was.
    """

    lowest: float
    bright: Counts
    dark: Counts
    searched: Counts
    side_px: int
    reason: str = ""

    @classmethod
    def make_refused(cls, reason: str) -> SearchCounts:
        """Return the counts of a pair in which nothing was searched."""
        none = np.zeros(0, np.int64)
        return cls(0.0, none, none, np.zeros((0, 0), np.int64), 1, reason)

    @property
    def searched_px(self) -> int:
        """How many px of the section were searched."""
        return int(self.searched.sum())

    def save(self, path: Path | str) -> None:
        """Write search.npz, complete or not at all; equal counts give equal bytes."""
        save_arrays(path, {f.name: np.asarray(getattr(self, f.name)) for f in fields(self)})

    @classmethod
    def load(cls, path: Path | str) -> SearchCounts:
        """Read search.npz.

        Raises
        ------
        StoreError
            If it is damaged.
        """
        arrays = load_arrays(path)
        try:
            lowest, side, reason = (arrays[n].item() for n in ("lowest", "side_px", "reason"))
            bright, dark, searched = (
                arrays[name].astype(np.int64) for name in ("bright", "dark", "searched")
            )
            if bright.ndim != 1 or bright.shape != dark.shape or searched.ndim != 2 or side < 1:
                raise make_damage_error(path)
            return cls(float(lowest), bright, dark, searched, int(side), str(reason))
        except (KeyError, OverflowError, TypeError, ValueError) as error:
            raise make_damage_error(path) from error
