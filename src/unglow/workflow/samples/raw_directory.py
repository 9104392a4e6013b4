"""The raw directory: whether it has one folder for each sample, and images that are not read."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unglow.workflow.samples.naming import images_of, says_pre_or_post, stem_of, take_apart
from unglow.workflow.samples.pair import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path


EXPECTED = "<sample>/<anything with pre or post>_<dye>.tif"
_READ = "images that are read (.tif, .svs, .ndpi, .scn, .qptiff, .btf, .tf8, OME-Zarr)"
_SHOWN = 3


def listing(directory: Path) -> list[Path]:
    """Return the entries of a directory, sorted by name, without hidden ones."""
    return sorted(entry for entry in directory.iterdir() if not entry.name.startswith("."))


def check_raw(raw: Path) -> Problem | None:
    """Say what is wrong with the raw directory as such, or None."""
    if os.path.islink(raw) and not os.path.exists(raw):
        return Problem(
            f"The raw directory {raw} is a link to {raw.readlink()}, which does not exist; fix "
            "the link, or set another directory with --config raw=DIRECTORY.",
            "dangling-link",
            paths=(raw,),
        )
    if not os.path.exists(raw):
        return Problem(
            f"The folder {raw} does not exist (looked for {raw.absolute()}): put the images there "
            f"as {EXPECTED}, say where they are with --config raw=DIRECTORY, or make a pair to try "
            "with `unglow phantom`.",
            "no-raw",
            paths=(raw,),
        )
    if not os.path.isdir(raw):
        return Problem(
            f"{raw} is a file, not a directory: name the directory that holds one folder per "
            f"sample ({EXPECTED}), with --config raw=DIRECTORY.",
            "raw-not-a-directory",
            paths=(raw,),
        )
    return None


def unreadable(path: Path, error: OSError) -> Problem:
    """Say that a directory cannot be listed."""
    return Problem(
        f"{path} cannot be listed ({error.strerror}); give yourself the right to read it.",
        "unreadable",
        paths=(path,),
    )


def loose_files(raw: Path, files: list[Path]) -> Problem:
    """Say that TIFFs are next to the sample folders instead of in them."""
    one = len(files) == 1
    named = [take_apart(file.name, "") for file in files]
    is_sample = all(n.markers and n.dye for n in named)
    above = raw.absolute().parent
    hint = f", or name {above} if all are of one sample" if is_sample else ""
    return Problem(
        f"{name_first(files)} {'lies' if one else 'lie'} directly in {raw} and "
        f"{'is' if one else 'are'} not used: move {'it' if one else 'them'} into a folder per "
        f"sample, {raw}/{EXPECTED}{hint}.",
        "loose-files",
        paths=tuple(files),
    )


def too_deep(folder: Path, files: list[Path]) -> str:
    """Say that TIFFs lie in folders inside the folder of a sample."""
    lie, them = ("lies", "it") if len(files) == 1 else ("lie", "them")
    end = ", or make every folder with images a sample of its own."
    shown = name_first(files, folder)
    return f"{shown} in {folder} {lie} too deep: move {them} up into {folder}{end}"


def no_tiffs(raw: Path, entries: list[Path], folders: list[Path]) -> Problem:
    """Say that there is nothing to work on."""
    if not entries:
        found, kind = f"The raw directory {raw} is empty", "empty-raw"
    elif not folders:
        found, kind = f"The raw directory {raw} holds no folders and no {_READ}", "no-tiffs"
    else:
        found, kind = (f"The folders in {raw} ({name_first(folders)}) hold no {_READ}", "no-tiffs")
    return Problem(f"{found}: expected are images as {raw}/{EXPECTED}.", kind, paths=(raw,))


def listing_if_any(directory: Path) -> list[Path]:
    """Return the entries of a directory, none if it cannot be read."""
    try:
        return listing(directory)
    except OSError:
        return []


def dangling_sentence(file: Path, what: str = "image") -> str:
    """Say that a file is a link that leads nowhere; ``what`` it should have led to."""
    return (
        f"{file} is a link to {file.readlink()}, which does not exist; fix the link or put the "
        f"{what} in its place."
    )


def name_first(paths: Iterable[Path], above: Path | None = None) -> str:
    """Return the first names of a list, or its paths below a directory, and how many more."""
    names = [path.name if above is None else str(path.relative_to(above)) for path in paths]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def layout_note(raw: Path, used: int, empty: list[Path]) -> str:
    """Say in a phrase how the directory was read."""
    ignored = f"; without images, so left out: {name_first(empty)}" if empty else ""
    return f"{raw}: {used} sample folder{'' if used == 1 else 's'} ({EXPECTED}){ignored}"


#: What microscopes and scanners write: reported wherever nothing readable stands for it.
MICROSCOPES = {
    "czi": "Zeiss CZI", "lsm": "Zeiss LSM", "zvi": "Zeiss ZVI", "nd2": "Nikon ND2",
    "lif": "Leica LIF", "lof": "Leica LOF", "xlef": "Leica XLEF", "vsi": "Olympus VSI",
    "ets": "Olympus ETS", "oib": "Olympus OIB", "oif": "Olympus OIF", "oir": "Olympus OIR",
    "ims": "Imaris", "mrxs": "3DHISTECH MRXS", "bif": "Ventana BIF", "vms": "Hamamatsu VMS",
    "vmu": "Hamamatsu VMU", "dcm": "DICOM", "dicom": "DICOM", "stk": "MetaMorph STK",
    "sld": "SlideBook", "dv": "DeltaVision", "h5": "HDF5", "n5": "N5",
}  # fmt: skip
#: What may as well be a photograph or an overview: reported only if the name says pre or post.
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


def foreign_images(
    entries: Iterable[Path], sample: str, folder: str | None = None
) -> list[ForeignImage]:
    """Return the images of a folder that are not read and have no export next to them.

    ``folder`` is its name if that says pre or post.
    """
    entries = list(entries)
    readable = {stem_of(path.name) for path in images_of(entries)}
    found = []
    for path in entries:
        ending = _ENDING.search(path.name)
        if ending is None:
            continue
        stem = path.name.removesuffix(ending.group())
        parts = take_apart(f"{stem}.tif", sample, folder)
        is_picture = ending[1].lower() in PICTURES
        is_reported = (
            says_pre_or_post(f"{stem}.tif", sample) if is_picture else parts.markers or not readable
        )
        if stem not in readable and is_reported:
            kind = _KINDS[ending[1].lower()]
            found.append(ForeignImage(path, kind, parts.dye, parts.markers))
    return found


def problems_of_foreign(images: Iterable[ForeignImage], sample: str | None) -> Iterator[Problem]:
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
            f"{name_first(paths)} in {path.parent} {'is' if one else 'are'} {kind}, which unglow "
            f"does not read: export {'it' if one else 'each'} as OME-TIFF or OME-Zarr next to it, "
            f"for example with Bio-Formats, `{to_tiff}` or `{to_zarr}`.",
            "unreadable-format",
            sample,
            dye if sample else None,
            tuple(paths),
        )


def _command(program: str, source: str, target: str) -> str:
    return f"{program} {shlex.quote(source)} {shlex.quote(target)}"
