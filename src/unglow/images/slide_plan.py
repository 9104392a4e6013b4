"""A multiplexed slide: its channels, what is subtracted from what, and the headers of its images.

A cycle is one round of staining and imaging: its channels were acquired in one frame. All cycles
are brought into the frame of one of them. Channels that name backgrounds are markers; a background
may serve many of them, in any cycle.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.records import to_plain, to_record
from unglow.images.raw_header import TiffHeader

if TYPE_CHECKING:
    from collections.abc import Mapping

CANDIDATES_SUFFIX = ".candidates"
"""Suffix of the sample of such pairs, after the name of their slide.

It is a sample of its own: in the folder of the slide, any marker may have the name of a file there.
"""
PART_MPX = 12_000.0
"""Million px of all channels in a part, about: 15 minutes on two cores."""
PART_WINDOW = 2048
"""Parts begin and end at multiples of this, px."""


@dataclass(frozen=True, slots=True)
class Channel:
    """One channel of a slide.

    Attributes
    ----------
    name
        Of the channel, no other of the slide has it.
    image, number
        Which image of the slide it is in, and its number there, both from 0.
    cycle
        From 1.
    exposure
        Exposure time, in the same unit for all channels; None if unknown.
    background
        Name of the channel that is subtracted from it, or the names of several; None for what is
        left as it is, or out.
    removed
        Whether it is left out of the corrected slide.
    """

    name: str
    image: int
    number: int
    cycle: int = 1
    exposure: float | None = None
    background: str | tuple[str, ...] | None = None
    removed: bool = False

    @property
    def backgrounds(self) -> tuple[str, ...]:
        """Names of all that is subtracted from it."""
        one = self.background
        return () if one is None else (one,) if isinstance(one, str) else one


@dataclass(frozen=True, slots=True)
class Slide:
    """One slide.

    Attributes
    ----------
    name
        Of its directory of results.
    images
        Its files, in the order of cycles.
    channels
        In the order of the corrected slide.
    registered_on
        For each cycle the name of the channel that its map is found on.
    reference
        The cycle whose frame is that of the corrected slide; None for that of the first channel.
    paired
        Pairs of cycles that need a map besides: those of markers that candidates are looked for in.
    checked
        Whether neighbouring cycles are registered as well, to check the maps to the reference.
    """

    name: str
    images: tuple[Path, ...]
    channels: tuple[Channel, ...]
    registered_on: Mapping[int, str]
    reference: int | None = None
    paired: tuple[tuple[int, int], ...] = ()
    checked: bool = False

    def channel(self, name: str) -> Channel:
        """Return the channel of a name."""
        return next(one for one in self.channels if one.name == name)

    @property
    def markers(self) -> tuple[Channel, ...]:
        """Channels that something is subtracted from."""
        return tuple(one for one in self.channels if one.background is not None)

    @property
    def subtracted(self) -> dict[str, str]:
        """Names of the markers, with those of their backgrounds, separated by semicolons."""
        return {one.name: ";".join(one.backgrounds) for one in self.markers}

    @property
    def kept(self) -> tuple[Channel, ...]:
        """Channels of the corrected slide, if every cycle has a map."""
        return tuple(one for one in self.channels if not one.removed)

    def backgrounds_of(self, marker: Channel) -> tuple[Channel, ...]:
        """Return the channels that are subtracted from a marker."""
        return tuple(self.channel(name) for name in marker.backgrounds)

    @property
    def frame_cycle(self) -> int:
        """The cycle whose frame is that of the corrected slide."""
        return self.channels[0].cycle if self.reference is None else self.reference

    @property
    def moved_cycles(self) -> tuple[int, ...]:
        """Sorted cycles that are brought into the frame: all that anything is kept of, or taken."""
        needed = {name for one in self.markers for name in one.backgrounds}
        used = {one.cycle for one in self.channels if not one.removed or one.name in needed}
        return tuple(sorted(used - {self.frame_cycle}))

    @property
    def moves(self) -> tuple[tuple[int, int], ...]:
        """Sorted pairs of cycles that need a map from the frame of the first to that of the second.

        From the frame of the slide to each other cycle, then between those that `loops` consist of.
        """
        from_frame = ((self.frame_cycle, cycle) for cycle in self.moved_cycles)
        return tuple(sorted({*from_frame, *self.loops, *self.paired}))

    @property
    def loops(self) -> tuple[tuple[int, int], ...]:
        """Pairs of neighbouring cycles: the maps from the frame to both and between them close."""
        cycles = self.moved_cycles if self.checked else ()
        return tuple(itertools.pairwise(cycles))

    def moves_of(self, marker: Channel) -> tuple[tuple[int, int], ...]:
        """Return the maps that a marker and its backgrounds are brought by, its own first."""
        cycles = (one.cycle for one in (marker, *self.backgrounds_of(marker)))
        frame = self.frame_cycle
        return tuple((frame, cycle) for cycle in dict.fromkeys(cycles) if cycle != frame)


def bands_of(shape: tuple[int, int], channels: int) -> list[range]:
    """Return the rows of the parts of a slide of (rows, columns); none if it is made in one job."""
    count = math.ceil(shape[0] * shape[1] / 1e6 * channels / PART_MPX)
    windows = -(-shape[0] // PART_WINDOW)
    count = min(count, windows)
    starts = [n * windows // count * PART_WINDOW for n in range(count)]
    ends = [*starts[1:], shape[0]]
    return [range(*ends_) for ends_ in zip(starts, ends, strict=True)] if count > 1 else []


@dataclass(frozen=True, slots=True)
class KnownSlide:
    """A slide with the headers of its images, in their order.

    ``own_cells`` are those of its table that are carried through, by channel and column.
    """

    slide: Slide
    headers: tuple[TiffHeader, ...]
    own_cells: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns) of the frame of the slide, px."""
        return self.frame_header.shape

    @property
    def frame_header(self) -> TiffHeader:
        """The header of the image whose frame is that of the slide."""
        return self.header_of(self.slide.frame_cycle)

    def header_of(self, cycle: int) -> TiffHeader:
        """Return the header of the (first) image of a cycle."""
        image = next(one.image for one in self.slide.channels if one.cycle == cycle)
        return self.headers[image]

    @property
    def dtype(self) -> str:
        """The type that holds the samples of all channels that are kept."""
        kinds = [np.dtype(self.headers[one.image].dtype) for one in self.slide.kept]
        wide = np.result_type(*kinds)
        return "float32" if wide.kind == "f" else wide.name

    @property
    def bands(self) -> list[range]:
        """Rows of the parts that the corrected slide is made in; none for a small one."""
        return bands_of(self.shape, len(self.slide.kept))

    def to_dict(self) -> dict[str, Any]:
        """Return plain types, as ``params`` of a rule has them, without `own_cells`."""
        return {
            "name": self.slide.name,
            "channels": to_plain(self.slide.channels),
            "registered_on": dict(self.slide.registered_on),
            "reference": self.slide.reference,
            "paired": [list(move) for move in self.slide.paired],
            "checked": self.slide.checked,
            "headers": to_plain(self.headers),
        }

    @classmethod
    def from_dict(
        cls, plain: Mapping[str, Any], own_cells: Mapping[str, Mapping[str, str]] | None = None
    ) -> KnownSlide:
        """Return the slide that `to_dict` gave, with `own_cells` where they are needed."""
        headers = to_record(plain["headers"], tuple[TiffHeader, ...])
        images = tuple(Path(header.path) for header in headers)
        channels = to_record(plain["channels"], tuple[Channel, ...])
        slide = Slide(
            plain["name"],
            images,
            channels,
            plain["registered_on"],
            plain.get("reference"),
            tuple((a, b) for a, b in plain.get("paired", ())),
            plain.get("checked", False),
        )
        return cls(slide, headers, own_cells or {})
