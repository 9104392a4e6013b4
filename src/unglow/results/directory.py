"""Results that a path leads to: those of a run, of one pair, of one variant, or of a slide."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from unglow.core import digests
from unglow.core.errors import InputError, StoreError
from unglow.core.levels import DETAILS
from unglow.results import RECORDS, SKIPPED, read_summary
from unglow.results.pair import SLIDE, STAGE_FILES, PairResults
from unglow.results.slide import SlideResults

if TYPE_CHECKING:
    from collections.abc import Iterator

    from unglow.results.runs import Run

_DEEPEST = 8
"""Levels that a variant is below a results directory, or fewer."""
_TABLE = "summary.tsv"


@dataclass(frozen=True, eq=False)
class Results:
    """Results of a run, or of a part of one; made by `open_results`.

    Attributes
    ----------
    given
        The path that leads to them.
    directory
        The results directory that it is or belongs to.
    entries
        Pairs and slides by sample, dye and names of variants; below a pair by the names of
        variants alone.
    left_out
        Sample and dye of pairs that were skipped, with the reason.
    """

    given: Path
    directory: Path
    entries: dict[tuple[str, ...], PairResults]
    left_out: dict[tuple[str, ...], str]

    @property
    def is_part(self) -> bool:
        """Whether it is one pair or variant of a run."""
        return self.given.absolute() not in (self.directory, self.directory.parent)

    @cached_property
    def pairs(self) -> dict[tuple[str, ...], PairResults]:
        """Pairs by sample and dye, variants of sweeps by their names as well; skipped ones last."""
        found = {entry.names: entry for entry in self.entries.values() if not entry.is_slide}
        for names, reason in self.left_out.items():
            place = self.directory.joinpath(*names)
            found[names] = PairResults(place, place, reason)
        return found

    @cached_property
    def slides(self) -> dict[str, SlideResults]:
        """Multiplexed slides by name; UnglowError, which names the damaged file."""
        slides = (entry.directory for entry in self.entries.values() if entry.is_slide)
        return {place.name: SlideResults.read(place) for place in slides}

    @property
    def runs(self) -> list[Run]:
        """The recorded runs, the oldest first (`unglow.open_run`); InputError if there is none."""
        from unglow.results.runs import find_runs  # few ask for them

        return find_runs(self.directory)

    def summary(self) -> list[dict[str, str]]:
        """Return the rows of summary.tsv, every value as text; InputError if there is none."""
        table = self.directory / _TABLE
        if not table.is_file():
            raise InputError(f"there is no {table} yet: the end of a run writes it.")
        return read_summary(table)

    def __getitem__(self, names: tuple[str, ...] | str) -> PairResults:
        """Return the pair of a sample and a dye, and in a sweep of a variant; also "sample/dye"."""
        if names not in self:
            there = ", ".join(map("/".join, self.pairs)) or "none"
            shown = "/".join(map(str, names)) if isinstance(names, tuple) else names
            raise InputError(f"{self.given} has no pair {shown}; there are: {there}.")
        return self.pairs[_split_names(names)]

    def __contains__(self, names: object) -> bool:
        return isinstance(names, tuple | str) and _split_names(names) in self.pairs

    def __iter__(self) -> Iterator[PairResults]:
        return iter(self.pairs.values())

    def __len__(self) -> int:
        return len(self.pairs)

    def __repr__(self) -> str:
        states = Counter(pair.state for pair in self)
        counts = ", ".join(f"{n} {state}" for state, n in states.items())
        return f"<Results of {self.given}: {counts or 'no pairs'}>"


def _split_names(names: tuple[str, ...] | str) -> tuple[str, ...]:
    return tuple(names.split("/")) if isinstance(names, str) else names


def open_results(path: Path | str) -> Results:
    """Open results; files are read when they are asked for.

    Parameters
    ----------
    path
        A results directory, the working directory above it, or the directory of a pair, a
        variant or a slide.

    Raises
    ------
    InputError
        There are none.
    """
    given = Path(path)
    if not given.is_dir():
        raise InputError(f"{given} is not a directory; give results of a run, a pair or a variant.")
    own = given.absolute()  # whoever reads may be elsewhere then
    if (own / SLIDE).is_file():
        return Results(given, own.parent, {(): PairResults(own, own)}, {})
    pair = _pair_of(own)
    if pair is not None:
        results = pair.parent.parent
        entries = {
            leaf.relative_to(own).parts: PairResults(leaf, pair) for leaf in _find_leaves(own)
        }
    else:
        # the configuration may call it otherwise
        tables = [own / "results" / _TABLE, *sorted(own.glob(f"[!.]*/{_TABLE}"))]
        below = next((path.parent for path in tables if path.is_file()), own / "results")
        results = below if below.is_dir() and not (own / _TABLE).is_file() else own
        entries = {
            leaf.relative_to(results).parts: PairResults(leaf, one)
            for sample in _list_directories(results)
            if sample.name not in RECORDS and not (sample / SLIDE).is_file()
            for one in _list_directories(sample)
            for leaf in _find_leaves(one)
        }
        slides = sorted(results.glob(f"*/{SLIDE}"))
        entries |= {(p.parent.name,): PairResults(p.parent, p.parent) for p in slides}
    if not entries:
        raise InputError(f"{given} holds no results of pairs; give results of a run or of a pair.")
    there = {names[:2] for names in entries}
    return Results(given, results, entries, {} if pair else _read_skipped(results, there))


def _pair_of(directory: Path) -> Path | None:
    """Return the directory of the pair to which one belongs; None if it is that of a run."""
    for above in directory.parents[:_DEEPEST]:
        if (above / RECORDS[0]).is_dir() or (above / _TABLE).is_file():
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


def _list_directories(directory: Path) -> list[Path]:
    """Return the directories in one that may hold results, numbers in their names by value."""
    inside = (p for p in directory.iterdir() if p.is_dir() and not p.name.startswith("."))
    return sorted(
        (p for p in inside if p.suffix != ".zarr" and p.name != DETAILS),
        key=lambda p: _split_numbers(p.name),
    )


def _split_numbers(name: str) -> list[tuple[float, str]]:
    parts = re.split(r"(\d+(?:\.\d+)?)", name)
    return [(float(p), "") if n % 2 else (-1.0, p) for n, p in enumerate(parts)]


def _find_leaves(directory: Path) -> list[Path]:
    """Return the directories of the variants below a directory, or itself if there are none."""
    inner = [leaf for below in _list_directories(directory) for leaf in _find_leaves(below)]
    own = (directory / "candidates.csv").is_file() or (not inner and _has_results(directory))
    return [directory, *inner] if own else inner


def _read_skipped(results: Path, there: set[tuple[str, ...]]) -> dict[tuple[str, ...], str]:
    """Return the pairs that were refused and have no results of earlier runs."""
    with suppress(OSError, StoreError):
        rows = [r for r in read_summary(results / _TABLE) if r.get("status") in ("failed", SKIPPED)]
        found = {(str(r.get("sample")), str(r.get("dye"))): str(r.get("reasons")) for r in rows}
        # markers are results of their slide
        return {k: reason for k, reason in found.items() if there.isdisjoint((k, k[:1]))}
    return {}
