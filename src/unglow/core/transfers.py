"""What this process reads from and writes to images, by file or store, for the record of a job.

Readers and writers of pixels count here; small files (tables, JSON) and libraries do not. Outside
a job nothing is counted.
"""

from __future__ import annotations

import math
import os
import re
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unglow.core.machine import Mount, mount_of, mounts

if TYPE_CHECKING:
    from pathlib import Path

MOST_LISTED = 20
"""Images of a job that are listed: those with the most bytes."""
# A store that is being written has a hidden name next to its own.
_PARTIAL = re.compile(r"\.(.+)\.[0-9a-f]{12}\.partial")


@dataclass(slots=True)
class Transfer:
    """What was read from and written to one image.

    Attributes
    ----------
    read, written
        Bytes as stored.
    decoded, encoded
        Bytes of the pixels that these hold; what is read again counts again.
    first, last
        When, monotonic time, s.
    """

    read: int = 0
    written: int = 0
    decoded: int = 0
    encoded: int = 0
    first: float = math.inf
    last: float = 0.0


_lock = threading.Lock()
_transfers: dict[str, Transfer] | None = None


def record_transfers() -> None:
    """From here on, count."""
    global _transfers  # noqa: PLW0603 (a process is one job)
    _transfers = {}


def count(
    path: Path | str, *, read: int = 0, written: int = 0, decoded: int = 0, encoded: int = 0
) -> None:
    """Add bytes of an image, as stored and of pixels; thread-safe."""
    if _transfers is None:
        return
    now = time.monotonic()
    with _lock:
        one = _transfers.setdefault(str(path), Transfer())
        one.read += read
        one.written += written
        one.decoded += decoded
        one.encoded += encoded
        one.first, one.last = min(one.first, now), max(one.last, now)


def transfers(origin: float) -> list[dict[str, Any]]:
    """Return the counts: the images with the most bytes first, at most `MOST_LISTED`.

    Parameters
    ----------
    origin
        Times count from here, monotonic time, s.

    Returns
    -------
    Path, amounts and times as in `Transfer`, ``kind`` of the file system, and whether it is
    ``remote``; none of both if they are not known.
    """
    found: dict[str, Transfer] = {}
    for path, more in (_transfers or {}).items():
        _add(found.setdefault(_resolve_final(path), Transfer()), more)
    largest = sorted(found.items(), key=lambda item: -(item[1].read + item[1].written))
    mounted = mounts() if found else []
    return [_list_entry(path, one, origin, mounted) for path, one in largest[:MOST_LISTED]]


def _add(one: Transfer, more: Transfer) -> None:
    for name in ("read", "written", "decoded", "encoded"):
        setattr(one, name, getattr(one, name) + getattr(more, name))
    one.first, one.last = min(one.first, more.first), max(one.last, more.last)


def _resolve_final(path: str) -> str:
    """Return the name that a store has once it is finished."""
    head, name = os.path.split(path)
    found = _PARTIAL.fullmatch(name)
    return os.path.join(head, found[1]) if found else path  # noqa: PTH118 (as it came)


def _list_entry(path: str, one: Transfer, origin: float, mounted: list[Mount]) -> dict[str, Any]:
    amounts = {name: getattr(one, name) for name in ("read", "written", "decoded", "encoded")}
    times = {"first": round(one.first - origin, 2), "last": round(one.last - origin, 2)}
    mount = mount_of(os.path.realpath(path), mounted)
    on = {} if mount is None else {"kind": mount.kind, "remote": mount.remote}
    return {"path": path, **amounts, **times, **on}
