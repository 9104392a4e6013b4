"""Ingest: a raw TIFF, streamed into an OME-Zarr store of one signal channel with its pyramid."""

from __future__ import annotations

import logging
import math
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.blocks import Window, bounded_map
from unglow.errors import InputError
from unglow.fence import is_memory_failure
from unglow.plan import without_places
from unglow.store import StoreWriter, configure_threads
from unglow.telemetry import step
from unglow.tiff import open_reader
from unglow.tiff.bands import band_parts, reads_in_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from unglow.plan import Plan
    from unglow.tiff import TiffReader

log = logging.getLogger(__name__)


@dataclass(slots=True)
class PixelStatistics:
    """Exact figures of an image, gathered block by block; order and thread count do not matter."""

    saturation: float
    pixels: int = 0
    missing: int = 0
    saturated: int = 0
    low: float = math.inf
    high: float = -math.inf
    sums: dict[Window, float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add(self, window: Window, block: NDArray[Any]) -> None:
        """Count the pixels of one block (rows, cols); NaN counts as missing."""
        valid = block
        if block.dtype.kind == "f":
            valid = block[np.isfinite(block)]
        if valid.size == 0:
            low, high, total = math.inf, -math.inf, 0.0
        else:
            low, high, total = float(valid.min()), float(valid.max()), float(valid.sum(dtype="f8"))
        saturated = int(np.count_nonzero(valid >= self.saturation))
        with self._lock:
            self.pixels += valid.size
            self.missing += block.size - valid.size
            self.saturated += saturated
            self.low, self.high = min(self.low, low), max(self.high, high)
            self.sums[window] = total

    def to_dict(self) -> dict[str, Any]:
        """Return the figures for the attributes of a store; None where no pixel was valid."""
        some = self.pixels > 0
        total = math.fsum(self.sums[w] for w in sorted(self.sums))
        return {
            "pixels": self.pixels,
            "missing": self.missing,
            "saturated": self.saturated,
            "min": self.low if some else None,
            "max": self.high if some else None,
            "mean": total / self.pixels if some else None,
        }


def ingest(plan: Plan, role: str, target: Path, *, workers: int) -> dict[str, Any]:
    """Write the store of one image of a pair and publish it.

    Parameters
    ----------
    plan
        The pair's plan; a failed one gives a store that is marked empty with its reason.
    role
        ``post`` or ``pre``.
    target
        The store's directory.
    workers
        Blocks in flight.

    Returns
    -------
    The statistics that are in the store's attributes as well (empty if the pair failed).
    """
    header, layout = plan.headers[role], plan.layouts[role]
    attributes = {
        "role": role,
        "channels": list(plan.channels[role]),
        "fingerprint": plan.fingerprints[role],
        "grey_levels": "integer" if np.dtype(layout.dtype).kind in "iu" else "real",
    }
    writer = StoreWriter(
        target,
        layout,
        name=role,
        pixel_size_um=header.pixel_size_um,
        attributes=attributes,
        fill_value=0 if np.dtype(layout.dtype).kind in "iu" else math.nan,
        workers=workers,
    )
    configure_threads(workers)
    with writer:
        if plan.reason is not None:
            writer.publish_empty(plan.reason)
            return {}
        statistics = PixelStatistics(_saturation(header.dtype, len(plan.channels[role])))
        try:
            _stream(plan, role, writer, statistics, workers)
        except InputError as error:
            if is_memory_failure(error):  # no fault of the file
                raise
            log.warning("%s", error)
            writer.publish_empty(without_places(str(error), header))
            return {}
        figures = statistics.to_dict()
        writer.publish({"statistics": figures})
    return figures


@step("copy")
def _stream(
    plan: Plan, role: str, writer: StoreWriter, statistics: PixelStatistics, workers: int
) -> None:
    """Read, reduce to one channel and write every shard, at most ``workers`` at a time."""
    header, dtype = plan.headers[role], np.dtype(plan.layouts[role].dtype)
    channels = plan.channels[role]

    def store(window: Window, block: NDArray[Any]) -> None:
        statistics.add(window, block)
        writer.write(window, block)

    with open_reader(header) as reader:
        if reader.preferred == "rows":
            _drain(_bands(reader, writer, channels, dtype, workers, store))
            return

        def copy(window: Window) -> None:
            store(window, signal(reader.read(window, channels), dtype))

        _drain(bounded_map(copy, writer.windows(), workers))


def _bands(
    reader: TiffReader,
    writer: StoreWriter,
    channels: tuple[int, ...],
    dtype: np.dtype[Any],
    workers: int,
    store: Callable[[Window, NDArray[Any]], None],
) -> Iterator[None]:
    """Copy a file of strips: one full-width row of shards at a time, each strip decoded once."""
    rows: dict[tuple[int, int], list[Window]] = {}
    for window in writer.windows():
        rows.setdefault((window.y0, window.y1), []).append(window)
    height = max(y1 - y0 for y0, y1 in rows)
    in_order = reads_in_order(reader.header, height)
    band: NDArray[Any] | None = None

    def fetch(part: Window) -> NDArray[Any]:
        return signal(reader.read(part, channels), dtype)

    for (y0, y1), windows in rows.items():
        first, *others = band_parts(reader.header, y0, y1, height)
        # The rest of a strip that was begun in the band before is taken before others are decoded.
        block = fetch(first)
        if band is None:  # a file of one strip has been decoded by now
            band = np.empty((height, reader.header.shape[1]), dtype)
        filled = band[: y1 - y0]
        filled[: len(block)] = block
        del block

        def read(part: Window, y0: int = y0, rows: NDArray[Any] = filled) -> None:
            rows[part.y0 - y0 : part.y1 - y0] = fetch(part)

        def write(window: Window, y0: int = y0, rows: NDArray[Any] = filled) -> None:
            store(window, rows[window.shift(-y0, 0).slices])

        yield from bounded_map(read, others, 1 if in_order else workers)
        yield from bounded_map(write, windows, workers)


def signal(planes: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
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


def _drain(results: Iterable[Any]) -> None:
    for _ in results:
        pass
