"""Opening of TIFF files, with a sentence for everything that is not one."""

from __future__ import annotations

import errno
import logging
import os
import stat
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

import numpy as np
import tifffile

from unglow.core.errors import InputError
from unglow.core.files import open_regular

if TYPE_CHECKING:
    from collections.abc import Iterator

    from unglow.core.arrays import Array


# First bytes of what people rename to .tif, or hand over by mistake.
MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"\x89PNG", "a PNG image"),
    (b"\x00\x00\x00\x0cjP", "a JPEG 2000 image"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"\x89HDF", "an HDF5 file"),
    (b"ZISRAWFILE", "a Zeiss CZI file"),
    (b"\xda\xce\xbe\x0a", "a Nikon ND2 file"),
    (b"\x70\x00\x00\x00", "a Leica LIF file"),
    (b"version https://git-lfs", "a Git LFS pointer, not the image itself"),
    (b"<!DOCTYPE", "a web page"),
    (b"<html", "a web page"),
    (b"<?xml", "an XML document"),
)
AGAIN = "copy it again from its source"
_SUB_IFDS = 330
# Bytes of an offset, by its type in the file.
_OFFSET_BYTES = {4: 4, 13: 4, 16: 8, 18: 8}
# More tags in a directory end the chain for tifffile. A pyramid has some twenty levels.
_MOST_TAGS, _MOST_BELOW = 4096, 100


class _Quiet(logging.Filter):
    """Drop what tifffile logs in threads that turn problems into sentences of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.local = threading.local()

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep the record unless this thread asked for silence."""
        del record
        return not getattr(self.local, "on", False)


_QUIET = _Quiet()
logging.getLogger("tifffile").addFilter(_QUIET)


@contextmanager
def quiet() -> Iterator[None]:
    """Silence tifffile's log in this thread."""
    before = getattr(_QUIET.local, "on", False)
    _QUIET.local.on = True
    try:
        yield
    finally:
        _QUIET.local.on = before


def regular_file(path: str) -> os.stat_result:
    """Return the status of a file that exists, is a regular file and is not empty.

    Raises
    ------
    InputError
        With the sentence for what it is instead.
    """
    try:
        status = os.stat(path)  # noqa: PTH116 - paths are kept as the user wrote them
    except FileNotFoundError:
        if os.path.islink(path):
            target = os.readlink(path)  # noqa: PTH115
            raise InputError(
                f"'{path}' is a link to '{target}', which does not exist: fix the link or put "
                "the image there."
            ) from None
        raise InputError(
            f"'{path}' does not exist: check its name in the sample sheet or the raw directory."
        ) from None
    except (OSError, ValueError) as exc:
        raise InputError(_unreadable(path, exc)) from None
    if stat.S_ISDIR(status.st_mode):
        raise InputError(f"'{path}' is a directory: name the TIFF file itself.")
    if not stat.S_ISREG(status.st_mode):
        raise InputError(f"'{path}' is not a regular file: name a TIFF file.")
    if status.st_size == 0:
        raise InputError(f"'{path}' is empty (0 bytes): {AGAIN}.")
    return status


def open_raw(path: str) -> int:
    """Return a descriptor of an image.

    Raises
    ------
    InputError
        It cannot be opened, or is not a file any more.
    """
    try:
        return open_regular(path)
    except OSError as exc:
        regular_file(path)
        raise InputError(_unreadable(path, exc)) from None


def _unreadable(path: str, exc: Exception) -> str:
    if isinstance(exc, OSError) and exc.errno in (errno.EACCES, errno.EPERM):
        return f"'{path}' may not be read by this user: change its permissions."
    reason = exc.strerror if isinstance(exc, OSError) and exc.strerror else str(exc)
    return f"'{path}' cannot be read ({reason}): check the path and the disk it is on."


def check_magic(path: str, file_bytes: int) -> None:
    """Look at the first bytes: a TIFF whose first directory is inside the file.

    Raises
    ------
    InputError
        It is something else, or cut short before its first directory.
    """
    try:
        with os.fdopen(open_raw(path), "rb") as file:
            head = file.read(32)
    except OSError as exc:
        raise InputError(_unreadable(path, exc)) from None
    order: Literal["little", "big"] = "little" if head[:2] == b"II" else "big"
    version = int.from_bytes(head[2:4], order)
    if head[:2] not in (b"II", b"MM") or version not in (42, 43):
        raise InputError(f"'{path}' is not a TIFF file{_looks_like(head)}.")
    width = slice(4, 8) if version == 42 else slice(8, 16)
    first = int.from_bytes(head[width], order)
    if len(head) < width.stop:
        raise InputError(f"'{path}' is cut short: it has {file_bytes} bytes in all; {AGAIN}.")
    if first >= file_bytes:
        missing = first + 2 - file_bytes
        raise InputError(
            f"'{path}' is cut short: its first directory should be at byte {first}, but the file "
            f"has {file_bytes} bytes, so at least {missing} bytes are missing; {AGAIN}."
        )
    if first < 8:
        raise InputError(f"'{path}' has a broken header (no first directory): {AGAIN}.")


