"""An OME-Zarr 0.5 image of many channels, axes (c, y, x), written window by window, never held.

Each channel is a store of its own until all are complete: then their shards become those of one
store with one channel each, by renaming.
"""

from __future__ import annotations

import secrets
import shutil
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from unglow.core.errors import StoreError
from unglow.core.files import name_unwritten, publish, read_json
from unglow.images.zarr.layout import (
    DOCUMENT,
    SHARD,
    make_level_document,
    plan_layout,
    store_digest,
    write_document,
)
from unglow.images.zarr.writer import StoreWriter

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from unglow.core.arrays import Array
    from unglow.core.windows import Window
    from unglow.images.tiff.metadata import OmeChannel


class OmeZarrSink:
    """Writer of an OME-Zarr image of many channels that appears only when it is complete.

    Use as a context manager and `write` each window of each channel once, in any order and from
    any thread. If the block ends early, nothing is left behind. Arguments are those of
    `unglow.images.tiff.tiles.OmeTiffSink`.

    Raises
    ------
    StoreError
        The file system refuses.
    """

    window = SHARD

    def __init__(
        self,
        path: Path,
        shape: tuple[int, int],
        dtype: np.dtype[Any] | str,
        channels: Sequence[OmeChannel],
        *,
        name: str,
        pixel_size_um: tuple[float, float] | None = None,
        workers: int = 1,
    ) -> None:
        self._path, self._channels, self._name = path, channels, name
        self._layout = plan_layout(shape, np.dtype(dtype).name)
        self._partial = path.with_name(f".{path.name}.{secrets.token_hex(6)}.partial")
        self._writers = [
            StoreWriter(
                self._partial / f"channel-{n}",
                self._layout,
                name=channel.name,
                pixel_size_um=pixel_size_um,
                attributes={},
                workers=workers,
                whole=path,
            )
            for n, channel in enumerate(channels)
        ]
        self._open = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.callback(shutil.rmtree, self._partial, ignore_errors=True)
            for writer in self._writers:
                stack.enter_context(writer)
            self._open = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._open:
            if kind is None:
                self._publish()

    def write(self, channel: int, window: Window, pixels: Array) -> None:
        """Write level 0 of a window of a channel, and what follows from it alone; thread-safe.

        Raises
        ------
        ValueError
            The window is not a shard, or was written before, or the pixels do not fit it.
        StoreError
            The file system refuses.
        """
        self._writers[channel].write(window, pixels)

    def _publish(self) -> None:
        """Make one store of those of the channels, and give it its name."""
        whole, old = self._partial / "whole", self._partial / "old"
        roots = []
        for writer in self._writers:
            writer.publish()
            roots.append(read_json(writer.path / DOCUMENT)["attributes"])
        with name_unwritten(self._path, StoreError):
            whole.mkdir()
            for level in range(self._layout.levels):
                shards = whole / str(level) / "c"
                shards.mkdir(parents=True)
                document = make_level_document(self._layout, level)
                write_document(shards.parent, _add_channels(document, len(self._channels)))
                for n, writer in enumerate(self._writers):
                    (writer.path / str(level) / "c").rename(shards / str(n))
            write_document(whole, self._root_document(roots))
            publish(whole, self._path, old)

    def _root_document(self, roots: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Return the document of the root, made of those of the channels."""
        (multiscale,) = roots[0]["ome"]["multiscales"]
        multiscale["name"] = self._name
        multiscale["axes"].insert(0, {"name": "c", "type": "channel"})
        for dataset in multiscale["datasets"]:
            scale, translation = dataset["coordinateTransformations"]
            scale["scale"].insert(0, 1.0)
            translation["translation"].insert(0, 0.0)
        shown = []
        for root, channel in zip(roots, self._channels, strict=True):
            (one,) = root["ome"]["omero"]["channels"]
            red, green, blue = channel.colour or (255, 255, 255)
            shown.append({**one, "color": f"{red:02X}{green:02X}{blue:02X}"})
        digests = {f"{n}": root["unglow"]["digest"] for n, root in enumerate(roots)}
        size = sum(root["unglow"]["stored_bytes"] for root in roots)
        summary = {"digest": store_digest(digests), "stored_bytes": size}
        ome = {"version": "0.5", "multiscales": [multiscale], "omero": {"channels": shown}}
        attributes = {"ome": ome, "unglow": summary}
        return {"attributes": attributes, "zarr_format": 3, "node_type": "group"}


def _add_channels(document: dict[str, Any], channels: int) -> dict[str, Any]:
    """Return the document of a level with an axis of channels, one in each shard and chunk."""
    grid = document["chunk_grid"]["configuration"]
    (sharding,) = document["codecs"]
    inside = sharding["configuration"]
    inside["chunk_shape"] = [1, *inside["chunk_shape"]]
    grid["chunk_shape"] = [1, *grid["chunk_shape"]]
    shape, names = [channels, *document["shape"]], ["c", *document["dimension_names"]]
    return {**document, "shape": shape, "dimension_names": names}
