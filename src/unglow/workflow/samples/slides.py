"""Folders of multiplexed slides in a raw directory: images of many channels, and their table."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unglow.multiplexed.markers import NAME
from unglow.workflow.samples.naming import take_apart

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class SlideFiles:
    """The files of one slide: its table of markers, if there is one, and images in their order."""

    name: str
    table: Path | None
    images: tuple[Path, ...]


def slide_files(
    name: str, entries: Sequence[Path], images: Sequence[Path], *, mapped: bool
) -> SlideFiles | None:
    """Return the slide that a folder holds; None if it holds pairs.

    It holds a slide if a table of markers is there; or, where the configuration has backgrounds
    (``mapped``), if no image says pre or post.
    """
    table = next((entry for entry in entries if entry.name.lower() == NAME), None)
    unpaired = not any(take_apart(image.name, name).markers for image in images)
    if table is None and not (mapped and images and unpaired):
        return None
    return SlideFiles(name, table, tuple(sorted(images, key=_in_order)))


def _in_order(path: Path) -> list[tuple[int, str]]:
    """Sort names as people count: cycle2 before cycle10."""
    return [(int(n or 0), text) for text, n in re.findall(r"(\D*)(\d*)", path.name)]
