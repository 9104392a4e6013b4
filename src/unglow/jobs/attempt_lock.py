"""Turns: of several attempts at one job, only the one that began last publishes anything.

An attempt may go on without anybody waiting for it: on a machine that was thought lost, or after
Snakemake was killed. Each attempt therefore takes a number, higher than all before it, by creating
a file of that name that must not exist yet (which is atomic on network drives as well, and needs
neither clocks nor locks). Then it removes what earlier attempts have under way. An attempt that is
about to publish looks whether there is a higher number.

Whatever the order of events, an earlier attempt publishes nothing once a later one works: if it
looked before the later number was there, its temporary file was as well, and is removed; to rename
what has been removed fails.
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

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_PREFIX = "turn-"
_ROOT = "zarr.json"
_TEMPORARY = (".partial", ".old")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Turn:
    """The number of one attempt at a job.

    Attributes
    ----------
    place
        Directory that all attempts at the job share; None for a job that keeps no records, or
        where none can be written: its attempts do not know of each other.
    number
        From 1; the last attempt to begin has the highest.
    """

    place: Path | None = None
    number: int | None = None

    @classmethod
    def take(cls, place: Path | None, outputs: Iterable[Path]) -> Turn:
        """Take the next number, and away with what earlier attempts have under way.

        Parameters
        ----------
        place
            As above; it is made.
        outputs
            Declared outputs of the job; of a store, its root ``zarr.json``.
        """
        if place is None:
            return cls()
        try:
            turn = cls(place, _next(place))
        except OSError as error:
            log.warning("earlier attempts, if any still run, are not held back (%s)", error)
            return cls()
        revoke(outputs)
        return turn

    @property
    def over(self) -> bool:
        """Whether a later attempt has begun."""
        return self.place is not None and max(_numbers(self.place), default=0) > (self.number or 0)

    def check(self) -> None:
        """See that no later attempt has begun.

        Raises
        ------
        SupersededError
            One has.
        """
        if self.over:
            raise SupersededError


def _next(place: Path) -> int:
    """Take the number after all that are taken."""
    place.mkdir(parents=True, exist_ok=True)
    while True:
        numbers = _numbers(place)
        number = max(numbers, default=0) + 1
        try:
            os.close(os.open(_file(place, number), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        except FileExistsError:
            continue  # another attempt was faster: look again
        if max(_numbers(place), default=0) > number:
            # it was free only because a later attempt had removed it
            _file(place, number).unlink(missing_ok=True)
            continue
        for earlier in numbers:
            _file(place, earlier).unlink(missing_ok=True)
        return number


def _file(place: Path, number: int) -> Path:
    return place / f"{_PREFIX}{number}"


def _numbers(place: Path) -> list[int]:
    """Return all numbers that are taken; none if somebody has removed the directory."""
    try:
        names = os.listdir(place)  # noqa: PTH208 (names are all that is needed)
    except FileNotFoundError:
        return []
    found = (name.removeprefix(_PREFIX) for name in names if name.startswith(_PREFIX))
    return [int(number) for number in found if number.isdecimal()]


def revoke(outputs: Iterable[Path]) -> None:
    """Remove what earlier attempts at a job have under way, or have left behind."""
    for path in {store_or_file(output) for output in outputs}:
        for temporary in temporaries(path):
            log.info("removed %s, which an earlier attempt had left", temporary)
            discard(temporary)


def store_or_file(output: Path) -> Path:
    """Return what is published as a whole: the store of a root ``zarr.json``, or the file."""
    return output.parent if output.name == _ROOT else output


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
