"""The attempt lock: of several attempts at one job, only the last to start publishes anything.

An attempt may continue without anybody waiting for it: on a machine that was thought lost, or after
Snakemake was killed. Each attempt therefore takes a number, higher than all before it, by creating
the file of that number (`unglow.telemetry.attempt_files`). Then it removes what earlier attempts
have under way. An attempt that is about to publish looks whether there is a higher number.

Whatever the order of events, an earlier attempt publishes nothing once a later one works: if it
looked before the later number was there, its temporary file was as well, and is removed; to rename
what has been removed fails.

The file of a number is the record of the attempt as well: with a folder for each, an attempt that
was lost would have to be noted in both, and either could be there without the other.

Of a network file system it needs that of several who create a file only one succeeds (NFS from 3,
Lustre, GPFS, BeeGFS), and that a file is found by its name once another machine has created it.
What a directory lists may be old.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from unglow.core.errors import SupersededError
from unglow.core.files import name_unwritten
from unglow.telemetry.attempt_files import attempt_file, last_number, take_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


_ROOT, _STORE = "zarr.json", ".ome.zarr"
_TEMPORARY = (".partial", ".old")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AttemptLock:
    """The number of one attempt at a job.

    Attributes
    ----------
    directory
        That of all attempts at the job.
    number
        From 1; the last attempt to begin has the highest.
    """

    directory: Path
    number: int

    @classmethod
    def acquire(cls, directory: Path, outputs: Iterable[Path]) -> AttemptLock:
        """Take the next number, and remove what earlier attempts have under way.

        Parameters
        ----------
        directory
            As above; it is made.
        outputs
            Declared outputs of the job; of a store, its root ``zarr.json``.

        Raises
        ------
        UnglowError
            No number can be taken, so that nothing would hold earlier attempts back.
        """
        with name_unwritten(directory):
            lock = cls(directory, take_number(directory))
        revoke(outputs)
        return lock

    @property
    def file(self) -> Path:
        """The file of the attempt."""
        return attempt_file(self.directory, self.number)

    @property
    def superseded(self) -> bool:
        """Whether a later attempt has started."""
        follows = attempt_file(self.directory, self.number + 1)
        # the next file is removed with its run once there are many, but never the last one
        return follows.exists() or last_number(self.directory) > self.number

    def check(self) -> None:
        """See that no later attempt has started.

        Raises
        ------
        SupersededError
            One has.
        """
        if self.superseded:
            raise SupersededError


def revoke(outputs: Iterable[Path]) -> None:
    """Remove what earlier attempts at a job have under way, or have left behind."""
    # what is published in one piece: the store of a root, or the file
    for path in {one.parent if one.name == _ROOT else one for one in outputs}:
        for temporary in temporaries(path):
            log.info("removed %s, which an earlier attempt had left", temporary)
            discard(temporary)


def temporaries(path: Path) -> Iterator[Path]:
    """Yield the hidden siblings that a file or store is written to, or set aside as."""
    with contextlib.suppress(OSError), os.scandir(path.parent) as entries:
        for entry in entries:
            if entry.name.startswith(f".{path.name}.") and entry.name.endswith(_TEMPORARY):
                yield Path(entry.path)


def discard(path: Path) -> None:
    """Remove a file or a directory; a directory gets another name first.

    A process that still writes into the directory by its name makes another one of that name, which
    lacks what was written before and is never published.
    """
    aside = path.with_name(f"{path.name}.old")
    with contextlib.suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            path.rename(aside)
            shutil.rmtree(aside, ignore_errors=True)
        else:
            path.unlink()


def leftovers(results: Path) -> list[Path]:
    """Return what was never published, or was set aside, sorted; whoever it belongs to.

    So are stores that have lost their root: Snakemake knows, and deletes, that file alone.
    """
    paths: list[Path] = []
    for directory, directories, files in os.walk(results):
        hidden = (name for name in [*directories, *files] if name.startswith("."))
        paths += [Path(directory) / name for name in hidden if name.endswith(_TEMPORARY)]
        seen = [name for name in directories if not name.startswith(".")]
        stores = (Path(directory) / name for name in seen if name.endswith(_STORE))
        paths += [path for path in stores if not (path / _ROOT).exists()]
        directories[:] = [name for name in seen if not name.endswith(".zarr")]
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
