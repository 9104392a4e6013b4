"""The pairs of a results directory, with the names that addresses give them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from unglow.core.levels import PAIR, name_of, names_of, place_of
from unglow.results.pair import PairResults

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

# What a browser leaves as it is when it encodes a part of an address, but for "~".
_PLAIN = "!'()*"


@dataclass(frozen=True, eq=False)
class Pair:
    """A pair, or a variant of one.

    Attributes
    ----------
    results
        The results directory.
    row
        As in the summary.
    """

    results: Path
    row: Mapping[str, Any]

    @property
    def names(self) -> tuple[str, ...]:
        """Sample, dye and names of the variant."""
        return tuple(filter(None, names_of(self.row)))

    @property
    def id(self) -> str:
        """Its name in addresses: `names`, each encoded as a part of one, with ~ between them."""
        return "~".join(_encoded(name) for name in self.names)

    @property
    def title(self) -> str:
        """Its name for people."""
        return name_of(self.row)

    @property
    def results_of_pair(self) -> PairResults:
        """Its results, each read when it is asked for."""
        return PairResults(self.directory, self.section)

    @property
    def section(self) -> Path:
        """Directory of what concerns the section, which all variants share."""
        return place_of(self.results, self.row, PAIR[-1])

    @property
    def images(self) -> Path:
        """Directory of the stores of post and pre."""
        return place_of(self.results, self.row, "ingestion")

    @property
    def registered(self) -> Path:
        """Directory of its registration."""
        return place_of(self.results, self.row, "registration")

    @property
    def subtracted(self) -> Path:
        """Directory of its gains and differences."""
        return place_of(self.results, self.row, "subtraction")

    @property
    def directory(self) -> Path:
        """Directory of its candidates."""
        return place_of(self.results, self.row)


def pairs_of(results: Path, rows: Iterable[Mapping[str, Any]]) -> dict[str, Pair]:
    """Return the pairs of the rows of a summary by their ids, in the order of the rows.

    Rows without both names (files that were left out) have no results, and markers of slides no
    stores; a name that would lead out of the results directory is none of unglow's.
    """
    named = (row for row in rows if row.get("sample") and row.get("dye"))
    pairs = [Pair(results, row) for row in named if not row.get("background_channel")]
    return {pair.id: pair for pair in pairs if all(map(_is_plain, pair.names))}


def _encoded(name: str) -> str:
    return quote(name, safe=_PLAIN, errors="surrogateescape").replace("~", "%7E")


def _is_plain(name: str) -> bool:
    return name not in (".", "..") and "/" not in name and "\0" not in name
