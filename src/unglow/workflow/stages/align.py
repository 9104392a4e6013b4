"""Align: pre warped once onto the post frame, with the statistics from the same pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unglow.core.grey_levels import grey_level, has_grey_levels, quantise, value_range
from unglow.core.progress import step
from unglow.core.windows import Coarser, Window, bounded_map
from unglow.io.zarr.writer import StageStore
from unglow.photometry.cell_moments import CellMoments
from unglow.photometry.joint_histogram import JointStatistics
from unglow.transform.resample import warp_window

if TYPE_CHECKING:
    from pathlib import Path

    from unglow.io.zarr import Store, StoreLayout
    from unglow.io.zarr.shard_writer import ShardWriter
    from unglow.transform import Transform


class AlignedStore(StageStore):
    """Pre in the post frame: float32, NaN where pre has no data.

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
                "matrix": None if transform.failed else transform.matrix.tolist(),
                **({} if field is None else {"displacement": {"sha256": field.digest}}),
            },
        )
        self._post, self._transform = post, transform.resampled
        self._pre = Coarser(pre, max(0, transform.octaves)) if transform.octaves > 0 else pre
        self._integer = has_grey_levels(post.attributes) and has_grey_levels(pre.attributes)
        if transform.failed:
            self.statistics = JointStatistics.empty()
            self.bins = CellMoments.create(post.shape, (0.0, 0.0))
            return
        ranges = value_range(post.attributes), value_range(pre.attributes)
        self.statistics = JointStatistics.create(
            post_range=ranges[0],
            pre_range=ranges[1],
            grey_level=grey_level(ranges, integer=self._integer),
            integer=self._integer,
        )
        self.bins = CellMoments.create(post.shape, (ranges[0][1], ranges[1][1]))

    def write(self, writer: ShardWriter, workers: int) -> str | None:
        """Warp the shards of a writer; see `StageStore.write`."""
        if self._transform.failed:
            return " ".join(self._transform.reasons)
        with step("warp"):
            for statistics in bounded_map(
                lambda window: self._warp(window, writer), writer.windows(), workers
            ):
                self.statistics.merge(statistics)
        return None

    def _warp(self, window: Window, writer: ShardWriter) -> JointStatistics:
        """Write one shard and return the statistics of its pixels."""
        block = warp_window(self._pre.read, self._pre.shape, self._transform, window)
        if self._integer:
            block = quantise(block)
        writer.write(window, block)
        origin = window.y0, window.x0
        statistics, signal = self.statistics.fresh(), self._post.read(window)
        statistics.add(signal, block, origin=origin)
        self.bins.add(signal, block, origin=origin)
        return statistics
