"""Pairs of a raw directory: ``raw/<sample>/<anything with pre or post>_<dye>.tif``."""

from __future__ import annotations

import difflib
import re
from collections import defaultdict
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING

from unglow.core.printable import compose
from unglow.workflow.samples import naming
from unglow.workflow.samples.naming import COUNTERPARTS, MARKERS, images_of, take_apart, word_of
from unglow.workflow.samples.pair import (
    Discovery,
    FilesBeside,
    Pair,
    Problem,
    SlideFiles,
    name_first,
    slide_files,
)
from unglow.workflow.samples.raw_directory import (
    EXPECTED,
    describe_dangling,
    describe_foreign,
    describe_loose,
    describe_nothing,
    describe_unreadable,
    find_foreign,
    folders_of,
    is_dangling,
    list_raw,
    listing,
    listing_if_any,
    note_foreign,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from unglow.workflow.samples.naming import FileName
    from unglow.workflow.samples.raw_directory import Foreign

    Image = tuple[Path, FileName]
    Slots = dict[str, dict[str, list[Image]]]


@dataclass(slots=True)
class _Folder:
    """What a scan of one sample's folder gathers."""

    sample: str
    path: Path
    files: list[Image] = field(default_factory=list)
    unnamed: list[Image] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    is_empty: bool = True
    slide: SlideFiles | None = None
    help: FilesBeside = field(default_factory=FilesBeside)
    foreign: list[Foreign] = field(default_factory=list)

    def problem(self, kind: str, message: str, *paths: Path, dye: str | None = None) -> None:
        self.problems.append(Problem(message, kind, self.sample, dye, tuple(paths)))


def discover(raw: Path, *, mapped: bool = False) -> Discovery:
    """Find pairs and slides below ``raw``; say in a sentence what keeps a file from being used.

    There is one folder per sample in it. Hidden files and files that are no images by their names
    are ignored; symbolic links are followed. A directory that cannot be used at all is a single
    problem; nothing is raised. ``mapped``: the configuration names the backgrounds of slides.
    """
    entries = list_raw(raw)
    if isinstance(entries, Problem):
        return Discovery(problems=(entries,), layout="no usable raw directory")
    folders, loose = folders_of(entries), images_of(entries)
    pairs: list[Pair] = []
    problems: list[Problem] = []
    foreign: list[Foreign] = []
    layout = ""
    if _is_one_sample(loose, folders):
        place = raw.absolute()
        name = place.parent.name if place.name.lower() == "raw" else place.name
        scanned = _split_by_names(_scan(raw, naming.safe_version(name), mapped=mapped))
        layout = f"{raw}: the images of {scanned[0].sample}"
    else:
        problems += [describe_loose(raw, loose)] if loose else []
        foreign += find_foreign(entries, "")
        problems += describe_foreign(foreign, None)
        broken = [e for e in entries if is_dangling(e) and not e.suffix]
        problems += [Problem(describe_dangling(e), "dangling-link", paths=(e,)) for e in broken]
        places = [(entry, place) for entry in folders for place in _find_sample_folders(entry)]
        scanned = [
            _scan(place, place.name, mapped=mapped, above=None if place == entry else entry)
            for entry, place in places
        ]
        pairs += _pair_across(raw, scanned, problems)
    for folder in scanned:
        pairs += _match(folder)
        problems += folder.problems
    pairs = _refuse_doubled(pairs, problems)
    slides = [folder.slide for folder in scanned if folder.slide is not None]
    if not pairs and not slides and not problems:
        problems = [describe_nothing(raw, entries)]
    foreign += {i.path: i for folder in scanned for i in folder.foreign}.values()
    return Discovery(
        pairs=tuple(sorted(pairs, key=lambda pair: pair.key)),
        slides=tuple(slides),
        problems=tuple(problems),
        layout=layout or _describe_layout(raw, scanned),
        notes=note_foreign(image for image in foreign if not image.is_meant),
    )


def _describe_layout(raw: Path, scanned: list[_Folder]) -> str:
    empty = [folder.path.name for folder in scanned if folder.is_empty and not folder.problems]
    count = len(scanned) - len(empty)
    ignored = f"; without images, so left out: {name_first(empty)}" if empty else ""
    return f"{raw}: {count} sample folder{'' if count == 1 else 's'} ({EXPECTED}){ignored}"


def _is_one_sample(loose: list[Path], folders: list[Path]) -> bool:
    """Return whether a raw directory is itself the folder of a sample."""
    if loose:
        return _say_words(loose) and not any(map(_images_in, folders))
    words = {folder: naming.find_word(folder.name) for folder in folders}
    if len({naming.marker_of(word) for word in words.values() if word}) < len(MARKERS):
        return False  # before any folder is listed: network disks are slow
    filled = [folder for folder in folders if _images_in(folder)]
    meant = {naming.marker_of(words[folder] or "") for folder in filled}
    return all(map(_says_word, filled)) and len(meant) == len(MARKERS)


def _images_in(folder: Path) -> list[Path]:
    return images_of(listing_if_any(folder))


def _say_words(images: Iterable[Path], sample: str = "") -> bool:
    """Return whether the names of some images say pre or post."""
    return any(take_apart(image.name, sample).words for image in images)


def _says_word(folder: Path) -> bool:
    """Whether the images of a folder are before, or after, staining because of its name."""
    if word_of(folder.name) or not naming.find_word(folder.name):
        return word_of(folder.name) is not None
    return not _say_words(_images_in(folder))


def _find_sample_folders(entry: Path) -> list[Path]:
    """Return the folders of samples in a folder without images of its own; else itself."""
    entries = listing_if_any(entry)
    inside = folders_of(entries)
    if images_of(entries) or any(map(_says_word, inside)):
        return [entry]
    if naming.find_word(entry.name):
        return [folder for folder in inside if _images_in(folder)] or [entry]
    return [folder for folder in inside if _say_words(_images_in(folder), folder.name)] or [entry]


def _scan(path: Path, sample: str, *, mapped: bool, above: Path | None = None) -> _Folder:
    """Take apart the names of all images in one sample's folder, unless it holds a slide.

    In another folder, ``above``, it may be that of a dye, whose images are pre.tif and post.tif; or
    that folder may say pre or post of all in it.
    """
    folder = _Folder(compose(sample), path)
    try:
        entries = listing(path)
    except OSError as error:
        folder.problems.append(describe_unreadable(path, error))
        return folder
    images = images_of(entries)
    is_dye = above is not None and all(word_of(naming.stem_of(i.name)) for i in images)
    is_named = _say_words(images, sample)
    said = above.name if above is not None and not is_named else None
    if above is not None and said is None:
        folder.sample = compose(above.name if is_dye else f"{above.name}-{path.name}")
    inside, others = folders_of(entries), [*find_foreign(entries, sample, said)]
    for place in () if is_named else filter(_says_word, [*inside]):
        more = listing_if_any(place)
        entries += more
        images += images_of(more)
        others += find_foreign(more, sample, place.name)
        inside.remove(place)
    folder.is_empty = not images
    folder.slide = slide_files(folder.sample, entries, images, mapped=mapped)
    folder.help = FilesBeside(entries, images)
    folder.foreign = others
    folder.problems += describe_foreign(others, folder.sample)
    folder.problems += [replace(one, sample=folder.sample) for one in folder.help.lonely]
    _name_nested(folder, inside)
    why = naming.explain_unsafe(folder.sample, is_sample=True)
    if images and why:
        folder.problem(
            "unsafe-name",
            f"Sample folder {path}: '{folder.sample}' {why}; rename the folder, for example to "
            f"'{_name_sample(folder.sample)}', or name the sample in config/samples.tsv.",
            path,
        )
    elif folder.slide is None:
        for file in images:
            role = said if file.parent == path else file.parent.name
            parts = take_apart(file.name, sample, role)
            parts = replace(parts, dye=compose(path.name)) if is_dye else parts
            if _check_name(folder, file, parts):
                folder.files.append((file, parts))
    return folder


def _name_sample(name: str) -> str:
    """Return the nearest name that a sample can have."""
    version = naming.safe_version(name)
    return f"sample-{version}" if version in naming.RESERVED else version


def _name_nested(folder: _Folder, inside: list[Path]) -> None:
    """Name images one or two folders too deep."""
    deep = [f for d in inside if not d.name.endswith(".oif.files") for f in listing_if_any(d)]
    deep = images_of([*deep, *(f for d in folders_of(deep) for f in listing_if_any(d))])
    if deep:
        lie, them = ("lies", "it") if len(deep) == 1 else ("lie", "them")
        shown = name_first([str(file.relative_to(folder.path)) for file in deep])
        folder.problem(
            "nested",
            f"{shown} in {folder.path} {lie} too deep: move {them} up into {folder.path}, or make "
            "every folder with images a sample of its own.",
            *deep,
        )


def _check_name(folder: _Folder, file: Path, parts: FileName) -> bool:
    """Return whether a file's name says all that is needed; if not, say what it lacks."""
    words, left, dye = parts.words, naming.remove_marker(parts.body), parts.dye
    word = None if file.parent == folder.path else word_of(file.parent.name)
    if word is not None and naming.marker_of(word) not in parts.markers:  # they disagree
        words = (*words[:1], word)
    if dye is None:
        is_split = re.search("[-_ .]", parts.body) or word_of(parts.body)
        wrong = "names no dye" if is_split else "has no underscore before the dye"
        kind, left, dye = "no-underscore", "", left.strip("_").replace("_", "-")
    elif not dye.strip():
        kind, wrong = "empty-dye", "has nothing after its last underscore, where the dye belongs"
    elif len(words) == len(MARKERS):
        kind, wrong = "both-markers", f"says both {words[0]} and {words[1]}"
    elif not words:
        kind, wrong = "no-marker", "says neither pre nor post"
        folder.unnamed.append((file, parts))
    elif why := naming.explain_unsafe(dye):
        kind, wrong = "unsafe-name", f"names the dye '{dye}', which {why}"
    else:
        return True
    ending = f"{naming.safe_version(dye.strip() or 'DAPI')}{parts.suffix}"
    names = (f"{left}_{one}_{ending}".lstrip("_") for one in words or MARKERS)
    shown = " or ".join(f"'{name}'" for name in names)
    folder.problem(
        kind,
        f"{file}: the file name {wrong}; rename it, for example to {shown}.",
        file,
        dye=parts.dye or None,
    )
    return False


def _split_by_names(folder: _Folder) -> list[_Folder]:
    """Return the samples of a raw directory without folders: several if a dye is there twice."""
    samples = defaultdict[str, list["Image"]](list)
    for file, parts in folder.files:
        samples[_name_sample(naming.find_sample(parts) or folder.sample)].append((file, parts))
    is_doubled = len({parts.slot for _, parts in folder.files}) < len(folder.files)
    if not is_doubled or len(samples) == 1:
        return [folder]
    named = ((replace(folder, problems=[], slide=None), *of) for of in samples.items())
    split = [replace(one, sample=sample, files=files) for one, sample, files in named]
    return [replace(folder, files=[]), *split]


def _pair_across(raw: Path, folders: list[_Folder], problems: list[Problem]) -> list[Pair]:
    """Pair images of two folders that are called the same but for pre and post, and take them out.

    That is those of a dye that is only before, or only after, staining in each of the folders.
    """
    found = defaultdict[tuple[str, str], list[tuple[_Folder, "Image"]]](list)
    in_pairs = set[str]()  # names that images of complete samples have as well
    for folder in folders:
        slots = {parts.slot for _, parts in folder.files}
        for file, parts in folder.files:
            own = "" if folder.path.parent == raw else folder.path.name
            is_above = own and parts.folder not in (None, file.parent.name)
            sample = own if is_above else naming.find_sample(parts) or own
            dye = parts.dye or ""
            if sample and not {(dye, marker) for marker in MARKERS} <= slots:
                found[_name_sample(sample), dye].append((folder, (file, parts)))
            else:
                in_pairs.add(_name_sample(sample))
    pairs = []
    for (sample, dye), images in found.items():
        slot = {parts.markers[0]: [(file, parts)] for _, (file, parts) in images}
        if sample in in_pairs or not len(images) == len(slot) == len(MARKERS):
            continue
        files = [file for _, (file, _) in images]
        entries = [e for parent in {f.parent for f in files} for e in listing_if_any(parent)]
        both = _Folder(sample, raw, help=FilesBeside(entries, files))
        pairs += _pair(both, dye, slot)
        problems += both.problems
        for folder, image in images:
            folder.files.remove(image)
    return pairs


def _match(folder: _Folder) -> list[Pair]:
    """Make pairs of a folder's files; what does not come out as one pre and one post is named."""
    slots: Slots = {}
    for file, parts in folder.files:
        slot = slots.setdefault(parts.dye or "", {marker: [] for marker in MARKERS})
        slot[parts.markers[0]].append((file, parts))
    respelled = _name_respelled(folder, slots)
    pairs = []
    for dye, slot in sorted(slots.items()):
        if dye in respelled:
            continue
        before = len(folder.problems)
        for marker, images in slot.items():
            files = [file for file, _ in images]
            if len(files) > 1:
                names = ", ".join(file.name for file in files)
                folder.problem(
                    f"two-{marker}",
                    f"Sample {folder.sample}, dye {dye} has {len(files)} {marker}-stain images in "
                    f"{folder.path} ({names}); keep one, move the others away, or give them "
                    "another dye name after the last underscore.",
                    *files,
                    dye=dye,
                )
            for file in filter(is_dangling, files):
                folder.problem("dangling-link", describe_dangling(file), file, dye=dye)
        if all(slot.values()):
            pairs += _pair(folder, dye, slot) if before == len(folder.problems) else []
        elif before == len(folder.problems):
            _name_missing(folder, dye, slot)
    return pairs


def _pair(folder: _Folder, dye: str, slot: dict[str, list[Image]]) -> list[Pair]:
    """Make the pair of a dye, with the files that help it; none if those are not clear."""
    (pre, pre_name), (post, post_name) = slot["pre"][0], slot["post"][0]
    try:
        landmarks = folder.help.find("landmarks", post, pre)
        regions = folder.help.find("regions", post)
    except ValueError as error:
        folder.problem("several-files", str(error), post, pre, dye=dye)
        return []
    for file in folder.help.find("regions", pre):
        sentence = f"{file} is of the pre-stain image: draw it on {post.name}, or move it away."
        folder.problem("several-files", sentence, file, dye=dye)
        return []
    rule = f"pre: {pre_name.rule}; post: {post_name.rule}"
    pair = Pair(folder.sample, dye, pre, post, rule=rule, landmarks=landmarks)
    return [replace(pair, regions=next(iter(regions), None))]


def _name_respelled(folder: _Folder, slots: Slots) -> set[str]:
    """Name partners whose dyes differ only in spelling; return their dyes."""
    respelled = set[str]()
    alone = {dye: slot for dye, slot in sorted(slots.items()) if sum(map(len, slot.values())) == 1}
    for dye, other in product(alone, alone):
        posts, pres = alone[dye]["post"], alone[other]["pre"]
        if respelled & {dye, other} or not (posts and pres):
            continue
        (post, post_parts), (pre, pre_parts) = *posts, *pres
        if _is_same_dye(post_parts, pre_parts):
            respelled |= {dye, other}
            folder.problem(
                "dye-spelling",
                f"{folder.path}: {pre.name} (dye {other}) and {post.name} (dye {dye}) spell their "
                "dyes differently; rename one if they belong together (a dye holds no underscore).",
                *(pre, post),
                dye=max(dye, other, key=len),  # the shorter may be cut by an underscore
            )
    return respelled


def _is_same_dye(one: FileName, other: FileName) -> bool:
    """Return whether two dyes may be one, spelled otherwise or cut by an underscore."""
    a, b = (_letters(parts.dye or "") for parts in (one, other))
    if re.findall(r"\d+", one.dye or "") != re.findall(r"\d+", other.dye or ""):
        return False  # Alexa488 and Alexa405 are not a slip of the pen
    cut = _letters(one.body + a).endswith(b) or _letters(other.body + b).endswith(a)
    return cut or difflib.SequenceMatcher(None, a, b).ratio() > 0.8


def _letters(text: str) -> str:
    return re.sub(r"[\W_]+", "", text).casefold()


def _name_missing(folder: _Folder, dye: str, slot: dict[str, list[Image]]) -> None:
    """Name the only image of a pair, unless the other is there in a format that is not read."""
    have, missing = MARKERS if slot["pre"] else MARKERS[::-1]
    if any(one.is_meant and one.parts.slot == (dye, missing) for one in folder.foreign):
        return
    file, parts = slot[have][0]
    word = parts.words[0]
    if parts.folder is not None:
        partner = f"{naming.replace_word(parts.folder, word, COUNTERPARTS[word])}/{parts.name}"
    else:
        partner = f"{naming.replace_word(parts.body, word, COUNTERPARTS[word])}_{dye}{parts.suffix}"
    own = naming.find_sample(parts)
    likely = [one.name for one, other in folder.unnamed if (other.body, other.dye) == (own, dye)]
    rename = f"rename {likely[0]}" if likely else "add it, or rename it,"
    folder.problem(
        "missing-partner",
        f"Sample {folder.sample}, dye {dye} has a {have}-stain image ({file.name}) but no "
        f"{missing}-stain image in {folder.path}; {rename} as '{partner}', or move {file.name} "
        "away.",
        file,
        dye=dye,
    )


def _refuse_doubled(pairs: list[Pair], problems: list[Problem]) -> list[Pair]:
    """Leave out pairs whose results would share a folder: names equal but for composed accents."""
    seen = defaultdict[tuple[str, str], list[Pair]](list)
    for pair in pairs:
        seen[pair.key].append(pair)
    for (sample, dye), same in seen.items():
        places = tuple(pair.pre.parent for pair in same)
        if len(same) > 1:
            text = f"{places[0]} and {places[1]} both hold sample {sample}, dye {dye}; rename one."
            problems.append(Problem(text, "same-name", sample, dye, places))
    return [same[0] for same in seen.values() if len(same) == 1]
