"""Obstacles to the files of a run, found before any job is done."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from typing import TYPE_CHECKING

from unglow.core.errors import InputError
from unglow.core.machine import cache_directory

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

# So many obstacles are listed, which a terminal shows at once; the others are only counted.
_LISTED = 10


def obstacles(files: Iterable[Path]) -> list[str]:
    """Return a sentence for each path because of which some of the files cannot be written.

    Parameters
    ----------
    files
        Files that are going to be written; their directories need not exist.
    """
    sentences: dict[str, None] = {}  # each once, in their order
    of_directories: dict[Path, str | None] = {}
    for path in files:
        if _is_full_directory(path):
            sentences[f"{path} is a directory, but has to be a file: move it away."] = None
        if path.parent not in of_directories:
            of_directories[path.parent] = _obstacle(path.parent)
        sentence = of_directories[path.parent]
        if sentence is not None:
            sentences[sentence] = None
    return list(sentences)


def message_of(sentences: list[str]) -> str:
    """Return the message of a run that is refused for obstacles."""
    more = len(sentences) - _LISTED
    listed = sentences[:_LISTED] + ([f"... and {more} more."] if more > 0 else [])
    return "\n".join(["files of this run cannot be written, so nothing was started:", *listed])


def refuse_what_snakemake_stumbles_over() -> None:
    """Refuse to start Snakemake where it would end before it has read the workflow.

    Raises
    ------
    InputError
        Its cache cannot be written, or a program that it calls is not there.
    """
    cache = cache_directory()
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
    except OSError:  # which is an obstacle of its parents
        return False


def _obstacle(directory: Path) -> str | None:
    """Return why no file can be made in a directory, which may yet have to be made."""
    path = next(p for p in (directory, *directory.parents) if os.path.lexists(p))
    if not path.exists():
        return f"{path} is a link that leads nowhere: remove it, or make what it leads to."
    if not path.is_dir():
        return f"{path} is a file, but has to be a directory: move it away."
    if not os.access(path, os.W_OK | os.X_OK):
        name = "the working directory" if str(path) == "." else str(path)
        return f"{name} may not be written: fix its permissions, or work in another directory."
    return None
