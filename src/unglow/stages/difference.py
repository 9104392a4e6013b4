"""Subtraction: the difference of a pair, shard by shard, and what is left by every scale method."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from unglow.core.progress import step
from unglow.core.records import to_record
from unglow.core.windows import Window, map_bounded, strips
from unglow.images.stored_values import has_grey_levels, value_range
from unglow.images.zarr.writer import StageStore
from unglow.memory import SEGMENT, count_blocks
from unglow.photometry.difference import Matched, make_attributes, read_reason, subtract_window
from unglow.photometry.difference_histogram import SIDE, BackgroundMedians, DifferenceHistogram
from unglow.photometry.imaging import NoiseModel
from unglow.spoilt.block_scores import BlockScores, Expectation, score_strip
from unglow.spoilt.seams import LineMeans, sum_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from unglow.core.arrays import Floats32
    from unglow.images.zarr import StoreLayout, StoreWriter
    from unglow.photometry.gain.scale import MethodResult, Scale
    from unglow.photometry.joint_histogram import JointStatistics


@dataclass(frozen=True, eq=False, slots=True)
class Residue:
    """Counts of a difference by one method; empty where that found no gain."""

    histogram: DifferenceHistogram
    background: BackgroundMedians


class DifferenceStore(StageStore):
    """The difference of one method: float32 in the post frame, NaN where there is no data.

    Without a gain the store is marked empty. What is left by other methods is only counted.

    Parameters
    ----------
    images
        Post and pre in its frame.
    scale
        What the methods have estimated.
    statistics
        Joint statistics of the pair, for the range of the histograms.
    methods
        The method whose difference is written, and those whose differences are only counted.
    layout, path
        Layout and directory of the store.

    Attributes
    ----------
    residues
        What is left by each method, counted, once the store is made.
    blocks
        How far the difference of the default method departs from noise, block by block; without
        data if that method found no gain, or noise is not known.
    lines
        The same along its rows and columns.
    """

    def __init__(
        self,
        images: Matched,
        scale: Scale,
        statistics: JointStatistics,
        methods: Sequence[str],
        layout: StoreLayout,
        path: Path,
    ) -> None:
        super().__init__(
            path,
            layout,
            name=f"difference {methods[0]}",
            pixel_size_um=images.post.pixel_size_um,
            attributes=make_attributes(images, methods[0], scale.methods[methods[0]]),
        )
        self._images, self._scale = images, scale
        self._written = methods[0]
        self.residues = {
            name: Residue(
                _empty_histogram(scale.methods[name], statistics),
                BackgroundMedians.create(images.post.shape),
            )
            for name in methods
        }
        self.blocks = BlockScores.create(images.post.shape)
        self.lines = LineMeans.create(images.post.shape)
        self._judged = scale.default
        self._expected = _expectation(images, scale, statistics)

    def write(self, writer: StoreWriter, workers: int) -> str | None:
        """Subtract by each method in the shards of a writer; see `StageStore.write`."""
        self._subtract_all(writer.windows(), writer, workers)
        written = self._scale.methods[self._written]
        return None if written.ok else read_reason(self._images.aligned, self._written, written)

    def make_same(self, other: Path, *, workers: int) -> bool:
        """Take over the pixels of another variant's store, and count what is left here.

        Returns
        -------
        Whether that was done; False if the other store turns out to follow from something else.
        """
        with self.writer(workers) as writer:
            if not writer.publish_same(other):
                return False
        self._subtract_all(self.layout.windows(), None, workers)
        return True

    @step("subtract")
    def _subtract_all(
        self, windows: Iterable[Window], writer: StoreWriter | None, workers: int
    ) -> None:
        """Subtract by each method and count; write the first if there is a writer."""
        results = {name: self._scale.methods[name] for name in self.residues}
        results = {name: result for name, result in results.items() if result.ok}
        spare: list[Floats32] = []
        for counted in map_bounded(
            lambda window: self._subtract(window, results, writer, spare),
            windows if results else (),
            workers,
        ):
            for name, histogram in counted.items():
                self.residues[name].histogram.merge(histogram)

    def _subtract(
        self,
        window: Window,
        results: Mapping[str, MethodResult],
        writer: StoreWriter | None,
        spare: list[Floats32],
    ) -> dict[str, DifferenceHistogram]:
        """Subtract by each method and count in one shard, which is read once; write the first.

        What is subtracted and counted at a time stays in the cache. Memory that is ``spare`` is
        used again: new memory takes time.
        """
        try:
            room = spare.pop()
        except IndexError:
            room = np.empty(2 * math.prod(self.layout.shards), np.float32)
        both = room[: 2 * window.size].reshape(2, *window.shape)
        post, pre = self._images.read(window, out=both)
        integer = has_grey_levels(self._images.post.attributes)
        counted = {name: self.residues[name].histogram.fresh() for name in results}
        fine, lines = [], []
        columns = np.zeros((count_blocks(window.shape, SEGMENT)[0], 2, window.shape[1]), np.float32)
        # The one that is written comes last: it takes the place of pre, which is of no more use.
        order = sorted(results, key=lambda name: name == self._written)
        for strip in strips(window, SIDE):  # whole squares of `BackgroundMedians`
            rows = slice(strip.y0 - window.y0, strip.y1 - window.y0)
            part = post[rows].astype(np.float32, copy=False), pre[rows]
            for name in order:
                left = subtract_window(results[name], part, strip, integer=integer)
                counted[name].add(left)
                self.residues[name].background.add(left, (strip.y0, strip.x0))
                if name == self._judged and self._expected is not None:
                    fine.append(score_strip(part[0], left, self._expected))
                    own = columns[rows.start // SEGMENT]
                    lines.append(sum_lines(part[0], left, self._expected, own))
            if self._written in results:
                pre[rows] = left
        if fine:
            self.blocks.store_part(fine, (window.y0, window.x0))
            self.lines.store_window(lines, columns, window)
        if self._written in results and writer is not None:
            writer.write(window, pre)
        spare.append(room)
        return counted

    def save_residues(self, histogram: Path, background: Path) -> None:
        """Write histograms and medians of all methods, those that are written without a prefix."""
        own = self.residues[self._written]
        others = {name: left for name, left in self.residues.items() if name != self._written}
        own.histogram.save(histogram, {name: left.histogram for name, left in others.items()})
        own.background.save(background, {name: left.background for name, left in others.items()})


def _expectation(images: Matched, scale: Scale, statistics: JointStatistics) -> Expectation | None:
    """Return what noise makes of the default difference; None if that is not known."""
    noise = scale.default_result.details.get("noise")
    if noise is None or not scale.default_result.ok or scale.bright_field:
        return None
    lowest = value_range(images.post.attributes)[0]
    return Expectation.from_result(
        scale.default_result, to_record(noise, NoiseModel), statistics, lowest
    )


def _empty_histogram(result: MethodResult, statistics: JointStatistics) -> DifferenceHistogram:
    """Return a histogram that holds every value of the difference of a method."""
    if result.gain is None or result.offset is None:
        return DifferenceHistogram.create(0.0, 0.0, 1.0)
    lines: list[tuple[float, float]] = []
    if result.gain_map is not None:  # where the light of post was weakest and strongest
        ends = result.gain_map.line(np.array(result.gain_map.limits), result.gain, result.offset)
        lines = list(zip(*(values.tolist() for values in ends), strict=True))
    return DifferenceHistogram.from_joint(statistics, result.gain, result.offset, lines)
