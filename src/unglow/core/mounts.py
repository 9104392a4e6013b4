"""File systems that are mounted, by path alone: one that does not answer is not asked."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from unglow.core.process import read

if TYPE_CHECKING:
    from collections.abc import Iterable

_IN_MEMORY = ("tmpfs", "ramfs")
_REMOTE = re.compile(
    r"(nfs\d?|cifs|smb\d?|smbfs|lustre|gpfs|beegfs\w*|ceph|glusterfs|9p|afs|panfs|pvfs2|orangefs|"
    r"wekafs|ocfs2|gfs2|fuse(\..*)?)"
)
_ESCAPED = re.compile(r"\\([0-7]{3})")


class Mount(NamedTuple):
    """A mounted file system: its directory, kind (``ext4``, ``nfs4``), source and options."""

    place: str
    kind: str
    source: str
    options: frozenset[str]

    @property
    def remote(self) -> bool:
        """Whether another machine, or a program of the user (FUSE), answers for its files."""
        return bool(_REMOTE.fullmatch(self.kind))

    @property
    def in_memory(self) -> bool:
        """Whether its files take memory."""
        return self.kind in _IN_MEMORY


def mounts(text: str | None = None) -> list[Mount]:
    """Return what is mounted for this process, or in a text as ``mountinfo`` has it (proc(5))."""
    found = []
    for line in (read("self/mountinfo") if text is None else text).splitlines():
        head, separator, tail = line.partition(" - ")
        fields, more = head.split(), tail.split()
        if separator and len(fields) >= 6 and len(more) >= 2:
            options = {*fields[5].split(","), *(more[2].split(",") if len(more) > 2 else ())}
            found.append(Mount(_plain(fields[4]), more[0], _plain(more[1]), frozenset(options)))
    return found


def mount_of(path: str, among: Iterable[Mount]) -> Mount | None:
    """Return the file system that an absolute path without links is on; None if none is known."""
    above = {str(one) for one in (PurePosixPath(path), *PurePosixPath(path).parents)}
    fitting = [one for one in among if one.place in above]
    # of two at one place the later hides the earlier
    return max(reversed(fitting), key=lambda one: len(one.place), default=None)


def _plain(text: str) -> str:
    """Return a field of mountinfo, in which blanks are octal numbers, as it is."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 8)), text)
