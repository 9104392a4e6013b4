"""Paths of raw images: an OME-Zarr image is a folder, represented by its metadata file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

ENDING = ".zarr"
DOCUMENTS = ("zarr.json", ".zattrs")
"""The metadata of an image, of format 3 and 2: a file that represents it."""


def is_ome_zarr(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is named as an OME-Zarr image is."""
    return os.fspath(path).casefold().endswith(ENDING)


def find_key_file(path: Path) -> Path:
    """Return the file that represents a raw image: of an OME-Zarr image its metadata, else itself.

    It is what Snakemake looks at, since a folder says nothing of changes in it.
    """
    if not is_ome_zarr(path):
        return path
    return next((path / name for name in DOCUMENTS if (path / name).is_file()), path / DOCUMENTS[0])


def find_image(path: Path) -> Path:
    """Return the raw image that a file represents."""
    return path.parent if path.name in DOCUMENTS and is_ome_zarr(path.parent) else path
