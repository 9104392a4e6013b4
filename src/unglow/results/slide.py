"""Results of a multiplexed slide."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from unglow import transform as transforms
from unglow.multiplexed.results import SlideRecord, Subtraction, load_residues, load_scales

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from unglow.multiplexed.results import MarkerScale
    from unglow.photometry.difference_histogram import DifferenceHistogram
    from unglow.transform import Transform

SLIDE_FILES = ("slide.json", "scale.json", "subtraction.json", "residues.npz")
"""What a slide's results are read from, in the order in which it is made."""


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
        Maps between cycles, by (from, to).
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
        maps = {move: transforms.load(path) for move, path in files.items() if path.is_file()}
        subtraction = Subtraction.load(paths[2]) if there[2] and there[3] else None
        names = () if subtraction is None else tuple(subtraction.markers)
        residues = load_residues(paths[3], names) if names else {}
        return cls(record, scales, maps, subtraction, residues)
