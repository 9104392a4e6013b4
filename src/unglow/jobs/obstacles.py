"""What stands in the way of files that are going to be written, known before any job is done."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from unglow.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

#: How many obstacles are told; the others are only counted.
_TOLD = 10


def obstacles(files: Iterable[Path]) -> list[str]:
    """Return a sentence for each place in which some of the files cannot be written.

    Parameters
    ----------
    files
        Files that are going to be written; their directories need not exist.
    """
    found: dict[str, None] = {}
    known: dict[Path, str | None] = {}
    for path in files:
        if _is_full_directory(path):
            found[f"{path} is a directory, but has to be a file: move it away."] = None
        if path.parent not in known:
            known[path.parent] = _obstacle(path.parent)
        sentence = known[path.parent]
        if sentence is not None:
            found[sentence] = None
    return list(found)


def in_words(sentences: list[str]) -> str:
    """Return what a run that is refused for obstacles says."""
    more = len(sentences) - _TOLD
    told = sentences[:_TOLD] + ([f"... and {more} more."] if more > 0 else [])
    return "\n".join(["files of this run cannot be written, so nothing was started:", *told])


def refuse_what_snakemake_stumbles_over() -> None:
    """Refuse to start Snakemake where it would end before it has read the workflow.

    Raises
    ------
    InputError
        Its cache cannot be written, or a program that it calls is not there.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    for sentence in obstacles([cache / "snakemake" / "source-cache" / "x"]):
        raise InputError(
            f"Snakemake keeps a cache in {cache}, but {sentence} Or set XDG_CACHE_HOME to a "
            "directory that may be written."
        )
    if shutil.which("which") is None and find_spec("snakemake_executor_plugin_slurm") is not None:
        raise InputError(
            "the program `which` is not found, and Snakemake's plugin for Slurm does not load "
            "without it: install it, or put its directory (/usr/bin) into PATH."
        )


def _is_full_directory(path: Path) -> bool:
    try:
        return path.is_dir() and any(path.iterdir())
    except OSError:  # told of its parents
        return False


def _obstacle(directory: Path) -> str | None:
    """Return why no file can be made in a directory, which may yet have to be made."""
    place = next(p for p in (directory, *directory.parents) if os.path.lexists(p))
    if not place.exists():
        return f"{place} is a link that leads nowhere: remove it, or make what it leads to."
    if not place.is_dir():
        return f"{place} is a file, but has to be a directory: move it away."
    if not os.access(place, os.W_OK | os.X_OK):
        name = "the working directory" if str(place) == "." else str(place)
        return f"{name} may not be written: mend its permissions, or work in another directory."
    return None
