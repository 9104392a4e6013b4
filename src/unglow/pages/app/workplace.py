"""Where the app works: the directory that it was started in, and what it starts there.

It writes two files, ``config/config.yaml`` and ``config/samples.tsv``, and keeps what was there as
``.before``. Nothing outside of the directory is written, by links neither. Preflight, run and
stop are the commands of a terminal, as processes of their own. A run is in a session of its
own: it outlives the page, the server and the terminal.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shlex
import subprocess
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unglow.core.errors import ConfigError, InputError
from unglow.core.files import lock_file, read_file, resolve_links, tail, write_text
from unglow.core.machine import processors
from unglow.core.printable import escape_controls, printable
from unglow.core.workflow_files import COMMAND, OWN
from unglow.jobs.run_records import end_jobs, find_running, finish_jobs
from unglow.pages.app.settings_form import change_keys
from unglow.review.regions import keep_previous
from unglow.workflow.batch import SHEET
from unglow.workflow.config import CONFIG, MOST_BYTES, load, read_stored
from unglow.workflow.samples.discovery import discover
from unglow.workflow.samples.naming import images_of
from unglow.workflow.samples.raw_directory import describe_unread, folders_of, listing_if_any
from unglow.workflow.samples.sheet import read_sheet

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from unglow.jobs.run_records import Trace
    from unglow.workflow.samples.pair import Discovery
    from unglow.workflow.settings import Settings


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
        contents = [read_file(file) if os.path.isfile(file) else b"" for file in files]
        return hashlib.sha256(repr(contents).encode()).hexdigest()[:16]

    @property
    def why_not(self) -> str:
        """Why nothing can be written, in a sentence; empty if it can."""
        if not os.path.isdir(self.directory):
            return f"{self.directory} is not there any more: start `unglow app` where it is now."
        for place in (self.directory, self.directory / CONFIG.parent):
            if not resolve_links(place).is_relative_to(resolve_links(self.directory)):
                return f"{place} leads out of {self.directory}, so nothing is written there."
            if os.path.exists(place) and not os.access(place, os.W_OK | os.X_OK):
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
        return sheet if os.path.exists(sheet) else None

    def find_pairs(self, settings: Settings) -> Discovery:
        """Return the pairs as the workflow finds them; InputError for a sheet that is faulty."""
        sheet = self.sheet(settings)
        if sheet is not None:
            return read_sheet(sheet, base=self.directory)
        return discover(self.raw(settings), mapped=bool(settings.multiplexed.backgrounds))

    def choose_named(self) -> None:
        """Read the images of the folder that was named, where nothing else is chosen or there."""
        stored = read_stored(self.directory / CONFIG)
        named = [folder for folder in self.folders if images_below(folder, _DEPTH, 1)]
        isnt_chosen = "raw" not in stored and not os.path.isdir(self.raw(load(stored)))
        if named and isnt_chosen and not self.why_not:
            self.change_config({"raw": self.name_of(named[0])})

    def may_read(self, path: Path) -> bool:
        """Return whether a path is in a directory that is read; links in one may lead elsewhere."""
        places = (self.directory, *self.folders)
        return ".." not in path.parts and any(path.is_relative_to(place) for place in places)

    def find_images(self, raw: Path) -> list[Path]:
        """Return the images in raw, in the named folders, and below; at most `MOST_IMAGES`."""
        found: dict[Path, Path] = {}
        for place in (raw, *self.folders):
            for path in images_below(place, _DEPTH, MOST_IMAGES) if self.may_read(place) else ():
                found.setdefault(resolve_links(path), path)  # links in raw lead to named folders
        return list(found.values())[:MOST_IMAGES]

    def find_unread(self) -> tuple[str, ...]:
        """Return a sentence for the images of each format that is not read, wherever they are."""
        places = [self.directory, *self.folders]
        return describe_unread([d for place in places for d in (place, *_folders(place))])

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
        before = read_file(file).decode("utf-8") if os.path.isfile(file) else ""
        read_stored(file)  # refuses what is no configuration
        text = change_keys(before, put, reset)
        if len(text.encode()) > MOST_BYTES:
            raise ConfigError(
                f"{file} would be larger than {MOST_BYTES} bytes: give a shorter value."
            )
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
        if os.path.isfile(sheet):
            sheet.replace(sheet.with_name(f"{sheet.name}.before"))

    def _replace(self, file: Path, text: str) -> None:
        if os.path.isfile(file):
            keep_previous(file, read_file(file))
        write_text(file, text)


def _normal(path: Path) -> Path:
    """Return an absolute path without ``..``; links stay."""
    return Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow links


def _folders(place: Path) -> list[Path]:
    return folders_of(listing_if_any(place))


def id_of(path: Path) -> str:
    """Return a name for a path in addresses, from which no path can be made."""
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:20]


def images_below(folder: Path, depth: int, most: int) -> list[Path]:
    """Return the images in a folder and in those up to a depth below, ``most`` at most."""
    entries = listing_if_any(folder)
    found = images_of(entries)
    for inside in folders_of(entries) if depth and len(found) < most else ():
        if len(found) >= most:
            break
        found += images_below(inside, depth - 1, most - len(found))
    return found[:most]


_PATIENCE_S = 900
_SECOND = "A run is at work here already: wait until it ends, or stop it first."
_TAIL_BYTES = 6000
_OUTPUT = OWN / "app.log"


class Commands:
    """What is started in a working directory; any thread may ask.

    Parameters
    ----------
    directory
        The working directory.
    results
        Its results directory.
    """

    def __init__(self, directory: Path, results: Path) -> None:
        self.directory, self.results = directory, results
        self._lock, self._asking = threading.Lock(), threading.Lock()
        self._run: subprocess.Popen[bytes] | None = None

    def preflight(self, cores: int | None) -> dict[str, Any]:
        """Return the lines of `unglow preflight`, and whether a run would be ``refused``.

        Settings count as they are now, also where the results of other ones are there.
        """
        done = self._ask("preflight", *_words(cores))
        if done.returncode not in (0, 1):
            raise InputError(_last_sentence(done))
        return {"text": escape_controls(done.stdout.strip()), "refused": done.returncode == 1}

    def _ask(self, *words: str) -> subprocess.CompletedProcess[str]:
        with self._asking:
            try:
                return subprocess.run(  # noqa: S603 (words are ours, and numbers)
                    [*COMMAND, *words],
                    cwd=self.directory,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    encoding="utf-8",
                    errors="backslashreplace",
                    timeout=_PATIENCE_S,
                    check=False,
                )
            except FileNotFoundError:
                raise InputError(f"{self.directory} was moved or removed.") from None
            except subprocess.TimeoutExpired:
                raise InputError(
                    f"`unglow {words[0]}` took more than {_PATIENCE_S} s: give it in a terminal."
                ) from None

    def start(self, cores: int | None) -> None:
        """Start a run.

        Raises
        ------
        InputError
            One is at work here already, or the directory may not be written.
        """
        with self._lock:
            if self._lives() or self._find_running() is not None:
                raise InputError(_SECOND)
            output = self.directory / _OUTPUT
            if not resolve_links(output).is_relative_to(resolve_links(self.directory)):
                raise InputError(f"{output} leads out of {self.directory}: remove that link.")
            try:
                descriptor = _open_output(output)
            except OSError as error:
                raise InputError(
                    f"{output} may not be written ({error.strerror}), so nothing can run here: "
                    "remove it, or start `unglow app` in a directory of your own."
                ) from error
            try:
                self._run = subprocess.Popen(  # noqa: S603 (so are these)
                    [*COMMAND, "run", *_words(cores)],
                    cwd=self.directory,
                    stdin=subprocess.DEVNULL,
                    stdout=descriptor,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            finally:
                os.close(descriptor)

    def stop(self, *, now: bool) -> str:
        """End the run after its running jobs, or at once; return what happens, in a sentence."""
        with self._lock:
            trace = self._find_running()
            if trace is None:
                if self._run is not None and self._lives():  # it has only just been started
                    self._run.terminate()
                    return "The run is stopped before its first job."
                return "Nothing runs any more."
            if now:
                end_jobs(trace, trace.path.parents[2])
                return "The run has been stopped. Run continues with what is missing."
            finish_jobs(trace)
            return "Running jobs finish, and no other job starts. Run continues later."

    def state(self) -> dict[str, Any]:
        """Return whether a run is at work, and how the last one of this server has ended."""
        with self._lock:
            own = self._lives()
            code = None if self._run is None else self._run.returncode
        try:
            running, why = own or self._find_running() is not None, ""
        except InputError as error:
            running, why = True, str(error)
        output = self.directory / _OUTPUT
        text = ""
        if os.path.isfile(output):
            text = escape_controls(tail(output, _TAIL_BYTES)).strip()
        return {"running": running, "why": printable(why), "code": code, "output": text}

    def _find_running(self) -> Trace | None:
        """Return the run that is at work on these results, or on those that are configured now."""
        places = [self.results]
        with suppress(ConfigError):
            places.append(self.directory / load(read_stored(self.directory / CONFIG)).results)
        return next((run for place in places if (run := find_running(place)) is not None), None)

    def _lives(self) -> bool:
        return self._run is not None and self._run.poll() is None


def _open_output(path: Path) -> int:
    """Open the file that a run prints to, and keep other servers from starting one meanwhile.

    The lock is that of the open file: the run inherits it, and holds it until it ends.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
    descriptor = os.open(path, flags, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise InputError(_SECOND) from None
    except OSError:  # a file system without locks: Snakemake has one of its own
        pass
    if os.fstat(descriptor).st_nlink > 1:
        os.close(descriptor)
        raise InputError(f"{path} is a hard link to a file elsewhere: remove it.")
    os.truncate(descriptor, 0)
    return descriptor


def _words(cores: int | None) -> list[str]:
    return ["--cores", "all" if cores is None else str(cores)]


def cores_of(sent: object) -> int | None:
    """Return a number of cores that was sent; None for all. InputError for anything else."""
    if sent is None:
        return None
    if isinstance(sent, bool) or not isinstance(sent, int) or not 1 <= sent <= processors():
        raise InputError(f"Cores have to be a number from 1 to {processors()}.")
    return sent


def command(directory: Path, *words: str) -> str:
    """Return a command for a shell that does the same in a terminal."""
    return f"cd {shlex.quote(str(directory))} && {shlex.join(['unglow', *words])}"


def _last_sentence(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    return printable(lines[-1]) if lines else f"The command ended with status {done.returncode}."
