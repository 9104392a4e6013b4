"""Difference: post - (gain * pre + offset), shard by shard, with its histogram."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.blocks import Window, bounded_map
from unglow.grey import has_grey_levels, quantise
from unglow.photometry import DifferenceHistogram
from unglow.store import Store, StoreLayout, StoreWriter

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from unglow.photometry import JointStatistics, MethodResult


def difference(
    post: NDArray[Any], pre: NDArray[np.float32], gain: float, offset: float
) -> NDArray[np.float32]:
    """Return post - (gain * pre + offset) as float32; NaN where pre is NaN.

    Parameters
    ----------
    post
        (rows, cols), any real dtype.
    pre
        (rows, cols) float32, aligned to post.
    """
    scaled = pre * np.float32(gain)
    scaled += np.float32(offset)
    np.subtract(post.astype(np.float32, copy=False), scaled, out=scaled)
    return scaled


def subtract(
    post: Store,
    aligned: Store,
    method: str,
    result: MethodResult,
    statistics: JointStatistics,
    layout: StoreLayout,
    target: Path,
    *,
    workers: int,
) -> DifferenceHistogram:
    """Write ``difference/<method>``: float32 in the post frame, NaN where there is no data.

    Parameters
    ----------
    post, aligned
        Stores of the raw post image and of pre in its frame.
    method, result
        Name of the scale method and what it estimated; without a gain the store is marked empty.
    statistics
        Joint statistics of the pair, for the range of the histogram.
    layout, target, workers
        Layout and directory of the store; shards in flight.

    Returns
    -------
    The histogram of the difference; without values for an empty one.
    """
    writer = StoreWriter(
        target,
        layout,
        name=f"difference {method}",
        pixel_size_um=post.pixel_size_um,
        attributes={
            "role": "difference",
            "method": method,
            "inputs": {"post": post.digest, "aligned_pre": aligned.digest},
            "gain": result.gain,
            "offset": result.offset,
        },
        fill_value=math.nan,
        workers=workers,
    )
    with writer:
        if result.gain is None or result.offset is None:
            writer.publish_empty(aligned.empty or result.reason or f"{method} found no gain.")
            return DifferenceHistogram.create(0.0, 0.0, 1.0)
        gain, offset = result.gain, result.offset
        integer = has_grey_levels(post)
        total = DifferenceHistogram.from_joint(statistics, gain, offset)

        def work(window: Window) -> DifferenceHistogram:
            block = difference(post.read(window), aligned.read(window), gain, offset)
            if integer:
                block = quantise(block)
            writer.write(window, block)
            histogram = total.fresh()
            histogram.add(block)
            return histogram

        for part in bounded_map(work, writer.windows(), workers):
            total.merge(part)
        writer.publish()
    return total
