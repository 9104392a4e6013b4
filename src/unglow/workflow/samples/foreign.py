"""Images in formats that are not read, told by their names with how to export them."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unglow.workflow.samples.naming import images_of, stem_of, take_apart
from unglow.workflow.samples.pair import Problem
from unglow.workflow.samples.raw_directory import some

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

#: What microscopes and scanners write: told wherever nothing readable stands for it.
MICROSCOPES = {
    "czi": "Zeiss CZI", "lsm": "Zeiss LSM", "zvi": "Zeiss ZVI", "nd2": "Nikon ND2",
    "lif": "Leica LIF", "lof": "Leica LOF", "xlef": "Leica XLEF", "vsi": "Olympus VSI",
    "ets": "Olympus ETS", "oib": "Olympus OIB", "oif": "Olympus OIF", "oir": "Olympus OIR",
    "ims": "Imaris", "mrxs": "3DHISTECH MRXS", "bif": "Ventana BIF", "vms": "Hamamatsu VMS",
    "vmu": "Hamamatsu VMU", "dcm": "DICOM", "dicom": "DICOM", "stk": "MetaMorph STK",
    "sld": "SlideBook", "dv": "DeltaVision", "h5": "HDF5", "n5": "N5",
}  # fmt: skip
#: What may as well be a photograph or an overview: told only if the name says pre or post.
PICTURES = {
    "jp2": "JPEG 2000", "j2k": "JPEG 2000", "jpg": "JPEG", "jpeg": "JPEG", "png": "PNG",
    "bmp": "BMP", "gif": "GIF", "fits": "FITS", "npy": "NumPy",
}  # fmt: skip
_KINDS = {**MICROSCOPES, **PICTURES}
_ENDING = re.compile(rf"(?:\.ome)?\.({'|'.join(_KINDS)})$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ForeignImage:
    """An image that is not read: its file, format, and which image of which dye its name means."""

    path: Path
    kind: str
    dye: str | None
    markers: tuple[str, ...]

    @property
    def partner(self) -> tuple[str, str] | None:
        """(dye, ``pre`` or ``post``), if the name says both."""
        return (self.dye, self.markers[0]) if self.dye and len(self.markers) == 1 else None


def foreign_images(entries: Iterable[Path], sample: str) -> list[ForeignImage]:
    """Return the images of a folder that are not read, but for those that were exported beside."""
    entries = list(entries)
    readable = {stem_of(path.name) for path in images_of(entries)}
    found = []
    for path in entries:
        ending = _ENDING.search(path.name)
        if ending is None:
            continue
        stem = path.name.removesuffix(ending.group())
        parts = take_apart(f"{stem}.tif", sample)
        told = bool(parts.markers) or (not readable and ending[1].lower() in MICROSCOPES)
        if stem not in readable and told:
            kind = _KINDS[ending[1].lower()]
            found.append(ForeignImage(path, kind, parts.dye, parts.markers))
    return found


def problems(images: Iterable[ForeignImage], sample: str | None) -> Iterator[Problem]:
    """Yield a sentence for the images of each dye and format: what to do with them."""
    groups: dict[tuple[str | None, str], list[Path]] = {}
    for image in images:
        groups.setdefault((image.dye if image.partner else None, image.kind), []).append(image.path)
    for (dye, kind), paths in groups.items():
        path, one = paths[0], len(paths) == 1
        stem = path.name.rpartition(".")[0]
        to_tiff = _command("bfconvert -noflat -bigtiff", path.name, f"{stem}.ome.tif")
        to_zarr = _command("bioformats2raw", path.name, f"{stem}.ome.zarr")
        yield Problem(
            f"{some(paths)} in {path.parent} {'is' if one else 'are'} {kind}, which unglow does "
            f"not read: export {'it' if one else 'each'} as OME-TIFF or OME-Zarr beside it, for "
            f"example with Bio-Formats, `{to_tiff}` or `{to_zarr}`.",
            "unreadable-format",
            sample,
            dye if sample else None,
            tuple(paths),
        )


def _command(program: str, source: str, target: str) -> str:
    return f"{program} {shlex.quote(source)} {shlex.quote(target)}"
