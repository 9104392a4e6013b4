"""``unglow preflight``: a dry run that checks whether a run fits, also on another machine."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NoReturn

from unglow.cli.run import become_snakemake
from unglow.core.errors import ConfigError
from unglow.core.machine import ASSUMED
from unglow.core.printable import PREFLIGHT

if TYPE_CHECKING:
    import argparse


#: Its words are Snakemake's.
TAKES_ALL_WORDS = ("preflight",)
_MEMORY, _SETTINGS, _JSON = "--memory", "--settings", "--json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe `unglow preflight` to a parser; its words are Snakemake's."""
    parser.usage = "unglow preflight [--memory GB] [--settings] [--json] [OPTION OF RUN ...]"
    parser.description = (
        "Show which jobs a run would do, whether they fit memory and disk, and how long they take. "
        "This is `unglow run -n`, and takes every option of `unglow run`. The exit status is 1 if "
        "the run would be refused."
    )
    # only shown: all words go to Snakemake
    about = "memory of the machine to ask about (default: this one)"
    parser.add_argument(_MEMORY, metavar="GB", help=about)
    about = "cores of the machine to ask about (default: this one)"
    parser.add_argument("-c", "--cores", metavar="N", help=about)
    about = "also compare other numbers of cores and other memory_per_job"
    parser.add_argument(_SETTINGS, action="store_true", help=about)
    parser.add_argument(_JSON, action="store_true", help="print JSON (docs/commands.md)")


def run(arguments: argparse.Namespace) -> NoReturn:
    """Become a dry run of Snakemake."""
    words = [*arguments.words]
    if memory := _take_memory(words):
        os.environ[ASSUMED] = memory
    asked = [option for option in (_JSON, _SETTINGS) if option in words]
    os.environ[PREFLIGHT] = asked[0].removeprefix("--") if asked else "text"
    become_snakemake(["-n", *(word for word in words if word not in asked)])


def _take_memory(words: list[str]) -> str:
    """Take the memory of a machine out of some words; return it in MB, '' without it."""
    place = next((n for n, word in enumerate(words) if word.startswith(_MEMORY)), None)
    if place is None or words[place].partition("=")[0] != _MEMORY:
        return ""
    _, is_joined, text = words.pop(place).partition("=")
    text = text if is_joined or place == len(words) else words.pop(place)
    try:
        gigabytes = float(text)
    except ValueError:
        gigabytes = 0.0
    if not 0 < gigabytes < float("inf"):
        raise ConfigError(f"{_MEMORY} is '{text}' but has to be a number of GB above 0.")
    return str(1000 * gigabytes)
