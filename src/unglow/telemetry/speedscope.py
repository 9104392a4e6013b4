"""Profiles of attempts in speedscope's format: how long each stack of calls was seen, and when.

https://www.speedscope.app opens the files; their schema is
https://www.speedscope.app/file-format-schema.json. Stacks are summed, so that a file is small
however long the job was; they stand in the order in which they were first seen. When they were seen
is in a key of our own, in equal bins of time.
"""

from __future__ import annotations

import json
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple

from unglow.core import files
from unglow.telemetry.jsonl import moment, parse_line

if TYPE_CHECKING:
    from pathlib import Path

SUFFIX = ".speedscope.json"
MOST_BINS = 200
"""Bins of time that a profile has at most: where there are more, two become one."""
# The first width of a bin, s.
_BIN_S = 0.05


class Frame(NamedTuple):
    """A function: its name with the classes that it is in, its file, and its first line."""

    name: str
    file: str
    line: int


Stack = tuple[Frame, ...]
"""Calls, the outermost first."""


class Profile:
    """How long each stack was seen, s, summed over threads, in bins of time.

    Attributes
    ----------
    bin_s
        Width of a bin, s.
    times
        Seconds by stack, and by number of the bin.
    """

    def __init__(self, bin_s: float = _BIN_S) -> None:
        self.bin_s = bin_s
        self.times: dict[Stack, dict[int, float]] = {}

    @property
    def seconds(self) -> dict[Stack, float]:
        """How long each stack was seen, s."""
        return {stack: sum(bins.values()) for stack, bins in self.times.items()}

    def add(self, stack: Stack, end: float, seconds: float) -> None:
        """Add a stack that was seen for some seconds, up to ``end``, s since its start."""
        while end >= MOST_BINS * self.bin_s:
            self.merge_bins()
        start = max(0.0, end - seconds)
        first, last = (int(t / self.bin_s) for t in (start, end))
        if first == last:
            self.add_to_bin(stack, first, seconds)
            return
        rate = seconds / (end - start)
        for number in range(first, last + 1):
            inside = min(end, (number + 1) * self.bin_s) - max(start, number * self.bin_s)
            if inside > 0:
                self.add_to_bin(stack, number, rate * inside)

    def add_to_bin(self, stack: Stack, number: int, seconds: float) -> None:
        """Add seconds of a stack to a bin."""
        bins = self.times.setdefault(stack, {})
        bins[number] = bins.get(number, 0.0) + seconds

    def merge_bins(self) -> None:
        """Make one bin of each two."""
        self.bin_s *= 2
        times, self.times = self.times, {}
        for stack, bins in times.items():
            for number, seconds in bins.items():
                self.add_to_bin(stack, number // 2, seconds)


def write_profile(path: Path, exporter: str, profile: Profile) -> None:
    """Write how long each stack was seen, s, summed over threads, and when.

    Parameters
    ----------
    path
        The file, which is replaced.
    exporter
        Name of the sampler.
    profile
        The times.

    Raises
    ------
    UnglowError
        The file could not be written.
    """
    numbers: dict[Frame, int] = {}
    samples = [[numbers.setdefault(f, len(numbers)) for f in stack] for stack in profile.times]
    weights = [round(s, 3) for s in profile.seconds.values()]
    summed = {"type": "sampled", "name": "all threads", "unit": "seconds", "startValue": 0}
    summed |= {"endValue": round(sum(weights), 3), "samples": samples, "weights": weights}
    bins = [[[n, round(s, 4)] for n, s in bins.items()] for bins in profile.times.values()]
    content = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": exporter,
        "name": path.name.removesuffix(SUFFIX),
        "shared": {"frames": [f._replace(file=_short(f.file))._asdict() for f in numbers]},
        "profiles": [summed],
        "unglow": {"bin_s": profile.bin_s, "bins": bins},
    }
    files.write_text(path, json.dumps(content, separators=(",", ":")))


def read_profile(path: Path) -> Profile:
    """Read how long each stack was seen; nothing from a file that is missing or no profile."""
    try:
        content = parse_line(files.read_file(path))
        frames = [
            Frame(str(f["name"]), str(f["file"]), int(f["line"]))
            for f in content["shared"]["frames"]
        ]
        found = Profile(moment(content["unglow"]["bin_s"]) or _BIN_S)
        stacks = [stack for one in content["profiles"] for stack in one["samples"]]
        for stack, bins in zip(stacks, content["unglow"]["bins"], strict=True):
            calls = tuple(frames[k] for k in stack)
            for number, seconds in bins:
                found.add_to_bin(calls, min(int(moment(number)), MOST_BINS - 1), moment(seconds))
    except (OSError, ValueError, TypeError, KeyError, IndexError, AttributeError):
        return Profile()
    return found


def _short(path: str) -> str:
    """Return the last three parts of a path, which do not say where unglow is installed."""
    return "/".join(PurePath(path).parts[-3:])
