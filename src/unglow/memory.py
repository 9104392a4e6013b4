"""The memory model: the peak of every job, from image headers, the budget and the thread count.

``peak = base + fixed + in_flight * each``, all in MB (1e6 bytes): what the imported libraries take,
what a stage holds whatever it does, and what one block in flight takes. The budget and the threads
choose only ``in_flight``; they never change what is computed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from unglow.store import StoreLayout
    from unglow.tiff import TiffHeader

MB = 1e6

# VmHWM of a process that has imported what the stage needs and done a trivial piece of work, MB.
BASE = {
    "plan": 105.0,
    "ingest": 85.0,
    "register": 260.0,
    "align": 190.0,
    "scale": 115.0,
    "difference": 85.0,
    "figures": 190.0,
    "summary": 120.0,
}
# The warp reads at most this many px of pre for each px of a shard, and some more.
WARP_SOURCE = 1.25
WARP_SPARE_PX = 1 << 16
# The pyramid of a block is 1/3 of it; halving needs float32 copies of a quarter at a time.
_HALVING = 1.0 / 3.0 + 1.25
# Compressed bytes of a shard wait for the write, at worst as many as raw ones.
_ENCODED = 1.1


@dataclass(frozen=True, slots=True)
class Demand:
    """Memory that a job needs, MB: a constant part and a part for each block in flight."""

    base: float
    each: float
    fixed: float = 0.0

    def in_flight(self, budget_mb: float, threads: int) -> int:
        """Return how many blocks may be worked on at once: at most one per thread, at least one."""
        room = (budget_mb - self.base - self.fixed) / self.each if self.each > 0 else threads
        return max(1, min(threads, math.floor(room)))

    def peak_mb(self, budget_mb: float, threads: int) -> int:
        """Return the predicted peak, rounded up to whole MB."""
        return math.ceil(self.base + self.fixed + self.in_flight(budget_mb, threads) * self.each)


def plan(headers: tuple[TiffHeader, TiffHeader]) -> Demand:
    """Demand of the plan job: one survey block of each image at a time."""
    return Demand(BASE["plan"], 0.0, fixed=max(_decode_mb(h) for h in headers) + 30.0)


def ingest(header: TiffHeader, layout: StoreLayout) -> Demand:
    """Demand of an ingest job: a row of shards for strip files, single shards for tiled ones."""
    raw_px = np.dtype(header.dtype).itemsize * len(header.channels)
    stored_px = np.dtype(layout.dtype).itemsize
    shard_px = min(layout.shards[0], layout.shape[0]) * min(layout.shards[1], layout.shape[1])
    writing = shard_px * (stored_px * (1 + _ENCODED) + 4 * _HALVING)
    if header.layout == "tiles":
        return Demand(
            BASE["ingest"], (shard_px * raw_px + writing) / MB + _decode_mb(header), fixed=0.0
        )
    band = min(layout.shards[0], layout.shape[0]) * layout.shape[1] * stored_px / MB
    if header.streams:  # one thread decodes, then all write
        return Demand(BASE["ingest"], writing / MB, fixed=band + _decode_mb(header))
    return Demand(BASE["ingest"], max(writing / MB, _decode_mb(header)), fixed=band)


def register(coarse_px: int, block_px: int) -> Demand:
    """Demand of registration: a few copies of the coarse images, and blocks."""
    coarse = 60.0 * coarse_px * coarse_px * 4
    return Demand(BASE["register"], 40 * block_px * block_px * 8 / MB, fixed=coarse / MB)


def align(layout: StoreLayout, pre: StoreLayout) -> Demand:
    """Demand of the warp: per shard the pre window under it, both images and the result."""
    shard_px = _shard_px(layout)
    window_px = min(WARP_SOURCE * shard_px + WARP_SPARE_PX, pre.shape[0] * pre.shape[1])
    each = window_px * (np.dtype(pre.dtype).itemsize + 4) + shard_px * (
        np.dtype(layout.dtype).itemsize + 4 * (2 + _ENCODED + _HALVING)
    )
    return Demand(BASE["align"], each / MB, fixed=10.0)


def difference(layout: StoreLayout) -> Demand:
    """Demand of the subtraction: post, aligned pre and the difference of one shard."""
    shard_px = _shard_px(layout)
    each = shard_px * (np.dtype(layout.dtype).itemsize + 4 * (4 + _ENCODED + _HALVING))
    return Demand(BASE["difference"], each / MB, fixed=10.0)


def small(stage: str) -> Demand:
    """Demand of a job that only reads small data: scale, figures, summary."""
    return Demand(BASE[stage], 0.0, fixed=110.0 if stage == "figures" else 20.0)


def store_disk_mb(layout: StoreLayout, dtype: str | None = None) -> int:
    """Return an upper bound, MB, for a store with its pyramid: incompressible pixels."""
    pixels = layout.shape[0] * layout.shape[1] * 4 / 3
    return math.ceil(pixels * np.dtype(dtype or layout.dtype).itemsize / MB * 1.02 + 1)


def runtime_min(pixels: int, seconds_per_megapixel: float) -> int:
    """Return a generous time, whole minutes, for a job: 20 times what a 2-core machine needs."""
    return math.ceil(2 + 20 * pixels / 1e6 * seconds_per_megapixel / 60)


def _shard_px(layout: StoreLayout) -> int:
    return min(layout.shards[0], layout.shape[0]) * min(layout.shards[1], layout.shape[1])


def _decode_mb(header: TiffHeader) -> float:
    return header.decode_bytes / MB
