"""Arrays in a file: written completely or not at all; equal arrays give equal bytes."""

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
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.errors import StoreError
from unglow.core.files import open_file, replace_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.lib.npyio import NpzFile
    from numpy.typing import NDArray

MOST_BYTES = 100e6
"""Decoded arrays of most files take far less."""
_UNREADABLE = (
    zipfile.BadZipFile, zlib.error, ValueError, EOFError, KeyError, NotImplementedError,
    RuntimeError, SyntaxError, OverflowError, TypeError, struct.error, TokenError,
)  # fmt: skip
"""What reading a damaged ``.npz`` raises."""
# The oldest time that a zip entry can carry: any other would show when the file was written.
_ZIP_TIME = (1980, 1, 1, 0, 0, 0)


def save_arrays(
    path: Path | str,
    arrays: Mapping[str, NDArray[Any]],
    others: Mapping[str, Mapping[str, NDArray[Any]]] | None = None,
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


def load_arrays(path: Path | str, most_bytes: float = MOST_BYTES) -> dict[str, NDArray[Any]]:
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


def check_sizes(archive: NpzFile, most_bytes: float = MOST_BYTES) -> None:
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


def select_arrays(arrays: Mapping[str, NDArray[Any]], name: str | None) -> dict[str, NDArray[Any]]:
    """Return the arrays that were saved under ``name``; for None, those without a name."""
    if name is None:
        return {key: array for key, array in arrays.items() if "." not in key}
    start = f"{name}."
    return {key[len(start) :]: a for key, a in arrays.items() if key.startswith(start)}


def make_damage_error(path: Path | str) -> StoreError:
    """Return the error for a result file that cannot be what unglow wrote."""
    return StoreError(
        f"{path} is damaged or not a file of unglow; run `unglow verify --repair`, then run again."
    )
