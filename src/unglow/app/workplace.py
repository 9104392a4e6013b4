"""Where the app works: the directory that it was started in, and folders with images to read.

It writes two files, ``config/config.yaml`` and ``config/samples.tsv``, and keeps what was there as
``.before``. Nothing outside of the directory is written, by links neither.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unglow.app.config_file import change_keys
from unglow.core.errors import ConfigError, InputError
from unglow.core.files import lock_file, read_file, write_text
from unglow.io.raw_header import is_ome_zarr
from unglow.workflow.config import CONFIG, load, read_stored
from unglow.workflow.samples import discover, read_sheet
from unglow.workflow.samples.naming import images_of
from unglow.workflow.samples.raw_directory import listing_if_any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from unglow.workflow.samples import Discovery
    from unglow.workflow.settings import Settings

SHEET = Path("config") / "samples.tsv"
_OWN = ("results", "config", "logs", "profiles")
# Folders below one that is searched, and the most images and folders that are shown.
_DEPTH, MOST_IMAGES, _MOST_FOLDERS = 3, 3000, 200


class ChangedError(InputError):
    """The files are not those that a page has shown."""


class Workplace:
    """The directory of a run, and the folders that are read for it.

    Parameters
    ----------
    directory
        The working directory; the only place that is written.
    folders
        Other directories with images.
    """

    def __init__(self, directory: Path, folders: Sequence[Path] = ()) -> None:
        self.directory = directory.absolute()
        self.folders = [_normal(folder) for folder in folders]

    @property
    def version(self) -> str:
        """Another one when a file that the app writes has changed, by whomever."""
        files = (self.directory / CONFIG, self.directory / SHEET)
        contents = [read_file(file) if file.is_file() else b"" for file in files]
        return hashlib.sha256(repr(contents).encode()).hexdigest()[:16]

    @property
    def why_not(self) -> str:
        """Why nothing can be written, in a sentence; empty if it can."""
        for place in (self.directory, self.directory / CONFIG.parent):
            if not place.resolve().is_relative_to(self.directory.resolve()):
                return f"{place} leads out of {self.directory}, so nothing is written there."
            if place.exists() and not os.access(place, os.W_OK | os.X_OK):
                return (
                    f"{place} may not be written: start `unglow app` in a directory of your own, "
                    "and name the folder of the images."
                )
        return ""

    def settings(self) -> Settings:
        """Return the configuration as it is; ConfigError for one that is faulty."""
        return load(read_stored(self.directory / CONFIG))

    def raw(self, settings: Settings) -> Path:
        """Return the folder of raw images."""
        return _normal(self.directory / settings.raw)

    def sheet(self, settings: Settings) -> Path | None:
        """Return the sample sheet that the workflow would read; None if it reads names."""
        if settings.samples is not None:
            return self.directory / settings.samples
        sheet = self.directory / SHEET
        return sheet if sheet.exists() else None

    def find_pairs(self, settings: Settings) -> Discovery:
        """Return the pairs as the workflow finds them; InputError for a sheet that is faulty."""
        sheet = self.sheet(settings)
        if sheet is not None:
            return read_sheet(sheet, base=self.directory)
        return discover(self.raw(settings), mapped=bool(settings.multiplexed.backgrounds))

    def may_read(self, path: Path) -> bool:
        """Return whether a path is in a directory that is read; links in one may lead elsewhere."""
        places = (self.directory, *self.folders)
        return ".." not in path.parts and any(path.is_relative_to(place) for place in places)

    def find_images(self, folder: Path) -> list[Path]:
        """Return the images in a folder and those below, at most `MOST_IMAGES`."""
        return images_below(folder, _DEPTH, MOST_IMAGES) if self.may_read(folder) else []

    def find_folders(self) -> dict[str, tuple[Path, int]]:
        """Return the folders with images to choose from, and how many images each has, by id."""
        inside = [d for d in _folders(self.directory) if d.name.lower() not in _OWN]
        named = [d for folder in self.folders for d in (folder, *_folders(folder))]
        found = {}
        for folder in [*inside, *named][:_MOST_FOLDERS]:
            count = len(images_below(folder, _DEPTH, MOST_IMAGES))
            if count:
                found[id_of(folder)] = (folder, count)
        return found

    def name_of(self, path: Path) -> str:
        """Return a path as the working directory sees it."""
        inside = path.is_relative_to(self.directory)
        return str(path.relative_to(self.directory) if inside else path)

    @contextmanager
    def changing(self, version: str) -> Iterator[None]:
        """Keep other pages out while files are changed.

        Raises
        ------
        InputError
            Nothing may be written here.
        ChangedError
            The files are not those of this version.
        """
        if self.why_not:
            raise InputError(self.why_not)
        with lock_file(self.directory / CONFIG):
            if version != self.version:
                raise ChangedError(
                    "The settings or the sample sheet were changed meanwhile, on another page or "
                    "in an editor. They are shown as they are now: please try again."
                )
            yield

    def change_config(self, put: Mapping[str, Any], reset: Iterable[str] = ()) -> None:
        """Set keys of the configuration by their dotted names, and remove others.

        Everything else in the file stays as it is; `ConfigError` if the result would be faulty.
        """
        file = self.directory / CONFIG
        before = read_file(file).decode("utf-8") if file.is_file() else ""
        read_stored(file)  # refuses what is no configuration
        text = change_keys(before, put, reset)
        if text != before:
            self._replace(file, text)

    def write_sheet(self, text: str) -> None:
        """Write the sample sheet."""
        if self.settings().samples is not None:
            raise ConfigError(
                "The configuration names another sample sheet (key samples): edit that one, or "
                "remove the key."
            )
        self._replace(self.directory / SHEET, text)

    def remove_sheet(self) -> None:
        """Let the names of files count again."""
        sheet = self.directory / SHEET
        if sheet.is_file():
            sheet.replace(_before(sheet))

    def _replace(self, file: Path, text: str) -> None:
        if file.is_file():
            kept = read_file(file).decode("utf-8", "surrogateescape")
            write_text(_before(file), kept)
        write_text(file, text)


def _normal(path: Path) -> Path:
    """Return an absolute path without ``..``; links stay."""
    return Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow links


def _before(file: Path) -> Path:
    return file.with_name(f"{file.name}.before")


def id_of(path: Path) -> str:
    """Return a name for a path in addresses, from which no path can be made."""
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:20]


def images_below(folder: Path, depth: int, most: int) -> list[Path]:
    """Return the images in a folder and in those up to a depth below, ``most`` at most."""
    entries = listing_if_any(folder)
    found = images_of(entries)
    for entry in entries if depth else ():
        if len(found) >= most:
            break
        if entry.is_dir() and not is_ome_zarr(entry):
            found += images_below(entry, depth - 1, most - len(found))
    return found[:most]


def _folders(place: Path) -> list[Path]:
    return [d for d in listing_if_any(place) if d.is_dir() and not is_ome_zarr(d)]
