"""Files next to the raw images of a pair, in which the workflow reads hints of users."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unglow.core.errors import UnglowError
from unglow.core.files import resolve_links
from unglow.images.slide_plan import CANDIDATES_SUFFIX
from unglow.jobs.run_records import find_start_directory, is_own, last_run, same_place
from unglow.jobs.snakemake_command import split_command
from unglow.registration.settings import RegisterSettings
from unglow.workflow import config as configuration
from unglow.workflow.batch import find_pairs
from unglow.workflow.config import CONFIG, read_stored
from unglow.workflow.samples.naming import take_apart

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from unglow.jobs.run_records import Trace
    from unglow.workflow.samples.pair import Pair as RawPair
    from unglow.workflow.settings import Settings

LANDMARKS, REGIONS = ".landmarks.csv", ".regions.geojson"
"""Endings of files next to an image."""
_COMMAND = "unglow run --cores all"
_APART = (
    "These results are not where a working directory with their configuration has them, so it is "
    "not known where their raw images are."
)


@dataclass(frozen=True)
class RawFiles:
    """The raw files of a pair.

    Attributes
    ----------
    pair
        As the workflow finds it; None if it does not.
    sheet
        The sample sheet that names it; None if it was found by the names of files.
    problem
        One sentence on why there is no pair.
    command
        The command that continues the run, for a shell.
    max_scale
        The setting of the registration.
    of_slide
        Whether it is a marker of a multiplexed slide, for which nothing next to the images counts.
    places
        Directories of the run: only in these is anything written next to images.
    """

    pair: RawPair | None = None
    sheet: Path | None = None
    problem: str = _APART
    command: str = _COMMAND
    max_scale: float = RegisterSettings().max_scale
    of_slide: bool = False
    places: tuple[Path, ...] = ()

    @property
    def regions(self) -> Path | None:
        """The file of regions that the workflow reads; None if there is none."""
        return None if self.pair is None else self.pair.regions

    @property
    def regions_target(self) -> Path | None:
        """The same, or the file that it would read if it were there; None if none would be read."""
        if self.pair is None or self.regions is not None or self.sheet is not None:
            return self.regions
        return file_next_to(self.pair.post, REGIONS)


def raw_files(results: Path, sample: str, dye: str) -> RawFiles:
    """Find the raw files of a pair as the workflow does.

    Parameters
    ----------
    results
        The results directory.
    sample, dye
        Names of the pair.
    """
    try:
        run = find_own_run(results)
        known = find_work(results, run)
        if known is None:
            return RawFiles()
        work, settings, is_users = known
        found = _found(work, settings, (sample, dye))
        places = _places(work, Path(settings.raw)) if is_users else ()
        return replace(found, places=places, command=_command(run, work, settings.results))
    except (UnglowError, OSError, ValueError) as error:  # names may be no paths at all
        return RawFiles(problem=str(error))


def find_own_run(results: Path) -> Trace | None:
    """Return the last run if its record is to be believed.

    Whoever can write to results can write a record. It has to belong to the user, and to be of the
    current directory or of one above the results: records of copies may name any other.
    """
    run = last_run(results)
    if run is None or not run.own:
        return None
    work = Path(str(run.fields.get("directory") or results))
    places = Path.cwd(), *results.absolute().parents, *resolve_links(results).parents
    return run if any(same_place(work, place) for place in places) else None


def find_work(results: Path, run: Trace | None) -> tuple[Path, Settings, bool] | None:
    """Return the working directory that results are of, its settings, and if it is the user's."""
    for work, given, is_users in _works(results, run):
        settings = configuration.load(given)
        if resolve_links(work / settings.results) == resolve_links(results):
            return work, settings, is_users
    return None


def _works(results: Path, run: Trace | None) -> Iterator[tuple[Path, Mapping[str, Any], bool]]:
    """Yield working directories that the results may be of, with configuration and if own.

    Own are that of the user's own run, and one that belongs to the user.
    """
    config = None if run is None else run.fields.get("config")
    if run is not None and isinstance(config, dict):
        yield Path(str(run.fields["directory"])), config, True
    work = results.absolute().parent
    try:
        yield work, read_stored(work / CONFIG), _is_own(work)
    except UnglowError:
        return


def _places(work: Path, raw: Path) -> tuple[Path, ...]:
    """Return the directories of a run: the working one, and the raw one if it is elsewhere."""
    is_elsewhere = raw.is_absolute() or ".." in raw.parts
    return (work, work / raw) if is_elsewhere else (work,)


def _is_own(work: Path) -> bool:
    """Whether a working directory and its configuration belong to the user."""
    try:
        config = work / CONFIG
        is_own_config = not config.exists() or is_own(config.stat())
        return is_own_config and work.stat().st_uid == os.geteuid()
    except OSError:
        return False


def _found(work: Path, settings: Settings, key: tuple[str, str]) -> RawFiles:
    source, discovery = find_pairs(settings, work)
    files = RawFiles(
        sheet=source if source.is_file() else None,
        problem=f"{source} has no such pair any more.",
        max_scale=settings.register.max_scale,
    )
    slides = {one.name for one in discovery.slides}
    pair = next((one for one in discovery.pairs if one.key == key), None)
    if pair is not None:
        return replace(files, pair=pair, problem="")
    if key[0].endswith(CANDIDATES_SUFFIX) and key[0].removesuffix(CANDIDATES_SUFFIX) in slides:
        of_slide = (
            f"{key[1]} is a marker of a slide, for which no landmarks and no regions are read."
        )
        return replace(files, problem=of_slide, of_slide=True)
    problems = (p.message for p in discovery.problems if (p.sample, p.dye) == key)
    return replace(files, problem=next(problems, files.problem))


def _command(run: Trace | None, work: Path, results: str) -> str:
    """Return the command that continues, from the words of the user's own run.

    Files that the run was limited to are excluded.
    """
    program, options = split_command([] if run is None else run.command)
    words, start = shlex.split(_COMMAND), work
    if run is not None and program:
        kept = [
            word
            for before, word in pairwise(["-", *options])
            if before.startswith("-") or not word.startswith(f"{results}/")
        ]
        words = [*program, *kept]
        # results that were copied with their directory continue where they are now
        if same_place(Path(str(run.fields.get("directory"))), work):
            start = find_start_directory(run)
    command = shlex.join(words)
    if same_place(start, Path()):
        return command
    command = f"cd {shlex.quote(str(start.absolute()))} && {command}"
    return command if command.isprintable() else _COMMAND


def file_next_to(image: Path, ending: str) -> Path:
    """Return the file next to an image with its name and another ending."""
    return image.with_name(image.name.removesuffix(take_apart(image.name, "").suffix) + ending)


def is_inside(path: Path, directory: Path) -> bool:
    """Whether a path is in a directory, or leads out of it by the user's own links alone."""
    if resolve_links(path).is_relative_to(resolve_links(directory)):
        return True
    base = directory.absolute()
    if not path.absolute().is_relative_to(base) or ".." in path.absolute().parts:
        return False
    steps = path.absolute().relative_to(base).parts
    places = (base.joinpath(*steps[:n]) for n in range(1, len(steps) + 1))
    return all(one.lstat().st_uid == os.geteuid() for one in places if one.is_symlink())


def why_not_writable(file: Path, places: Iterable[Path]) -> str:
    """Say why a file cannot be written, which has to be in one of some directories."""
    if not any(is_inside(file, place) for place in places):
        return f"{file} is not in the directories of your own run, so it is not written."
    if os.access(file.parent, os.W_OK | os.X_OK):
        return ""
    return f"{file.parent} may not be written, so nothing can be saved there."
