"""Align: pre warped once onto the post frame, with the statistics from the same pass."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from unglow.core.grey import grey_level, has_grey_levels, quantise, value_range
from unglow.core.progress import step
from unglow.core.windows import Window, bounded_map
from unglow.io.zarr import BandWriter, Store, StoreLayout, StoreWriter, state_key
from unglow.io.zarr.band_results import BandResult, BandResults
from unglow.photometry.cell_moments import CellMoments
from unglow.photometry.joint_histogram import JointStatistics
from unglow.transform.resample import warp_window

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from unglow.io.zarr.bands import Band
    from unglow.io.zarr.shard_writer import ShardWriter
    from unglow.transform import Transform

VERSION = 2
"""Of the pixels and statistics."""


def align(
    post: Store,
    pre: Store,
    transform: Transform,
    layout: StoreLayout,
    target: Path,
    *,
    workers: int,
    pieces: Sequence[Path] = (),
) -> tuple[JointStatistics, CellMoments]:
    """Write ``aligned_pre``: float32 in the post frame, NaN where pre has no data.

    Parameters
    ----------
    post, pre
        Stores of the raw signal.
    transform
        Map of post (x, y) to pre (x, y); a failed one gives a store marked empty.
    layout
        Layout of the derived store.
    target
        The store's directory.
    workers
        Shards in flight.
    pieces
        What `align_band` has left for all bands; nothing to do here what they do.

    Returns
    -------
    The joint statistics and the cells of post and aligned pre; without pixels for a failed
    transform.
    """
    attributes = _attributes(post, pre, transform)
    writer = StoreWriter(
        target,
        layout,
        name="aligned_pre",
        pixel_size_um=post.pixel_size_um,
        attributes=attributes,
        fill_value=math.nan,
        workers=workers,
        bands=len(pieces),
    )
    with writer:
        if transform.failed:
            writer.publish_empty(" ".join(transform.reasons))
            return JointStatistics.empty(), CellMoments.create(post.shape, (0.0, 0.0))
        total, bins = _empty_statistics(post, pre)
        if pieces:
            given = BandResults(pieces, _key(attributes, layout))
            _join(given, layout, total, bins)
            given.hand_over(writer, workers)
        else:
            _warp(post, pre, transform, writer, total, bins, workers)
        writer.publish()
    return total, bins


def align_band(
    post: Store,
    pre: Store,
    transform: Transform,
    layout: StoreLayout,
    target: Path,
    band: Band,
    *,
    workers: int,
) -> BandResult:
    """Do one band of what `align` does; parameters as there, ``target`` that of the whole store."""
    key = _key(_attributes(post, pre, transform), layout)
    if transform.failed:
        return BandResult(band, key, reason=" ".join(transform.reasons))
    total, bins = _empty_statistics(post, pre)
    with BandWriter(target, layout, fill_value=math.nan, band=band, key=key) as writer:
        _warp(post, pre, transform, writer, total, bins, workers)
        counted = {**total.arrays, **bins.of_rows(band.rows(layout))}
        return BandResult(band, key, writer.shards, counted)


def _attributes(post: Store, pre: Store, transform: Transform) -> dict[str, Any]:
    field = transform.displacement
    return {
        "role": "aligned_pre",
        "inputs": {"post": post.digest, "pre": pre.digest},
        "matrix": None if transform.failed else transform.matrix.tolist(),
        **({} if field is None else {"displacement": {"sha256": field.digest}}),
    }


def _key(attributes: dict[str, Any], layout: StoreLayout) -> str:
    """Return what shards and statistics of a band follow from."""
    return state_key("align", VERSION, attributes, layout.to_dict())


@step("warp")
def _warp(
    post: Store,
    pre: Store,
    transform: Transform,
    writer: ShardWriter,
    total: JointStatistics,
    bins: CellMoments,
    workers: int,
) -> None:
    """Write the shards of a writer, and count their pixels."""
    integer = has_grey_levels(post.attributes) and has_grey_levels(pre.attributes)

    def warp(window: Window) -> JointStatistics:
        block = warp_window(pre.read, pre.shape, transform, window)
        if integer:
            block = quantise(block)
        writer.write(window, block)
        statistics, signal = total.fresh(), post.read(window)
        statistics.add(signal, block, origin=(window.y0, window.x0))
        bins.add(signal, block, origin=(window.y0, window.x0))
        return statistics

    for part in bounded_map(warp, writer.windows(), workers):
        total.merge(part)


@step("join")
def _join(
    pieces: BandResults, layout: StoreLayout, total: JointStatistics, bins: CellMoments
) -> None:
    """Add up what bands have counted."""
    for piece in pieces:
        total.merge_counts(piece.arrays)
        bins.set_rows(piece.arrays, piece.band.rows(layout))


def _empty_statistics(post: Store, pre: Store) -> tuple[JointStatistics, CellMoments]:
    ranges = value_range(post.attributes), value_range(pre.attributes)
    integer = has_grey_levels(post.attributes) and has_grey_levels(pre.attributes)
    counts = JointStatistics.create(
        post_range=ranges[0],
        pre_range=ranges[1],
        grey_level=grey_level(ranges, integer=integer),
        integer=integer,
    )
    return counts, CellMoments.create(post.shape, (ranges[0][1], ranges[1][1]))
