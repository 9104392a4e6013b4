"""Align: pre warped once onto the post frame, with the statistics from the same pass."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from unglow.blocks import Window, bounded_map
from unglow.grey import grey_level, has_grey_levels, quantise, value_range
from unglow.photometry import BinSamples, JointStatistics
from unglow.store import Store, StoreLayout, StoreWriter
from unglow.telemetry import step
from unglow.warp import warp_window

if TYPE_CHECKING:
    from pathlib import Path

    from unglow.transform import Transform


def align(
    post: Store,
    pre: Store,
    transform: Transform,
    layout: StoreLayout,
    target: Path,
    *,
    workers: int,
) -> tuple[JointStatistics, BinSamples]:
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

    Returns
    -------
    The joint statistics and the cells of post and aligned pre; without pixels for a failed
    transform.
    """
    field = transform.displacement
    writer = StoreWriter(
        target,
        layout,
        name="aligned_pre",
        pixel_size_um=post.pixel_size_um,
        attributes={
            "role": "aligned_pre",
            "inputs": {"post": post.digest, "pre": pre.digest},
            "matrix": None if transform.failed else transform.matrix.tolist(),
            **({} if field is None else {"displacement": {"sha256": field.digest}}),
        },
        fill_value=math.nan,
        workers=workers,
    )
    with writer:
        if transform.failed:
            writer.publish_empty(" ".join(transform.reasons))
            return JointStatistics.empty(), BinSamples.create(post.shape, (0.0, 0.0))
        bins = BinSamples.create(post.shape, (value_range(post)[1], value_range(pre)[1]))
        integer = has_grey_levels(post) and has_grey_levels(pre)
        total = _empty_statistics(post, pre, integer=integer)

        def warp(window: Window) -> JointStatistics:
            block = warp_window(pre.read, pre.shape, transform, window)
            if integer:
                block = quantise(block)
            writer.write(window, block)
            statistics, signal = total.fresh(), post.read(window)
            statistics.add(signal, block, origin=(window.y0, window.x0))
            bins.add(signal, block, origin=(window.y0, window.x0))
            return statistics

        with step("warp"):
            for part in bounded_map(warp, writer.windows(), workers):
                total.merge(part)
        writer.publish()
    return total, bins


def _empty_statistics(post: Store, pre: Store, *, integer: bool) -> JointStatistics:
    ranges = value_range(post), value_range(pre)
    return JointStatistics.create(
        post_range=ranges[0],
        pre_range=ranges[1],
        grey_level=grey_level(ranges, integer=integer),
        integer=integer,
    )
