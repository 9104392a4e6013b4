"""Landmarks: the same places clicked by a person in both images, as other programs write them.

What is read, a file for each image:

- a Points layer saved by napari: ``index,axis-0,axis-1``, the last two axes being row and column
  (its ``napari_write_points``),
- measurements of point annotations exported by QuPath: ``Centroid X px`` and ``Centroid Y px``, or
  the same in µm where QuPath knows the pixel size (its ``ROICentroidMeasurementBuilder``),
- points saved by QuPath: tab-separated ``x`` and ``y`` (its ``PointIO``),
- ``X,Y`` with commas or semicolons, as in the BIRL data sets,

or one table of both, ``post_x,post_y,pre_x,pre_y``. QuPath counts from the corner of the first
pixel, the others from its centre.
"""

from __future__ import annotations

import csv
import io
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from unglow.core.errors import InputError
from unglow.core.files import number_lines, read_text, split
from unglow.core.printable import escape_formula, unescape_formula

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from unglow.core.arrays import Floats


BOTH = (("post_x", "post_y"), ("pre_x", "pre_y"))
"""Columns of a table of both images."""
LEAST = 2
"""This many landmarks make a similarity; three make an affine map."""
_LABELS = ("label", "name", "landmark", "index", "")
_CORNER_PX = 0.5
"""From the corner of a pixel, where QuPath counts from, to its centre."""
_LEAST_SPREAD = 0.02
"""Landmarks have to lie this share of the diagonal of an image from each other: nearer together,
clicks that are off by a few px turn the map by degrees."""
_AXIS = re.compile(r"axis-\d+")
_MICRO = str.maketrans("μ", "µ")  # two letters that look the same
_ROLES = ("post", "pre")


