"""Files of a written store, as they are on disk; what is missing or damaged is an error.

A reader of Zarr takes a file that is not found for a chunk of fill values. So a file that has to be
there and is not is never told as "not found".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unglow.core.errors import StoreError
from unglow.io.zarr.metadata import DOCUMENT, broken, check_level, shard_key
from unglow.reporting.html.live_answers import ASK_AGAIN, BYTES, JSON, Answer, FileBody
from unglow.viewer.faults import NoAddressError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unglow.io.zarr import Store, StoreLayout

_HEADERS = {"Cache-Control": ASK_AGAIN}


def file_of(store: Store, parts: Sequence[str]) -> Answer:
    """Return a file of a store.

    Parameters
    ----------
    store
        An opened store.
    parts
        Of the key: ``zarr.json``, or level and ``zarr.json``, or level, ``c``, row and column.

    Raises
    ------
    NoAddressError
        The store has no such key.
    StoreError
        A file that has to be there is missing, empty or cannot be read, or the document of a level
        does not fit the store.
    """
    level = level_of(parts, store.levels)
    if level is None:
        return _sent(store, DOCUMENT, "file", JSON)
    if parts[1:] == (DOCUMENT,):
        check_level(store.path, store.layout, level)
        return _sent(store, f"{level}/{DOCUMENT}", "file", JSON)
    row, col = place_of(parts, store.layout, level, store.layout.level_shards(level))
    if store.empty is not None:
        raise StoreError(f"{store.path} holds no pixels: {store.empty}")
    return _sent(store, shard_key(level, row, col), "shard", BYTES)


def level_of(parts: Sequence[str], levels: int) -> int | None:
    """Return the level of a key, None for the root's document; NoAddressError if none."""
    if tuple(parts) == (DOCUMENT,):
        return None
    level = _number(parts[0]) if len(parts) > 1 else levels
    if level >= levels:
        raise NoAddressError("/".join(parts))
    return level


def place_of(
    parts: Sequence[str], layout: StoreLayout, level: int, files: tuple[int, int]
) -> tuple[int, int]:
    """Return (row, column) of a file of so many px of a level; NoAddressError if none."""
    if len(parts) != 4 or parts[1] != "c":
        raise NoAddressError("/".join(parts))
    place = _number(parts[2]), _number(parts[3])
    sides = zip(place, files, layout.level_shape(level), strict=True)
    if any(n * side >= size for n, side, size in sides):
        raise NoAddressError("/".join(parts))
    return place


def _number(text: str) -> int:
    """Return a number as Zarr writes them; NoAddressError for anything else."""
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and str(int(text)) == text):
        raise NoAddressError(text)
    return int(text)


def _sent(store: Store, key: str, word: str, kind: str) -> Answer:
    try:
        body = FileBody(store.path / key)
    except FileNotFoundError as error:
        raise StoreError(broken(store.path, key, "is missing", word)) from error
    except OSError as error:
        reason = f"cannot be read ({error.strerror})"
        raise StoreError(broken(store.path, key, reason, word)) from error
    if not body.size:
        body.file.close()
        raise StoreError(broken(store.path, key, "is empty", word))
    return Answer(kind, body, tag=body.tag, headers=_HEADERS)
