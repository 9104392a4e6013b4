"""Commands of Snakemake, as typed and with other options, and obstacles to the files of a run."""

from __future__ import annotations

import json
import os
import re
import shutil
from importlib.util import find_spec
from pathlib import PurePath
from typing import TYPE_CHECKING

from unglow.core.errors import ConfigError, InputError
from unglow.core.files import parse_whole
from unglow.core.machine import cache_directory

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path


STARTED = "UNGLOW_RUN"
"""Variable with the Snakefile that `unglow run` has named to the Snakemake that it becomes."""
LOGGER = "--logger=unglow"
"""Option that `unglow run` adds for its own output."""
ONLY = "--only"
"""Option of `unglow run` and `unglow preflight` that names pairs."""
RUN = ("unglow", "run")
"""The command that names the Snakefile by itself."""
_COMMANDS = (("snakemake",), ("python", "-m", "snakemake"), RUN)

# Options that remedies change, by all their names.
_SEVERAL = {
    "--resources": ("--resources", "--res"),
    "--config": ("--config", "-C"),
    "--set-resources": ("--set-resources",),
}
# All of these are one resource.
_MEMORY = re.compile(r"mem(_[a-z]+)?")
_ONLY_KEY = 'only=["'
# Options with which Snakemake computes nothing, by all their names: it reads the rules alone, or
# looks at files as well.
LISTING = (
    *("--lint", "--list-rules", "--list", "-l", "--list-target-rules", "--lt"),
    "--print-compilation",
)
LOOKING = (
    *LISTING,
    *("--containerize", "--unlock", "--generate-unit-tests", "--dag", "--rulegraph", "--filegraph"),
    *("--d3dag", "--cleanup-metadata", "--cm", "--conda-cleanup-envs", "--conda-create-envs-only"),
    *("--list-conda-envs", "--cleanup-shadow", "--container-cleanup-images", "--list-changes"),
    *("--lc", "--list-input-changes", "--li", "--list-params-changes", "--lp", "--list-untracked"),
    *("--lu", "--summary", "-S", "--detailed-summary", "-D", "--archive", "--delete-all-output"),
    *("--delete-temp-output", "--touch", "-t"),
)
# Options with which Snakemake makes a part of what is asked for.
PARTLY = ("--until", "-U", "--omit-from", "-O", "--batch", "--allowed-rules")


def has_option(words: Sequence[str], names: Sequence[str]) -> bool:
    """Return whether a command has one of some options."""
    own = words[: words.index("--")] if "--" in words else words
    return any(word.partition("=")[0] in names for word in own)


def only_looks(words: Sequence[str]) -> bool:
    """Return whether a call of Snakemake with these words computes nothing, so records nothing."""
    reports = has_option(words, ("--report", "--reporter"))
    return has_option(words, LOOKING) or (
        reports and not has_option(words, ("--report-after-run",))
    )


def set_options(words: Sequence[str], options: Mapping[str, tuple[str, str]]) -> list[str]:
    """Return a command with options set, in place of the values that it has for them.

    A limit of all jobs together that is below the memory set for a rule is raised to it, since
    Snakemake would cut the job down to the limit.

    Parameters
    ----------
    words
        The command, as the shell split it.
    options
        Option (``--resources``, ``--config``, ``--set-resources``) to a key and its value; other
        keys of the same option stay.
    """
    made = list(words)
    for option, (key, value) in options.items():
        made = _set_key(made, option, key, value)
        if option == "--set-resources" and key.endswith(":mem_mb"):
            limits = [word.removeprefix("mem_mb=") for word in words if word.startswith("mem_mb=")]
            known = [limit for limit in map(parse_whole, limits) if limit is not None]
            if any(limit < int(value) for limit in known):
                made = _set_key(made, "--resources", "mem_mb", value)
    return made


def replace_only(words: Sequence[str]) -> list[str]:
    """Return a command with every ``--only SAMPLE/DYE`` as the config key that it stands for.

    Raises
    ------
    ConfigError
        The last one has no value.
    """
    kept: list[str] = []
    only: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "--":
            kept += [word, *rest]
        elif word == ONLY:
            only.append(next(rest, ""))
        elif word.startswith(f"{ONLY}="):
            only.append(word.partition("=")[2])
        else:
            kept.append(word)
    if not only:
        return kept
    if "" in only:
        raise ConfigError(f"{ONLY} needs a name, SAMPLE/DYE.")
    return set_options(kept, {"--config": ("only", json.dumps(only, ensure_ascii=False))})


def restore_only(words: Sequence[str]) -> list[str]:
    """Return a command of ``unglow run`` as it was given, ``--only`` for its config key."""
    keys = [word for word in words if word.startswith(_ONLY_KEY)]
    only = [name for key in keys for name in json.loads(key.partition("=")[2])]
    rest = [word for word in words if word not in keys]
    nexts = [*rest[1:], "--"]  # a --config without any value goes as well
    pairs = zip(rest, nexts, strict=True)
    made = [w for w, after in pairs if w != "--config" or not after.startswith("-")]
    end = made.index("--") if "--" in made else len(made)
    return [*made[:end], *(part for name in only for part in (ONLY, name)), *made[end:]]


