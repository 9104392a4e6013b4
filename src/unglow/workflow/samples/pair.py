"""What a look at the inputs finds: pairs with the files that help them, slides, and problems.

Of them the config key ``only`` chooses some by their names.
"""

from __future__ import annotations

import difflib
import os
import re
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Self

from unglow.core.errors import InputError
from unglow.core.printable import compose, one_line
from unglow.multiplexed.markers import NAME
from unglow.workflow.samples.naming import says_pre_or_post, take_apart

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from unglow.workflow.channels import ChannelSetting


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
            object.__setattr__(self, name, None if text is None else one_line(text))


@dataclass(frozen=True, slots=True)
class Discovery:
    """Pairs and slides, sorted by name; problems, in the order of the samples; how it was found."""

    pairs: tuple[Pair, ...] = ()
    slides: tuple[SlideFiles, ...] = ()
    problems: tuple[Problem, ...] = ()
    layout: str = ""


_SHOWN = 5


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
        f"{_listed(same)} read the same two images, so they are not replicates. "
        "Correct the files, or keep one of these pairs."
        for same in names.values()
        if len(same) > 1
    ]


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


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
INITIAL = "initial_transform"
REGIONS = "regions"
_LANDMARKS_OF_IMAGE = re.compile(r"\.landmarks\.(?:csv|tsv|txt)$", re.IGNORECASE)
_REGIONS_OF_IMAGE = re.compile(r"\.regions\.geojson$", re.IGNORECASE)


class FilesBeside:
    """The files of a kind in a folder that are named like its images, in any letter case.

    Attributes
    ----------
    kind
        What they are, as a plural.
    unmatched
        Those that no image is named like.
    """

    def __init__(
        self, kind: str, ending: re.Pattern[str], entries: Iterable[Path], images: Iterable[Path]
    ) -> None:
        self.kind = kind
        self._of: dict[Key, list[Path]] = {_place_of(image): [] for image in images}
        self.unmatched: list[Path] = []
        for entry in entries:
            if ending.search(entry.name):
                stem = compose(ending.sub("", entry.name)).casefold()
                self._of.get((str(entry.parent), stem), self.unmatched).append(entry)

    @classmethod
    def landmarks(cls, entries: Iterable[Path], images: Iterable[Path]) -> Self:
        """Find ``<name of an image>.landmarks.csv``."""
        return cls("landmarks", _LANDMARKS_OF_IMAGE, entries, images)

    @classmethod
    def regions(cls, entries: Iterable[Path], images: Iterable[Path]) -> Self:
        """Find ``<name of an image>.regions.geojson``."""
        return cls("regions", _REGIONS_OF_IMAGE, entries, images)

    def of(self, *images: Path) -> tuple[Path, ...]:
        """Return the files of some images, one of each at most, in their order.

        Raises
        ------
        ValueError
            An image has several; the message is a sentence.
        """
        found: list[Path] = []
        for image in images:
            files = self._of[_place_of(image)]
            if len(files) > 1:
                raise ValueError(
                    f"{image} has {len(files)} files of {self.kind} next to it "
                    f"({', '.join(f.name for f in files)}); keep one."
                )
            found += files
        return tuple(found)


def _place_of(image: Path) -> Key:
    suffix = take_apart(image.name, "").suffix
    return str(image.parent), compose(image.name.removesuffix(suffix)).casefold()


def hint_files(cells: Mapping[str, str], base: Path) -> dict[str, Path]:
    """Return the files besides its images that a row names, by column."""
    columns = (c for c in (*LANDMARKS, INITIAL, REGIONS) if c in cells)
    return {column: base / os.path.expanduser(cells[column]) for column in columns}


