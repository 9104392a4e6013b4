"""A store that a stage makes: at once, or in bands that jobs of their own write and one joins."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from unglow.core.progress import step
from unglow.io.zarr.band_results import BandResult, BandResults
from unglow.io.zarr.band_writer import BandWriter, state_key
from unglow.io.zarr.writer import StoreWriter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from unglow.io.zarr.bands import Band
    from unglow.io.zarr.layout import StoreLayout
    from unglow.io.zarr.shard_writer import ShardWriter


class StageStore(ABC):
    """One store, with what is counted while its pixels are written.

    A stage says how pixels are written (`write`), and how counts of bands are saved and added up
    (`counts`, `merge_counts`). `make` and `make_band` give the same store and counts, byte by byte.

    Parameters
    ----------
    path, layout
        Final directory and geometry of the store.
    stage, version
        Name of the stage, and the version of its pixels and counts.
    name, pixel_size_um, attributes
        As for `unglow.io.zarr.StoreWriter`.
    inputs
        What pixels and counts follow from beside attributes and layout, JSON types.
    """

    def __init__(
        self,
        path: Path,
        layout: StoreLayout,
        *,
        stage: str,
        version: int,
        name: str,
        pixel_size_um: tuple[float, float] | None,
        attributes: Mapping[str, Any],
        inputs: Sequence[Any] = (),
    ) -> None:
        self.path = path
        self.layout = layout
        self._name = name
        self._pixel_size_um = pixel_size_um
        self._attributes = attributes
        self._key = state_key(stage, version, attributes, *inputs, layout.to_dict())

    @abstractmethod
    def write(self, writer: ShardWriter, workers: int) -> str | None:
        """Write and count the shards of a writer, ``workers`` at a time.

        Returns
        -------
        Why the store has no pixels, one or more sentences; None if it has.
        """

    @abstractmethod
    def counts(self, rows: tuple[int, int]) -> dict[str, NDArray[Any]]:
        """Return what was counted in a band of rows: first px, px after the last."""

    @abstractmethod
    def merge_counts(self, counts: Mapping[str, NDArray[Any]], rows: tuple[int, int]) -> None:
        """Add the `counts` of a band of rows."""

    def final_attributes(self) -> dict[str, Any]:
        """Return the attributes that are known only after the last pixel."""
        return {}

    def make(self, *, workers: int, band_results: Sequence[Path] = ()) -> str | None:
        """Write the store and publish it, marked empty if there is a reason to.

        Parameters
        ----------
        workers
            Shards in flight.
        band_results
            Files of what `make_band` returned for all bands, first band first: their shards and
            counts are joined, and nothing is computed here.

        Returns
        -------
        Why the store has no pixels; None if it has.

        Raises
        ------
        StoreError
            The file system refuses, or results of bands cannot be used.
        """
        with self.writer(workers, len(band_results)) as writer:
            if band_results:
                reason = self._join(BandResults(band_results, self._key), writer, workers)
            else:
                reason = self.write(writer, workers)
            if reason is None:
                writer.publish(self.final_attributes())
            else:
                writer.publish_empty(reason)
        return reason

    def writer(self, workers: int, bands: int = 0) -> StoreWriter:
        """Return a writer of the store; parameters as for `unglow.io.zarr.StoreWriter`."""
        return StoreWriter(
            self.path,
            self.layout,
            name=self._name,
            pixel_size_um=self._pixel_size_um,
            attributes=self._attributes,
            workers=workers,
            bands=bands,
        )

    def make_band(self, band: Band, *, workers: int) -> BandResult:
        """Write the shards of one band to where those of the others are, and count them."""
        with BandWriter(self.path, self.layout, band=band, key=self._key) as writer:
            reason = self.write(writer, workers)
            counts = self.counts(band.rows(self.layout))
            return BandResult(band, self._key, writer.shards, counts, reason)

    @step("join")
    def _join(self, results: BandResults, writer: StoreWriter, workers: int) -> str | None:
        """Add up what bands have counted, and take over their shards if all have pixels."""
        reason, shards = None, []
        for result in results:
            self.merge_counts(result.arrays, result.band.rows(self.layout))
            reason = reason or result.reason
            shards.append(result.shards)
        if reason is None:
            results.hand_over(shards, writer, workers)
        return reason
