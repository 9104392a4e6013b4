"""Damage to a file of a folder: its bytes, what it holds, or what is in its place."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any

import yaml

from fuzz.mutations import (
    BYTES,
    EDITS,
    UNTOUCHED,
    edit_archive,
    edit_json,
    edit_table,
    pick,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import numpy as np

IN_ITS_PLACE, GROWN = "in its place", "grown"
DAMAGES = (*BYTES, *EDITS, IN_ITS_PLACE, GROWN)
_TABLES = (".csv", ".tsv", ".sha256", ".txt")
_DOCUMENTS = (".json", ".geojson", ".zattrs", ".zarray", ".zgroup")
# Bytes of a file that a disk or a program has let grow; they take no space.
_GROWN = 400_000_000


def damage_file(path: Path, damage: str, rng: np.random.Generator) -> None:
    """Damage a file in one of the ways of `DAMAGES`; other names of it keep what it was."""
    data = path.read_bytes()
    if damage == UNTOUCHED:
        return
    path.unlink()
    if damage == IN_ITS_PLACE:
        _replace(path, rng)
        return
    path.write_bytes(_damaged(path, data, damage, rng) if damage != GROWN else data)
    if damage == GROWN:
        os.truncate(path, _GROWN)


def copy_linked(source: Path, target: Path) -> None:
    """Copy a folder, whose files get a second name each."""
    shutil.copytree(source, target, copy_function=os.link, symlinks=True)


def _damaged(path: Path, data: bytes, damage: str, rng: np.random.Generator) -> bytes:
    if damage in BYTES:
        return bytes(BYTES[damage](bytearray(data.ljust(16)), rng))
    if path.suffix in _DOCUMENTS or path.name in _DOCUMENTS:
        return edit_json(data, damage, rng)
    if path.suffix == ".yaml":
        return _edited_yaml(data, damage, rng)
    if path.suffix == ".npz":
        return edit_archive(data, damage, rng)
    if path.suffix in _TABLES:
        return edit_table(data, damage, rng)
    return _swapped(path, data, rng)


def _swapped(path: Path, data: bytes, rng: np.random.Generator) -> bytes:
    """Return the bytes of another file of the same kind; of the only one, a part of it."""
    others = [p for p in sorted(path.parent.iterdir()) if p.is_file() and p.suffix == path.suffix]
    if others and rng.random() < 0.5:
        return pick(rng, others).read_bytes()
    half = len(data) // 2
    return pick(rng, (data[half:] + data[:half], data + data, b"", data[:half] * 2))  # type: ignore[no-any-return]


def _edited_yaml(data: bytes, damage: str, rng: np.random.Generator) -> bytes:
    content: Any = EDITS[damage](yaml.safe_load(data), rng)
    try:
        return yaml.safe_dump(content, sort_keys=False).encode("utf-8", "backslashreplace")
    except RecursionError:  # JSON is YAML too, and may be nested more deeply
        return json.dumps(content).encode()


def _replace(path: Path, rng: np.random.Generator) -> None:
    """Put something else, or nothing, into the place of a file."""
    ways: tuple[Callable[[], Any], ...] = (
        lambda: None,
        path.mkdir,
        lambda: os.mkfifo(path),
        lambda: path.symlink_to(path.name),
        lambda: path.symlink_to("nowhere"),
        lambda: path.symlink_to("/dev/zero"),
        lambda: path.symlink_to("/dev/null"),
        lambda: path.symlink_to("."),
        path.touch,
    )
    pick(rng, ways)()
