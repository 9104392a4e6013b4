"""Decisions on candidates: review.csv next to candidates.csv, which only users change.

A row says what was decided about the candidate at a position, and on which list of candidates. When
that list is made again, decisions belong to the candidate that is nearest to where they were taken.
"""

from __future__ import annotations

import csv
import io
import math
from dataclasses import astuple, dataclass, fields, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from unglow.core.digests import hash_file
from unglow.core.errors import InputError
from unglow.core.files import limit_lines, lock_file, open_text, write_text
from unglow.core.printable import escape_formula, unescape_formula
from unglow.images.detection_results import read_candidates

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray


REACH_PX = 2.0
"""Two positions of one candidate are no further apart, px."""


def nearest(
    points: NDArray[np.float64], others: NDArray[np.float64], reach: float = REACH_PX
) -> list[int | None]:
    """Return the partner of each point among ``others``, the nearest pairs first.

    Parameters
    ----------
    points, others
        (N, 2) and (M, 2) positions (x, y).
    reach
        Partners are no further apart.

    Returns
    -------
    N indices, none of them twice; None for a point that has no partner.
    """
    if not len(points) or not len(others):
        return [None] * len(points)
    order = np.argsort(others[:, 1], kind="stable")
    rows = others[order, 1]
    begins = np.searchsorted(rows, points[:, 1] - reach, side="left")
    ends = np.searchsorted(rows, points[:, 1] + reach, side="right")
    pairs: list[tuple[float, int, int]] = []
    for k, (begin, end) in enumerate(zip(begins.tolist(), ends.tolist(), strict=True)):
        close = order[begin:end]
        apart = np.hypot(*(others[close] - points[k]).T)
        pairs += [(float(d), k, int(m)) for d, m in zip(apart, close, strict=True) if d <= reach]
    partners: list[int | None] = [None] * len(points)
    taken: set[int] = set()
    for _, k, m in sorted(pairs):
        if partners[k] is None and m not in taken:
            partners[k] = m
            taken.add(m)
    return partners


DECISIONS = ("accepted", "rejected", "unsure")
LONGEST_NOTE = 10_000
"""Characters: readers of CSV refuse a cell from some 130 000 on."""
_LARGEST_ID = 2**53
"""Up to here a number of the table is what it says."""
_DIGITS = 12
_SAME_PX = 0.001
"""Positions in candidates.csv have three decimals."""
_PLACES = 3


@dataclass(frozen=True, slots=True)
class Decision:
    """A row of review.csv.

    Attributes
    ----------
    id
        Of the candidate, in the list that it was decided on; 0 if it was in none.
    x, y
        Where that was, px of post, pixel centres at integers.
    decision
        One of `DECISIONS`.
    note
        Any text.
    time
        When it was decided, UTC.
    candidates
        First digits of the SHA-256 of that list.
    """

    id: int
    x: float
    y: float
    decision: str
    note: str = ""
    time: str = ""
    candidates: str = ""


COLUMNS = tuple(f.name for f in fields(Decision))


