"""The slides of a run: their headers and channels, and a sentence for each that cannot be used."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unglow.core.errors import InputError
from unglow.io.tiff import TiffHeader
from unglow.multiplexed.channels import slide_of
from unglow.multiplexed.markers import read_markers
from unglow.multiplexed.slide import Channel, Slide
from unglow.workflow.samples import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from unglow.multiplexed.slide import Maps
    from unglow.workflow.header_cache import HeaderCache
    from unglow.workflow.samples.slides import SlideFiles
    from unglow.workflow.schema import Settings


@dataclass(frozen=True, slots=True)
class KnownSlide:
    """A slide with the headers of its images, in their order."""

    slide: Slide
    headers: tuple[TiffHeader, ...]

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns) of every image, px."""
        return self.headers[0].shape

    def resolved(self) -> KnownSlide:
        """Return the slide with a channel for each cycle that is moved; reads pixels if need be."""
        from unglow.multiplexed.richest import with_richest  # noqa: PLC0415 (jobs alone need it)

        return replace(self, slide=with_richest(self.slide, self.headers))

    def read_maps(self, paths: Sequence[str]) -> Maps:
        """Read the map of each move from ``transform.json``, in the order of the moves."""
        from unglow import transform  # noqa: PLC0415 (jobs alone need it)

        moves = self.slide.moves
        return {move: transform.load(Path(p)) for move, p in zip(moves, paths, strict=True)}

    def to_dict(self) -> dict[str, Any]:
        """Return plain types, as ``params`` of a rule has them."""
        return {
            "name": self.slide.name,
            "channels": [channel.to_dict() for channel in self.slide.channels],
            "registered_on": dict(self.slide.registered_on),
            "headers": [header.to_dict() for header in self.headers],
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> KnownSlide:
        """Return the slide that `to_dict` gave."""
        headers = tuple(TiffHeader.from_dict(one) for one in plain["headers"])
        images = tuple(Path(header.path) for header in headers)
        channels = tuple(Channel(**one) for one in plain["channels"])
        return cls(Slide(plain["name"], images, channels, plain["registered_on"]), headers)


def known_slides(
    found: Iterable[SlideFiles], settings: Settings, cache: HeaderCache
) -> tuple[dict[str, KnownSlide], list[Problem]]:
    """Look at the headers and tables of slides; return those that can be used, and problems."""
    slides: dict[str, KnownSlide] = {}
    problems = []
    for files in found:
        try:
            slides[files.name] = _known(files, settings, cache)
        except InputError as error:
            problems.append(Problem(str(error), "slide", files.name, None, files.images))
    return slides, problems


def _known(files: SlideFiles, settings: Settings, cache: HeaderCache) -> KnownSlide:
    plane = settings["plane"]
    choice = {"series": settings["series"], "z": plane["z"], "t": plane["t"]}
    headers = tuple(cache.read(path, **choice) for path in files.images)
    if files.table is None:
        raise InputError(f"slide {files.name} has no markers.csv.")
    if not headers:
        raise InputError(f"{files.table.parent} has a table of markers but no images: add them.")
    rows = read_markers(files.table)
    return KnownSlide(slide_of(files.name, headers, rows, settings["register"]["on"]), headers)
