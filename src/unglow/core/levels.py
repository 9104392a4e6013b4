"""Levels of results: sample and dye of a pair, and the variants of it that a sweep makes.

Each level that is swept has a directory for each variant, below that of the level before.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from unglow.core.files import resolve_links

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

PAIR = ("sample", "dye")
"""The levels that name a pair."""
DETAILS = "details"
"""Directory of what only programs read, in that of the results that it belongs to."""
RESULT_OF = {
    "ingestion": f"{DETAILS}/plan.json",
    "registration": "transform.json",
    "subtraction": "scale.json",
    "detection": f"{DETAILS}/detection.json",
}
"""Levels of variants, outermost first, each with a result that marks its directory."""
VARIANT = tuple(RESULT_OF)
LEVELS = (*PAIR, *VARIANT)
"""Names of all levels: wildcards of jobs, and keys of rows."""


def names_of(row: Mapping[str, object]) -> tuple[str, ...]:
    """Return the name of a row on each level; '' where it has none."""
    return tuple(str(row.get(level) or "") for level in LEVELS)


def name_of(row: Mapping[str, object]) -> str:
    """Return sample, dye and variant of a row, or of a job's wildcards, in words."""
    return " ".join(filter(None, names_of(row)))


def place_of(results: Path, row: Mapping[str, object], level: str = LEVELS[-1]) -> Path:
    """Return the directory of a row's results down to a level."""
    return results.joinpath(*filter(None, names_of(row)[: LEVELS.index(level) + 1]))


def nearest(directory: Path, name: str) -> Path | None:
    """Return a file of that name in a directory of results, or in those of the levels above it.

    None if there is none: it belongs to the variant there, or to what variants share.
    """
    for start in (directory.absolute(), resolve_links(directory)):
        for place in (start, *start.parents[: len(VARIANT)]):
            if os.path.isfile(place / name):
                return place / name
    return None


def variants_in(pair: Path) -> Iterator[tuple[Path, dict[str, str]]]:
    """Yield the directory of a pair and those of its variants, with the names that they have.

    Which level the name of a directory is of follows from the first result that is there. What has
    no result of its own yet is not found.
    """
    pending: list[tuple[Path, dict[str, str]]] = [(pair, {})]
    while pending:
        place, names = pending.pop(0)
        yield place, names
        left = VARIANT[VARIANT.index([*names][-1]) + 1 :] if names else VARIANT
        try:
            inner = sorted(path for path in place.iterdir() if path.suffix != ".zarr")
        except OSError:
            continue
        below = (
            (path, {**names, level: path.name})
            for path in inner
            for level in [one for one in left if os.path.isfile(path / RESULT_OF[one])][:1]
        )
        pending[:0] = below
