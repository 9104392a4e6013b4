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
            "the link, or set another directory: `unglow run --config raw=DIRECTORY`.",
            "dangling-link",
            paths=(raw,),
        )
    if not os.path.exists(raw):
        return Problem(
            f"The folder {raw} does not exist (looked for {raw.absolute()}): put the images there "
            f"as {EXPECTED}, say where they are (`unglow run --config raw=DIRECTORY`), or make a "
            "pair to try with `unglow phantom`.",
            "no-raw",
            paths=(raw,),
        )
    if not os.path.isdir(raw):
        return Problem(
            f"{raw} is a file, not a directory: name the directory that holds one folder per "
            f"sample ({EXPECTED}): `unglow run --config raw=DIRECTORY`.",
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
_MICROSCOPES = re.compile(
    "bif|czi|dcm|dicom|dv|ets|h5|ims|lif|lof|lsm|mrxs|n5|nd2|oib|oif|oir|sld|stk|vms|vmu|vsi|xlef|zvi"
)
#: What may as well be a photograph: reported only if the name says pre or post itself.
PHOTOS = ("jpg", "jpeg", "png", "bmp", "gif", "jp2", "j2k")
#: What lies next to images and is not one, by the end of its name.
_SIDECARS = re.compile(
    "aux|bak|cfg|csv|db|docx?|geojson|html|ijm|ini|ipynb|json|lock|log|md|md5|npz|ome|pdf|pptx?|py|"
    "qpdata|qpproj|roi|rtf|sha1|sha256|sha512|tfw|tmp|toml|tsv|txt|xlsx?|xml|ya?ml"
)
#: Programs that unpack what images are packed in.
_ARCHIVES = {
    "zip": "unzip", "gz": "gunzip", "bz2": "bunzip2", "xz": "unxz", "zst": "unzstd",
    "tar": "tar -xf", "tgz": "tar -xf", "7z": "7z x",
}  # fmt: skip
_ENDING = re.compile(r"(?i)(?:(?:\.(?:ome|zarr|tiff?|tar|nii|roi))*\.(\d*[a-z][a-z0-9]*))?$")


def _take_ending(name: str) -> tuple[str, str]:
    """Return a name without its ending, such as .ome.zarr.zip, and the last part of that."""
    stem, kind, _ = _ENDING.split(name, 1)
    return stem, (kind or "").lower()


@dataclass(frozen=True, slots=True)
class ForeignImage:
    """An image that is not read: file, ending, and which image of which dye its name means."""

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
        stem, kind = _take_ending(path.name)
        is_known = _MICROSCOPES.fullmatch(kind) is not None
        if _SIDECARS.fullmatch(kind) or not readable.isdisjoint({stem, stem_of(path.name)}):
            continue
        parts = take_apart(f"{stem}.tif", sample, folder)
        is_reported = parts.markers or (is_known and not readable)
        if kind in PHOTOS:
            is_reported = says_pre_or_post(f"{stem}.tif", sample)
        if is_reported and (is_known or not path.is_dir()):
            found.append(ForeignImage(path, kind, parts.dye, parts.markers))
    return found


def problems_of_foreign(images: Iterable[ForeignImage], sample: str | None) -> Iterator[Problem]:
    """Yield a sentence for the images of each dye and format: what to do with them."""
    groups: dict[tuple[str | None, str], list[Path]] = {}
    for image in images:
        groups.setdefault((image.dye if image.partner else None, image.kind), []).append(image.path)
    for (dye, _), paths in groups.items():
        it = "it" if len(paths) == 1 else "each"
        yield Problem(
            f"unglow does not read {name_first(paths)} in {paths[0].parent}: "
            f"{_remedy(paths[0].name, it)}.",
            "unreadable-format",
            sample,
            dye if sample else None,
            tuple(paths),
        )


def _remedy(name: str, it: str) -> str:
    """Return how an image can be made readable, ``it`` or ``each`` of some."""
    stem, kind = _take_ending(name)
    source, zarr = shlex.quote(name), shlex.quote(f"{stem}.ome.zarr")
    if kind in _ARCHIVES:
        return f"unpack {it} next to it, for example with `{_ARCHIVES[kind]} {source}`"
    tiff = shlex.quote(f"{stem}.ome.tif")
    return (
        f"export {it} as OME-TIFF or OME-Zarr next to it, for example with Bio-Formats, "
        f"`bfconvert -noflat -bigtiff {source} {tiff}` or `bioformats2raw {source} {zarr}`"
    )