@dataclass(frozen=True, eq=False)
class Listed:
    """A list of candidates, as far as decisions are about it.

    Attributes
    ----------
    ids
        (N,) int64, as candidates.csv has them.
    xy
        (N, 2) float64 positions (x, y).
    digest
        Of the file.
    """

    ids: NDArray[np.int64]
    xy: NDArray[np.float64]
    digest: str

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read candidates.csv; an empty list if there is none.

        Raises
        ------
        InputError
            It is damaged.
        """
        if not path.is_file():
            return cls(np.zeros(0, np.int64), np.zeros((0, 2)), "")
        digest = hash_file(path)[:_DIGITS]
        found = read_candidates(path, ("id", "x", "y"))
        return cls(found.numbers["id"].astype(np.int64), found.xy, digest)

    def rows_of(self, decisions: Sequence[Decision]) -> list[int | None]:
        """Return the row of the candidate that each decision is about; None for none.

        A candidate has one decision at most: the last of those about its number on this very list,
        or else the one of another list that is nearest, within `REACH_PX`.
        """
        rows: list[int | None] = [None] * len(decisions)
        free = np.ones(len(self.ids), dtype=np.bool_)
        for k in reversed(range(len(decisions))):
            here = decisions[k].candidates == self.digest
            row = self._row_of(decisions[k].id) if here else None
            if row is not None and free[row]:
                rows[k] = row
                free[row] = False
        others = [k for k, one in enumerate(decisions) if one.candidates != self.digest]
        at = np.array([[decisions[k].x, decisions[k].y] for k in others]).reshape(-1, 2)
        left = np.flatnonzero(free) if others else np.zeros(0, np.intp)
        for k, place in zip(others, nearest(at, self.xy[left]), strict=True):
            rows[k] = None if place is None else int(left[place])
        return rows

    def row_at(self, seen: Decision) -> int | None:
        """Return the row of a candidate that someone sees, on this list or an earlier one."""
        row = self._row_of(seen.id)
        if row is not None and np.abs(self.xy[row] - (seen.x, seen.y)).max() <= _SAME_PX:
            return row
        return nearest(np.array([[seen.x, seen.y]]), self.xy)[0]

    def about(self, row: int, one: Decision) -> Decision:
        """Return a decision as one about the candidate in a row."""
        x, y = self.xy[row].tolist()
        return replace(one, id=int(self.ids[row]), x=x, y=y, candidates=self.digest)

    def _row_of(self, number: int) -> int | None:
        if not 0 < number <= _LARGEST_ID:
            return None
        place = int(np.searchsorted(self.ids, number, sorter=self._order))
        row = int(self._order[place]) if place < len(self.ids) else None
        return row if row is not None and self.ids[row] == number else None

    @cached_property
    def _order(self) -> NDArray[np.intp]:
        return np.argsort(self.ids, kind="stable")


@dataclass(frozen=True, eq=False)
class Review:
    """The decisions about a pair, and the candidates that they belong to now.

    Attributes
    ----------
    decisions
        The rows of review.csv, in their order.
    rows
        For each the row of its candidate in candidates.csv, from 0; None if there is none now.
    listed
        The candidates.
    """

    decisions: tuple[Decision, ...]
    rows: tuple[int | None, ...]
    listed: Listed

    @classmethod
    def match(cls, decisions: Iterable[Decision], listed: Listed) -> Self:
        """Find out which candidates decisions belong to."""
        known = tuple(decisions)
        return cls(known, tuple(listed.rows_of(known)), listed)

    @classmethod
    def read(cls, path: Path, candidates: Path | Listed) -> Self:
        """Read review.csv (none is an empty one), and candidates.csv unless that is done.

        Raises
        ------
        InputError
            One of them is damaged.
        """
        listed = candidates if isinstance(candidates, Listed) else Listed.read(candidates)
        return cls.match(read_decisions(path), listed)

    @property
    def row_decisions(self) -> dict[int, Decision]:
        """Decision of each row of candidates.csv that has one."""
        pairs = zip(self.rows, self.decisions, strict=True)
        return {row: decision for row, decision in pairs if row is not None}

    @property
    def columns(self) -> tuple[list[str], list[str]]:
        """Decision and note of each row of candidates.csv; "" for a row that has none."""
        by_row = self.row_decisions
        made = [by_row.get(row) for row in range(len(self.listed.ids))]
        return [d.decision if d else "" for d in made], [d.note if d else "" for d in made]

    def to_json(self) -> list[dict[str, Any]]:
        """Return the decisions with the numbers that candidates have now, None for no candidate.

        Each has ``id``, ``x``, ``y``, ``decision``, ``note`` and ``time``; positions are those of
        the candidate now, or else where it was.
        """
        out = []
        for row, one in zip(self.rows, self.decisions, strict=True):
            number = None if row is None else int(self.listed.ids[row])
            x, y = (one.x, one.y) if row is None else self.listed.xy[row].tolist()
            record = {"decision": one.decision, "note": one.note, "time": one.time}
            out.append({"id": number, "x": x, "y": y, **record})
        return out

    def apply(self, changes: Iterable[Decision]) -> Review:
        """Return the review after changes; one without a decision takes back what there was."""
        decisions: list[Decision | None] = list(self.decisions)
        places = {row: k for k, row in enumerate(self.rows) if row is not None}
        alone = [k for k, row in enumerate(self.rows) if row is None]
        for one in changes:
            row = self.listed.row_at(one)
            if row is None:
                # which of the decisions about no candidate was taken here
                known = [(k, d) for k in alone if (d := decisions[k]) is not None]
                at = np.array([[d.x, d.y] for _, d in known]).reshape(-1, 2)
                near = nearest(np.array([[one.x, one.y]]), at)[0]
                place = None if near is None else known[near][0]
                changed = replace(one, id=0, candidates="")
            else:
                place = places.get(row)
                changed = self.listed.about(row, one)
            if place is None:
                place = len(decisions)
                decisions.append(None)
                if row is None:
                    alone.append(place)
                else:
                    places[row] = place
            decisions[place] = changed if changed.decision else None
        return Review.match((one for one in decisions if one is not None), self.listed)


def read_decisions(path: Path) -> list[Decision]:
    """Read review.csv; none if there is no such file.

    Raises
    ------
    InputError
        It cannot be read, or a row is damaged.
    """
    try:
        with open_text(path, "utf-8-sig") as stream:
            rows = csv.reader(limit_lines(stream), strict=True)
            if next(rows, None) != list(COLUMNS):
                raise _make_error(path, 1, f"the columns are not {','.join(COLUMNS)}")
            return [_parse_row(path, rows.line_num, cells) for cells in rows if cells]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}).") from error
    except UnicodeDecodeError as error:
        raise _make_error(path, 1, "it is not UTF-8 text") from error
    except csv.Error as error:
        raise _make_error(path, rows.line_num, str(error)) from error


def change_review(
    path: Path,
    changes: Iterable[Mapping[str, Any]],
    candidates: Path | Listed,
    now: datetime | None = None,
) -> Review:
    """Change review.csv: what others have changed meanwhile stays.

    Parameters
    ----------
    path
        review.csv, made if there is none.
    changes
        Each with the ``id``, ``x`` and ``y`` of a candidate, its ``decision`` ("" to take it back)
        and a ``note``.
    candidates
        The candidates.csv, or what was read of it.
    now
        Time of the decisions.

    Returns
    -------
    The review as it is now.

    Raises
    ------
    InputError
        A change is not such a one, or a file is damaged; then nothing is changed.
    UnglowError
        It cannot be written.
    """
    time = (now or datetime.now(UTC)).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    checked = [replace(_check_change(change), time=time) for change in changes]
    with lock_file(path):
        before = Review.read(path, candidates)
        review = before.apply(checked)
        if review.decisions != before.decisions:
            write_text(path, _format_rows(review.decisions))
    return review


def _format_rows(decisions: Iterable[Decision]) -> str:
    stream = io.StringIO()
    # a quoted cell may hold a line's end of any kind
    writer = csv.writer(stream, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    stream.write(",".join(COLUMNS) + "\n")
    for one in decisions:
        writer.writerow(escape_formula(v) if isinstance(v, str) else v for v in astuple(one))
    return stream.getvalue()


def _check_change(change: Mapping[str, Any]) -> Decision:
    """Return a change that someone sends as a decision, "" for one that is taken back."""
    try:
        number, decision, note = change["id"], change["decision"], change.get("note") or ""
        x, y = (round(float(change[name]), _PLACES) for name in ("x", "y"))
        number = 0 if number is None else int(number)
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise InputError("a change of a review needs id, x, y and decision.") from error
    if not (math.isfinite(x) and math.isfinite(y)):
        raise InputError("the position of a decision has to be two numbers.")
    if decision not in ("", *DECISIONS):
        raise InputError(f"a decision is one of {', '.join(DECISIONS)}, or empty.")
    if not isinstance(note, str) or len(note) > LONGEST_NOTE:
        raise InputError(f"a note is a text of at most {LONGEST_NOTE} characters.")
    return Decision(number, x, y, decision, note)


def _parse_row(path: Path, line: int, cells: list[str]) -> Decision:
    if len(cells) != len(COLUMNS):
        raise _make_error(path, line, f"it has {len(cells)} cells and not {len(COLUMNS)}")
    number, x, y, decision, *texts = map(unescape_formula, cells)
    try:
        place = int(number), float(x), float(y)
    except ValueError:
        place = 0, math.nan, math.nan
    if not math.isfinite(place[1]) or not math.isfinite(place[2]):
        raise _make_error(path, line, "id, x or y is not a number")
    if decision not in DECISIONS:
        raise _make_error(path, line, f"'{decision}' is none of {', '.join(DECISIONS)}")
    return Decision(*place, decision, *texts)


def _make_error(path: Path, line: int, what: str) -> InputError:
    return InputError(
        f"{path}, line {line}: {what}; correct it, or move the file away to start again "
        "(nothing in it was changed)."
    )
