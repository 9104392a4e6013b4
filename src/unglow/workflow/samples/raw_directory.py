"""The raw directory as such: whether it is there and laid out as one folder per sample."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unglow.workflow.samples.naming import MARKERS, replace_synonym, take_apart
from unglow.workflow.samples.pair import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

EXPECTED = "<sample>/<anything with pre or post>_<dye>.tif"
_READ = "images that are read (.tif, .svs, .ndpi, .scn, .qptiff, .btf, .tf8, OME-Zarr)"
_SHOWN = 3


def listing(directory: Path) -> list[Path]:
    """Return the entries of a directory, sorted by name, without hidden ones."""
    return sorted(entry for entry in directory.iterdir() if not entry.name.startswith("."))


def check_raw(raw: Path) -> Problem | None:
    """Say what is wrong with the raw directory as such, or None."""
    if raw.is_symlink() and not raw.exists():
        return Problem(
            f"The raw directory {raw} is a link to {raw.readlink()}, which does not exist; mend "
            "the link, or set another directory with --config raw=DIRECTORY.",
            "dangling-link",
            paths=(raw,),
        )
    if not raw.exists():
        return Problem(
            f"There is no raw directory {raw} (looked for {raw.absolute()}): put the images there "
            f"as {EXPECTED}, say where they are with --config raw=DIRECTORY, or make a pair to try "
            "with `unglow phantom`.",
            "no-raw",
            paths=(raw,),
        )
    if not raw.is_dir():
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
    """Say that TIFFs lie beside the sample folders instead of in them."""
    one = len(files) == 1
    named = [take_apart(file.name, "") for file in files]
    is_sample = all(n.markers and n.dye for n in named)
    above = raw.absolute().parent
    hint = f", or name {above} if all are of one sample" if is_sample else ""
    return Problem(
        f"{some(files)} {'lies' if one else 'lie'} directly in {raw} and "
        f"{'is' if one else 'are'} not used: move {'it' if one else 'them'} into a folder per "
        f"sample, {raw}/{EXPECTED}{hint}.",
        "loose-files",
        paths=tuple(files),
    )


def too_deep(folder: Path, files: list[Path]) -> str:
    """Say that TIFFs lie in folders inside the folder of a sample."""
    lie, them = ("lies", "it") if len(files) == 1 else ("lie", "them")
    first = take_apart(files[0].name, "")
    marker = replace_synonym(files[0].parent.name).lower()
    if first.dye and not first.markers and marker in MARKERS:  # the folder alone says it
        name = f"{first.body}_{marker}_{first.dye}{first.suffix}"
        end = f", for example as '{name}'."
    else:
        end = ", or make every folder with images a sample of its own."
    shown = some(files, folder)
    return f"{shown} in {folder} {lie} too deep: move {them} up into {folder}{end}"


def no_tiffs(raw: Path, entries: list[Path], folders: list[Path]) -> Problem:
    """Say that there is nothing to work on."""
    if not entries:
        found, kind = f"The raw directory {raw} is empty", "empty-raw"
    elif not folders:
        found, kind = f"The raw directory {raw} holds no folders and no {_READ}", "no-tiffs"
    else:
        found, kind = (
            f"The folders in {raw} ({some(folders)}) hold no {_READ}",
            "no-tiffs",
        )
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
        f"{file} is a link to {file.readlink()}, which does not exist; mend the link or put the "
        f"{what} in its place."
    )


def some(paths: Iterable[Path], above: Path | None = None) -> str:
    """Return the first names of a list, or its paths below a directory, and how many more."""
    names = [path.name if above is None else str(path.relative_to(above)) for path in paths]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def layout_note(raw: Path, used: int, empty: list[Path]) -> str:
    """Say in a phrase how the directory was read."""
    ignored = f"; without images, so left out: {some(empty)}" if empty else ""
    return f"{raw}: {used} sample folder{'' if used == 1 else 's'} ({EXPECTED}){ignored}"
