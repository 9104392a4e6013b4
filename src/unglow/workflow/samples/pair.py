"""What a look at the inputs finds: pairs with the files that help them, slides, and problems.

Of them the config key ``only`` chooses some by their names.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from unglow.core.errors import InputError
from unglow.core.printable import compose, one_line
from unglow.workflow.samples.naming import says_pre_or_post, stem_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from unglow.images.channels import ChannelSetting


MARKER_TABLE = "markers.csv"
"""The table of the channels of a slide, next to its images."""
Key = tuple[str, str]
"""Sample and dye of a pair, or name and '' of a slide."""


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
    table = next((entry for entry in entries if entry.name.lower() == MARKER_TABLE), None)
    may_be = table is not None or (mapped and images)
    if not may_be or (table is None and any(says_pre_or_post(i.name, name) for i in images)):
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
        more = filter(None, (self.initial_transform, self.regions))
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
            if (text := getattr(self, name)) is not None:
                object.__setattr__(self, name, one_line(text))


@dataclass(frozen=True, slots=True)
class Discovery:
    """Pairs and slides, sorted by name; problems, in the order of the samples; how it was found.

    ``notes`` are sentences on files that need not be of a pair.
    """

    pairs: tuple[Pair, ...] = ()
    slides: tuple[SlideFiles, ...] = ()
    problems: tuple[Problem, ...] = ()
    layout: str = ""
    notes: tuple[str, ...] = ()


_SHOWN = 3


def name_first(names: Sequence[str]) -> str:
    """Return the first of some names, and how many more there are."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def describe_repeated(pairs: Iterable[Pair]) -> list[str]:
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
        f"{name_first(same)} read the same two images, so they are not replicates. "
        "Correct the files, or keep one of these pairs."
        for same in names.values()
        if len(same) > 1
    ]


# The most names that are suggested, and their least similarity.
_NAMED, _SIMILAR = 3, 0.3


def choose_keys(
    patterns: Sequence[str], keys: Collection[Key], problems: Sequence[Problem]
) -> tuple[frozenset[Key], list[Problem]]:
    """Return the keys that patterns name, and the problems of those that could not be used.

    Parameters
    ----------
    patterns
        ``SAMPLE/DYE`` or ``SAMPLE``, with the wildcards of a shell.
    keys, problems
        All that can be processed, and all that was skipped.

    Raises
    ------
    InputError
        A pattern matches nothing.
    """
    named = [(p, (p.sample or "", p.dye or "")) for p in problems]
    known = {*keys, *(key for _, key in named if key[0])}
    for pattern in patterns:
        if not any(_matches(pattern, key) for key in known):
            raise InputError(_no_match(pattern, known))
    of_run = [p for p, key in named if any(_matches(pattern, key) for pattern in patterns)]
    return frozenset(k for k in keys if any(_matches(p, k) for p in patterns)), of_run


def _matches(pattern: str, key: Key) -> bool:
    sample, _, dye = pattern.partition("/")
    return "/".join(key) == pattern or (
        fnmatchcase(key[0], sample) and fnmatchcase(key[1], dye or "*")
    )


def _no_match(pattern: str, keys: Collection[Key]) -> str:
    names = sorted("/".join(filter(None, key)) for key in keys)
    near = difflib.get_close_matches(pattern, names, _NAMED, _SIMILAR) or names[:_NAMED]
    return f"'{pattern}' matches no pair; the nearest names are {', '.join(near)}."


LANDMARKS = ("landmarks", "landmarks_post", "landmarks_pre")
"""Columns of landmarks: of both images, or of each."""
INITIAL, REGIONS = "initial_transform", "regions"
_HELP_FILES = {
    "landmarks": (re.compile(r"\.landmarks\.(?:csv|tsv|txt)$", re.IGNORECASE), ".landmarks.csv"),
    "regions": (re.compile(r"\.regions\.geojson$", re.IGNORECASE), ".regions.geojson"),
}


class FilesBeside:
    """The landmarks and regions in a folder that are named like its images, in any letter case."""

    def __init__(self, entries: Iterable[Path] = (), images: Iterable[Path] = ()) -> None:
        self._files: dict[tuple[str, Key], list[Path]] = {}
        keys = {_key_of(image) for image in images}
        self.lonely: list[Problem] = []
        for entry in entries:
            for kind, (ending, shown) in _HELP_FILES.items():
                if ending.search(entry.name):
                    key = _key_of(entry, ending.sub("", entry.name))
                    self._files.setdefault((kind, key), []).append(entry)
                    if key not in keys:
                        self.lonely.append(_describe_lonely(entry, kind, shown))

    def find(self, kind: str, *images: Path) -> tuple[Path, ...]:
        """Return the files of a kind of some images, one of each at most, in their order.

        Raises
        ------
        ValueError
            An image has several; the message is a sentence.
        """
        found: list[Path] = []
        for image in images:
            files = self._files.get((kind, _key_of(image)), [])
            if len(files) > 1:
                names = ", ".join(file.name for file in files)
                raise ValueError(
                    f"{image} has {len(files)} files of {kind} next to it ({names}); keep one."
                )
            found += files
        return tuple(found)


def _key_of(file: Path, stem: str | None = None) -> Key:
    stem = stem_of(file.name) if stem is None else stem
    return str(file.parent), compose(stem).casefold()


def _describe_lonely(file: Path, kind: str, ending: str) -> Problem:
    image = "the post-stain image" if kind == "regions" else "the image"
    sentence = (
        f"{file}: no image next to it has this name; call it like {image} that it belongs to, "
        f"with {ending} in the place of .tif, or move it away."
    )
    return Problem(sentence, f"lonely-{kind}", paths=(file,))


def map_sources(
    pairs: Mapping[Key, Pair], shapes: Mapping[Key, Any], dye: str | None
) -> tuple[dict[Key, str], list[Problem]]:
    """Return the dye whose map a pair takes, of each that does, and a problem of each that cannot.

    Pairs that share a map have equal ``shapes`` of images. ``dye`` is the one whose map pairs take
    that do not say so themselves; None for their own.
    """
    wanted = {  # pairs of a slide take that of its cycles
        key: source
        for key, pair in pairs.items()
        if pair.slide is None and (source := pair.register_from or dye) not in (None, pair.dye)
    }
    problems = {}
    for key, source in wanted.items():
        (sample, own), other = key, (key[0], source)
        itself = f"let it register itself with register_from {own} in the sample sheet"
        if pairs[key].initial_transform is not None:
            why = f" and has an initial transform as well; remove the latter, or {itself}"
        elif other not in pairs:
            dyes = ", ".join(d for s, d in pairs if s == sample and d != own) or "none"
            why = (
                f", which this sample has not, or not in usable images (other dyes: {dyes}); add "
                f"the images of {source}, or {itself}"
            )
        elif other in wanted:
            why = (
                f", which takes that of {wanted[other]} instead of registering itself; name a dye "
                f"that does, or {itself}"
            )
        elif shapes[key] != shapes[other]:
            why = f", whose images have other sizes, so they do not show the same frame; {itself}"
        else:
            continue
        sentence = f"Sample {sample}, dye {own} is to take the map of {source}{why}."
        files = pairs[key].pre, pairs[key].post
        problems[key] = Problem(sentence, "source", *key, files)
    return {k: v for k, v in wanted.items() if k not in problems}, [*problems.values()]
