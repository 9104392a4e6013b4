"""Locks: Snakemake's own, which a killed one leaves behind, and that of `unglow resume`."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from unglow.core.errors import InputError

_LOCKS = Path(".snakemake/locks")
_OWN = Path(".snakemake/unglow/resume.lock")


def hold(directory: Path) -> int:
    """Keep every other `unglow resume` out of a directory; returns the descriptor that does.

    Programs that this process turns into keep it, so it holds until Snakemake ends. Raises
    `InputError` if another one holds it.
    """
    path = directory / _OWN
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise InputError(
            f"another `unglow resume`, or the Snakemake that it has started, is at work in "
            f"{directory}; wait for it, or end it first."
        ) from error
    os.set_inheritable(descriptor, True)  # noqa: FBT003 (its only form)
    return descriptor


def left_behind(directory: Path) -> list[Path]:
    """Return the files by which Snakemake keeps others out of a directory."""
    return sorted((directory / _LOCKS).glob("*.lock"))


def remove(files: list[Path]) -> None:
    """Unlock, as ``snakemake --unlock`` does; locks that have come since stay."""
    for path in files:
        path.unlink(missing_ok=True)
