"""Arrays in a file, written whole or not at all, with bytes that depend on the arrays alone."""

from __future__ import annotations

import io
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.errors import StoreError
from unglow.core.files import replacing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

# The oldest time that a zip entry can carry: any other would tell when the file was written.
_ZIP_TIME = (1980, 1, 1, 0, 0, 0)


def save_arrays(
    path: Path | str,
    arrays: Mapping[str, NDArray[Any]],
    others: Mapping[str, Mapping[str, NDArray[Any]]] | None = None,
    *,
    level: int = 6,
) -> None:
    """Write an ``.npz`` that `numpy.load` reads; equal arrays give equal bytes.

    ``others`` are further sets of arrays, found again by their names (`of_name`). ``level`` is
    zlib's: of noisy numbers 1 saves as much as 6, in a third of the time.
    """
    arrays = dict(arrays)
    for name, other in (others or {}).items():
        arrays |= {f"{name}.{key}": array for key, array in other.items()}
    with replacing(Path(path)) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for name in sorted(arrays):
            entry = io.BytesIO()
            np.lib.format.write_array(entry, np.asarray(arrays[name]), allow_pickle=False)
            info = zipfile.ZipInfo(f"{name}.npy", _ZIP_TIME)
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, entry.getvalue(), compresslevel=level)


def load_arrays(path: Path | str) -> dict[str, NDArray[Any]]:
    """Read an ``.npz`` whole, checksums included.

    Raises
    ------
    StoreError
        If the file is not a complete archive of arrays.
    FileNotFoundError
        If it does not exist.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (zipfile.BadZipFile, zlib.error, ValueError, EOFError, KeyError) as error:
        raise damaged(path) from error


def of_name(arrays: Mapping[str, NDArray[Any]], name: str | None) -> dict[str, NDArray[Any]]:
    """Return the arrays that were saved under ``name``; for None, those without a name."""
    if name is None:
        return {key: array for key, array in arrays.items() if "." not in key}
    start = f"{name}."
    return {key[len(start) :]: a for key, a in arrays.items() if key.startswith(start)}


def damaged(path: Path | str) -> StoreError:
    """Return the error for a result file that cannot be what unglow wrote."""
    return StoreError(f"{path} is damaged or not a file of unglow; delete it and run again.")
