"""A multiplexed slide: its channels, and what is subtracted from what.

A cycle is one round of staining and imaging: its channels were acquired in one frame. Channels that
name a background are markers; a background may serve many of them, in any cycle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from unglow.transform import Transform


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
        Name of the channel that is subtracted from it; None for what is left as it is, or out.
    removed
        Whether it is left out of the corrected slide.
    """

    name: str
    image: int
    number: int
    cycle: int = 1
    exposure: float | None = None
    background: str | None = None
    removed: bool = False

    def to_dict(self) -> dict[str, object]:
        """Return the channel for JSON, and for ``params`` of a rule."""
        return {name: getattr(self, name) for name in self.__slots__}


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
    """

    name: str
    images: tuple[Path, ...]
    channels: tuple[Channel, ...]
    registered_on: Mapping[int, str]

    def channel(self, name: str) -> Channel:
        """Return the channel of a name."""
        return next(one for one in self.channels if one.name == name)

    @property
    def markers(self) -> tuple[Channel, ...]:
        """Channels that something is subtracted from."""
        return tuple(one for one in self.channels if one.background is not None)

    @property
    def subtracted(self) -> dict[str, str]:
        """Names of the markers, with those of their backgrounds."""
        return {one.name: str(one.background) for one in self.markers}

    @property
    def kept(self) -> tuple[Channel, ...]:
        """Channels of the corrected slide."""
        return tuple(one for one in self.channels if not one.removed)

    def background_of(self, marker: Channel) -> Channel:
        """Return the channel that is subtracted from a marker."""
        return self.channel(str(marker.background))

    @property
    def moves(self) -> tuple[tuple[int, int], ...]:
        """Sorted pairs of cycles, marker's and background's, that are not the same one.

        Each needs a map from the frame of the first (post) to that of the second (pre).
        """
        cycles = {(one.cycle, self.background_of(one).cycle) for one in self.markers}
        return tuple(sorted((a, b) for a, b in cycles if a != b))

    def move_of(self, marker: Channel) -> tuple[int, int] | None:
        """Return which of `moves` brings a marker's background; None within one cycle."""
        cycles = marker.cycle, self.background_of(marker).cycle
        return None if cycles[0] == cycles[1] else cycles


def by_background(
    slide: Slide, markers: Iterable[Channel]
) -> dict[tuple[str, tuple[int, int] | None], list[Channel]]:
    """Group markers by their background and the move that brings it, in order of the first."""
    groups: dict[tuple[str, tuple[int, int] | None], list[Channel]] = {}
    for one in markers:
        groups.setdefault((str(one.background), slide.move_of(one)), []).append(one)
    return groups


def expected_gain(slide: Slide, marker: Channel) -> float | None:
    """Return the ratio of a marker's exposure time to its background's; None if one is unknown."""
    own, other = marker.exposure, slide.background_of(marker).exposure
    return own / other if own is not None and other else None


Maps = dict[tuple[int, int], "Transform"]
"""The map of each of `Slide.moves`, post (x, y) to pre (x, y)."""