def hint_problem(cells: Mapping[str, str], files: Mapping[str, Path], sheet: Path) -> str | None:
    """Return what is wrong with such files, as the rest of a sentence after the line of a row."""
    both, post, pre = (column in cells for column in LANDMARKS)
    if both and (post or pre):
        return ": landmarks holds both images, so leave landmarks_post and landmarks_pre empty"
    if post != pre:
        empty = LANDMARKS[1 if pre else 2]
        return f", column '{empty}': the cell is empty, but both images need landmarks; name theirs"
    for column, file in files.items():
        problem = file_problem(file, sheet, cells[column], "file")
        if problem is not None:
            return f", column '{column}': {problem}"
    return None


def file_problem(file: Path, sheet: Path, cell: str, what: str = "TIFF file") -> str | None:
    """Return what keeps a file from being opened, as the end of a sentence."""
    if os.path.isdir(file):
        return f"{cell} is a directory; name the {what} in it"
    try:
        file.stat()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return _absence(file, sheet, cell)
    except OSError as error:
        return f"{file} cannot be reached ({error.strerror}); check the links and permissions"
    return None


def _absence(file: Path, sheet: Path, cell: str) -> str:
    """Say that a file is not there, as the end of a sentence."""
    if os.path.islink(file):
        return f"{cell} is a link to {file.readlink()}, which does not exist; fix the link"
    if os.path.isfile(sheet.parent / cell):
        return (
            f"there is no {file}; paths start at the working directory, so write "
            f"{sheet.parent / cell}"
        )
    with suppress(OSError, ValueError):
        names = [path.name for path in file.parent.iterdir()]
        for near in difflib.get_close_matches(file.name, names, n=1):
            return f"there is no {file}; did you mean {file.with_name(near)}?"
    return f"there is no {file}; correct the path (relative ones start at the working directory)"


def map_sources(
    pairs: Mapping[Key, Pair], shapes: Mapping[Key, Any], dye: str | None
) -> tuple[dict[Key, str], list[Problem]]:
    """Return the dye whose map a pair takes, of each that does, and a problem of each that cannot.

    Pairs that share a map have equal ``shapes`` of images. ``dye`` is the one whose map pairs take
    that do not say so themselves; None for their own.
    """
    sources: dict[Key, str] = {}
    problems = []
    for key, pair in pairs.items():
        source = _find_wanted(pair, dye)
        if source is None:
            continue
        why = _problem(pair, source, pairs, shapes, dye)
        if why is None:
            sources[key] = source
        else:
            sentence = f"Sample {pair.sample}, dye {pair.dye} {why}."
            problems.append(Problem(sentence, "source", *key, (pair.pre, pair.post)))
    return sources, problems


def _find_wanted(pair: Pair, dye: str | None) -> str | None:
    """Return the other dye whose map a pair is to take; None if it registers itself."""
    if pair.slide is not None:  # it takes that of its cycles
        return None
    named = dye if pair.register_from is None else pair.register_from
    return None if named == pair.dye else named


def _problem(
    pair: Pair, source: str, pairs: Mapping[Key, Pair], shapes: Mapping[Key, Any], dye: str | None
) -> str | None:
    """Return why a pair cannot take the map of a dye, as the rest of a sentence."""
    itself = f"let it register itself with register_from {pair.dye} in the sample sheet"
    if pair.initial_transform is not None:
        return (
            f"is to take the map of {source} and has an initial transform as well; remove the "
            f"latter, or {itself}"
        )
    other = pairs.get((pair.sample, source))
    if other is None:
        dyes = ", ".join(d for s, d in pairs if s == pair.sample and d != pair.dye) or "none"
        return (
            f"is to take the map of {source}, which this sample has not, or not in usable images "
            f"(other dyes: {dyes}); add the images of {source}, or {itself}"
        )
    further = _find_wanted(other, dye)
    if further is not None:
        return (
            f"is to take the map of {source}, which takes that of {further} instead of registering "
            f"itself; name a dye that does, or {itself}"
        )
    if shapes[pair.key] != shapes[other.key]:
        return (
            f"is to take the map of {source}, whose images have other sizes, so that they do not "
            f"show the same frame; {itself}"
        )
    return None
