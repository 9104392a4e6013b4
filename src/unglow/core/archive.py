"""Arrays in a file: written completely or not at all; equal arrays give equal bytes.

Dataclasses of numbers and arrays are saved so as well, and some of them are sums over blocks.
"""

from __future__ import annotations

import errno
import io
import math
import struct
import zipfile
import zlib
from contextlib import contextmanager
from pathlib import Path
from tokenize import TokenError
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from unglow.core.errors import StoreError
from unglow.core.files import open_file, replace_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.lib.npyio import NpzFile

    from unglow.core.arrays import Array

    Kinds = tuple[type[int | float], ...]
    Arrays = Mapping[str, Array]
    ArrayAxes = Mapping[str, tuple[str, *tuple[int | str, ...]]]

MOST_BYTES = 100e6
"""Decoded arrays of most files take far less."""
_UNREADABLE = (
    zipfile.BadZipFile, zlib.error, ValueError, EOFError, KeyError, NotImplementedError,
    RuntimeError, SyntaxError, OverflowError, TypeError, struct.error, TokenError,
)  # fmt: skip
"""What reading a damaged ``.npz`` raises."""
# The oldest time that a zip entry can carry: any other would show when the file was written.
_ZIP_TIME = (1980, 1, 1, 0, 0, 0)
_VERSION = 1
"""Of the files of all subclasses of `Saved`."""


def save_arrays(
    path: Path | str,
    arrays: Mapping[str, Array],
    others: Mapping[str, Mapping[str, Array]] | None = None,
    *,
    level: int = 6,
) -> None:
    """Write an ``.npz`` that `numpy.load` reads; equal arrays give equal bytes.

    ``others`` are more sets of arrays by name (see `select_arrays`). ``level`` is zlib's: level 1
    saves as much of noisy numbers as level 6, in a third of the time.
    """
    arrays = dict(arrays)
    for name, other in (others or {}).items():
        arrays |= {f"{name}.{key}": array for key, array in other.items()}
    with replace_file(Path(path)) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for name in sorted(arrays):
            entry = io.BytesIO()
            np.lib.format.write_array(entry, np.asarray(arrays[name]), allow_pickle=False)
            info = zipfile.ZipInfo(f"{name}.npy", _ZIP_TIME)
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, entry.getvalue(), compresslevel=level)


def load_arrays(path: Path | str, most_bytes: float = MOST_BYTES) -> dict[str, Array]:
    """Read an ``.npz`` complete, checksums included.

    Raises
    ------
    StoreError
        If the file is not a complete archive of arrays, or they take more than ``most_bytes``.
    FileNotFoundError
        If it does not exist.
    """
    with open_archive(path) as archive:
        check_sizes(archive, most_bytes)
        return {name: archive[name] for name in archive.files}


@contextmanager
def open_archive(path: Path | str) -> Iterator[NpzFile]:
    """Open an ``.npz``; what fails because of what is in it becomes a `StoreError`."""
    try:
        with open_file(path) as stream, np.load(stream, allow_pickle=False) as archive:
            yield archive
    except OSError as error:
        # a damaged table of the archive leads to a place before its start
        if error.errno == errno.EINVAL and error.filename is None:
            raise make_damage_error(path) from error
        raise
    except _UNREADABLE as error:
        raise make_damage_error(path) from error


def check_sizes(archive: NpzFile, most_bytes: float) -> None:
    """Raise `ValueError` if arrays are larger than they may be, or not what the archive holds."""
    opened: zipfile.ZipFile = archive.zip  # type: ignore[assignment]  # None once it is closed
    entries = opened.infolist()
    if sum(entry.file_size for entry in entries) > most_bytes:
        raise ValueError(f"its arrays take more than {most_bytes:g} bytes")
    for entry in entries:
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"{entry.filename} is compressed in another way")
        with opened.open(entry) as stream:
            if np.lib.format.read_magic(stream) != (1, 0):
                raise ValueError(f"{entry.filename} is of another version")
            shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
            if stream.tell() + math.prod(shape) * dtype.itemsize != entry.file_size:
                raise ValueError(f"{entry.filename} does not hold {shape} of {dtype}")


def select_arrays(arrays: Mapping[str, Array], name: str | None) -> dict[str, Array]:
    """Return the arrays that were saved under ``name``; for None, those without a name."""
    if name is None:
        return {key: array for key, array in arrays.items() if "." not in key}
    start = f"{name}."
    return {key[len(start) :]: a for key, a in arrays.items() if key.startswith(start)}


def make_damage_error(path: Path | str, why: Exception | str = "") -> StoreError:
    """Return the error for a result file that cannot be what unglow wrote, and its wrong field."""
    where = f" ({why})" if str(why) else ""
    return StoreError(
        f"{path} is damaged or not a file of unglow{where}; run `unglow verify --repair`, then run "
        "again."
    )


