"""A raw file that must stay the same while it is read: a result must not be of two files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from unglow.core.errors import ChangedError
from unglow.io.image_paths import is_ome_zarr, standing_for
from unglow.workflow.stages.plan import fingerprint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unglow.io.tiff import TiffHeader


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
        status = standing_for(path).stat()
        folders = os.walk(path) if is_ome_zarr(path) else ()
        times = sorted((folder, Path(folder).stat().st_mtime_ns) for folder, _, _ in folders)
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns, status.st_ino, times
