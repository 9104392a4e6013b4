"""Difference: post - (gain * pre + offset), shard by shard, with its histogram and medians."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.blocks import Window, bounded_map
from unglow.grey import has_grey_levels, quantise
from unglow.photometry import BackgroundMedians, DifferenceHistogram
from unglow.store import Store, StoreLayout, StoreWriter
from unglow.telemetry import step

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from unglow.photometry import Blur, GainMap, JointStatistics, MethodResult

# Rows of a gain map at a time, so that it needs no memory to speak of.
_ROWS = 64


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


def evened_difference(
    post: NDArray[Any],
    pre: NDArray[np.float32],
    gain: float,
    offset: float,
    gain_map: GainMap,
    window: Window,
) -> NDArray[np.float32]:
    """Return post - (m * (gain * pre + c1) + c0), where m and c0 are those of a gain map.

    The offset is c0 + c1; ``window`` says where the blocks lie in post. Else as `difference`.
    """
    out = np.empty(window.shape, np.float32)
    for top in range(0, window.shape[0], _ROWS):
        rows = slice(top, min(top + _ROWS, window.shape[0]))
        strip = Window(window.y0 + rows.start, window.y0 + rows.stop, window.x0, window.x1)
        scaled = pre[rows] * np.float32(gain)
        scaled += np.float32(offset - gain_map.dark)
        scaled *= gain_map.over(strip)
        scaled += np.float32(gain_map.dark)
        np.subtract(post[rows].astype(np.float32, copy=False), scaled, out=out[rows])
    return out


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
    blur: Blur | None = None,
) -> tuple[DifferenceHistogram, BackgroundMedians]:
    """Write ``difference/<method>``: float32 in the post frame, NaN where there is no data.

    Parameters
    ----------
    post, aligned
        Stores of the raw post image and of pre in its frame.
    method, result
        Name of the scale method and what it estimated, with its gain map if there is one; without a
        gain the store is marked empty.
    statistics
        Joint statistics of the pair, for the range of the histogram.
    layout, target, workers
        Layout and directory of the store; shards in flight.
    blur
        What makes the sharper image match the other; None for nothing.

    Returns
    -------
    The histogram of the difference and the medians of its squares; without values for an empty one.
    """
    gain_map = result.gain_map
    background = BackgroundMedians.create(post.shape)
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
            **({} if gain_map is None else {"gain_map": {"sha256": gain_map.digest}}),
            **({} if blur is None else {"blur": {"image": blur.image, "width_px": blur.width_px}}),
        },
        fill_value=math.nan,
        workers=workers,
    )
    with writer:
        if result.gain is None or result.offset is None:
            writer.publish_empty(aligned.empty or result.reason or f"{method} found no gain.")
            return DifferenceHistogram.create(0.0, 0.0, 1.0), background
        gain, offset = result.gain, result.offset
        integer = has_grey_levels(post)
        total = DifferenceHistogram.from_joint(statistics, gain, offset, _lines(result))

        def work(window: Window) -> DifferenceHistogram:
            blocks = _read(post, "post", window, blur), _read(aligned, "pre", window, blur)
            block = (
                difference(*blocks, gain, offset)
                if gain_map is None
                else evened_difference(*blocks, gain, offset, gain_map, window)
            )
            if integer:
                block = quantise(block)
            writer.write(window, block)
            histogram = total.fresh()
            histogram.add(block)
            background.add(block, (window.y0, window.x0))
            return histogram

        with step("subtract"):
            for part in bounded_map(work, writer.windows(), workers):
                total.merge(part)
        writer.publish()
    return total, background


def _read(image: Store, name: str, window: Window, blur: Blur | None) -> NDArray[Any]:
    """Read a window of an image as it goes into the difference."""
    if blur is None or blur.image != name:
        return image.read(window)
    return blur.over(image.read, image.shape, window)


def _lines(result: MethodResult) -> list[tuple[float, float]]:
    """Return gain and offset where the light of post was weakest and strongest."""
    if result.gain_map is None or result.gain is None or result.offset is None:
        return []
    ends = np.array(result.gain_map.limits)
    gains, offsets = result.gain_map.line(ends, result.gain, result.offset)
    return list(zip(gains.tolist(), offsets.tolist(), strict=True))
