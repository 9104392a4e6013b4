"""Results of bands, which their jobs leave for the one that joins them: a small file for each.

It says which state of the inputs its band belongs to, which shards were written and what was
counted, in a form that adds up exactly. Its job writes it last, so a band is done when it is there.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import numpy as np

from unglow.core.archive import damaged, load_arrays, save_arrays
from unglow.core.errors import StoreError
from unglow.io.zarr.band_writer import band_store, first_fault
from unglow.io.zarr.bands import Band, all_bands

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import Any, TypeAlias

    from numpy.typing import NDArray

    from unglow.io.zarr.shard_writer import Shards
    from unglow.io.zarr.writer import StoreWriter

    Arrays: TypeAlias = Mapping[str, NDArray[Any]]

_VERSION = 2
"""Of the files; those of another version are made anew."""
_ABOUT = "about"


@dataclass(frozen=True, eq=False)
class BandResult:
    """The result of one band.

    Attributes
    ----------
    band
        The band.
    key
        Digest of what it follows from (`unglow.io.zarr.state_key`).
    shards
        Shards that were written.
    arrays
        Counts, by name.
    reason
        Why there are no pixels; None if there are.
    """

    band: Band
    key: str
    shards: Shards = field(default_factory=dict)
    arrays: Arrays = field(default_factory=dict)
    reason: str | None = None

    def save(self, path: Path) -> None:
        """Write an ``.npz``, whole or not at all; equal results give equal bytes."""
        about = {
            "version": _VERSION,
            "band": str(self.band),
            "key": self.key,
            "shards": {name: list(self.shards[name]) for name in sorted(self.shards)},
            "reason": self.reason,
        }
        text = np.frombuffer(json.dumps(about).encode(), np.uint8)
        save_arrays(path, {**self.arrays, _ABOUT: text}, level=1)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save` wrote.

        Raises
        ------
        StoreError
            If the file is damaged or from another version.
        FileNotFoundError
            If there is none.
        """
        arrays = load_arrays(path, math.inf)  # lists of candidates grow with the image
        try:
            about = json.loads(arrays.pop(_ABOUT).tobytes())
            if about["version"] != _VERSION:
                raise damaged(path)
            shards = {str(k): (str(sha), int(size)) for k, (sha, size) in about["shards"].items()}
            return cls(Band.parse(about["band"]), about["key"], shards, arrays, about["reason"])
        except (KeyError, TypeError, ValueError) as error:
            raise damaged(path) from error


@dataclass(frozen=True, eq=False)
class BandResults:
    """The results of all bands, read one after the other.

    Attributes
    ----------
    paths
        Their files, first band first.
    key
        Digest of what they have to follow from.
    """

    paths: Sequence[Path]
    key: str

    def __iter__(self) -> Iterator[BandResult]:
        """Read the results.

        Raises
        ------
        StoreError
            After the last: some are missing, damaged, or of another state of the inputs. Their
            files are removed, so that the next run makes these bands anew.
        """
        faults = {}
        for path, band in zip(self.paths, all_bands(len(self.paths)), strict=True):
            try:
                result = BandResult.load(path)
            except FileNotFoundError:
                faults[path] = f"band {band} is not there"
            except StoreError:
                faults[path] = f"what band {band} left is damaged"
            else:
                if (result.band, result.key) == (band, self.key):
                    yield result
                else:
                    faults[path] = f"band {band} belongs to another state of its inputs"
        _reject(faults)

    def hand_over(self, shards: Sequence[Shards], writer: StoreWriter, workers: int) -> None:
        """Give the shards of all bands to the writer of their store, after reading each of them.

        Parameters
        ----------
        shards
            Those of each result, in the order of `paths`.
        writer
            Of the store.
        workers
            Shards that are read at a time.

        Raises
        ------
        StoreError
            Shards are missing or not what their bands have written. The results of these bands are
            removed, so that the next run makes them anew.
        """
        root = band_store(writer.path, self.key)
        if not root.is_dir():
            root = writer.path  # where a job that was killed may just have put it
        faults: dict[Path, str] = {}
        for path, band, written in zip(self.paths, all_bands(len(self.paths)), shards, strict=True):
            fault = first_fault(root, written, workers)
            if fault is not None:
                faults[path] = f"of band {band}, {fault}"
        _reject(faults)
        writer.adopt(self.key, {key: entry for written in shards for key, entry in written.items()})


def _reject(faults: Mapping[Path, str]) -> None:
    """Remove results that cannot be used and raise with what is wrong with them, if there are."""
    for path in faults:
        path.unlink(missing_ok=True)
    if faults:
        what = "this band" if len(faults) == 1 else "these bands"
        raise StoreError(
            f"{next(iter(faults)).parent}: {', '.join(faults.values())}; run the workflow again, "
            f"which makes {what} anew"
        )
