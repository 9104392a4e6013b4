"""Small files: opened, checked, written completely, and locked.

Before anything computes with them, contents from outside are checked (JSON: `core.records`);
tables that people write have text of any common coding, comments, separators and quotation marks.

A file exists under its final name only when it is complete. A process may set a guard that is asked
just before a finished file, or store, gets that name.

The lock around a file that several programs read, change and write is the kernel's (`flock`) on a
hidden file next to it, so it ends with the process that holds it, however that ends. The hidden
file stays: to remove it would let two in. On network disks: NFS (Linux 2.6.12 and newer), SMB,
Lustre mounted with ``flock`` and GPFS keep it between machines; Lustre with ``localflock`` and NFS
with ``local_lock`` only within one. Where a file system has no locks at all, what holds is a lock
within this process, and writers in others may lose a change.
"""

from __future__ import annotations

import csv
import errno
import fcntl
import io
import json
import os
import secrets
import stat
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO
from weakref import WeakValueDictionary

from unglow.core.errors import InputError, UnglowError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


MOST_BYTES = 100_000_000
"""Size limit, bytes, of files that are read at once (tables, JSON, lists)."""

_guard: Callable[[], None] | None = None


def guard_publishing(guard: Callable[[], None] | None) -> None:
    """From here on, have this process ask before it publishes; None for asking no more.

    The guard raises `unglow.core.errors.SupersededError` if nothing may be published any more.
    """
    global _guard  # noqa: PLW0603 (a process is one job)
    _guard = guard


def ask_to_publish() -> None:
    """Ask whether what is finished may get its final name; call it last of all before renaming.

    Raises `SupersededError` if another attempt at the same job has started meanwhile.
    """
    if _guard is not None:
        _guard()


def resolve_links(path: Path) -> Path:
    """Return an absolute path without links; of links in a circle as far as they can be followed.

    (`Path.resolve` raises for a circle.)
    """
    return Path(os.path.realpath(path))


def tail(path: Path, size: int) -> str:
    """Return the last ``size`` bytes of a text file, whatever they are; raises `OSError`."""
    with open_file(path) as stream:
        stream.seek(max(0, stream.seek(0, os.SEEK_END) - size))
        return stream.read(size).decode("utf-8", "replace")


def open_regular(path: str | Path) -> int:
    """Return a descriptor of a file that is read; nothing that would be waited for is opened.

    Raises `OSError` also for a pipe or a device, which may have come into the place of a file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(errno.EINVAL, "it is not a regular file", str(path))


def open_file(path: str | Path) -> io.BufferedReader:
    """Open a file for reading bytes, as `open_regular` does; use it in a ``with`` statement."""
    return os.fdopen(open_regular(path), "rb")


def open_text(
    path: str | Path, encoding: str = "utf-8", *, errors: str | None = None
) -> io.TextIOWrapper:
    """Open a file for reading text, ends of lines as they are (for `csv`), as `open_file` does."""
    return io.TextIOWrapper(open_file(path), encoding, errors, newline="")


def read_file(path: str | Path, most_bytes: int = MOST_BYTES) -> bytes:
    """Return the content of a small file, as it is now: what is appended meanwhile is not read.

    Raises
    ------
    OSError
        It cannot be read, is a pipe or a device, or has more than ``most_bytes``.
    """
    with open_file(path) as stream:
        size = os.fstat(stream.fileno()).st_size
        if size > most_bytes:
            raise OSError(errno.EFBIG, f"it has more than {most_bytes / 1e6:g} MB", str(path))
        return stream.read(size)


def read_json(path: str | Path) -> Any:
    """Return the content of a JSON file; raises `OSError` as `read_file`, and `ValueError`."""
    try:
        return json.loads(read_file(path).decode("utf-8"))
    except RecursionError as error:
        raise ValueError("its JSON is nested too deeply") from error


_LONGEST_LINE = 1_000_000
"""Characters; rows of tables of results have some hundred."""
_MOST_DIGITS = 18
"""Of a whole number that is read."""


def read_text(path: Path, *, what: str, remedy: str) -> str:
    """Return the text of a table, in UTF-8, or in UTF-16 as Excel writes it.

    Raises
    ------
    InputError
        The file cannot be read; the sentence says ``what`` it is and ends in ``remedy``.
    """
    try:
        data = read_file(path)
    except OSError as error:
        raise InputError(f"{what} {path} cannot be read ({error.strerror}); {remedy}.") from error
    coding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        return data.decode(coding)
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise InputError(
            f"{path}, line {line}: this is not UTF-8 text; save the sheet as UTF-8 "
            "(in Excel: 'CSV UTF-8')."
        ) from error


def parse_whole(text: str) -> int | None:
    """Return a whole number of at most 18 digits; None for any other text.

    Python refuses to convert more than 4300 digits.
    """
    is_whole = text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS
    return int(text) if is_whole else None


def number_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield lines that are neither blank nor comments, with their numbers from 1."""
    for number, line in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1):
        if line.strip() and not line.lstrip().lstrip('"').startswith("#"):
            yield number, line


