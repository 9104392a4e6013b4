"""Records of all markers of a slide in one file, by their number among its markers."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from unglow.core.archive import load_arrays, of_name, save_arrays

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from unglow.photometry.saved import Saved

    Record = TypeVar("Record", bound=Saved)


def save_records(path: Path, records: Sequence[Saved | None]) -> None:
    """Write an ``.npz`` of a record for each marker; of those that have none, nothing."""
    sets = {f"m{n}": one.content() for n, one in enumerate(records) if one is not None}
    save_arrays(path, {}, sets)


def load_records(path: Path, kind: type[Record], count: int) -> list[Record | None]:
    """Read what `save_records` wrote for so many markers; StoreError if it is damaged."""
    arrays = load_arrays(path)
    each = (of_name(arrays, f"m{n}") for n in range(count))
    return [kind.read(own, path) if own else None for own in each]
