"""What a look at the inputs finds: pairs that can be processed, and problems with a remedy."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from unglow.core.printable import printable
from unglow.multiplexed.markers import NAME
from unglow.workflow.samples.naming import says_pre_or_post

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from unglow.workflow.channels import ChannelSetting


@dataclass(frozen=True, slots=True)
class SlideFiles:
    """The files of one slide: its table of markers, if there is one, and images in their order."""

    name: str
    table: Path | None
    images: tuple[Path, ...]


def slide_files(
    name: str, entries: Sequence[Path], images: Sequence[Path], *, mapped: bool
) -> SlideFiles | None:
    """Return the slide that a folder holds; None if it holds pairs.

    It holds a slide if a table of markers is there; or, where the configuration has backgrounds
    (``mapped``), if no image says pre or post.
    """
    table = next((entry for entry in entries if entry.name.lower() == NAME), None)
    unpaired = not any(says_pre_or_post(image.name, name) for image in images)
    if table is None and not (mapped and images and unpaired):
        return None
    return SlideFiles(name, table, tuple(sorted(images, key=_in_order)))


def _in_order(path: Path) -> list[tuple[int, str]]:
    """Sort names as people count: cycle2 before cycle10."""
    return [(int(n or 0), text) for text, n in re.findall(r"(\D*)(\d*)", path.name)]


@dataclass(frozen=True, slots=True)
class Pair:
    """One sample in one dye, imaged before (``pre``) and after (``post``) staining.

    ``rule`` says why these two files were taken for a pair. ``slide`` is the multiplexed slide that
    both are channels of, if they are (``channel`` has that of each role then), and ``move`` its map
    between their cycles, such as ``2-1``; None where they are of one. ``channel``, ``series``,
    ``manual_scale`` and ``register_from`` are what the sample sheet sets for this pair alone; None
    where it does not. ``landmarks`` are the files that help to register it: one of both images, or
    that of post and that of pre; ``initial_transform`` is one that holds a first map. ``regions``
    is a file of regions that were drawn on post. ``control`` says that nothing was stained in
    between, so that all that is found in the pair is false. ``groups`` are the cells of the columns
    that say which pairs belong together, by their names.
    """

    sample: str
    dye: str
    pre: Path
    post: Path
    channel: ChannelSetting | None = field(default=None, hash=False)
    series: int | None = None
    manual_scale: float | None = None
    rule: str = ""
    landmarks: tuple[Path, ...] = ()
    initial_transform: Path | None = None
    register_from: str | None = None
    regions: Path | None = None
    control: bool = False
    groups: Mapping[str, str] = field(default_factory=dict, hash=False)
    slide: str | None = None
    move: str | None = None

    @property
    def key(self) -> tuple[str, str]:
        """(sample, dye): what distinguishes pairs."""
        return self.sample, self.dye

    @property
    def files(self) -> tuple[Path, ...]:
        """All files that the jobs of the pair read."""
        more = (path for path in (self.initial_transform, self.regions) if path is not None)
        return (self.post, self.pre, *self.landmarks, *more)


@dataclass(frozen=True, slots=True)
class Problem:
    """An input that cannot be used: one sentence on what is wrong and what to do about it.

    ``sample`` and ``dye`` are None where the problem is not that of one pair. ``kind`` is a short
    slug for sorting and for tests, such as ``missing-partner``.
    """

    message: str
    kind: str
    sample: str | None = None
    dye: str | None = None
    paths: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        """Make the text printable, on one line, whatever the names of files hold."""
        for name in ("message", "sample", "dye"):
            text = getattr(self, name)
            object.__setattr__(
                self, name, None if text is None else printable(text.replace("\n", " "))
            )


@dataclass(frozen=True, slots=True)
class Discovery:
    """Pairs and slides, sorted by name; problems, in the order of the samples; how it was found."""

    pairs: tuple[Pair, ...] = ()
    slides: tuple[SlideFiles, ...] = ()
    problems: tuple[Problem, ...] = ()
    layout: str = ""


_SHOWN = 5


def repeated_images(pairs: Iterable[Pair]) -> list[str]:
    """Return a sentence for each two files that several pairs read in the same way.

    Links to a file are that file; copies are known by their content, when they have been read.
    """
    names: dict[tuple[object, ...], list[str]] = {}
    for pair in pairs:
        files = [path.stat() for path in (pair.post, pair.pre)]
        same = tuple((file.st_dev, file.st_ino) for file in files)
        key = (same, str(pair.channel), pair.series)
        names.setdefault(key, []).append(f"{pair.sample} {pair.dye}")
    return [
        f"{_listed(same)} read the same two images, so they are not replicates: groups.tsv "
        "counts them once. Correct the files, or keep one of these pairs."
        for same in names.values()
        if len(same) > 1
    ]


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