def split(path: Path, line: int, text: str, separator: str) -> list[str]:
    """Return the cells of a line; raises `InputError` where quotation marks do not match."""
    try:
        return next(csv.reader([text], delimiter=separator, strict=True))
    except csv.Error as error:
        raise InputError(
            f"{path}, line {line}: the quotation marks do not match; close or remove them."
        ) from error


def limit_lines(stream: TextIO) -> Iterator[str]:
    """Yield the lines of a table for `csv.reader`; raises `csv.Error` for one of a million or more.

    So a file without lines, as a damaged disk leaves it, is not read completely.
    """
    while line := stream.readline(_LONGEST_LINE):
        if len(line) == _LONGEST_LINE:
            raise csv.Error("a line is too long")
        yield line


@contextmanager
def replace_file(path: Path) -> Iterator[Path]:
    """Give a temporary sibling to write to; it replaces ``path`` when the block ends well.

    The temporary has a unique hidden name, so that two writers never meet in it.

    Raises
    ------
    UnglowError
        The file could not be written: the disk is full or read-only, for example.
    SupersededError
        A later attempt at the same job has started.
    """
    with name_unwritten(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{secrets.token_urlsafe(6)}.partial")
        temporary.touch(exist_ok=False)  # with the permissions of any new file
        try:
            yield temporary
            publish(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


def publish(root: Path, path: Path, old: Path | None = None) -> None:
    """Give a finished file or directory its name, once all of it is on disk.

    What had the name is replaced by a file, or is called ``old`` then, for the caller to remove.

    Raises
    ------
    OSError
        The file system refuses, and then nothing has changed.
    SupersededError
        A later attempt at the same job has started.
    """
    if root.is_dir():
        for folder, _, names in os.walk(root, topdown=False):
            for name in names:
                _sync(Path(folder, name))
            _sync(Path(folder))
    else:
        _sync(root)
    ask_to_publish()
    aside = old if os.path.lexists(path) else None
    if aside is not None:
        path.rename(aside)
    try:
        root.replace(path)
    except OSError:
        if aside is not None:
            aside.rename(path)
        raise
    _sync(path.parent)


_NO_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EACCES)


def _sync(path: Path) -> None:
    """Wait until a file, or the names in a directory, are on disk."""
    is_dir = path.is_dir()
    try:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        # some file systems have no such thing for directories, or it may not be read
        if not is_dir or error.errno not in _NO_SYNC:
            raise


@contextmanager
def name_unwritten(path: Path, kind: type[UnglowError] = UnglowError) -> Iterator[None]:
    """Raise an error that names ``path``, and what helps, for what the file system refuses."""
    try:
        yield
    except OSError as error:
        raise kind(
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
    with replace_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")


def write_changed_text(path: Path, text: str) -> None:
    """Write a text file as `write_text` does; one that would not change keeps its time."""
    if not path.is_file() or read_file(path) != text.encode(errors="backslashreplace"):
        write_text(path, text)


def write_json(path: Path, content: Any) -> None:
    """Write JSON in one step: keys in the given order, floats in full, NaN refused."""
    write_text(path, json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n")


_PATIENCE_S, _STEP_S = 20.0, 0.02
_NO_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.EBADF)
# of the threads of this process, by path, while one holds it or waits for it
_thread_locks: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()
_finding = threading.Lock()


def lock_of(path: Path) -> Path:
    """Return the hidden file that represents the lock of ``path``."""
    return path.with_name(f".{path.name}.lock")


@contextmanager
def lock_file(path: Path, patience_s: float = _PATIENCE_S) -> Iterator[None]:
    """Keep every other thread and process that asks out of ``path`` until the block ends.

    Raises
    ------
    UnglowError
        The directory cannot be written, or another one holds the lock for ``patience_s``.
    """
    with _finding:
        lock = _thread_locks.setdefault(str(path.absolute()), threading.Lock())
    if not lock.acquire(timeout=patience_s):
        raise _busy(path)
    try:
        descriptor = _open_lock(path)
        try:
            _wait(descriptor, path, time.monotonic() + patience_s)
            yield
        finally:
            os.close(descriptor)
    finally:
        lock.release()


def _open_lock(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # to lock it for writing NFS wants it open for writing
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            return os.open(lock_of(path), flags, 0o666)
        except PermissionError:  # made by another user of a shared directory
            return os.open(lock_of(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise UnglowError(
            f"{path} cannot be changed ({error.strerror}): {remedy(error, path)}, then try again."
        ) from error


def _wait(descriptor: int, path: Path, until: float) -> None:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() > until:
                raise _busy(path) from error
            time.sleep(_STEP_S)
        except OSError as error:
            if error.errno in _NO_LOCKS:
                return
            raise
        else:
            return


def _busy(path: Path) -> UnglowError:
    return UnglowError(
        f"{path} is being changed by another program, which has not finished: end it, or try again."
    )
