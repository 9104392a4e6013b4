"""A store that a stage makes, with what is counted while its pixels are written."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from unglow.io.zarr.writer import StoreWriter

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from unglow.io.zarr.layout import StoreLayout
    from unglow.io.zarr.shard_writer import ShardWriter


class StageStore(ABC):
    """One store, with what is counted while its pixels are written; a stage says how (`write`).

    Parameters
    ----------
    path, layout
        Final directory and geometry of the store.
    name, pixel_size_um, attributes
        As for `unglow.io.zarr.StoreWriter`.
    """

    def __init__(
        self,
        path: Path,
        layout: StoreLayout,
        *,
        name: str,
        pixel_size_um: tuple[float, float] | None,
        attributes: Mapping[str, Any],
    ) -> None:
        self.path = path
        self.layout = layout
        self._name = name
        self._pixel_size_um = pixel_size_um
        self._attributes = attributes

    @abstractmethod
    def write(self, writer: ShardWriter, workers: int) -> str | None:
        """Write and count all shards, ``workers`` at a time.

        Returns
        -------
        Why the store has no pixels, one or more sentences; None if it has.
        """

    def final_attributes(self) -> dict[str, Any]:
        """Return the attributes that are known only after the last pixel."""
        return {}

    def make(self, *, workers: int) -> str | None:
        """Write the store and publish it, marked empty if there is a reason to.

        Parameters
        ----------
        workers
            Shards in flight.

        Returns
        -------
        Why the store has no pixels; None if it has.

        Raises
        ------
        StoreError
            The file system refuses.
        """
        with self.writer(workers) as writer:
            reason = self.write(writer, workers)
            if reason is None:
                writer.publish(self.final_attributes())
            else:
                writer.publish_empty(reason)
        return reason

    def writer(self, workers: int) -> StoreWriter:
        """Return a writer of the store, which builds ``workers`` coarse shards at a time."""
        return StoreWriter(
            self.path,
            self.layout,
            name=self._name,
            pixel_size_um=self._pixel_size_um,
            attributes=self._attributes,
            workers=workers,
        )
