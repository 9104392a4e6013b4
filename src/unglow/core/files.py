"""Writing small files whole: a file exists under its final name only when it is complete.

A process may set a guard that is asked just before a finished file, or store, gets that name.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import stat
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unglow.core.errors import UnglowError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


_guard: Callable[[], None] | None = None


def guard_publishing(guard: Callable[[], None] | None) -> None:
    """From here on, have this process ask before it publishes; None for asking no more.

    The guard raises `unglow.core.errors.SupersededError` if nothing may be published any more.
    """
    global _guard  # noqa: PLW0603 (a process is one job)
    _guard = guard


def ask_to_publish() -> None:
    """Ask whether what is finished may get its final name; call it last of all before renaming.

    Raises `SupersededError` if another attempt at the same job has begun meanwhile.
    """
    if _guard is not None:
        _guard()


def tail(path: Path, size: int) -> str:
    """Return the last ``size`` bytes of a text file, whatever they are; raises `OSError`."""
    with path.open("rb") as stream:
        stream.seek(max(0, stream.seek(0, os.SEEK_END) - size))
        return stream.read(size).decode("utf-8", "replace")


def open_regular(path: str | Path) -> int:
    """Return a descriptor of a file that is read; nothing that would be waited for is opened.

    Raises `OSError` also for a pipe or a device, which may have come into the place of a file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "it is not a regular file", str(path))


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary sibling to write to; it replaces ``path`` when the block ends well.

    The temporary has a unique hidden name, so that two writers never meet in it.

    Raises
    ------
    UnglowError
        The file could not be written: the disk is full or read-only, for example.
    SupersededError
        A later attempt at the same job has begun.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{secrets.token_urlsafe(6)}.partial")
        temporary.touch(exist_ok=False)  # with the permissions of any new file
        try:
            yield temporary
            with temporary.open("rb") as stream:
                os.fsync(stream.fileno())
            ask_to_publish()
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise UnglowError(
            f"{path} could not be written ({error.strerror or error}): {remedy(error, path)}, then "
            "run again."
        ) from error


def remedy(error: OSError, path: Path) -> str:
    """Return what helps if a file, or a store, could not be written: words for the middle."""
    if error.errno in (errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ENOTEMPTY):
        nearest = next((one for one in path.parents if os.path.lexists(one)), Path())
        obstacle = path if nearest.is_dir() else nearest
        return f"something else is in its place: move {obstacle} away"
    if error.errno == errno.ENOENT:
        return "its directory was moved or removed meanwhile: see that nothing does that"
    return "see that its file system has free space and may be written"


def write_text(path: Path, text: str) -> None:
    """Write a text file (UTF-8) in one step.

    Bytes of file names that are not UTF-8 are escaped, which in JSON reads back as what they were.
    """
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")


def write_json(path: Path, content: Any) -> None:
    """Write JSON in one step: keys in the given order, floats in full, NaN refused."""
    write_text(path, json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n")