def split_command(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the words of the program and its options; no program if it is another command."""
    program = next((start for start in _COMMANDS if tuple(words[: len(start)]) == start), ())
    return [*program], [*words[len(program) :]]


def add_options(words: Sequence[str], *more: str) -> list[str]:
    """Return a command with more options: before ``--``, behind which words are files to make."""
    place = words.index("--") if "--" in words else len(words)
    return [*words[:place], *more, *words[place:]]


def _set_key(words: list[str], option: str, key: str, value: str) -> list[str]:
    """Set one key of an option that takes several; Snakemake heeds the last such option only."""
    names = _SEVERAL[option]
    words = [part for word in words for part in split_option(word, names)]
    places = [i for i, word in enumerate(words) if word in names]
    if not places:
        return add_options(words, option, f"{key}={value}")
    start = places[-1] + 1
    end = start
    while end < len(words) and not words[end].startswith("-"):
        end += 1
    values = [word for word in words[start:end] if not _is_option(word.split("=", 1)[0], key)]
    return [*words[:start], f"{key}={value}", *values, *words[end:]]


def split_option(word: str, names: Sequence[str]) -> list[str]:
    """Return an option and its value where a word holds both, ``--option=value``, of some names."""
    name, _, rest = word.partition("=")
    return [name, rest] if name in names and rest else [word]


def _is_option(name: str, key: str) -> bool:
    return name == key or (_MEMORY.fullmatch(key) is not None and bool(_MEMORY.fullmatch(name)))


def snakemake_words(argv: Sequence[str]) -> list[str]:
    """Return the words to type for a running Snakemake; only its options if it has no command."""
    name = PurePath(argv[0]).name if argv else ""
    if list(argv[1:3]) == ["-s", os.environ.get(STARTED)]:
        return [*RUN, *argv[6 if argv[5:6] == [LOGGER] else 5 :]]  # behind what it has added
    if name == "__main__.py":
        return ["python", "-m", "snakemake", *argv[1:]]
    return ["snakemake", *argv[1:]] if name.startswith("snakemake") else ["snakemake"]


# So many obstacles are listed, which a terminal shows at once; the others are only counted.
_LISTED = 10


def obstacles(files: Iterable[Path]) -> list[str]:
    """Return a sentence for each path because of which some of the files cannot be written.

    Parameters
    ----------
    files
        Files that are going to be written; their directories need not exist.
    """
    sentences: dict[str, None] = {}  # each once, in their order
    of_directories: dict[Path, str | None] = {}
    for path in files:
        if _is_full_directory(path):
            sentences[f"{path} is a directory, but has to be a file: move it away."] = None
        if path.parent not in of_directories:
            of_directories[path.parent] = _obstacle(path.parent)
        sentence = of_directories[path.parent]
        if sentence is not None:
            sentences[sentence] = None
    return list(sentences)


def message_of(sentences: list[str]) -> str:
    """Return the message of a run that is refused for obstacles."""
    more = len(sentences) - _LISTED
    listed = sentences[:_LISTED] + ([f"... and {more} more."] if more > 0 else [])
    return "\n".join(["files of this run cannot be written, so nothing was started:", *listed])


def refuse_what_snakemake_stumbles_over() -> None:
    """Refuse to start Snakemake where it would end before it has read the workflow.

    Raises
    ------
    InputError
        Its cache cannot be written, or a program that it calls is not there.
    """
    cache = cache_directory()
    for sentence in obstacles([cache / "snakemake" / "source-cache" / "x"]):
        raise InputError(
            f"Snakemake keeps a cache in {cache}, but {sentence} Or set XDG_CACHE_HOME to a "
            "directory that may be written."
        )
    if shutil.which("which") is None and find_spec("snakemake_executor_plugin_slurm") is not None:
        raise InputError(
            "the program `which` is not found, and Snakemake's plugin for Slurm does not load "
            "without it: install it, or put its directory (/usr/bin) into PATH."
        )


def _is_full_directory(path: Path) -> bool:
    try:
        return path.is_dir() and any(path.iterdir())
    except OSError:  # which is an obstacle of its parents
        return False


def _obstacle(directory: Path) -> str | None:
    """Return why no file can be made in a directory, which may yet have to be made."""
    path = next(p for p in (directory, *directory.parents) if os.path.lexists(p))
    if not path.exists():
        return f"{path} is a link that leads nowhere: remove it, or make what it leads to."
    if not path.is_dir():
        return f"{path} is a file, but has to be a directory: move it away."
    if not os.access(path, os.W_OK | os.X_OK):
        name = "the working directory" if str(path) == "." else str(path)
        return f"{name} may not be written: fix its permissions, or work in another directory."
    return None
