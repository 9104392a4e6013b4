"""A lock around a file that several programs read, change and write.

It is the kernel's (`flock`) on a hidden file beside it, so it ends with the process that holds it,
however that ends. The hidden file stays: to remove it would let two in. On network disks: NFS
(Linux 2.6.12 and newer), SMB, Lustre mounted with ``flock`` and GPFS keep it between machines;
Lustre with ``localflock`` and NFS with ``local_lock`` only within one. Where a file system has no
locks at all, what holds is a lock within this process, and writers in others may lose a change.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
import time
from collections import defaultdict
from contextlib import contextmanager
from typing import TYPE_CHECKING

from unglow.core.errors import UnglowError
from unglow.core.files import remedy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PATIENCE_S, _STEP_S = 20.0, 0.02
_NO_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.EBADF)
_within: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)


def lock_of(path: Path) -> Path:
    """Return the hidden file that stands for the lock of ``path``."""
    return path.with_name(f".{path.name}.lock")


@contextmanager
def locked(path: Path, patience_s: float = _PATIENCE_S) -> Iterator[None]:
    """Keep every other thread and process that asks out of ``path`` until the block ends.

    Raises
    ------
    UnglowError
        The directory cannot be written, or another one holds the lock for so many seconds.
    """
    if not _within[str(path.absolute())].acquire(timeout=patience_s):
        raise _busy(path)
    try:
        descriptor = _opened(path)
        try:
            _wait(descriptor, path, time.monotonic() + patience_s)
            yield
        finally:
            os.close(descriptor)
    finally:
        _within[str(path.absolute())].release()


def _opened(path: Path) -> int:
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
