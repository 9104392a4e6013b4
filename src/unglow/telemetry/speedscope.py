"""Profiles of attempts in speedscope's format: how long each stack of calls was seen.

https://www.speedscope.app opens the files; their schema is
https://www.speedscope.app/file-format-schema.json. Stacks are summed, so that a file is small
however long the job was; they stand in the order in which they were first seen.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple

from unglow.core import files
from unglow.telemetry.reading.parsing import moment, parsed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SUFFIX = ".speedscope.json"
HZ = 100
"""How often the stacks of a job are looked at, per s."""


class Frame(NamedTuple):
    """A function: its name with the classes that it is in, its file, and the line it begins on."""

    name: str
    file: str
    line: int


Stack = tuple[Frame, ...]
"""Calls, the outermost first."""


def write_profile(path: Path, exporter: str, seconds: Mapping[Stack, float]) -> None:
    """Write how long each stack was seen, s, summed over threads.

    Parameters
    ----------
    path
        The file, which is replaced.
    exporter
        What has taken the stacks.
    seconds
        The times.

    Raises
    ------
    UnglowError
        The file could not be written.
    """
    numbers: dict[Frame, int] = {}
    samples = [[numbers.setdefault(f, len(numbers)) for f in stack] for stack in seconds]
    weights = [round(s, 3) for s in seconds.values()]
    profile = {"type": "sampled", "name": "all threads", "unit": "seconds", "startValue": 0}
    profile |= {"endValue": round(sum(weights), 3), "samples": samples, "weights": weights}
    content = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": exporter,
        "name": path.name.removesuffix(SUFFIX),
        "shared": {"frames": [f._replace(file=_short(f.file))._asdict() for f in numbers]},
        "profiles": [profile],
    }
    files.write_text(path, json.dumps(content, separators=(",", ":")))


def read_profile(path: Path) -> dict[Stack, float]:
    """Read how long each stack was seen, s; nothing from a file that is missing or no profile."""
    seconds: defaultdict[Stack, float] = defaultdict(float)
    try:
        content = parsed(files.read_file(path))
        frames = [
            Frame(str(f["name"]), str(f["file"]), int(f["line"]))
            for f in content["shared"]["frames"]
        ]
        for profile in content["profiles"]:
            for stack, s in zip(profile["samples"], profile["weights"], strict=True):
                seconds[tuple(frames[k] for k in stack)] += moment(s)
    except (OSError, ValueError, TypeError, KeyError, IndexError):
        return {}
    return seconds


def _short(path: str) -> str:
    """Return the last three parts of a path, which do not say where unglow is installed."""
    return "/".join(PurePath(path).parts[-3:])
