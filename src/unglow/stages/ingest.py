"""Ingest: a raw TIFF, streamed into an OME-Zarr store of one signal channel with its pyramid."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.errors import InputError
from unglow.core.own_memory import release_freed
from unglow.core.progress import step
from unglow.core.windows import Window, map_bounded, merge_runs
from unglow.images.constant_places import find_constant, spread
from unglow.images.pair_plan import ROLES
from unglow.images.raw_file import RawFile, remove_directories
from unglow.images.raw_images import band_parts, not_stored, open_reader, reads_in_order
from unglow.images.stored_values import ATTRIBUTE, MissingTiles
from unglow.images.zarr.writer import StageStore
from unglow.jobs.memory_limit import is_memory_failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from unglow.core.arrays import Array, Bools
    from unglow.images.pair_plan import Plan
    from unglow.images.zarr import StoreWriter

log = logging.getLogger(__name__)


@dataclass(slots=True)
class PixelStatistics:
    """Exact figures of an image, gathered block by block; order and thread count do not matter.

    Attributes
    ----------
    shape
        (rows, columns) of the image.
    saturation
        A pixel of this value or a larger one is saturated.
    not_stored
        Px that the image does not store are neither valid nor missing; None if there are none.
    blocks
        Of each block: valid, missing and saturated px; minimum, maximum and sum of the valid ones.
    constant, waiting
        Rectangles of one value that have no data, which are not counted; and such that have none if
        what they touch has none.
    """

    shape: tuple[int, int]
    saturation: float
    not_stored: MissingTiles | None = None
    blocks: dict[Window, tuple[float, ...]] = field(default_factory=dict)
    constant: dict[Window, float] = field(default_factory=dict)
    waiting: dict[Window, float] = field(default_factory=dict)

    def add(self, window: Window, block: Array) -> None:
        """Count the pixels of one block (rows, cols); NaN counts as missing."""
        stored = None
        if self.not_stored is not None and any(self.not_stored.clip_to(window)):
            stored = ~self.not_stored.mask(window)
        found = find_constant(block, window, self.shape, stored)
        if found is not None:
            mask, waiting = found
            stored = np.ones(block.shape, np.bool_) if stored is None else stored
            for one in waiting:
                stored[one.slices] = False
            stored &= ~mask
        self._count(window, block, stored)
        if found is not None:
            for known, parts in ((self.constant, merge_runs(mask)), (self.waiting, waiting)):
                for part in parts:
                    known[part.shift(window.y0, window.x0)] = float(block[part.y0, part.x0])
            for part in waiting:
                self._count(part.shift(window.y0, window.x0), block[part.slices], None)

    def _count(self, window: Window, block: Array, stored: Bools | None) -> None:
        known = np.isfinite(block) if block.dtype.kind == "f" else None
        count = block.size
        if stored is not None:
            count = int(np.count_nonzero(stored))
            known = stored if known is None else known & stored
        valid = block if known is None else block[known]
        low, high = (valid.min(), valid.max()) if valid.size else (math.inf, -math.inf)
        is_saturated = high >= self.saturation
        saturated = int(np.count_nonzero(valid >= self.saturation)) if is_saturated else 0
        numbers = valid.size, count - valid.size, saturated
        self.blocks[window] = (*numbers, float(low), float(high), float(valid.sum(dtype="f8")))

    def decide(self, file: str) -> None:
        """Decide on what is waiting once all blocks are counted; ``file`` names the image."""
        for part in spread(self.constant, self.waiting):
            self.constant[part] = self.waiting[part]
            del self.blocks[part]
        self.not_stored = MissingTiles.join(self.not_stored, self.constant, self.shape, file)

    def to_dict(self) -> dict[str, Any]:
        """Return the figures for the attributes of a store; None where no pixel was valid."""
        figures = np.array([self.blocks[w] for w in sorted(self.blocks)]).reshape(-1, 6)
        pixels, missing, saturated = (int(n) for n in figures[:, :3].sum(axis=0))
        return {
            "pixels": pixels,
            "missing": missing,
            "saturated": saturated,
            "min": float(figures[:, 3].min()) if pixels else None,
            "max": float(figures[:, 4].max()) if pixels else None,
            "mean": math.fsum(figures[:, 5]) / pixels if pixels else None,
        }


class SignalStore(StageStore):
    """The signal of one image of a pair: one channel of the raw file, or the sum of several.

    A failed plan, or pixels that cannot be decoded, give a store that is marked empty.

    Parameters
    ----------
    plan
        The pair's plan.
    role
        ``post`` or ``pre``.
    path
        Directory of the store.

    Attributes
    ----------
    statistics
        Of all pixels, once the store is made.
    """

    def __init__(self, plan: Plan, role: str, path: Path) -> None:
        header, layout = plan.headers[role], plan.layouts[role]
        self._header = header
        self._dtype = np.dtype(layout.dtype)
        self._channels = plan.channels[role]
        self._fingerprint = plan.fingerprints[role]
        self._refused = plan.reason
        self.statistics = PixelStatistics(
            layout.shape, _saturation(header.dtype, len(self._channels))
        )
        super().__init__(
            path,
            layout,
            name=role,
            pixel_size_um=header.pixel_size_um,
            attributes={
                "role": role,
                "channels": list(self._channels),
                "fingerprint": self._fingerprint,
                "grey_levels": "integer" if self._dtype.kind in "iu" else "real",
            },
        )

    def write(self, writer: StoreWriter, workers: int) -> str | None:
        """Copy the shards of a writer; see `StageStore.write`.

        Raises
        ------
        ChangedError
            The raw file was changed or replaced meanwhile.
        """
        if self._refused is not None:
            return self._refused
        raw, reason = RawFile(self._header, self._fingerprint), None
        try:
            self._copy(writer, workers)
        except InputError as error:
            if is_memory_failure(error):  # no fault of the file
                raise
            log.warning("%s", error)
            reason = remove_directories(str(error), self._header)
        raw.check()
        return reason

    @step("copy")
    def _copy(self, writer: StoreWriter, workers: int) -> None:
        """Read, reduce to one channel and write every shard, at most ``workers`` at a time."""
        with open_reader(self._header) as reader:
            self.statistics.not_stored = not_stored(reader, self._channels)

            def fetch(window: Window) -> Array:
                return signal(reader.read(window, self._channels), self._dtype)

            def store(window: Window, block: Array) -> None:
                self.statistics.add(window, block)
                writer.write(window, block)

            if self._header.preferred == "rows":
                done = self._copy_strips(writer, workers, fetch, store)
            else:
                done = map_bounded(lambda w: store(w, fetch(w)), writer.windows(), workers)
            for _ in done:
                pass
            self.statistics.decide(self._header.name)

    def _copy_strips(
        self,
        writer: StoreWriter,
        workers: int,
        fetch: Callable[[Window], Array],
        store: Callable[[Window, Array], None],
    ) -> Iterator[None]:
        """Copy a file of strips: a full-width row of shards at a time, each strip decoded once."""
        shard_rows: dict[tuple[int, int], list[Window]] = {}
        for window in writer.windows():
            shard_rows.setdefault((window.y0, window.y1), []).append(window)
        height = min(self.layout.shards[0], self.layout.shape[0])
        in_order = reads_in_order(self._header, height)
        buffer: Array | None = None
        for (y0, y1), windows in shard_rows.items():
            first, *others = band_parts(self._header, y0, y1, height)
            # The rest of a strip that was started in the row before is taken before others are.
            block = fetch(first)
            if buffer is None:  # a file of one strip has been decoded by now
                buffer = np.empty((height, self._header.shape[1]), self._dtype)
            rows = buffer[: y1 - y0]
            rows[: len(block)] = block
            del block

            def read(part: Window, y0: int = y0, rows: Array = rows) -> None:
                rows[part.y0 - y0 : part.y1 - y0] = fetch(part)

            def write(window: Window, y0: int = y0, rows: Array = rows) -> None:
                store(window, rows[window.shift(-y0, 0).slices])

            yield from map_bounded(read, others, 1 if in_order else workers)
            yield from map_bounded(write, windows, workers)

    def final_attributes(self) -> dict[str, Any]:
        """Return the statistics, and what the image does not store if there is such."""
        attributes = {"statistics": self.statistics.to_dict()}
        lacking = self.statistics.not_stored
        return attributes if lacking is None else {**attributes, ATTRIBUTE: lacking.to_json()}


def ingest_both(plan: Plan, paths: Mapping[str, Path], *, workers: int) -> int:
    """Write the stores of both images of a pair and publish them; return their valid px in all.

    Parameters
    ----------
    plan
        The pair's plan.
    paths
        By role, as for `SignalStore`.
    workers
        Blocks in flight: with two or more the images are ingested side by side, else in turn.
    """

    def ingest(role: str) -> int:
        with step(role):
            store = SignalStore(plan, role, paths[role])
            reason = store.make(workers=max(1, workers // 2))
            release_freed()  # else the other image comes on top of it
            return int(store.statistics.to_dict()["pixels"]) if reason is None else 0

    return sum(map_bounded(ingest, ROLES, min(workers, 2)))


def signal(planes: Array, dtype: np.dtype[Any]) -> Array:
    """Reduce (channels, rows, cols) to one image of ``dtype``: the channel, or the sum of several.

    Values that are not finite become NaN.
    """
    if planes.shape[0] == 1:
        with np.errstate(over="ignore", invalid="ignore"):  # these are not finite then
            image = planes[0].astype(dtype, copy=False)
    else:
        image = np.asarray(planes.sum(axis=0, dtype=dtype))
    if image.dtype.kind == "f" and not np.isfinite(image).all():
        image = np.nan_to_num(image, copy=True, nan=np.nan, posinf=np.nan, neginf=np.nan)
    return np.asarray(image)


def _saturation(dtype: str, channels: int) -> float:
    """Return the stored value at which every channel is at its type's limit."""
    kind = np.dtype(dtype)
    return float(np.iinfo(kind).max) * channels if kind.kind in "iu" else math.inf
