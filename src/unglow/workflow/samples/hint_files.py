"""Files that help a pair: landmarks and regions next to its images, and what the sheet names."""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from unglow.workflow.samples.naming import composed, take_apart
from unglow.workflow.samples.pair import Pair, Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Key = tuple[str, str]


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
        self._of: dict[Key, list[Path]] = {_key(image): [] for image in images}
        self.unmatched: list[Path] = []
        for entry in entries:
            if ending.search(entry.name):
                stem = composed(ending.sub("", entry.name)).casefold()
                self._of.get((str(entry.parent), stem), self.unmatched).append(entry)

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
            files = self._of[_key(image)]
            if len(files) > 1:
                raise ValueError(
                    f"{image} has {len(files)} files of {self.kind} next to it "
                    f"({', '.join(f.name for f in files)}); keep one."
                )
            found += files
        return tuple(found)


def _key(image: Path) -> Key:
    suffix = take_apart(image.name, "").suffix
    return str(image.parent), composed(image.name.removesuffix(suffix)).casefold()


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
        return f"{cell} is a link to {file.readlink()}, which does not exist; fix the link"
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


def map_sources(
    pairs: Mapping[Key, Pair], shapes: Mapping[Key, Any], dye: str | None
) -> tuple[dict[Key, str], list[Problem]]:
    """Return the dye whose map a pair takes, of each that does, and a problem of each that cannot.

    Pairs that share a map have equal ``shapes`` of images. ``dye`` is the one whose map pairs take
    that do not say so themselves; None for their own.
    """
    sources: dict[Key, str] = {}
    problems = []
    for key, pair in pairs.items():
        source = _wanted(pair, dye)
        if source is None:
            continue
        why = _problem(pair, source, pairs, shapes, dye)
        if why is None:
            sources[key] = source
        else:
            sentence = f"Sample {pair.sample}, dye {pair.dye} {why}."
            problems.append(Problem(sentence, "source", *key, (pair.pre, pair.post)))
    return sources, problems


def _wanted(pair: Pair, dye: str | None) -> str | None:
    """Return the other dye whose map a pair is to take; None if it registers itself."""
    if pair.slide is not None:  # it takes that of its cycles
        return None
    named = dye if pair.register_from is None else pair.register_from
    return None if named == pair.dye else named


def _problem(
    pair: Pair, source: str, pairs: Mapping[Key, Pair], shapes: Mapping[Key, Any], dye: str | None
) -> str | None:
    """Return why a pair cannot take the map of a dye, as the rest of a sentence."""
    itself = f"let it register itself with register_from {pair.dye} in the sample sheet"
    if pair.initial_transform is not None:
        return (
            f"is to take the map of {source} and has an initial transform as well; remove the "
            f"latter, or {itself}"
        )
    other = pairs.get((pair.sample, source))
    if other is None:
        dyes = ", ".join(d for s, d in pairs if s == pair.sample and d != pair.dye) or "none"
        return (
            f"is to take the map of {source}, which this sample has not, or not in usable images "
            f"(other dyes: {dyes}); add the images of {source}, or {itself}"
        )
    further = _wanted(other, dye)
    if further is not None:
        return (
            f"is to take the map of {source}, which takes that of {further} instead of registering "
            f"itself; name a dye that does, or {itself}"
        )
    if shapes[pair.key] != shapes[other.key]:
        return (
            f"is to take the map of {source}, whose images have other sizes, so that they do not "
            f"show the same frame; {itself}"
        )
    return None
