"""Directories that users name: options of several commands, and which results are meant."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from unglow.core.errors import ConfigError, InputError
from unglow.core.files import resolve_links
from unglow.core.levels import LEVELS, PAIR, RESULT_OF, nearest
from unglow.core.workflow_files import OWN
from unglow.workflow.config import CONFIG, read_config

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

TELEMETRY = "telemetry"
_PLAN = RESULT_OF["ingestion"]


def add_directory(parser: argparse.ArgumentParser) -> None:
    """Add the argument ``directory``, for `results_of`."""
    about = "working directory or results directory (default: the current one)"
    parser.add_argument(
        "directory", nargs="?", type=Path, default=Path(), metavar="DIR", help=about
    )


def add_results(parser: argparse.ArgumentParser) -> None:
    """Add the argument ``results``, for `existing`."""
    parser.add_argument(
        "results",
        nargs="?",
        type=Path,
        default=Path("results"),
        metavar="RESULTS",
        help="results directory (default: results)",
    )


def add_working_directory(parser: argparse.ArgumentParser, about: str) -> None:
    """Add the option ``--directory``, a working directory."""
    about += " (default: the current one)"
    parser.add_argument("--directory", type=Path, default=Path(), metavar="W", help=about)


def add_lost(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--lost`` of commands that wait for what is still at work."""
    about = "a machine that is gone for good, with its runs and jobs"
    parser.add_argument("--lost", action="append", default=[], metavar="HOST", help=about)


def find_recorded(results: Path) -> Path:
    """Return a results directory, or what is recorded of another workflow.

    For the latter, its working directory or any directory in it without telemetry may be named.

    Raises
    ------
    InputError
        There is neither.
    """
    if not (results / TELEMETRY).is_dir():
        for place in (results / OWN, results.parent / OWN):
            if (place / TELEMETRY).is_dir():
                return place
    return existing(results)


def existing(results: Path) -> Path:
    """Return a results directory that has to be there.

    Raises
    ------
    InputError
        It is not.
    """
    if not results.is_dir():
        raise InputError(f"{results} is not a directory; give the results directory of a run.")
    return results


def quote_directory(directory: Path, default: str = "results") -> str:
    """Return a directory for a command line, after a blank; nothing if it is the default."""
    return "" if directory == Path(default) else f" {shlex.quote(str(directory))}"


def results_of(directory: Path) -> Path:
    """Return the results directory of a working directory, or itself if it is one.

    That of a workflow that is not unglow's has its records in `OWN`.
    A directory without any telemetry is taken for a working directory whose run has not started.

    Raises
    ------
    InputError
        It does not exist, its telemetry cannot be read, or it holds several results directories.
    """
    if not directory.is_dir():
        raise InputError(
            f"{directory} is not a directory; name a working directory or a results directory."
        )
    if (directory / TELEMETRY).is_dir():
        return _readable(directory)
    foreign = directory / OWN
    if (foreign / TELEMETRY).is_dir() and not (
        read_results_directory(directory) / TELEMETRY
    ).is_dir():
        return _readable(foreign)
    configured = directory / read_config(directory / CONFIG).results
    for place in (configured, configured / TELEMETRY):
        if place.exists() and not place.is_dir():
            raise InputError(f"{place} is a file, but has to be a directory: move it away.")
    if (configured / TELEMETRY).is_dir():
        return _readable(configured)
    several = sorted(p.parent for p in directory.glob(f"[!.]*/{TELEMETRY}") if p.is_dir())
    if len(several) > 1:
        names = " and ".join(str(place) for place in several)
        raise InputError(f"{directory} holds several results directories: name one, {names}.")
    return _readable(several[0]) if several else configured


def read_results_directory(directory: Path) -> Path:
    """Return the results directory of a working directory, the default if settings are faulty."""
    try:
        return directory / read_config(directory / CONFIG).results
    except ConfigError:  # perhaps what is looked for
        return directory / "results"


def all_results_of(directories: Iterable[Path]) -> list[Path]:
    """Return the results directories of several directories, each once, in their order."""
    places: dict[Path, Path] = {}
    for directory in directories:
        results = results_of(directory)
        places.setdefault(resolve_links(results), results)
    return list(places.values())


def _readable(results: Path) -> Path:
    telemetry = results / TELEMETRY
    if not os.access(telemetry, os.R_OK | os.X_OK):
        raise InputError(f"{telemetry} may not be read: fix its permissions.")
    return results


def place_of(text: str) -> tuple[Path, Path | None]:
    """Return the results directory that is meant, and the directory of a pair if one is.

    Raises
    ------
    InputError
        There is no such directory, or nothing of unglow's in it.
    """
    place = Path(text)
    if not place.is_dir():
        return _find_pair(text)
    here = place.absolute()
    if (here / "slide.json").is_file():
        return here.parent, here
    above = here.parents[len(PAIR) - 1 : len(LEVELS)]
    results = next((one for one in above if (one / TELEMETRY).is_dir()), None)
    if results is None and (plan := nearest(place, _PLAN)) is not None:
        results = plan.parents[len(PAIR) + 1]
    if results is not None:
        return results, here
    if any(place.glob(f"*/*/{_PLAN}")):
        return place, None
    return results_of(place), None


def _find_pair(text: str) -> tuple[Path, Path]:
    """Return the results directory here, and the directory of a pair that is named below it."""
    results = results_of(Path())
    pair = results / text
    if ".." in Path(text).parts or not pair.is_dir():
        raise InputError(
            f"{text} is neither a directory nor a pair of {results}; name a working directory, a "
            "results directory, or a pair as SAMPLE/DYE."
        )
    return results, pair
