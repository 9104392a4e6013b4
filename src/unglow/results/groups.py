"""Groups of pairs, as the sample sheet has them, and pairs that read the same images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

AXES = ("date", "order")
"""Columns of the sample sheet that say where in a series a pair stands."""
_GROUPS = ("group", "treatment", "replicate")


def is_group(column: str) -> bool:
    """Return whether a column of the sample sheet says which pairs belong together."""
    return column in _GROUPS or column.startswith("group_")


def is_in_summary(column: str) -> bool:
    """Return whether a column of the sample sheet is handed on to the summary."""
    return is_group(column) or column in AXES


def note_repeated_images(rows: Iterable[dict[str, Any]]) -> None:
    """Add a note to the rows of pairs that read the same two images.

    ``images`` of a row is what was read, as a key; () where it is not known.
    """
    pairs: dict[object, dict[str, list[dict[str, Any]]]] = {}
    for row in rows:
        if row.get("images"):
            of_images = pairs.setdefault(row["images"], {})
            of_images.setdefault(f"{row['sample']} {row['dye']}", []).append(row)
    for same in pairs.values():
        first, *others = same
        for name, own in same.items() if others else ():
            other = others[0] if name == first else first
            for row in own:
                note = f"{other} has the same two images: they are not replicates."
                row["notes"] = " ".join(filter(None, [row.get("notes"), note]))
