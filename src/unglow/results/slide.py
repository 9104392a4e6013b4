"""Results of a slide, as far as they are there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unglow import transform as transforms
from unglow.results.pair import SLIDE
from unglow.results.slide_files import (
    RESIDUES,
    SUBTRACTION,
    SlideRecord,
    Subtraction,
    load_residues,
    load_scales,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from unglow.photometry.difference_histogram import DifferenceHistogram
    from unglow.results.slide_files import MarkerScale
    from unglow.transform import Transform

SLIDE_FILES = (SLIDE, "scale.json", SUBTRACTION, RESIDUES)
"""What a slide's results are read from, in the order in which it is made."""


class _Maps(Mapping[tuple[int, int], "Transform"]):
    """Maps between cycles, each read when it is asked for: a damaged one costs what needs it."""

    def __init__(self, files: Mapping[tuple[int, int], Path]) -> None:
        self._files = {move: path for move, path in files.items() if path.is_file()}
        self._read: dict[tuple[int, int], Transform] = {}

    def __getitem__(self, move: tuple[int, int]) -> Transform:
        if move not in self._read:
            self._read[move] = transforms.load(self._files[move])
        return self._read[move]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


@dataclass(frozen=True, slots=True)
class SlideResults:
    """Results of a slide; None what is not there yet.

    Attributes
    ----------
    record
        Its channels, images and fingerprints.
    scales
        Gain and offset by marker.
    maps
        Maps between cycles, by (from, to); to ask for a damaged one raises StoreError.
    subtraction
        How each kept marker was subtracted.
    residues
        Histogram of each marker's difference.
    """

    record: SlideRecord | None
    scales: Mapping[str, MarkerScale]
    maps: Mapping[tuple[int, int], Transform]
    subtraction: Subtraction | None
    residues: Mapping[str, DifferenceHistogram]

    @classmethod
    def read(cls, place: Path) -> SlideResults:
        """Read the results in a slide's directory; UnglowError, which names the damaged file."""
        paths = [place / name for name in SLIDE_FILES]
        there = [path.is_file() for path in paths]
        record = SlideRecord.load(paths[0]) if there[0] else None
        scales = load_scales(paths[1]) if there[1] else {}
        moves = () if record is None else record.slide.moves
        files = {
            move: place / "registration" / "{}-{}".format(*move) / "transform.json"
            for move in moves
        }
        subtraction = Subtraction.load(paths[2]) if there[2] and there[3] else None
        names = () if subtraction is None else tuple(subtraction.markers)
        residues = load_residues(paths[3], names) if names else {}
        return cls(record, scales, _Maps(files), subtraction, residues)