class Saved:
    """A dataclass that is written as an ``.npz``; equal records give equal bytes.

    `PARAMETERS` are the fields that are a number (one type) or a tuple of numbers (a type for
    each), `ARRAYS` those that are arrays, each with its type and the length of each axis: a number,
    or a name, and axes of one name are equally long. `LEVEL` is zlib's.
    """

    __slots__ = ()
    PARAMETERS: ClassVar[tuple[tuple[str, Kinds], ...]]
    ARRAYS: ClassVar[ArrayAxes]
    LEVEL: ClassVar[int] = 6

    @property
    def parameters(self) -> list[float]:
        """The numbers of all `PARAMETERS`."""
        return [
            kind(number)
            for name, kinds in self.PARAMETERS
            for kind, number in zip(kinds, np.atleast_1d(getattr(self, name)), strict=True)
        ]

    @classmethod
    def restore(cls, parameters: Sequence[float], arrays: Arrays) -> Self:
        """Build from `parameters` and `arrays`; TypeError or ValueError where they do not fit."""
        if len(parameters) != sum(len(kinds) for _, kinds in cls.PARAMETERS):
            raise ValueError(f"{len(parameters)} parameters")
        numbers = iter(parameters)
        values = {
            name: tuple(kind(next(numbers)) for kind in kinds) for name, kinds in cls.PARAMETERS
        }
        fields = {name: one if len(one) > 1 else one[0] for name, one in values.items()}
        return cls(**fields, **arrays)

    @property
    def arrays(self) -> dict[str, Array]:
        """The arrays by name, not copied."""
        return {name: getattr(self, name) for name in self.ARRAYS}

    def save(self, path: Path | str, others: Mapping[str, Saved] | None = None) -> None:
        """Write an ``.npz``, complete or not at all; ``others`` go into it by their names."""
        more = {name: other.content() for name, other in (others or {}).items()}
        save_arrays(path, self.content(), more, level=self.LEVEL)

    def content(self) -> dict[str, Array]:
        """Return what `save` writes."""
        return {"parameters": np.array([_VERSION, *self.parameters]), **self.arrays}

    @classmethod
    def load(cls, path: Path | str, name: str | None = None) -> Self:
        """Read what `save` wrote; ``name`` is that of one of the others.

        Raises
        ------
        StoreError
            If the file is damaged or from another version.
        """
        return cls.read(select_arrays(load_arrays(path), name), path)

    @classmethod
    def load_all(cls, path: Path | str) -> dict[str | None, Self]:
        """Read all records of a file by name, first the one without (None); else as `load`."""
        arrays = load_arrays(path)
        names = sorted({key.split(".")[0] for key in arrays if "." in key})
        return {name: cls.read(select_arrays(arrays, name), path) for name in (None, *names)}

    @classmethod
    def read(cls, arrays: dict[str, Array], path: Path | str) -> Self:
        """Return the record of `content`, which was in a file; StoreError if it is damaged."""
        try:
            version, *parameters = arrays.pop("parameters").tolist()
            if version != _VERSION:
                raise make_damage_error(path)
            cls._check_arrays(arrays)
            return cls.restore(parameters, arrays)
        except (KeyError, OverflowError, TypeError, ValueError) as error:
            raise make_damage_error(path) from error

    @classmethod
    def _check_arrays(cls, arrays: Arrays) -> None:
        """Raise KeyError or ValueError for arrays of other types or shapes."""
        lengths: dict[int | str, int] = {}
        for name, (dtype, *axes) in cls.ARRAYS.items():
            array = arrays[name]
            known = [lengths.setdefault(a, n) for a, n in zip(axes, array.shape, strict=True)]
            wanted = [a if isinstance(a, int) else n for a, n in zip(axes, known, strict=True)]
            if array.dtype != dtype or list(array.shape) != wanted:
                raise ValueError(f"{name} is {array.shape} of {array.dtype}")


class Counts(Saved):
    """Counts of pixels; the order of blocks cannot change a byte."""

    __slots__ = ()

    @classmethod
    def _check_arrays(cls, arrays: Arrays) -> None:
        super()._check_arrays(arrays)
        for name, array in arrays.items():
            if array.dtype == np.int64 and abs(array.sum(dtype=np.float64)) >= 2**63:
                raise ValueError(f"{name} counts more than there can be")

    def fresh(self) -> Self:
        """Return counts of nothing with the same bins, for another worker."""
        return self.restore(self.parameters, {k: np.zeros_like(a) for k, a in self.arrays.items()})

    def merge(self, other: Self) -> None:
        """Add the counts of ``other``, which must have the same bins."""
        mine, theirs = (
            (*one.parameters, *(array.shape for array in one.arrays.values()))
            for one in (self, other)
        )
        if mine != theirs:
            raise ValueError("counts with different bins cannot be merged")
        self.merge_counts(other.arrays)

    def merge_counts(self, counts: Arrays) -> None:
        """Add the `arrays` of counts with the same bins; others among them are left alone."""
        for name, array in self.arrays.items():
            np.add(array, counts[name], out=array)
