"""Reading the candidates of a pair: candidates.csv, and detection.json next to it.

Without the libraries of the search itself, for figures and exports.
"""

from __future__ import annotations

import csv
import sys
from array import array
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.delimited import limit_lines
from unglow.core.errors import InputError
from unglow.core.files import open_text, read_json
from unglow.core.json_shape import check_shape

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from numpy.typing import NDArray

_NEEDED = ("id", "x", "y", "snr", "flags")
SHOWN = ("x", "y", "snr", "fdr")
"""Columns that figures show."""
NOT_COUNTED = ("outside", "beside_spoilt")
"""Words in the column ``flags`` of those that are listed and not counted as candidates."""
_STATUSES = ("ok", "failed")
_INTERVAL = (None, [float, float])
_CANDIDATES = {
    "method?": str,
    "is_control?": bool,
    "settings?": {"fwhm_px?": float, "fdr?": float, "spoilt?": str},
    **dict.fromkeys(("candidates?", "not_counted?", "searched_px?"), (None, int)),
    **dict.fromkeys(("fdr?", "fdr_control?", "threshold_snr?"), (None, float)),
    **dict.fromkeys(("area_mm2?", "density_per_mm2?"), (None, float)),
    **dict.fromkeys(("fdr_ci95?", "fdr_control_ci95?", "density_ci95_per_mm2?"), _INTERVAL),
    "masked_px?": {...: int},
    "controls?": (None, [{"sample?": str, "reason": (None, str)}, ...]),
    "by_threshold?": [{...: (float, [float, float])}, ...],  # with intervals by controls
    "brightest_negatives?": [[float, float, float], ...],
    "completeness?": (None, {}),
    "reasons?": [str, ...],
    "spoilt?": {
        "share": float,
        "places": int,
        "by_reason": {...: {"places": int, "area_px": int, "share": float}},
        "largest": [
            {"reason": str, "x": float, "y": float, "area_px": int, "strength?": float},
            ...,
        ],
        "widths?": {...: float},
        "below_share?": float,
    },
}
"""What detection.json holds, see `unglow.core.json_shape`; older versions had less of it."""


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

    numbers: dict[str, NDArray[np.float64]]
    flags: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.flags)

    @property
    def xy(self) -> NDArray[np.float64]:
        """(N, 2) positions (x, y), px of post, pixel centres at integers."""
        return np.column_stack([self.numbers["x"], self.numbers["y"]])

    @property
    def snr(self) -> NDArray[np.float64]:
        """(N,) signal-to-noise ratios."""
        return self.numbers["snr"]

    @property
    def fdr(self) -> NDArray[np.float64]:
        """(N,) false-discovery rates of all at least as significant; NaN where not known."""
        return self.numbers.get("fdr", np.full(len(self), np.nan))

    @cached_property
    def is_counted(self) -> NDArray[np.bool_]:
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
    except (TypeError, ValueError, csv.Error) as error:
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
        report: dict[str, Any] = read_json(path)
        _STATUSES.index(report["status"])
        failed = report["status"] == "failed"
        check_shape(report, {"reason": str} if failed else {"reason?": None, **_CANDIDATES})
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}).") from error
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} is damaged or was edited; delete it and run again.") from error
    return report