def check_chain(path: str, tif: tifffile.TiffFile) -> None:
    """Follow the directories of a file once: tifffile ends where one is not in the file.

    It would follow a circle of them for ever, read one as often as the tag SubIFDs names it, and
    reads what a cut file still has as all of it.

    Raises
    ------
    InputError
        A directory is named twice, names too many others or overlaps with them, or it or a
        description is not in the file.
    """
    form, file, size = tif.tiff, tif.filehandle.fileno(), int(tif.filehandle.size)
    order: Literal["little", "big"] = "little" if form.byteorder == "<" else "big"
    wide, number = form.offsetsize, f"{form.byteorder}u{form.offsetsize}"
    short = f"{form.byteorder}u2"
    kinds = np.dtype([("tag", short), ("kind", short), ("count", number), ("value", f"V{wide}")])
    seen: set[int] = set()
    seen_below: set[int] = set()
    left, wrong = size, ""
    first = tif.pages.first
    at = int(first.offset)
    while at != 0 and not wrong:
        if at in seen:
            wrong = f"its directories follow one another in a circle, back to byte {at}"
            break
        seen.add(at)
        count = int.from_bytes(os.pread(file, form.tagnosize, at), order)
        start, length = at + form.tagnosize, count * form.tagsize
        is_cut = start + length + wide > size
        if count > _MOST_TAGS and not is_cut:
            return  # tifffile ends the chain here
        content = b"" if is_cut else os.pread(file, length + wide, start)
        tags = np.frombuffer(content[:length], kinds)
        # tifffile leaves out a tag whose value is behind the end
        is_cut |= at == first.offset and 270 in tags["tag"] and "ImageDescription" not in first.tags
        if is_cut:
            raise InputError(
                f"'{path}' is cut short: its directory {len(seen)} or its description is not in "
                f"the {size} bytes that it has; {AGAIN}."
            )
        below = _list_below(file, tags[tags["tag"] == _SUB_IFDS], number)
        left -= length
        if len(below) > _MOST_BELOW or left < 0:
            wrong = f"its directory at byte {at} names too many others, or overlaps with them"
        elif len({*below} - seen_below - seen) < len(below):
            wrong = f"its directory at byte {at} names one below it that was named before"
        seen_below.update(below)
        at = int.from_bytes(content[length:], order)
    if wrong:
        raise InputError(f"'{path}' has a broken header ({wrong}): {AGAIN} or write it again.")


def _list_below(file: int, tags: Array, number: str) -> list[int]:
    """Return where directories are that tags SubIFDs name; one too many for too many."""
    below: list[int] = []
    for tag in tags:
        count, value = int(tag["count"]), tag["value"].tobytes()
        kind = f"{number[0]}u{_OFFSET_BYTES.get(int(tag['kind']), number[-1])}"
        if count > _MOST_BELOW:
            return [*range(1, _MOST_BELOW + 2)]
        if count * int(kind[-1]) > len(value):
            value = os.pread(file, count * int(kind[-1]), int(np.frombuffer(value, number)[0]))
        below += np.frombuffer(value[: count * int(kind[-1])], kind).tolist()
    return [offset for offset in below if offset]


def _looks_like(head: bytes) -> str:
    for magic, what in MAGIC:
        if head.startswith(magic):
            return f": it looks like {what}; convert it to TIFF or take it out of the raw images"
    if not head.strip(b"\0"):
        return f": it starts with zeros only; {AGAIN}"
    return ": its first bytes are of no known kind; convert it to TIFF or take it out"


@contextmanager
def open_checked(path: str) -> Iterator[tifffile.TiffFile]:
    """Open a file that passed the first checks.

    Raises
    ------
    InputError
        Also for whatever tifffile raises inside the ``with`` block on a broken header.
    """
    file_bytes = regular_file(path).st_size
    check_magic(path, file_bytes)
    try:
        with quiet(), tifffile.TiffFile(path) as tif:
            check_chain(path, tif)
            yield tif
    except InputError:
        raise
    # A damaged header makes tifffile and NumPy raise nearly anything.
    except Exception as exc:
        raise InputError(
            f"'{path}' has a broken header ({shorten_reason(exc)}): {AGAIN} or write it again."
        ) from exc


def shorten_reason(exc: BaseException) -> str:
    """Return what an error of a library says, on one line of at most 100 characters."""
    text = " ".join(str(exc).split()) or type(exc).__name__
    return text if len(text) <= 100 else text[:97] + "..."
