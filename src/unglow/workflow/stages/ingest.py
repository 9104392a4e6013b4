"""Ingest: a raw TIFF, streamed into an OME-Zarr store of one signal channel with its pyramid."""

from __future__ import annotations

import logging
import math
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.errors import InputError
from unglow.core.progress import step
from unglow.core.windows import Window, bounded_map
from unglow.io.tiff import open_reader
from unglow.io.tiff.row_bands import band_parts, reads_in_order
from unglow.io.zarr import BandWriter, StoreWriter, state_key
from unglow.io.zarr.band_results import BandResult, BandResults
from unglow.jobs.memory_limit import is_memory_failure
from unglow.workflow.samples import ROLES
from unglow.workflow.stages.plan import without_places
from unglow.workflow.stages.raw_file import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from unglow.io.tiff import TiffReader
    from unglow.io.zarr import StoreLayout
    from unglow.io.zarr.bands import Band
    from unglow.io.zarr.shard_writer import ShardWriter
    from unglow.workflow.stages.plan import Plan

log = logging.getLogger(__name__)

VERSION = 1
"""Of the pixels and statistics."""


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

    @property
    def counts(self) -> dict[str, NDArray[Any]]:
        """The figures as arrays, by name, for `merge_counts`."""
        places = sorted(self.sums)
        return {
            "numbers": np.array([self.pixels, self.missing, self.saturated], np.int64),
            "ends": np.array([self.low, self.high]),
            "windows": np.array([(w.y0, w.y1, w.x0, w.x1) for w in places], np.int64),
            "sums": np.array([self.sums[w] for w in places]),
        }

    def merge_counts(self, counts: Mapping[str, NDArray[Any]]) -> None:
        """Add the `counts` of other blocks of the image."""
        pixels, missing, saturated = (int(n) for n in counts["numbers"])
        low, high = (float(v) for v in counts["ends"])
        with self._lock:
            self.pixels += pixels
            self.missing += missing
            self.saturated += saturated
            self.low, self.high = min(self.low, low), max(self.high, high)
            places = (Window(*(int(n) for n in row)) for row in counts["windows"])
            self.sums.update(zip(places, counts["sums"].tolist(), strict=True))

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


def ingest(
    plan: Plan, role: str, target: Path, *, workers: int, pieces: Sequence[Path] = ()
) -> dict[str, Any]:
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
    pieces
        What `ingest_band` has left for all bands; nothing to do here what they do.

    Returns
    -------
    The statistics that are in the store's attributes as well (empty if the pair failed).

    Raises
    ------
    ChangedError
        The raw file was changed or replaced meanwhile, so that nothing is published.
    """
    header, layout = plan.headers[role], plan.layouts[role]
    writer = StoreWriter(
        target,
        layout,
        name=role,
        pixel_size_um=header.pixel_size_um,
        attributes=_attributes(plan, role),
        fill_value=_fill(layout),
        workers=workers,
        bands=len(pieces),
    )
    with writer:
        if plan.reason is not None:
            writer.publish_empty(plan.reason)
            return {}
        statistics = _empty_statistics(plan, role)
        if pieces:
            given = BandResults(pieces, _key(plan, role))
            reason = given.reason
            if reason is None:
                for piece in given:
                    statistics.merge_counts(piece.arrays)
                given.hand_over(writer, workers)
        else:
            reason = _stream(plan, role, writer, statistics, workers)
        if reason is not None:
            writer.publish_empty(reason)
            return {}
        figures = statistics.to_dict()
        writer.publish({"statistics": figures})
    return figures


def ingest_both(
    plan: Plan,
    targets: Mapping[str, Path],
    *,
    workers: int,
    pieces: Mapping[str, Sequence[Path]] | None = None,
) -> int:
    """Write the stores of both images of a pair and publish them; return their px in all.

    Parameters
    ----------
    plan
        The pair's plan.
    targets, pieces
        By role, as for `ingest`.
    workers
        Blocks in flight: with two or more the images are ingested side by side, else in turn.
    """

    def one(role: str) -> int:
        with step(role):
            given = (pieces or {}).get(role, ())
            each = max(1, workers // 2)
            found = ingest(plan, role, targets[role], workers=each, pieces=given)
            return int(found.get("pixels", 0))

    return sum(bounded_map(one, ROLES, min(workers, 2)))


def ingest_band(plan: Plan, role: str, target: Path, band: Band, *, workers: int) -> BandResult:
    """Do one band of what `ingest` does; parameters as there, ``target`` that of the whole store.

    A file whose pixels cannot be decoded gives a piece with the reason.
    """
    key, layout = _key(plan, role), plan.layouts[role]
    if plan.reason is not None:
        return BandResult(band, key, reason=plan.reason)
    statistics = _empty_statistics(plan, role)
    with BandWriter(target, layout, fill_value=_fill(layout), band=band, key=key) as writer:
        reason = _stream(plan, role, writer, statistics, workers)
        if reason is not None:
            return BandResult(band, key, reason=reason)
        return BandResult(band, key, writer.shards, statistics.counts)


def _attributes(plan: Plan, role: str) -> dict[str, Any]:
    integer = np.dtype(plan.layouts[role].dtype).kind in "iu"
    return {
        "role": role,
        "channels": list(plan.channels[role]),
        "fingerprint": plan.fingerprints[role],
        "grey_levels": "integer" if integer else "real",
    }


def _key(plan: Plan, role: str) -> str:
    """Return what shards and statistics of a band follow from."""
    header = {**plan.headers[role].to_dict(), "path": ""}
    layout = plan.layouts[role].to_dict()
    return state_key("ingest", VERSION, _attributes(plan, role), header, layout)


def _fill(layout: StoreLayout) -> float:
    return 0 if np.dtype(layout.dtype).kind in "iu" else math.nan


def _empty_statistics(plan: Plan, role: str) -> PixelStatistics:
    return PixelStatistics(_saturation(plan.headers[role].dtype, len(plan.channels[role])))


def _stream(
    plan: Plan, role: str, writer: ShardWriter, statistics: PixelStatistics, workers: int
) -> str | None:
    """Copy the shards of a writer; return why that cannot be, if it is the fault of the file.

    Raises
    ------
    ChangedError
        The file was changed or replaced meanwhile.
    """
    header = plan.headers[role]
    source = Source.of(header, plan.fingerprints[role])
    reason = None
    try:
        _copy(plan, role, writer, statistics, workers)
    except InputError as error:
        if is_memory_failure(error):  # no fault of the file
            raise
        log.warning("%s", error)
        reason = without_places(str(error), header)
    source.check()
    return reason


@step("copy")
def _copy(
    plan: Plan, role: str, writer: ShardWriter, statistics: PixelStatistics, workers: int
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
    writer: ShardWriter,
    channels: tuple[int, ...],
    dtype: np.dtype[Any],
    workers: int,
    store: Callable[[Window, NDArray[Any]], None],
) -> Iterator[None]:
    """Copy a file of strips: one full-width row of shards at a time, each strip decoded once."""
    rows: dict[tuple[int, int], list[Window]] = {}
    for window in writer.windows():
        rows.setdefault((window.y0, window.y1), []).append(window)
    height = min(writer.layout.shards[0], writer.layout.shape[0])
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
