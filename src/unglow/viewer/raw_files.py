"""Where the workflow reads what people say about a pair: files beside its raw images."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unglow.core.errors import UnglowError
from unglow.registration.settings import RegisterSettings
from unglow.workflow import config as configuration
from unglow.workflow.batch import find_pairs
from unglow.workflow.config import CONFIG, read_config
from unglow.workflow.marker_pairs import SUFFIX
from unglow.workflow.samples.naming import take_apart

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from unglow.workflow.samples import Pair as RawPair

LANDMARKS, REGIONS = ".landmarks.csv", ".regions.geojson"
"""How files beside an image end."""
_COMMAND = "snakemake --cores all"
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
        What goes on with the run, for a shell.
    max_scale
        The setting of the registration.
    of_slide
        Whether it is a marker of a multiplexed slide, for which nothing beside the images counts.
    """

    pair: RawPair | None = None
    sheet: Path | None = None
    problem: str = _APART
    command: str = _COMMAND
    max_scale: float = RegisterSettings().max_scale
    of_slide: bool = False

    @property
    def regions(self) -> Path | None:
        """The file of regions that the workflow reads; None if there is none."""
        return None if self.pair is None else self.pair.regions

    @property
    def regions_target(self) -> Path | None:
        """The same, or the file that it would read if it were there; None if none would be read."""
        if self.pair is None or self.regions is not None or self.sheet is not None:
            return self.regions
        return beside(self.pair.post, REGIONS)


def raw_files(results: Path, runs: Sequence[Mapping[str, Any]], sample: str, dye: str) -> RawFiles:
    """Find the raw files of a pair as the workflow does.

    Parameters
    ----------
    results
        The results directory.
    runs
        Its runs, as the page of the runs has them.
    sample, dye
        Names of the pair.
    """
    last = next((run for run in reversed(runs) if run.get("recorded")), None)
    for work, given in _works(results, last):
        try:
            settings = configuration.load(given)
            if (work / settings["results"]).resolve() != results.resolve():
                continue
            return _found(work, settings, last, (sample, dye))
        except (UnglowError, OSError) as error:
            return RawFiles(problem=str(error))
    return RawFiles()


def _works(
    results: Path, last: Mapping[str, Any] | None
) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Yield working directories that may be that of the results, with their configuration."""
    if last is not None and isinstance(last["config"], dict):
        directory = (last.get("environment") or {}).get("directory")
        if isinstance(directory, str):
            yield Path(directory), last["config"]
    beside = results.absolute().parent
    try:
        yield beside, read_config(beside / CONFIG)
    except UnglowError:
        return


def _found(
    work: Path, settings: Mapping[str, Any], last: Mapping[str, Any] | None, key: tuple[str, str]
) -> RawFiles:
    source, discovery = find_pairs(dict(settings), work)
    command = _again(last, work, settings["results"])
    files = RawFiles(
        sheet=source if source.is_file() else None,
        problem=f"{source} has no such pair any more.",
        command=command,
        max_scale=float(settings["register"]["max_scale"]),
    )
    slides = {one.name for one in discovery.slides}
    pair = next((one for one in discovery.pairs if one.key == key), None)
    if pair is not None:
        return replace(files, pair=pair, problem="")
    if key[0].endswith(SUFFIX) and key[0].removesuffix(SUFFIX) in slides:
        of_slide = (
            f"{key[1]} is a marker of a slide, for which no landmarks and no regions are read."
        )
        return replace(files, problem=of_slide, of_slide=True)
    problems = (p.message for p in discovery.problems if (p.sample, p.dye) == key)
    return replace(files, problem=next(problems, files.problem))


def _again(last: Mapping[str, Any] | None, work: Path, results: str) -> str:
    """Return the command of the last run, without the files that it was to make alone."""
    given = str((last or {}).get("command") or _COMMAND)
    environment = (last or {}).get("environment") or {}
    # results that were copied with their directory go on where they are now
    is_here = Path(environment.get("directory") or work).resolve() == work.resolve()
    start = Path((environment.get("started_in") if is_here else None) or work)
    words = shlex.split(given)
    kept = [
        word
        for before, word in zip(["-", *words], words, strict=False)
        if before.startswith("-") or not word.startswith(f"{results}/")
    ]
    command = shlex.join(kept)
    if start.is_dir() and start.samefile(Path()):
        return command
    return f"cd {shlex.quote(str(start.absolute()))} && {command}"


def beside(image: Path, ending: str) -> Path:
    """Return the file beside an image that has its name, and another ending."""
    return image.with_name(image.name.removesuffix(take_apart(image.name, "").suffix) + ending)


def why_not_writable(directory: Path) -> str:
    """Say why nothing can be written into a directory; empty if it can."""
    if os.access(directory, os.W_OK | os.X_OK):
        return ""
    return f"{directory} may not be written, so nothing can be saved there."
