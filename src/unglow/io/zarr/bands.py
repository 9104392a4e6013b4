"""Bands: parts of a very large image, whole rows of shards each, that jobs of their own work on.

How many there are follows from the headers and the configuration alone, never from where it runs,
and what is computed does not depend on it.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterator

    from unglow.core.windows import Window
    from unglow.io.tiff import TiffHeader
    from unglow.io.zarr.layout import StoreLayout

AUTO_PX = 1_000_000_000
"""With ``bands: auto`` an image gets one band for each begun so many px. Below that a stage takes
minutes, which is no more than what a scheduler takes to start further jobs."""

PATTERN = r"[1-9][0-9]*-of-[1-9][0-9]*"
"""How a band is written in wildcards and names of files, as a regular expression."""


@dataclass(frozen=True, slots=True, order=True)
class Band:
    """One band of several.

    Attributes
    ----------
    number
        From 1 on, from the top of the image.
    of
        How many there are.
    """

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the band that is written as ``2-of-4``.

        Raises
        ------
        ValueError
            The text is no such band.
        """
        match = re.fullmatch(r"(\d+)-of-(\d+)", text)
        number, of = (int(match[1]), int(match[2])) if match else (0, 0)
        if not 1 <= number <= of:
            raise ValueError(f"{text!r} is not a band such as 2-of-4")
        return cls(number, of)

    def __str__(self) -> str:
        return f"{self.number}-of-{self.of}"

    def part(self, count: int) -> range:
        """Return which of ``count`` rows (of shards, or of tiles) belong to the band.

        Bands differ by at most one row; each has one if there are as many rows as bands.
        """
        return range(count * (self.number - 1) // self.of, count * self.number // self.of)

    def windows(self, layout: StoreLayout) -> Iterator[Window]:
        """Yield the level-0 shards of the band in row order."""
        height = layout.shards[0]
        rows = self.part(shard_rows(layout))
        return (w for w in layout.windows() if w.y0 // height in rows)

    def rows(self, layout: StoreLayout) -> tuple[int, int]:
        """Return the first row of px of the band and the one behind its last."""
        height, rows = layout.shards[0], self.part(shard_rows(layout))
        return rows.start * height, min(rows.stop * height, layout.shape[0])

    def pixels(self, layout: StoreLayout) -> int:
        """Return how many px the band has."""
        first, end = self.rows(layout)
        return (end - first) * layout.shape[1]


def all_bands(count: int) -> tuple[Band, ...]:
    """Return all of ``count`` bands, from the top."""
    return tuple(Band(number, count) for number in range(1, count + 1))


def shard_rows(layout: StoreLayout) -> int:
    """Return how many rows of shards a store has."""
    return math.ceil(layout.shape[0] / layout.shards[0])


def band_count(setting: int | str, pixels: int, layout: StoreLayout) -> int:
    """Return how many bands a store is made in; 1 for one that is not split.

    Parameters
    ----------
    setting
        The configured number, or ``auto``.
    pixels
        px of the larger image of the pair.
    layout
        Of the store; it has at most as many bands as rows of shards.
    """
    wanted = math.ceil(pixels / AUTO_PX) if setting == "auto" else int(setting)
    return max(1, min(wanted, shard_rows(layout)))


def readable_bands(count: int, header: TiffHeader) -> int:
    """Return how many of ``count`` bands a raw file is worth reading in.

    What is decoded whole, a strip or a tile, is decoded by each band that needs some of it: there
    are no more bands than rows of these. A file of one compressed strip is read in one piece.
    """
    if header.raw:
        return count
    return max(1, min(count, math.ceil(header.shape[0] / header.unit[0])))
