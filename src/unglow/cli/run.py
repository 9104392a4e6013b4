"""``unglow run``: Snakemake with the workflow that this copy of unglow holds."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from unglow.core.errors import InputError
from unglow.core.printable import WEB
from unglow.core.workflow_files import snakefile, workflow_directory
from unglow.jobs.snakemake_command import LOGGER, STARTED, replace_only

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

TAKES_ALL_WORDS = True
_PROFILE = "--workflow-profile"
_WEB = "--web"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe `unglow run` to a parser; its words are Snakemake's."""
    parser.usage = "unglow run [--only SAMPLE/DYE ...] [--web] [OPTION OF SNAKEMAKE ...]"
    parser.description = (
        "Run the workflow in this directory, which holds raw/: `snakemake -s SNAKEFILE` with the "
        "Snakefile that is installed. Every option of snakemake may follow (`snakemake --help`): "
        "--only SAMPLE/DYE runs these pairs only (several times; * and ? stand for any letters), "
        "--web shows it in a browser as well, on this machine alone, until it ends, "
        "-n shows what would run, --cores N how many cores it may use (all, unless a profile says "
        f"otherwise). {_PROFILE} takes the names of unglow's own profiles as well: "
        f"{', '.join(_profiles())}."
    )


def run(arguments: argparse.Namespace) -> NoReturn:
    """Become Snakemake."""
    path = snakefile()
    if not path.is_file():
        raise InputError(f"this copy of unglow lacks its workflow ({path}): install it again.")
    os.environ[STARTED] = str(path)
    # A profile may hold code: that of the directory of the data is taken only if it is named, which
    # goes before this one.
    start = ["-s", str(path), _PROFILE, str(workflow_directory() / "profiles" / "default")]
    if not any(word.startswith("--logger") for word in arguments.words):
        start.append(LOGGER)
    # -P: what happens to lie in the directory is no library
    options = replace_only(arguments.words)
    own = options[: options.index("--")] if "--" in options else options
    if _WEB in own:
        options.remove(_WEB)
        os.environ[WEB] = "1"
    words = ["-Pm", "unglow.jobs.start_snakemake", *start, *_with_own_profile(options)]
    os.execv(sys.executable, [sys.executable, *words])  # noqa: S606 (no shell is wanted)


def _profiles() -> list[str]:
    return sorted(path.parent.name for path in workflow_directory().glob("profiles/*/config.yaml"))


def _with_own_profile(words: Sequence[str]) -> list[str]:
    """Return options with the directory of a profile of unglow's own in the place of its name."""
    made = [part for word in words for part in _split(word)]
    for place, word in enumerate(made[1:], 1):
        if made[place - 1] == _PROFILE and word in _profiles() and not Path(word).exists():
            made[place] = str(workflow_directory() / "profiles" / word)
    return made


def _split(word: str) -> list[str]:
    name, equals, value = word.partition("=")
    return [name, value] if name == _PROFILE and equals else [word]
