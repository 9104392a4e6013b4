"""What the jobs of bands leave for the job that joins them: one small file for each band.

It says which state of the inputs its band belongs to, which shards were written and what was
counted, in a form that adds up exactly. Its job writes it last, so a band is done when it is there.
"""

from __future__ import annotations

import json
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

    from unglow.io.zarr.band_writer import Shards
    from unglow.io.zarr.writer import StoreWriter

    Arrays: TypeAlias = Mapping[str, NDArray[Any]]

_VERSION = 1
_ABOUT = "about"


@dataclass(frozen=True, eq=False)
class BandResult:
    """What one band has given.

    Attributes
    ----------
    band
        Which one.
    key
        What it follows from (`unglow.io.zarr.state_key`).
    shards
        The shards of a store that were written: key to SHA-256 and bytes.
    arrays
        What was counted.
    reason
        Why there are no pixels; None if there are.
    """

    band: Band
    key: str
    shards: Shards = field(default_factory=dict)
    arrays: Arrays = field(default_factory=dict)
    reason: str | None = None

    def save(self, path: Path) -> None:
        """Write an ``.npz``, whole or not at all; equal pieces give equal bytes."""
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
        arrays = load_arrays(path)
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
    """The pieces of all bands, read one after the other in their order.

    Attributes
    ----------
    paths
        Their files, first band first.
    key
        What they have to follow from.
    """

    paths: Sequence[Path]
    key: str

    def __iter__(self) -> Iterator[BandResult]:
        """Read the pieces, after a look at all of them.

        Raises
        ------
        StoreError
            A piece is missing, damaged, or of another state of the inputs. The files of all such
            are removed, so that the next run makes their bands anew.
        """
        faults = {path: self._fault(path, band) for path, band in self._bands()}
        _refuse({path: fault for path, fault in faults.items() if fault is not None})
        yield from (BandResult.load(path) for path in self.paths)

    def _bands(self) -> Iterator[tuple[Path, Band]]:
        return zip(self.paths, all_bands(len(self.paths)), strict=True)

    def _fault(self, path: Path, band: Band) -> str | None:
        """Say why the piece of a band cannot be used; None if it can."""
        try:
            piece = BandResult.load(path)
        except FileNotFoundError:
            return f"band {band} is not there"
        except StoreError:
            return f"what band {band} left is damaged"
        if (piece.band, piece.key) != (band, self.key):
            return f"band {band} belongs to another state of its inputs"
        return None

    @property
    def reason(self) -> str | None:
        """Why there are no pixels: what the first band says that has a reason; None if none has."""
        return next((piece.reason for piece in self if piece.reason is not None), None)

    def hand_over(self, writer: StoreWriter, workers: int) -> None:
        """Give the shards of all bands to the writer of their store, after reading each of them.

        Raises
        ------
        StoreError
            Shards are missing or not what their bands have written. The pieces of these bands are
            removed, so that the next run makes them anew.
        """
        place = band_store(writer.path, self.key)
        if not place.is_dir():
            place = writer.path  # where a job that was killed may just have put it
        shards: dict[str, tuple[str, int]] = {}
        faults: dict[Path, str] = {}
        for path, piece in zip(self.paths, self, strict=True):
            fault = first_fault(place, piece.shards, workers)
            if fault is not None:
                faults[path] = f"of band {piece.band}, {fault}"
            shards.update(piece.shards)
        _refuse(faults)
        writer.adopt(self.key, shards)


def _refuse(faults: Mapping[Path, str]) -> None:
    """Remove pieces that cannot be used, and raise with what is wrong with them, if there are."""
    for path in faults:
        path.unlink(missing_ok=True)
    if faults:
        told = ", ".join(faults.values())
        what = "this band" if len(faults) == 1 else "these bands"
        place = next(iter(faults)).parent
        raise StoreError(f"{place}: {told}; run the workflow again, which makes {what} anew")
