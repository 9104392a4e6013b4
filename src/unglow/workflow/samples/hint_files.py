"""Files that help a pair: landmarks and regions beside its images, and what the sheet names."""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Self

from unglow.workflow.samples.naming import composed, take_apart

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

LANDMARKS = ("landmarks", "landmarks_post", "landmarks_pre")
"""Columns of landmarks: of both images, or of each."""
INITIAL = "initial_transform"
REGIONS = "regions"
_LANDMARKS_OF_IMAGE = re.compile(r"\.landmarks\.(?:csv|tsv|txt)$", re.IGNORECASE)
_REGIONS_OF_IMAGE = re.compile(r"\.regions\.geojson$", re.IGNORECASE)


class FilesBeside:
    """The files of a kind in a folder that are named like its images, in any letter case.

    Attributes
    ----------
    kind
        What they are, as a plural.
    unmatched
        Those that no image is named like.
    """

    def __init__(
        self, kind: str, ending: re.Pattern[str], entries: Iterable[Path], images: Iterable[Path]
    ) -> None:
        self.kind = kind
        self._of: dict[str, list[Path]] = {_stem(image): [] for image in images}
        self.unmatched: list[Path] = []
        for entry in entries:
            if ending.search(entry.name):
                stem = composed(ending.sub("", entry.name)).casefold()
                self._of.get(stem, self.unmatched).append(entry)

    @classmethod
    def landmarks(cls, entries: Iterable[Path], images: Iterable[Path]) -> Self:
        """Find ``<name of an image>.landmarks.csv``."""
        return cls("landmarks", _LANDMARKS_OF_IMAGE, entries, images)

    @classmethod
    def regions(cls, entries: Iterable[Path], images: Iterable[Path]) -> Self:
        """Find ``<name of an image>.regions.geojson``."""
        return cls("regions", _REGIONS_OF_IMAGE, entries, images)

    def of(self, *images: Path) -> tuple[Path, ...]:
        """Return the files of some images, one of each at most, in their order.

        Raises
        ------
        ValueError
            An image has several; the message is a sentence.
        """
        found: list[Path] = []
        for image in images:
            files = self._of[_stem(image)]
            if len(files) > 1:
                raise ValueError(
                    f"{image} has {len(files)} files of {self.kind} beside it "
                    f"({', '.join(f.name for f in files)}); keep one."
                )
            found += files
        return tuple(found)


def _stem(image: Path) -> str:
    suffix = take_apart(image.name, "").suffix
    return composed(image.name.removesuffix(suffix)).casefold()


def hint_files(cells: Mapping[str, str], base: Path) -> dict[str, Path]:
    """Return the files besides its images that a row names, by column."""
    columns = (c for c in (*LANDMARKS, INITIAL, REGIONS) if c in cells)
    return {column: base / Path(cells[column]).expanduser() for column in columns}


def hint_problem(cells: Mapping[str, str], files: Mapping[str, Path], sheet: Path) -> str | None:
    """Return what is wrong with such files, as the rest of a sentence after the line of a row."""
    both, post, pre = (column in cells for column in LANDMARKS)
    if both and (post or pre):
        return ": landmarks holds both images, so leave landmarks_post and landmarks_pre empty"
    if post != pre:
        empty = LANDMARKS[1 if pre else 2]
        return f", column '{empty}': the cell is empty, but both images need landmarks; name theirs"
    for column, file in files.items():
        problem = file_problem(file, sheet, cells[column], "file")
        if problem is not None:
            return f", column '{column}': {problem}"
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
