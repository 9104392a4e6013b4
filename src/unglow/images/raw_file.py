"""A raw file while it is worked on: whether it is still the one that results are made of."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from unglow.core.digests import hash_pieces
from unglow.core.errors import ChangedError
from unglow.core.progress import step
from unglow.images.ome_zarr import fingerprint as ome_zarr_fingerprint
from unglow.images.raw_header import find_key_file, is_ome_zarr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unglow.images.raw_header import TiffHeader


class RawFile:
    """A raw file that is about to be read.

    Parameters
    ----------
    header, fingerprint
        Of the file, as the plan has them.
    plan
        The file that has the fingerprint, in words.
    """

    def __init__(
        self, header: TiffHeader, fingerprint: str, plan: str = "plan.json of the pair"
    ) -> None:
        self._header, self._plan = header, plan
        self._fingerprint = fingerprint
        self._stamp = _stamp_of(Path(header.path))

    def check(self) -> None:
        """Check that the file is still the one that was there, and that the plan was made of.

        Raises
        ------
        ChangedError
            It is not.
        """
        path = Path(self._header.path)
        same = self._stamp is not None and _stamp_of(path) == self._stamp
        try:
            same = same and fingerprint(self._header) == self._fingerprint
        except OSError:
            same = False
        if not same:
            raise ChangedError(
                f"{path} was changed, replaced or cut while it was worked on, so nothing was "
                f"published; once the file is complete, run again (and delete {self._plan} if this "
                "comes again)."
            )


def files_of_slide(headers: Sequence[TiffHeader], fingerprints: Sequence[str]) -> list[RawFile]:
    """Return the images of a slide, of which ``slide.json`` has the fingerprints."""
    images = zip(headers, fingerprints, strict=True)
    return [RawFile(*one, "slide.json of the slide") for one in images]


def _stamp_of(path: Path) -> tuple[object, ...] | None:
    """Return what changes with an image: size, time and inode; None if it cannot be seen.

    A chunk of an OME-Zarr image that is put in its place changes the time of its folder.
    """
    try:
        status = find_key_file(path).stat()
        folders = os.walk(path) if is_ome_zarr(path) else ()
        times = sorted((folder, Path(folder).stat().st_mtime_ns) for folder, _, _ in folders)
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns, status.st_ino, times


def remove_directories(sentence: str, *headers: TiffHeader) -> str:
    """Return a sentence with raw files named without directories, for what goes into results."""
    for header in headers:
        sentence = sentence.replace(f"{Path(header.path).parent}{os.sep}", "")
    return sentence


@step("fingerprint")
def fingerprint(header: TiffHeader) -> str:
    """Return a digest of a raw file's size and of pieces spread evenly over it.

    It is quick for any size and detects a replaced image; whether every pixel is as it was, the
    digest of the store says.
    """
    if is_ome_zarr(header.path) and os.path.isdir(header.path):
        return ome_zarr_fingerprint(header.path)
    return hash_pieces(header.path, header.file_bytes)
