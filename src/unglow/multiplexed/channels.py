"""The channels of a slide: what its table or the configuration says of those in its images."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from unglow.core.errors import InputError
from unglow.multiplexed.slide import Channel, Slide

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from unglow.io.tiff import TiffHeader
    from unglow.multiplexed.markers import Marker

# Stains of nuclei, which every cycle of a protocol repeats.
_NUCLEAR = re.compile(
    r"(dapi|hoechst|dna|draq ?5|sytox|nucle(us|i|ar))[\W_]*\w{0,3}", re.IGNORECASE
)


def slide_of(
    name: str, headers: Sequence[TiffHeader], rows: Sequence[Marker], on: str | None
) -> Slide:
    """Return a slide, its images given by their headers in the order of cycles.

    Raises
    ------
    InputError
        Table and images do not go together.
    """
    places = [(i, n) for i, header in enumerate(headers) for n in range(len(header.channels))]
    if len(places) != len(rows):
        raise InputError(
            f"slide {name} has {len(places)} channels but its table {len(rows)} rows: give one row "
            "for each channel, in their order."
        )
    channels = tuple(
        Channel(
            name=row.name,
            image=image,
            number=number,
            cycle=row.cycle or image + 1,
            exposure=row.exposure,
            background=row.background,
            removed=row.removed,
        )
        for row, (image, number) in zip(rows, places, strict=True)
    )
    images = tuple(Path(header.path) for header in headers)
    return Slide(name, images, channels, registered_on(channels, on))


def registered_on(channels: Iterable[Channel], on: str | None) -> dict[int, str]:
    """Return for each cycle the channel that its map is found on; none where names do not tell."""
    chosen: dict[int, str] = {}
    for channel in channels:
        told = channel.name == on if on is not None else _NUCLEAR.fullmatch(channel.name)
        if told:
            chosen.setdefault(channel.cycle, channel.name)
    return chosen
