"""Results that a path leads to: those of a run, of one pair, or of one variant, whole or in part.

What was published may lack most files, so nothing is taken for granted but where a file would be.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from unglow.core import digests
from unglow.core.delimited import limit_lines
from unglow.core.errors import InputError
from unglow.core.files import open_text
from unglow.io.zarr.metadata import DOCUMENT

if TYPE_CHECKING:
    from pathlib import Path

STAGE_FILES = ("plan.json", "transform.json", "scale.json", "detection.json", "candidates.csv")
"""Files of which a directory of results has at least one, or else a list of digests."""
SLIDE = "slide.json"
"""The file that tells a slide from a pair."""
_STORE = ".ome.zarr"
_DEEPEST = 8
"""Levels that a variant is below a results directory, or fewer."""
_RECORDS = ("telemetry", "benchmarks", "logs")


@dataclass(frozen=True, eq=False)
class Entry:
    """Results of a pair, or of a variant of one.

    Attributes
    ----------
    directory
        The innermost directory that is its own.
    pair
        That of its pair, which is the same or above; what variants share is on the way there.
    """

    directory: Path
    pair: Path

    @cached_property
    def places(self) -> tuple[Path, ...]:
        """Directories that hold its files, the innermost first."""
        above = self.directory.relative_to(self.pair).parts
        return tuple(self.pair.joinpath(*above[:n]) for n in range(len(above), -1, -1))

    def find(self, name: str) -> Path | None:
        """Return the file of that name; None if there is none."""
        paths = (place / name for place in self.places)
        return next((path for path in paths if path.is_file()), None)

    def digest(self, name: str) -> str | None:
        """Return the SHA-256 of a small file, or that of its list where the file is not here."""
        path = self.find(name)
        return self._listed.get(name) if path is None else digests.hash_file(path)

    @property
    def is_slide(self) -> bool:
        """Whether it is a multiplexed slide."""
        return self.find(SLIDE) is not None

    def published(self, name: str) -> str | None:
        """Return the SHA-256 of a file as it was published; None if no list has it."""
        return self._listed.get(name)

    def differences(self) -> list[str]:
        """Return the roots of the difference images, ``difference/<method>.ome.zarr/zarr.json``."""
        paths = [p for place in self.places for p in place.glob(f"difference/*{_STORE}/{DOCUMENT}")]
        names = {"/".join(path.parts[-3:]) for path in paths}
        listed = {n for n in self._listed if n.startswith("difference/") and n.endswith(DOCUMENT)}
        return sorted(names | listed)

    def edited(self) -> list[str]:
        """Return the names of small files that are not as they were published."""
        return [
            name for name in STAGE_FILES
            if name in self._listed and self.digest(name) != self._listed[name]
        ]  # fmt: skip

    @cached_property
    def _listed(self) -> dict[str, str]:
        """SHA-256 by name, as lists of digests have them."""
        found: dict[str, str] = {}
        for place in reversed(self.places):
            for path in sorted(place.glob(f"{digests.FOLDER}/*{digests.SUFFIX}")):
                listed = digests.Listed.read(path).digests
                found |= {file.relative_to(place).as_posix(): sha for file, sha in listed.items()}
        return found


@dataclass(frozen=True, eq=False)
class Place:
    """What a path leads to.

    Attributes
    ----------
    given
        The path.
    results
        The results directory that it is or belongs to.
    entries
        By sample, dye and names of variants; below a pair by the names of variants alone.
    left_out
        Sample and dye of pairs that were refused before the start, with the reason.
    """

    given: Path
    results: Path
    entries: dict[tuple[str, ...], Entry]
    left_out: dict[tuple[str, ...], str]

    @property
    def is_part(self) -> bool:
        """Whether it is one pair or variant of a run."""
        return self.given not in (self.results, self.results.parent)


def open_place(given: Path) -> Place:
    """Find the results that a path leads to.

    Parameters
    ----------
    given
        A results directory, the working directory above it, or the directory of a pair, a
        variant or a slide.

    Raises
    ------
    InputError
        There are none.
    """
    if not given.is_dir():
        raise InputError(f"{given} is no directory; give results of a run, a pair or a variant.")
    own = given.absolute()
    if (own / SLIDE).is_file():
        return Place(given, own.parent, {(): Entry(own, own)}, {})
    pair = _pair_of(own)
    if pair is not None:
        place = given.absolute()
        results, entries = (
            pair.parent.parent,
            {leaf.relative_to(place).parts: Entry(leaf, pair) for leaf in _leaves(place)},
        )
    else:
        below = given / "results"
        results = below if below.is_dir() and not (given / "summary.tsv").is_file() else given
        entries = {
            leaf.relative_to(results).parts: Entry(leaf, one)
            for sample in _inside(results)
            if sample.name not in _RECORDS and not (sample / SLIDE).is_file()
            for one in _inside(sample)
            for leaf in _leaves(one)
        }
        slides = sorted(results.glob(f"*/{SLIDE}"))
        entries |= {(path.parent.name,): Entry(path.parent, path.parent) for path in slides}
    if not entries:
        raise InputError(f"{given} holds no results of pairs; give results of a run or of a pair.")
    there = {names[:2] for names in entries}
    return Place(given, results, entries, {} if pair else _left_out(results, there))


def _pair_of(directory: Path) -> Path | None:
    """Return the directory of the pair to which one belongs; None if it is that of a run."""
    for above in directory.parents[:_DEEPEST]:
        if (above / _RECORDS[0]).is_dir() or (above / "summary.tsv").is_file():
            names = directory.relative_to(above).parts
            return above.joinpath(*names[:2]) if len(names) > 1 else None
    if not _has_results(directory):
        return None
    while _has_results(directory.parent):
        directory = directory.parent
    return directory


def _has_results(directory: Path) -> bool:
    lists = (directory / digests.FOLDER).glob(f"*{digests.SUFFIX}")
    return any((directory / name).exists() for name in STAGE_FILES) or any(
        path.stem not in digests.OF_RUN for path in lists
    )


def _inside(directory: Path) -> list[Path]:
    """Return the directories in one that may hold results, numbers in their names by value."""
    inside = (p for p in directory.iterdir() if p.is_dir() and not p.name.startswith("."))
    return sorted((p for p in inside if p.suffix != ".zarr"), key=lambda p: _by_value(p.name))


def _by_value(name: str) -> list[tuple[float, str]]:
    parts = re.split(r"(\d+(?:\.\d+)?)", name)
    return [(float(p), "") if n % 2 else (-1.0, p) for n, p in enumerate(parts)]


def _leaves(directory: Path) -> list[Path]:
    """Return the directories of the variants below a directory, or itself if there are none."""
    inner = [leaf for below in _inside(directory) for leaf in _leaves(below)]
    own = (directory / "candidates.csv").is_file() or (not inner and _has_results(directory))
    return [directory, *inner] if own else inner


def _left_out(results: Path, there: set[tuple[str, ...]]) -> dict[tuple[str, ...], str]:
    """Return the pairs of the summary that have no results."""
    try:
        with open_text(results / "summary.tsv") as stream:
            rows = [*csv.DictReader(limit_lines(stream), delimiter="\t")]
    except (OSError, ValueError, csv.Error):
        return {}
    found = {(str(r.get("sample")), str(r.get("dye"))): str(r.get("reasons")) for r in rows}
    return {names: reason for names, reason in found.items() if names not in there}
