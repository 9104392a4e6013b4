"""Files that a row of the sample sheet names: whether they are there, and what to do if not."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

LANDMARKS = ("landmarks", "landmarks_post", "landmarks_pre")
"""Columns of landmarks: of both images, or of each."""
INITIAL = "initial_transform"


def helping_files(cells: Mapping[str, str], base: Path) -> dict[str, Path]:
    """Return the files that a row names to help with its registration, by column."""
    columns = (c for c in (*LANDMARKS, INITIAL) if c in cells)
    return {column: base / Path(cells[column]).expanduser() for column in columns}


def helping_problem(cells: Mapping[str, str], files: Mapping[str, Path], sheet: Path) -> str | None:
    """Return what is wrong with such files, as the rest of a sentence after the line of a row."""
    both, post, pre = (column in cells for column in LANDMARKS)
    if both and (post or pre):
        return ": landmarks holds both images, so leave landmarks_post and landmarks_pre empty"
    if post != pre:
        empty = LANDMARKS[1 if pre else 2]
        return f", column '{empty}': the cell is empty, but both images need landmarks; name theirs"
    for column, file in files.items():
        amiss = file_problem(file, sheet, cells[column], "file")
        if amiss is not None:
            return f", column '{column}': {amiss}"
    return None


def file_problem(file: Path, sheet: Path, cell: str, what: str = "TIFF file") -> str | None:
    """Return what keeps a file from being opened, as the end of a sentence."""
    if file.is_symlink() and not file.exists():
        return f"{cell} is a link to {file.readlink()}, which does not exist; mend the link"
    if file.is_dir():
        return f"{cell} is a directory; name the {what} in it"
    if file.exists():
        return None
    if (sheet.parent / cell).is_file():
        return (
            f"there is no {file}; paths start at the working directory, so write "
            f"{sheet.parent / cell}"
        )
    if file.parent.is_dir():
        near = difflib.get_close_matches(file.name, [p.name for p in file.parent.iterdir()], n=1)
        if near:
            return f"there is no {file}; did you mean {file.with_name(near[0])}?"
    return f"there is no {file}; correct the path (relative ones start at the working directory)"
