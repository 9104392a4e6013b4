"""Align: pre warped once onto the post frame, with the statistics from the same pass."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.progress import step
from unglow.core.reasons import to_json
from unglow.core.windows import Coarser, Window, map_bounded, strips
from unglow.images.stored_values import (
    MissingTiles,
    grey_level,
    has_grey_levels,
    mask_not_stored,
    quantise,
    value_range,
)
from unglow.images.zarr import Store
from unglow.images.zarr.layout import CHUNK
from unglow.images.zarr.writer import StageStore
from unglow.memory import BLUR_REACH
from unglow.photometry.cell_moments import CellMoments
from unglow.photometry.defects import Defects, find_defects
from unglow.photometry.joint_histogram import TILE, JointStatistics
from unglow.spoilt.seams import LineMeans, Seams, describe_seams, find_seams
from unglow.transform.resample import warp_window

if TYPE_CHECKING:
    from pathlib import Path

    from unglow.core.arrays import Array, Floats32
    from unglow.images.zarr import StoreLayout, StoreWriter
    from unglow.transform import Transform


class AlignedStore(StageStore):
    """Pre in the post frame: float32, NaN where pre or post have no data.

    Of pre that is seams as well (`unglow.spoilt.seams`). Of post it is what its image does not
    store, and `BLUR_REACH` px around it: a blur of post would carry its zeros so far. So no later
    stage needs to know of it.

    Parameters
    ----------
    post, pre
        Stores of the raw signal.
    transform
        Map of post (x, y) to pre (x, y); a failed one gives a store marked empty.
    layout, path
        Layout and directory of the store.

    Attributes
    ----------
    statistics, bins
        Joint statistics and cells of post and aligned pre, once the store is made; without pixels
        for a failed transform.
    """

    def __init__(
        self, post: Store, pre: Store, transform: Transform, layout: StoreLayout, path: Path
    ) -> None:
        field = transform.displacement
        super().__init__(
            path,
            layout,
            name="aligned_pre",
            pixel_size_um=post.pixel_size_um,
            attributes={
                "role": "aligned_pre",
                "inputs": {"post": post.digest, "pre": pre.digest},
                "matrix": None if transform.has_failed else transform.matrix.tolist(),
                **({} if field is None else {"displacement": {"sha256": field.digest}}),
            },
        )
        self._post, self._transform = post, transform.resampling_map
        self._not_stored = MissingTiles.from_attributes(post.attributes)
        self._pre = mask_not_stored(pre, pre.attributes)
        if transform.octaves > 0:  # the scale at which it is warped
            self._pre = Coarser(self._pre, transform.octaves)
        self._seams = Seams()
        self._defects: Defects | None = None
        self._integer = has_grey_levels(post.attributes) and has_grey_levels(pre.attributes)
        if transform.has_failed:
            self.statistics = JointStatistics.empty()
            self.bins = CellMoments.create(post.shape, (0.0, 0.0))
            return
        ranges = value_range(post.attributes), value_range(pre.attributes)
        self._range_of_pre = ranges[1]
        self.statistics = JointStatistics.create(
            post_range=ranges[0],
            pre_range=ranges[1],
            grey_level=grey_level(ranges, integer=self._integer),
            integer=self._integer,
        )
        self.bins = CellMoments.create(post.shape, (ranges[0][1], ranges[1][1]))

    def write(self, writer: StoreWriter, workers: int) -> str | None:
        """Warp the shards of a writer; see `StageStore.write`."""
        if self._transform.has_failed:
            return " ".join(self._transform.reasons)
        lines, ends = LineMeans.create(self._pre.shape), self._range_of_pre
        self._defects = find_defects(
            (mask_not_stored(self._post, self._post.attributes), self._pre),
            self._transform,
            ends,
            lambda block, window: lines.add_raw(block, window, ends),
            integer=self._integer,
            workers=workers,
        )
        self._seams = Seams(tuple(find_seams(lines, of_raw=True)))
        used: list[tuple[JointStatistics, Floats32]] = []  # as many as shards are in flight
        with step("warp"):
            for _ in map_bounded(
                lambda window: self._warp(window, writer, used), writer.windows(), workers
            ):
                pass
        for statistics, _ in used:
            self.statistics.merge(statistics)
        return None

    def final_attributes(self) -> dict[str, Any]:
        """Return a note on the seams of pre, if it has some, and its number of saturated px."""
        notes = to_json(describe_seams(self._seams.lines, "pre"))
        saturated_px = 0 if self._defects is None else self._defects.saturated_px
        return {"pre_saturated_px": saturated_px, **({"seams": notes} if notes else {})}

    def _warp(
        self, window: Window, writer: StoreWriter, used: list[tuple[JointStatistics, Floats32]]
    ) -> None:
        """Write one shard and count its pixels.

        Statistics and the memory of a shard that no other thread works with are ``used`` again.
        """
        try:
            statistics, room = used.pop()
        except IndexError:
            statistics = self.statistics.fresh()
            room = np.empty(math.prod(self.layout.shards), np.float32)
        block = room[: window.size].reshape(window.shape)
        warp_window(self._read_pre, self._pre.shape, self._transform, window, block)
        if self._integer:
            block = quantise(block)
        if self._not_stored is not None:
            for part in self._not_stored.clip_to(window, grown=BLUR_REACH):
                block[part.slices] = np.nan
        writer.write(window, block)
        for strip in strips(window, CHUNK):
            rows = slice(strip.y0 - window.y0, strip.y1 - window.y0)
            signal = self._post.read(strip)
            self._count(statistics, signal, block[rows], strip)
            self.bins.add(signal, block[rows], origin=(strip.y0, strip.x0))
        used.append((statistics, room))

    def _read_pre(self, window: Window) -> Array:
        """Return px of pre as they are resampled: NaN where there are no data."""
        if isinstance(self._pre, Store):
            block = self._pre.read(window, out=np.empty(window.shape, np.float32))
        else:
            block = self._pre.read(window).astype(np.float32)
        if self._defects is not None:
            self._defects.mask(block, window)
            self._seams.mark(block, window, 1, np.nan)
        return block

    def _count(
        self,
        statistics: JointStatistics,
        signal: Array,
        block: Floats32,
        window: Window,
    ) -> None:
        """Count the px of a window of post and aligned pre; what post does not store is no post."""
        lacking = self._not_stored
        if lacking is None or not any(lacking.clip_to(window)):
            statistics.add(signal, block, origin=(window.y0, window.x0))
            return
        for strip in strips(window, TILE):  # little is held as floats
            rows = slice(strip.y0 - window.y0, strip.y1 - window.y0)
            values = signal[rows].astype(np.result_type(signal.dtype, np.float32))
            values[lacking.mask(strip)] = np.nan
            statistics.add(values, block[rows], origin=(strip.y0, strip.x0))
