"""What the channels of a slide do not store: there are no data there, and never 0."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.rounding import percent
from unglow.io.raw_images import unit_name
from unglow.io.stored_values import LEAST_SHARE, MOST_SHARE, NotStored

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from unglow.core.windows import Window
    from unglow.io.ome_zarr import OmeZarrReader
    from unglow.io.tiff import TiffReader
    from unglow.multiplexed.slide import Channel


class Gaps:
    """Tiles, strips and chunks that channels of a slide lack.

    Writers leave them out of all channels where no section is. What one channel lacks and most
    others have is lost.

    Parameters
    ----------
    readers
        The images of the slide, open, in its order.

    Raises
    ------
    InputError
        The tables of an image cannot be read.
    """

    def __init__(self, readers: Sequence[TiffReader | OmeZarrReader]) -> None:
        self._headers = [reader.header for reader in readers]
        self._missing = [
            reader.find_missing(range(len(reader.header.channels))) for reader in readers
        ]
        self._known: dict[tuple[int, int], NotStored | None] = {}

    @cached_property
    def _is_whole(self) -> bool:
        """Whether everything is stored."""
        return not any(missing.any() for missing in self._missing)

    def of(self, channel: Channel) -> NotStored | None:
        """Return what a channel does not store; None if it stores everything."""
        if self._is_whole:
            return None
        key = channel.image, channel.number
        if key not in self._known:
            header = self._headers[channel.image]
            self._known[key] = NotStored.from_grid(
                self._missing[channel.image][channel.number],
                header.unit,
                header.shape,
                f"{channel.name} in {header.name}",
                unit_name(header),
            )
        return self._known[key]

    def lost(self, channel: Channel) -> float:
        """Return which share (0 to 1) of the px a channel lacks where most channels store them."""
        if self.of(channel) is None:
            return 0.0
        header, missing = self._headers[channel.image], self._missing[channel.image]
        rows, cols = np.nonzero(missing[channel.number])
        (high, wide), (height, width) = header.unit, header.shape
        bottom, right = np.minimum((rows + 1) * high, height), np.minimum((cols + 1) * wide, width)
        sizes = (bottom - rows * high) * (right - cols * wide)
        y, x = (rows * high + bottom) // 2, (cols * wide + right) // 2
        stored = total = 0
        for one, grid in zip(self._headers, self._missing, strict=True):
            stored = stored + np.count_nonzero(~grid[:, y // one.unit[0], x // one.unit[1]], axis=0)
            total += len(grid)
        return float(sizes[2 * stored > total].sum()) / (height * width)

    def hidden(self, channel: Channel, window: Window, block: NDArray[Any]) -> NDArray[Any]:
        """Return a window of a channel, NaN where it stores nothing: floats if that is anywhere."""
        lacking = self.of(channel)
        parts = [] if lacking is None else list(lacking.clip_to(window))
        if not parts:
            return block
        out = block.astype(np.result_type(block.dtype, np.float32))
        for part in parts:
            out[part.slices] = np.nan
        return out

    def doubt(self, channel: Channel) -> tuple[str | None, bool]:
        """Return a sentence about a channel that lost something, and whether that is too much."""
        lacking, share = self.of(channel), self.lost(channel)
        if lacking is None or share <= LEAST_SHARE:
            return None, False
        lost = f"{lacking.description} where other channels are: {percent(share)} of the slide"
        if share > MOST_SHARE:
            return f"{lost}. Copy the file again from its source, or write it again.", True
        return f"{lost}, which is left out. Copy the file again if it was cut off.", False
