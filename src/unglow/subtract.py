"""Difference: post - (gain * pre + offset), shard by shard, with its histogram and medians."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.blocks import Window, bounded_map
from unglow.grey import has_grey_levels, quantise
from unglow.photometry import BackgroundMedians, DifferenceHistogram
from unglow.pieces import Piece, Pieces
from unglow.store import BandWriter, Store, StoreLayout, StoreWriter, state_key
from unglow.telemetry import step

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from unglow.bands import Band
    from unglow.photometry import Blur, GainMap, JointStatistics, MethodResult
    from unglow.store.shards import ShardWriter

VERSION = 3
"""Of the pixels and counts."""

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
    pieces: Sequence[Path] = (),
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
    pieces
        What `subtract_band` has left for all bands; nothing to do here what they do.

    Returns
    -------
    The histogram of the difference and the medians of its squares; without values for an empty one.
    """
    attributes = _attributes(post, aligned, method, result, blur)
    background = BackgroundMedians.create(post.shape)
    writer = StoreWriter(
        target,
        layout,
        name=f"difference {method}",
        pixel_size_um=post.pixel_size_um,
        attributes=attributes,
        fill_value=math.nan,
        workers=workers,
        bands=len(pieces),
    )
    with writer:
        glow = _Glow.of(result, blur)
        if glow is None:
            writer.publish_empty(_reason(aligned, method, result))
            return DifferenceHistogram.create(0.0, 0.0, 1.0), background
        total = glow.empty_histogram(statistics)
        if pieces:
            given = Pieces(pieces, _key(attributes, layout))
            _join(given, layout, total, background)
            given.hand_over(writer, workers)
        else:
            _subtract((post, aligned), glow, writer, (total, background), workers)
        writer.publish()
    return total, background


def subtract_band(
    post: Store,
    aligned: Store,
    method: str,
    result: MethodResult,
    statistics: JointStatistics,
    layout: StoreLayout,
    target: Path,
    band: Band,
    *,
    workers: int,
    blur: Blur | None = None,
) -> Piece:
    """Do one band of what `subtract` does; parameters as there, ``target`` of the whole store."""
    key = _key(_attributes(post, aligned, method, result, blur), layout)
    glow = _Glow.of(result, blur)
    if glow is None:
        return Piece(band, key, reason=_reason(aligned, method, result))
    background = BackgroundMedians.create(post.shape)
    total = glow.empty_histogram(statistics)
    with BandWriter(target, layout, fill_value=math.nan, band=band, key=key) as writer:
        _subtract((post, aligned), glow, writer, (total, background), workers)
        medians = background.of_rows(band.rows(layout))
        counted: dict[str, NDArray[Any]] = {"counts": total.counts, "missing": total.missing}
        return Piece(band, key, writer.shards, {**counted, "medians": medians})


def _attributes(
    post: Store, aligned: Store, method: str, result: MethodResult, blur: Blur | None
) -> dict[str, Any]:
    gain_map = result.gain_map
    return {
        "role": "difference",
        "method": method,
        "inputs": {"post": post.digest, "aligned_pre": aligned.digest},
        "gain": result.gain,
        "offset": result.offset,
        **({} if gain_map is None else {"gain_map": {"sha256": gain_map.digest}}),
        **({} if blur is None else {"blur": {"image": blur.image, "width_px": blur.width_px}}),
    }


def _key(attributes: dict[str, Any], layout: StoreLayout) -> str:
    """Return what shards and counts of a band follow from."""
    return state_key("difference", VERSION, attributes, layout.to_dict())


def _reason(aligned: Store, method: str, result: MethodResult) -> str:
    """Say why there is nothing to subtract."""
    return aligned.empty or result.reason or f"{method} found no gain."


@step("subtract")
def _subtract(
    images: tuple[Store, Store],
    glow: _Glow,
    writer: ShardWriter,
    counts: tuple[DifferenceHistogram, BackgroundMedians],
    workers: int,
) -> None:
    """Write the shards of a writer from post and aligned pre, and count their pixels."""
    total, background = counts
    integer = has_grey_levels(images[0])

    def work(window: Window) -> DifferenceHistogram:
        block = glow.taken_off(*images, window)
        if integer:
            block = quantise(block)
        writer.write(window, block)
        histogram = total.fresh()
        histogram.add(block)
        background.add(block, (window.y0, window.x0))
        return histogram

    for part in bounded_map(work, writer.windows(), workers):
        total.merge(part)


@step("join")
def _join(
    pieces: Pieces, layout: StoreLayout, total: DifferenceHistogram, background: BackgroundMedians
) -> None:
    """Add up what bands have counted."""
    for piece in pieces:
        total.merge_counts(piece.arrays["counts"], piece.arrays["missing"])
        background.of_rows(piece.band.rows(layout))[...] = piece.arrays["medians"]


@dataclass(frozen=True, slots=True)
class _Glow:
    """What is taken off post: a gain and an offset, evened out or not, and a blur before that."""

    gain: float
    offset: float
    gain_map: GainMap | None
    blur: Blur | None

    @classmethod
    def of(cls, result: MethodResult, blur: Blur | None) -> _Glow | None:
        """Return what a method has found; None if it found nothing."""
        if result.gain is None or result.offset is None:
            return None
        return cls(result.gain, result.offset, result.gain_map, blur)

    def empty_histogram(self, statistics: JointStatistics) -> DifferenceHistogram:
        """Return a histogram that holds every value of the difference."""
        lines: list[tuple[float, float]] = []
        if self.gain_map is not None:  # where the light of post was weakest and strongest
            ends = self.gain_map.line(np.array(self.gain_map.limits), self.gain, self.offset)
            lines = list(zip(*(values.tolist() for values in ends), strict=True))
        return DifferenceHistogram.from_joint(statistics, self.gain, self.offset, lines)

    def taken_off(self, post: Store, aligned: Store, window: Window) -> NDArray[np.float32]:
        """Return the difference over a window."""
        blocks = self._read(post, "post", window), self._read(aligned, "pre", window)
        if self.gain_map is None:
            return difference(*blocks, self.gain, self.offset)
        return evened_difference(*blocks, self.gain, self.offset, self.gain_map, window)

    def _read(self, image: Store, name: str, window: Window) -> NDArray[Any]:
        """Read a window of an image as it goes into the difference."""
        if self.blur is None or self.blur.image != name:
            return image.read(window)
        return self.blur.over(image.read, image.shape, window)
