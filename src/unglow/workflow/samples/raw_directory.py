"""The raw directory: what is in it, and images that are not read."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from unglow.core.printable import one_line
from unglow.images.raw_header import is_ome_zarr
from unglow.workflow.samples.naming import images_of, says_pre_or_post, stem_of, take_apart
from unglow.workflow.samples.pair import Problem, name_first

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from unglow.workflow.samples.naming import FileName


EXPECTED = "<sample>/<anything with pre or post>_<dye>.tif"
_READ = "images that are read (.tif, .svs, .ndpi, .scn, .qptiff, .btf, .tf8, OME-Zarr)"
_SET = "`unglow run --config raw=DIRECTORY`"


def listing(directory: Path) -> list[Path]:
    """Return the entries of a directory, sorted by name, without hidden ones."""
    return sorted(entry for entry in directory.iterdir() if not entry.name.startswith("."))


def listing_if_any(directory: Path) -> list[Path]:
    """Return the entries of a directory, none if it cannot be read."""
    try:
        return listing(directory)
    except OSError:
        return []


def folders_of(entries: Iterable[Path]) -> list[Path]:
    """Return the folders of a directory that are no images."""
    return [entry for entry in entries if os.path.isdir(entry) and not is_ome_zarr(entry)]


def list_raw(raw: Path) -> list[Path] | Problem:
    """Return the entries of the raw directory, or what is wrong with it as such."""
    if is_dangling(raw):
        return Problem(f"{describe_dangling(raw)} Or set another: {_SET}.", "dangling-link")
    if not os.path.exists(raw):
        return Problem(
            f"The folder {raw} does not exist (looked for {raw.absolute()}): put the images there "
            f"as {EXPECTED}, say where they are ({_SET}), or make a pair to try with "
            "`unglow phantom`.",
            "no-raw",
        )
    if not os.path.isdir(raw):
        return Problem(f"{raw} is a file: name the directory of all samples, {_SET}.", "no-raw")
    try:
        return listing(raw)
    except OSError as error:
        return describe_unreadable(raw, error)


def describe_unreadable(path: Path, error: OSError) -> Problem:
    """Say that a directory cannot be listed."""
    sentence = f"{path} cannot be listed ({error.strerror}); give yourself the right to read it."
    return Problem(sentence, "unreadable", paths=(path,))


def is_dangling(path: Path) -> bool:
    """Return whether a path is a link that leads nowhere."""
    return os.path.islink(path) and not os.path.exists(path)


def describe_dangling(path: Path) -> str:
    """Say that a path is a link that leads nowhere."""
    return f"{path} is a link to {path.readlink()}, which does not exist; fix or replace the link."


def describe_loose(raw: Path, files: list[Path]) -> Problem:
    """Say that images are next to the sample folders instead of in them."""
    are, them = ("lies", "it") if len(files) == 1 else ("lie", "them")
    named = [take_apart(file.name, "") for file in files]
    above = f", or name {raw.absolute().parent} if all are of one sample"
    return Problem(
        f"{name_first([file.name for file in files])} {are} directly in {raw}, not used: move "
        f"{them} into a folder per sample, {raw}/{EXPECTED}"
        f"{above if all(n.words and n.dye for n in named) else ''}.",
        "loose-files",
        paths=tuple(files),
    )


def describe_nothing(raw: Path, entries: list[Path]) -> Problem:
    """Say that there is nothing to work on."""
    found = name_first([entry.name for entry in entries]) or "it is empty"
    sentence = f"{raw} ({found}) holds no {_READ}: expected are images as {raw}/{EXPECTED}."
    return Problem(sentence, "no-images", paths=(raw,))


#: What microscopes and scanners write: reported wherever nothing readable stands for it.
_MICROSCOPES = re.compile(
    "bif|czi|dcm|dicom|dv|ets|h5|ims|lif|lof|lsm|mrxs|n5|nd2|oib|oif|oir|sld|stk|vms|vmu|vsi|xlef|zvi"
)
#: What may as well be a photograph: reported only if the name says pre or post itself.
_PHOTOS = re.compile("jpe?g|png|bmp|gif|jp2|j2k")
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


class Foreign(NamedTuple):
    """An image that is not read: its file, format, and what its name says.

    ``is_meant``: it seems to be of a pair, which cannot be processed without it.
    """

    path: Path
    kind: str
    parts: FileName
    is_meant: bool


def find_foreign(
    entries: Iterable[Path], sample: str, folder: str | None = None
) -> Iterator[Foreign]:
    """Yield the images of a folder that are not read and have no export next to them.

    ``folder`` is the name of the folder if that says pre or post.
    """
    entries = list(entries)
    readable = {stem_of(path.name) for path in images_of(entries)}
    for path in entries:
        stem, kind = _take_ending(path.name)
        is_known, is_photo = (one.fullmatch(kind) is not None for one in (_MICROSCOPES, _PHOTOS))
        if _SIDECARS.fullmatch(kind) or not readable.isdisjoint({stem, stem_of(path.name)}):
            continue
        parts = take_apart(f"{stem}.tif", sample, folder)
        is_meant = bool(parts.words) or (is_known and not readable)
        if is_photo:
            is_meant = says_pre_or_post(f"{stem}.tif", sample)
        if (is_meant or is_known or is_photo) and (is_known or not path.is_dir()):
            yield Foreign(path, kind, parts, is_meant)


def describe_foreign(images: Iterable[Foreign], sample: str | None) -> Iterator[Problem]:
    """Yield a sentence for the images of each dye and format that seem to be of a pair."""
    groups: dict[tuple[str | None, str], list[Path]] = {}
    for image in images:
        if image.is_meant:
            dye = image.parts.dye if sample and image.parts.slot else None
            groups.setdefault((dye, image.kind), []).append(image.path)
    for (dye, kind), paths in groups.items():
        yield Problem(_explain(kind, paths), "unreadable-format", sample, dye, tuple(paths))


def note_foreign(images: Iterable[Foreign]) -> tuple[str, ...]:
    """Return a sentence for the images of each format."""
    groups: dict[str, list[Path]] = {}
    for image in images:
        groups.setdefault(image.kind, []).append(image.path)
    return tuple(one_line(_explain(kind, paths)) for kind, paths in groups.items())


def describe_unread(folders: Iterable[Path]) -> tuple[str, ...]:
    """Return a sentence for the images of each format in some folders that are not read."""
    found = (image for d in folders for image in find_foreign(listing_if_any(d), ""))
    known = (_MICROSCOPES, _PHOTOS)
    return note_foreign(i for i in found if any(one.fullmatch(i.kind) for one in known))


def _explain(kind: str, paths: list[Path]) -> str:
    """Say that images of a format are not read, and how each can be made readable."""
    name, it = paths[0].name, "it" if len(paths) == 1 else "each"
    folder = Path(os.path.commonpath([path.parent for path in paths]))
    remedy = (
        f"Unpack {it} next to it, for example with `{_ARCHIVES[kind]} {shlex.quote(name)}`"
        if kind in _ARCHIVES
        else f"Export {it} next to it as OME-TIFF or OME-Zarr, for example with {_export(name)}"
    )
    shown = name_first([os.path.relpath(path, folder) for path in paths])
    return f"unglow does not read {shown} in {folder}. {remedy}."


def _export(name: str) -> str:
    stem = _take_ending(name)[0]
    source, tiff, zarr = map(shlex.quote, (name, f"{stem}.ome.tif", f"{stem}.ome.zarr"))
    return (
        f"Bio-Formats: `bfconvert -noflat -bigtiff {source} {tiff}` or "
        f"`bioformats2raw {source} {zarr}`"
    )
