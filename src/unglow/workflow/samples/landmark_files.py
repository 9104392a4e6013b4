"""Landmarks that lie beside the images: ``<name of the image>.landmarks.csv``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from unglow.workflow.samples.naming import composed, take_apart

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_ENDING = re.compile(r"\.landmarks\.(?:csv|tsv|txt)$", re.IGNORECASE)


class LandmarkFiles:
    """The landmark files of one folder.

    Parameters
    ----------
    entries
        Everything in the folder.
    images
        The images in it, which landmarks may belong to; letter case does not matter.
    """

    def __init__(self, entries: Iterable[Path], images: Iterable[Path]) -> None:
        self._of: dict[str, list[Path]] = {_stem(image): [] for image in images}
        self.lonely: list[Path] = []
        """Landmarks that no image is named like."""
        for entry in entries:
            if _ENDING.search(entry.name) and not entry.is_dir():
                stem = composed(_ENDING.sub("", entry.name)).casefold()
                self._of.get(stem, self.lonely).append(entry)

    def of(self, post: Path, pre: Path) -> tuple[Path, ...]:
        """Return the landmarks of a pair: one file of both, or that of post and that of pre.

        Raises
        ------
        ValueError
            An image has several; the message is a sentence.
        """
        found = []
        for image in (post, pre):
            files = self._of[_stem(image)]
            if len(files) > 1:
                raise ValueError(
                    f"{image} has {len(files)} files of landmarks beside it "
                    f"({', '.join(f.name for f in files)}); keep one."
                )
            found += files
        return tuple(found)


def _stem(image: Path) -> str:
    suffix = take_apart(image.name, "").suffix
    return composed(image.name.removesuffix(suffix)).casefold()
