"""Leftovers of attempts that were killed: hidden files and directories of results."""

from __future__ import annotations

import os
from pathlib import Path

from unglow.jobs.attempt_lock import discard

_ENDINGS = (".partial", ".old", ".bands", ".band.npz")  # the last two: of earlier versions


def leftovers(results: Path) -> list[Path]:
    """Return what was never published, or was set aside, sorted; whoever it belongs to."""
    paths: list[Path] = []
    for directory, directories, files in os.walk(results):
        hidden = (name for name in [*directories, *files] if name.startswith("."))
        paths += [Path(directory) / name for name in hidden if name.endswith(_ENDINGS)]
        directories[:] = [
            name for name in directories if not name.startswith(".") and not name.endswith(".zarr")
        ]
    return sorted(paths)


def size_mb(path: Path) -> float:
    """Return what a file, or everything in a directory, takes, MB; 0 for what is gone."""
    if not path.is_dir() or path.is_symlink():
        try:
            return path.lstat().st_size / 1e6
        except OSError:
            return 0.0
    return sum(size_mb(Path(inside) / name) for inside, _, names in os.walk(path) for name in names)


def remove(path: Path) -> bool:
    """Remove a leftover; return whether it is gone."""
    discard(path)
    return not os.path.lexists(path)