class Frame(Protocol):
    """An image that points are in: a header, or a store."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""

    @property
    def pixel_size_um(self) -> tuple[float, float] | None:
        """(x, y) in micrometres; None if unknown."""


@dataclass(frozen=True, eq=False)
class Landmarks:
    """N places, at least two, in both images.

    Attributes
    ----------
    post, pre
        (N, 2) float64 (x, y), level-0 px, pixel centres at integers.
    names
        What to call each of them: its label, or its number from 1.
    """

    post: Floats
    pre: Floats
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True, slots=True)
class _Table:
    """A file: lower-case column names, what separates them, and the rows with their lines."""

    path: Path
    columns: tuple[str, ...]
    separator: str
    rows: tuple[tuple[int, dict[str, str]], ...]

    def locate(self, *rows: int) -> str:
        """Say where these rows are, one or two, or the entire table."""
        lines = [str(self.rows[k][0]) for k in rows]
        word = "" if not rows else f", line{'s' * (len(rows) > 1)} "
        return f"{self.path}{word}{' and '.join(lines)}"

    def numbers(self, x: str, y: str) -> Floats:
        """Return the (N, 2) values of two columns."""
        return np.array(
            [[self._number(line, cells, c) for c in (x, y)] for line, cells in self.rows],
            dtype=np.float64,
        ).reshape(-1, 2)

    def _number(self, line: int, cells: dict[str, str], column: str) -> float:
        text = cells[column]
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            comma = " (write decimals with a point)" if "," in text else ""
            raise InputError(
                f"{self.path}, line {line}, column '{column}': '{text}' is not a number{comma}; "
                "correct it or remove the row."
            )
        return value

    def labels(self) -> tuple[str, tuple[str, ...]]:
        """Return the first column that names every row differently, and the names; '' for none."""
        for column in _LABELS:
            if column in self.columns:
                names = tuple(unescape_formula(cells[column]) for _, cells in self.rows)
                if all(names) and len(set(names)) == len(names):
                    return column or "its first column", names
        return "", tuple(str(k + 1) for k in range(len(self.rows)))


def read_landmarks(files: Sequence[Path], post: Frame, pre: Frame) -> Landmarks:
    """Read the landmarks of a pair.

    Parameters
    ----------
    files
        One table of both images, or the file of post and that of pre. Points of two files belong
        together by their names if both have the same column of names (``label``, ``name``,
        ``landmark`` or ``index``), and by their order otherwise.
    post, pre
        The images.

    Raises
    ------
    InputError
        A file cannot be read, or its points cannot be landmarks; the sentence names the file.
    """
    tables = [_read(path) for path in files]
    if len(tables) == 1:
        points = [_read_both(tables[0], columns) for columns in BOTH]
        tables *= 2
        names = tables[0].labels()[1]
        order = list(range(len(names)))
    else:
        points = [_read_one(table, frame) for table, frame in zip(tables, (post, pre), strict=True)]
        order, names = _pair_rows(*tables)
    for role, table, frame, found in zip(_ROLES, tables, (post, pre), points, strict=True):
        check_points(role, found, frame, table.locate)
    return Landmarks(points[0], points[1][order], names)


def _read(path: Path) -> _Table:
    """Take a file apart into cells."""
    text = read_text(path, what="landmarks", remedy="put them there, or do not name the file")
    lines = list(number_lines(text))
    if not lines:
        raise InputError(f"{path} is empty: {_describe_formats()}")
    header = lines[0][1]
    separator = "\t" if "\t" in header else ";" if ";" in header else ","
    columns = tuple(
        c.strip().lower().translate(_MICRO) for c in split(path, lines[0][0], header, separator)
    )
    rows = []
    for number, line in lines[1:]:
        cells = [c.strip() for c in split(path, number, line, separator)]
        if any(cells[len(columns) :]):
            raise InputError(f"{path}, line {number} has more cells than the header; correct it.")
        filled = cells[: len(columns)] + [""] * (len(columns) - len(cells))
        rows.append((number, dict(zip(columns, filled, strict=True))))
    return _Table(path, columns, separator, tuple(rows))


def _describe_formats() -> str:
    return (
        "landmarks are a CSV with post_x, post_y, pre_x and pre_y, or one for each image. Those "
        "have axis-0 and axis-1 (napari), Centroid X and Centroid Y, or x and y (QuPath)."
    )


def _read_both(table: _Table, columns: tuple[str, str]) -> Floats:
    """Points of one image in a table of both."""
    missing = [c for both in BOTH for c in both if c not in table.columns]
    if missing:
        raise InputError(
            f"{table.path} is alone, so it has to hold post_x, post_y, pre_x and pre_y, but it "
            f"lacks {', '.join(missing)}: add them, or give a file of landmarks for each image."
        )
    return table.numbers(*columns)


def _read_one(table: _Table, frame: Frame) -> Floats:
    """Points of one image in a file of its own, whatever program wrote it."""
    columns = table.columns
    if "shape-type" in columns:
        raise InputError(
            f"{table.path} is a Shapes layer of napari: add a Points layer, click the landmarks "
            "there and save that one."
        )
    axes = sorted((c for c in columns if _AXIS.fullmatch(c)), key=lambda c: int(c[5:]))
    if len(axes) >= 2:
        return table.numbers(axes[-1], axes[-2])
    for unit, size in (("px", (1.0, 1.0)), ("µm", frame.pixel_size_um)):
        centroid = f"centroid x {unit}", f"centroid y {unit}"
        if set(centroid) <= set(columns):
            _check_annotations(table)
            if size is None:
                raise InputError(
                    f"{table.path} is in µm, but the image does not say how large its pixels are: "
                    "save the points themselves in QuPath (points tool, Save points), which is in "
                    "px."
                )
            return np.asarray(table.numbers(*centroid) / size - _CORNER_PX, dtype=np.float64)
    if {"x", "y"} <= set(columns):
        # with tabs it is what QuPath saves; nothing else is known to write it
        return table.numbers("x", "y") - (_CORNER_PX if table.separator == "\t" else 0.0)
    if all(c in columns for both in BOTH for c in both):
        raise InputError(f"{table.path} holds both images: name it alone, as `landmarks`.")
    named = ", ".join(c for c in columns if c) or "none"
    raise InputError(f"{table.path} has other columns ({named}): {_describe_formats()}")


def _check_annotations(table: _Table) -> None:
    """Raise for measurements of QuPath that are not of single points of one image."""
    for line, cells in table.rows:
        if cells.get("num points", "") not in ("", "1", "1.0"):
            raise InputError(
                f"{table.path}, line {line} is an annotation of {cells['num points']} points, of "
                "which QuPath measures the centre only: save the points themselves (points tool, "
                "Save points), or make each of them an annotation."
            )
    images = sorted({cells["image"] for _, cells in table.rows if "image" in cells})
    if len(images) > 1:
        raise InputError(
            f"{table.path} holds measurements of {len(images)} images ({', '.join(images[:3])}): "
            "export each image into a file of its own."
        )


def _pair_rows(post: _Table, pre: _Table) -> tuple[list[int], tuple[str, ...]]:
    """For each row of post the index of its partner in pre, and what to call them."""
    (column, names), (other, others) = post.labels(), pre.labels()
    if column and column == other:
        for mine, theirs, here, there in (
            (names, others, post, pre),
            (others, names, pre, post),
        ):
            alone = [name for name in mine if name not in theirs]
            if alone:
                raise InputError(
                    f"{here.path} has a landmark '{alone[0]}' ({column}) which {there.path} has "
                    "not: click it there too, or remove it."
                )
        return [others.index(name) for name in names], names
    if len(names) != len(others):
        raise InputError(
            f"{post.path} has {len(names)} landmarks and {pre.path} has {len(others)}: click the "
            "same places in both images, in the same order."
        )
    return list(range(len(names))), tuple(str(k + 1) for k in range(len(names)))


def check_points(role: str, points: Floats, frame: Frame, where: Callable[..., str]) -> None:
    """Raise `InputError` for points that cannot be landmarks of an image.

    Parameters
    ----------
    role
        ``post`` or ``pre``.
    points
        (N, 2) float64 (x, y).
    frame
        The image.
    where
        Says for a sentence where the points are, or those of them that are named by their index.
    """
    if len(points) < LEAST:
        raise InputError(
            f"{where()} holds {len(points)} landmark{'' if len(points) == 1 else 's'}, and at "
            f"least {LEAST} are needed: click more, far from each other."
        )
    rows, cols = frame.shape
    inside = ((points >= -_CORNER_PX) & (points <= np.array([cols, rows]) - _CORNER_PX)).all(axis=1)
    if not inside.all():
        k = int(np.flatnonzero(~inside)[0])
        raise InputError(
            f"{where(k)}: ({points[k, 0]:.1f}, {points[k, 1]:.1f}) is outside "
            f"of the {role}-stain image of {cols} x {rows} px; are these landmarks of another "
            "image, or of a smaller version of it?"
        )
    _, first = np.unique(points, axis=0, return_index=True)
    if len(first) < len(points):
        k = int(np.setdiff1d(np.arange(len(points)), first)[0])
        twin = int(np.flatnonzero((points == points[k]).all(axis=1))[0])
        raise InputError(
            f"{where(twin, k)} are the same point: remove one, and its partner in the other image."
        )
    spread = float(np.hypot(*np.ptp(points, axis=0)))
    if spread < _LEAST_SPREAD * math.hypot(rows, cols):
        raise InputError(
            f"{where()}: all landmarks lie within {spread:.0f} px, too near to each other to "
            f"give rotation and scale of an image of {cols} x {rows} px; spread them over the "
            "section."
        )


def format_both(landmarks: Landmarks) -> str:
    """Return a table of both images that `read_landmarks` reads, with names; to 0.001 px."""
    return _format_table(
        landmarks.names, (*BOTH[0], *BOTH[1]), np.hstack([landmarks.post, landmarks.pre])
    )


def format_one(names: Sequence[str], points: Floats) -> str:
    """Return a table of the points of one image that `read_landmarks` reads, names first."""
    return _format_table(names, ("x", "y"), points)


def _format_table(names: Sequence[str], columns: Sequence[str], numbers: Floats) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(("name", *columns))
    for name, values in zip(names, numbers.tolist(), strict=True):
        writer.writerow((escape_formula(name), *(f"{v:.3f}" for v in values)))
    return stream.getvalue()
