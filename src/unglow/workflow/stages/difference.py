"""Subtraction: the difference of a pair, shard by shard, and what is left by every scale method."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.archive import named, of_name
from unglow.core.grey import has_grey_levels
from unglow.core.progress import step
from unglow.core.windows import Window, bounded_map, strips
from unglow.io.zarr import BandWriter, StoreLayout, StoreWriter, state_key
from unglow.io.zarr.band_results import BandResult, BandResults
from unglow.photometry.background_medians import SIDE, BackgroundMedians
from unglow.photometry.difference import Matched, attributes_of, reason_of, subtracted
from unglow.photometry.difference_histogram import DifferenceHistogram

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from unglow.io.zarr.bands import Band
    from unglow.io.zarr.shard_writer import ShardWriter
    from unglow.photometry.gain.scale import MethodResult, Scale
    from unglow.photometry.joint_histogram import JointStatistics

VERSION = 5
"""Of the pixels and counts."""


@dataclass(frozen=True, eq=False, slots=True)
class Residue:
    """What is left after subtraction by a method, counted: empty where it found no gain."""

    histogram: DifferenceHistogram
    background: BackgroundMedians

    def merge(self, arrays: Mapping[str, NDArray[Any]], rows: tuple[int, int]) -> None:
        """Add what `arrays` of a band of rows (first px, px after the last) has told."""
        self.histogram.merge_counts(arrays)
        self.background.set_rows(arrays, rows)

    def arrays(self, rows: tuple[int, int]) -> dict[str, NDArray[Any]]:
        """Return the counts, and the medians of a band of rows."""
        return {**self.histogram.arrays, **self.background.of_rows(rows)}


@dataclass(frozen=True, eq=False, slots=True)
class Subtraction:
    """What is subtracted from what.

    Attributes
    ----------
    images
        Post and pre in its frame.
    scale
        What the methods have estimated.
    statistics
        Joint statistics of the pair, for the range of the histograms.
    methods
        The method whose difference is written, and those whose differences are only counted.
    """

    images: Matched
    scale: Scale
    statistics: JointStatistics
    methods: tuple[str, ...]

    @property
    def written(self) -> str:
        """Method whose difference is written."""
        return self.methods[0]

    @property
    def attributes(self) -> dict[str, Any]:
        """Attributes of the store, beside those of its pixels."""
        return attributes_of(self.images, self.written, self.scale.methods[self.written])

    @property
    def reason(self) -> str | None:
        """Why nothing is written; None if something is."""
        result = self.scale.methods[self.written]
        return None if result.ok else reason_of(self.images.aligned, self.written, result)

    def key(self, layout: StoreLayout) -> str:
        """Return what shards and counts of a band follow from."""
        methods = self.scale.methods
        others = [attributes_of(self.images, name, methods[name]) for name in self.methods[1:]]
        return state_key("difference", VERSION, self.attributes, others, layout.to_dict())

    @property
    def results(self) -> dict[str, MethodResult]:
        """Results of the methods that found a gain."""
        results = {name: self.scale.methods[name] for name in self.methods}
        return {name: result for name, result in results.items() if result.ok}

    def residues(self) -> dict[str, Residue]:
        """Return, for each method, a histogram that holds every value of its difference, empty."""
        shape, found = self.images.post.shape, {}
        for name in self.methods:
            histogram = _empty_histogram(self.scale.methods[name], self.statistics)
            found[name] = Residue(histogram, BackgroundMedians.create(shape))
        return found


def subtract(
    subtraction: Subtraction,
    layout: StoreLayout,
    target: Path,
    *,
    workers: int,
    pieces: Sequence[Path] = (),
) -> dict[str, Residue]:
    """Write the difference of one method: float32 in the post frame, NaN where there is no data.

    Without a gain the store is marked empty.

    Parameters
    ----------
    subtraction
        What is subtracted from what.
    layout, target, workers
        Layout and directory of the store; shards in flight.
    pieces
        What `subtract_band` has left for all bands; nothing to do here what they do.

    Returns
    -------
    What is left by each method, counted.
    """
    residues = subtraction.residues()
    writer = StoreWriter(
        target,
        layout,
        name=f"difference {subtraction.written}",
        pixel_size_um=subtraction.images.post.pixel_size_um,
        attributes=subtraction.attributes,
        fill_value=math.nan,
        workers=workers,
        bands=len(pieces),
    )
    reason = subtraction.reason
    with writer:
        if pieces:
            given = BandResults(pieces, subtraction.key(layout))
            _join(given, layout, residues)
            if reason is None:
                given.hand_over(writer, workers)
        else:
            _subtract(subtraction, writer, residues, workers, write=reason is None)
        if reason is None:
            writer.publish()
        else:
            writer.publish_empty(reason)
    return residues


def subtract_band(
    subtraction: Subtraction, layout: StoreLayout, target: Path, band: Band, *, workers: int
) -> BandResult:
    """Do one band of what `subtract` does; parameters as there, ``target`` of the whole store."""
    residues, reason = subtraction.residues(), subtraction.reason
    key = subtraction.key(layout)
    with BandWriter(target, layout, fill_value=math.nan, band=band, key=key) as writer:
        _subtract(subtraction, writer, residues, workers, write=reason is None)
        counted: dict[str, NDArray[Any]] = {}
        for name, residue in residues.items():
            counted |= named(residue.arrays(band.rows(layout)), name)
        return BandResult(band, key, writer.shards, counted, reason)


def save_residues(
    residues: Mapping[str, Residue], written: str, histogram: Path, background: Path
) -> None:
    """Write histograms and medians of all methods, those of one method by the names they have."""
    others = {name: residue for name, residue in residues.items() if name != written}
    own = residues[written]
    own.histogram.save(histogram, {name: r.histogram for name, r in others.items()})
    own.background.save(background, {name: r.background for name, r in others.items()})


@step("subtract")
def _subtract(
    subtraction: Subtraction,
    writer: ShardWriter,
    residues: Mapping[str, Residue],
    workers: int,
    *,
    write: bool,
) -> None:
    """Read every shard of a writer once, subtract by each method and count; write the first.

    What is subtracted and counted at a time stays in the cache.
    """
    images, results = subtraction.images, subtraction.results
    integer = has_grey_levels(images.post.attributes)
    if not results:
        return
    # The one that is written comes last: it takes the place of pre, which is of no more use then.
    order = sorted(results, key=lambda name: name == subtraction.written)

    def work(window: Window) -> dict[str, DifferenceHistogram]:
        post, pre = images.read(window)
        counted = {name: residues[name].histogram.fresh() for name in results}
        for strip in strips(window, SIDE):  # whole squares of `BackgroundMedians`
            rows = slice(strip.y0 - window.y0, strip.y1 - window.y0)
            part = post[rows].astype(np.float32, copy=False), pre[rows]
            for name in order:
                left = subtracted(results[name], part, strip, integer=integer)
                counted[name].add(left)
                residues[name].background.add(left, (strip.y0, strip.x0))
            if write:
                pre[rows] = left
        if write:
            writer.write(window, pre)
        return counted

    for part in bounded_map(work, writer.windows(), workers):
        for name, histogram in part.items():
            residues[name].histogram.merge(histogram)


@step("join")
def _join(pieces: BandResults, layout: StoreLayout, residues: Mapping[str, Residue]) -> None:
    """Add up what bands have counted."""
    for piece in pieces:
        for name, residue in residues.items():
            residue.merge(of_name(piece.arrays, name), piece.band.rows(layout))


def _empty_histogram(result: MethodResult, statistics: JointStatistics) -> DifferenceHistogram:
    """Return a histogram that holds every value of the difference of a method."""
    if result.gain is None or result.offset is None:
        return DifferenceHistogram.create(0.0, 0.0, 1.0)
    lines: list[tuple[float, float]] = []
    if result.gain_map is not None:  # where the light of post was weakest and strongest
        ends = result.gain_map.line(np.array(result.gain_map.limits), result.gain, result.offset)
        lines = list(zip(*(values.tolist() for values in ends), strict=True))
    return DifferenceHistogram.from_joint(statistics, result.gain, result.offset, lines)
