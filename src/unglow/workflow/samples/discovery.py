"""Pairs of a raw directory: ``raw/<sample>/<anything with pre or post>_<dye>.tif``."""

from __future__ import annotations

import difflib
import os
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from unglow.core.printable import compose
from unglow.io.raw_header import is_ome_zarr
from unglow.workflow.samples.naming import (
    COUNTERPARTS,
    MARKERS,
    RESERVED,
    explain_unsafe,
    find_sample,
    find_word,
    images_of,
    marker_of,
    remove_marker,
    replace_word,
    safe_version,
    stem_of,
    take_apart,
    word_of,
)
from unglow.workflow.samples.pair import (
    Discovery,
    FilesBeside,
    Pair,
    Problem,
    SlideFiles,
    slide_files,
)
from unglow.workflow.samples.raw_directory import (
    check_raw,
    dangling_sentence,
    foreign_images,
    layout_note,
    listing,
    listing_if_any,
    loose_files,
    no_tiffs,
    problems_of_foreign,
    too_deep,
    unreadable,
)

if TYPE_CHECKING:
    from unglow.workflow.samples.naming import FileName


@dataclass(slots=True)
class _Folder:
    """What a scan of one sample's folder gathers."""

    sample: str
    path: Path
    files: list[tuple[Path, FileName]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    tiffs: int = 0
    slide: SlideFiles | None = None
    landmarks: FilesBeside = field(default_factory=lambda: FilesBeside.landmarks((), ()))
    regions: FilesBeside = field(default_factory=lambda: FilesBeside.regions((), ()))
    foreign: set[tuple[str, str] | None] = field(default_factory=set)

    def problem(self, kind: str, message: str, *paths: Path, dye: str | None = None) -> None:
        self.problems.append(Problem(message, kind, self.sample, dye, tuple(paths)))


def discover(raw: Path, *, mapped: bool = False) -> Discovery:
    """Find pairs and slides below ``raw``; say in a sentence what keeps a file from being used.

    There is one folder per sample in it. Hidden files and files that are no images by their names
    are ignored; symbolic links are followed. A directory that cannot be used at all is a single
    problem; nothing is raised. ``mapped``: the configuration names the backgrounds of slides.
    """
    unusable = check_raw(raw)
    if unusable is not None:
        return Discovery(problems=(unusable,), layout="no usable raw directory")
    try:
        entries = listing(raw)
    except OSError as error:
        return Discovery(problems=(unreadable(raw, error),), layout="no usable raw directory")
    folders = [entry for entry in entries if os.path.isdir(entry) and not is_ome_zarr(entry)]
    loose = images_of(entries)
    if _is_one_sample(loose, folders):
        return _find_one_sample(raw, mapped=mapped)
    pairs: list[Pair] = []
    slides: list[SlideFiles] = []
    problems = [loose_files(raw, loose)] if loose else []
    problems += problems_of_foreign(foreign_images(entries, ""), None)
    broken = [e for e in entries if os.path.islink(e) and not os.path.exists(e) and not e.suffix]
    problems += [
        Problem(dangling_sentence(entry, "folder"), "dangling-link", paths=(entry,))
        for entry in broken
    ]
    empty = []
    scanned = [
        (
            entry,
            _scan(place, place.name, mapped=mapped, above=place.parent if place != entry else None),
        )
        for entry in folders
        for place in _find_sample_folders(entry)
    ]
    pairs += _pair_across(raw, [folder for _, folder in scanned], problems)
    for entry, folder in scanned:
        pairs += _match(folder)
        slides += [] if folder.slide is None else [folder.slide]
        problems += folder.problems
        if not folder.tiffs and not folder.problems:
            empty.append(entry)
    pairs, doubled = _one_spelling(pairs)
    problems += doubled
    if not pairs and not slides and not problems:
        problems = [no_tiffs(raw, entries, folders)]
    return Discovery(
        pairs=tuple(sorted(pairs, key=lambda p: p.key)),
        slides=tuple(slides),
        problems=tuple(problems),
        layout=layout_note(raw, len(scanned) - len(empty), empty),
    )


def _is_one_sample(loose: list[Path], folders: list[Path]) -> bool:
    """Return whether a raw directory is itself the folder of a sample."""
    if loose:
        if not any(take_apart(image.name, "").markers for image in loose):
            return False
        return not any(images_of(listing_if_any(folder)) for folder in folders)
    words = {folder: find_word(folder.name) for folder in folders}
    if len({marker_of(word) for word in words.values() if word}) < len(MARKERS):
        return False  # before any folder is listed: network disks are slow
    filled = [folder for folder in folders if images_of(listing_if_any(folder))]
    meant = {marker_of(words[folder] or "") for folder in filled}
    return all(map(_says_word, filled)) and len(meant) == len(MARKERS)


def _says_word(folder: Path) -> bool:
    """Whether the images of a folder are before, or after, staining because of its name."""
    if word_of(folder.name) or not find_word(folder.name):
        return word_of(folder.name) is not None
    return not any(take_apart(i.name, "").markers for i in images_of(listing_if_any(folder)))


def _find_one_sample(raw: Path, *, mapped: bool) -> Discovery:
    """Find the pairs of a raw directory that is the folder of one sample."""
    place = raw.absolute()
    name = place.parent.name if place.name.lower() == "raw" else place.name
    folder = _scan(raw, safe_version(name), mapped=mapped)
    samples = _split_by_names(folder)
    pairs = [pair for sample in samples for pair in _match(sample)]
    return Discovery(
        pairs=tuple(pairs),
        slides=() if folder.slide is None else (folder.slide,),
        problems=tuple(problem for sample in samples for problem in sample.problems),
        layout=f"{raw}: the images of {folder.sample}",
    )


def _find_sample_folders(entry: Path) -> list[Path]:
    """Return the folders of samples in a folder without images of its own; else itself."""
    entries = listing_if_any(entry)
    inside = [d for d in entries if os.path.isdir(d) and not is_ome_zarr(d)]
    if images_of(entries) or any(map(_says_word, inside)):
        return [entry]
    named = (
        d
        for d in inside
        if any(take_apart(image.name, d.name).markers for image in images_of(listing_if_any(d)))
    )
    return [*named] or [entry]


def _scan(path: Path, sample: str, *, mapped: bool, above: Path | None = None) -> _Folder:
    """Take apart the names of all TIFFs in one sample's folder, unless it holds a slide.

    In another folder, ``above``, it may be that of a dye, whose images are pre.tif and post.tif.
    """
    folder = _Folder(compose(sample), path)
    try:
        entries = listing(path)
    except OSError as error:
        folder.problems.append(unreadable(path, error))
        return folder
    tiffs = images_of(entries)
    is_dye = above is not None and all(word_of(stem_of(image.name)) for image in tiffs)
    if above is not None:
        folder.sample = compose(above.name if is_dye else f"{above.name}-{path.name}")
    inside = [entry for entry in entries if os.path.isdir(entry) and not is_ome_zarr(entry)]
    has_words = any(take_apart(image.name, sample).markers for image in tiffs)
    sorted_in = [] if has_words else [d for d in inside if _says_word(d)]
    others = foreign_images(entries, sample)
    for place in sorted_in:
        more = listing_if_any(place)
        entries += more
        tiffs += images_of(more)
        others += foreign_images(more, sample, place.name)
    folder.tiffs = len(tiffs)
    folder.slide = slide_files(folder.sample, entries, tiffs, mapped=mapped)
    folder.landmarks = FilesBeside.landmarks(entries, tiffs)
    folder.regions = FilesBeside.regions(entries, tiffs)
    folder.foreign = {other.partner for other in others}
    folder.problems += problems_of_foreign(others, folder.sample)
    _lonely(folder)
    _name_nested(folder, [place for place in inside if place not in sorted_in])
    if not tiffs:
        return folder
    why = explain_unsafe(folder.sample)
    if why or folder.sample in RESERVED:
        why = why or "is the name of something that unglow itself writes into the results"
        other = _name_sample(folder.sample)
        folder.problem(
            "unsafe-name",
            f"Sample folder {path}: '{folder.sample}' {why}; rename the folder, for example to "
            f"'{other}', or name the sample in config/samples.tsv.",
            path,
        )
        return folder
    for file in () if folder.slide is not None else tiffs:
        parts = take_apart(file.name, sample, None if file.parent == path else file.parent.name)
        parts = replace(parts, dye=compose(path.name)) if is_dye else parts
        if _check_name(folder, file, parts):
            folder.files.append((file, parts))
    return folder


def _name_sample(name: str) -> str:
    """Return the nearest name that a sample can have."""
    version = safe_version(name)
    return f"sample-{version}" if version in RESERVED else version


def _lonely(folder: _Folder) -> None:
    """Name files that help a pair, and that no image is named like."""
    for kind, whose, ending in (
        (folder.landmarks, "the image that it was clicked in", ".landmarks.csv"),
        (folder.regions, "the post-stain image that it was drawn on", ".regions.geojson"),
    ):
        for file in kind.unmatched:
            folder.problem(
                f"lonely-{kind.kind}",
                f"{file}: no image next to it has this name; call it like {whose}, with {ending} "
                "in the place of .tif, or move it away.",
                file,
            )


def _name_nested(folder: _Folder, inside: list[Path]) -> None:
    """Name TIFFs one or two folders too deep."""
    deep = [f for d in inside if not d.name.endswith(".oif.files") for f in listing_if_any(d)]
    deep += [f for d in deep if os.path.isdir(d) for f in listing_if_any(d)]
    deep = images_of(deep)
    if deep:
        folder.problem("nested", too_deep(folder.path, deep), *deep)


def _check_name(folder: _Folder, file: Path, parts: FileName) -> bool:
    """Return whether a file's name says all that is needed; if not, say what it lacks."""
    if parts.dye is None:
        lacks = "names no dye" if "_" in parts.body else "has no underscore before the dye"
        kind, wrong, names = "no-underscore", lacks, _no_dye(parts)
    elif not parts.dye.strip():
        kind, wrong = "empty-dye", "has nothing after its last underscore, where the dye belongs"
        names = [f"{parts.body}_DAPI{parts.suffix}"]
    elif len(words := _words_of(folder, file, parts)) == len(MARKERS):
        kind, wrong = "both-markers", f"says both {words[0]} and {words[1]}"
        names = _either(remove_marker(parts.body), parts)
    elif not parts.markers:
        kind, wrong = "no-marker", "says neither pre nor post"
        names = _either(parts.body, parts)
    else:
        why = explain_unsafe(parts.dye)
        if why is None:
            return True
        kind, wrong = "unsafe-name", f"names the dye '{parts.dye}', which {why}"
        names = [f"{parts.body}_{safe_version(parts.dye)}{parts.suffix}"]
    suggested = " or ".join(f"'{name}'" for name in names)
    folder.problem(kind, f"{file}: the file name {wrong}; rename it, for example to {suggested}.",
                   file, dye=parts.dye or None)  # fmt: skip
    return False


def _words_of(folder: _Folder, file: Path, parts: FileName) -> tuple[str, ...]:
    """Return the words for pre and post of a file and, if they disagree, of the folder it is in."""
    word = None if file.parent == folder.path else word_of(file.parent.name)
    disagree = word is not None and marker_of(word) not in parts.markers
    return (*parts.words[:1], word) if word is not None and disagree else parts.words


def _no_dye(parts: FileName) -> list[str]:
    """Suggest names for a file without a dye: what is left of the marker is the dye."""
    dye = safe_version(remove_marker(parts.body).strip("_").replace("_", "-") or "DAPI")
    words = parts.words if len(parts.words) == 1 else MARKERS
    return [f"{word}_{dye}{parts.suffix}" for word in words]


def _either(body: str, parts: FileName) -> list[str]:
    """Suggest both names, where only the user can know, by the words that were found."""
    start = f"{body}_" if body else ""
    words = parts.words if len(parts.words) == len(MARKERS) else MARKERS
    return [f"{start}{word}_{parts.dye}{parts.suffix}" for word in words]


Slots = dict[str, dict[str, list[tuple[Path, "FileName"]]]]


def _match(folder: _Folder) -> list[Pair]:
    """Make pairs of a folder's files; what does not come out as one pre and one post is named."""
    slots: Slots = {}
    for file, parts in folder.files:
        dye = parts.dye or ""
        slots.setdefault(dye, {m: [] for m in MARKERS})[parts.markers[0]].append((file, parts))
    respelled = _name_respelled(folder, slots)
    pairs = []
    for dye, slot in sorted(slots.items()):
        if dye in respelled:
            continue
        double = [m for m in MARKERS if len(slot[m]) > 1]
        for marker in double:
            files = [file for file, _ in slot[marker]]
            folder.problem(
                f"two-{marker}",
                f"Sample {folder.sample}, dye {dye} has {len(files)} {marker}-stain images in "
                f"{folder.path} ({', '.join(f.name for f in files)}); keep one, move the others "
                "away, or give them another dye name after the last underscore.",
                *files,
                dye=dye,
            )
        files = [file for m in MARKERS for file, _ in slot[m]]
        dangling = [file for file in files if os.path.islink(file) and not os.path.exists(file)]
        for file in dangling:
            folder.problem("dangling-link", dangling_sentence(file), file, dye=dye)
        missing = [m for m in MARKERS if not slot[m]]
        if missing and not double and (dye, missing[0]) not in folder.foreign:
            _missing(folder, dye, missing[0], slot)
        if not (double or missing or dangling):
            pair = _pair(folder, dye, slot)
            if pair is not None:
                pairs.append(pair)
    return pairs


def _split_by_names(folder: _Folder) -> list[_Folder]:
    """Return the samples of a raw directory without folders: several if a dye is there twice."""
    roles = Counter((parts.dye, parts.markers[0]) for _, parts in folder.files)
    samples: dict[str, list[tuple[Path, FileName]]] = {}
    for file, parts in folder.files:
        samples.setdefault(_name_sample(find_sample(parts) or folder.sample), []).append(
            (file, parts)
        )
    if max(roles.values(), default=0) < 2 or len(samples) < 2:
        return [folder]
    folder.files = []
    return [folder, *(replace(folder, sample=n, files=f, problems=[]) for n, f in samples.items())]


def _pair_across(raw: Path, folders: list[_Folder], problems: list[Problem]) -> list[Pair]:
    """Pair images of two folders that are called the same but for pre and post, and take them out.

    That is those of a dye that is only before, or only after, staining in each of the folders.
    """
    found: dict[tuple[str, str], list[tuple[_Folder, Path, FileName]]] = {}
    in_pairs: set[str] = set()  # names that images of complete samples have as well
    for folder in folders:
        roles: dict[str | None, set[str]] = {}
        for _, parts in folder.files:
            roles.setdefault(parts.dye, set()).add(parts.markers[0])
        for file, parts in folder.files:
            sample = find_sample(parts) or ("" if folder.path.parent == raw else folder.path.name)
            if sample and len(roles[parts.dye]) == 1:
                key = _name_sample(sample), parts.dye or ""
                found.setdefault(key, []).append((folder, file, parts))
            else:
                in_pairs.add(_name_sample(sample))
    pairs = []
    for (sample, dye), images in found.items():
        roles_of = sorted(parts.markers[0] for _, _, parts in images)
        if roles_of != ["post", "pre"] or sample in in_pairs:
            continue
        files = [file for _, file, _ in images]
        entries = [
            entry for parent in {f.parent for f in files} for entry in listing_if_any(parent)
        ]
        both = _Folder(sample, raw)
        both.landmarks = FilesBeside.landmarks(entries, files)
        both.regions = FilesBeside.regions(entries, files)
        slot = {parts.markers[0]: [(file, parts)] for _, file, parts in images}
        pair = _pair(both, dye, slot)
        pairs += [] if pair is None else [pair]
        problems += both.problems
        for folder, file, parts in images:
            folder.files.remove((file, parts))
    return pairs


def _pair(folder: _Folder, dye: str, slot: dict[str, list[tuple[Path, FileName]]]) -> Pair | None:
    """Make the pair of a dye, with the files that help it; None if those are not clear."""
    (pre, pre_name), (post, post_name) = slot["pre"][0], slot["post"][0]
    try:
        landmarks = folder.landmarks.of(post, pre)
    except ValueError as error:
        folder.problem("two-landmarks", str(error), post, pre, dye=dye)
        return None
    try:
        regions = folder.regions.of(post)
        _refuse_regions_of_pre(folder.regions.of(pre), post)
    except ValueError as error:
        folder.problem("regions", str(error), post, pre, dye=dye)
        return None
    return Pair(
        folder.sample,
        dye,
        pre,
        post,
        rule=f"pre: {pre_name.rule}; post: {post_name.rule}",
        landmarks=landmarks,
        regions=regions[0] if regions else None,
    )


def _refuse_regions_of_pre(files: tuple[Path, ...], post: Path) -> None:
    if files:
        raise ValueError(
            f"{files[0]} belongs to the pre-stain image, but regions are drawn on the post-stain "
            f"image: call it like {post.name} if that is where it was drawn, or move it away."
        )


def _name_respelled(folder: _Folder, slots: Slots) -> set[str]:
    """Name partners whose dyes differ only in spelling; return their dyes."""
    respelled: set[str] = set()
    lonely = {
        marker: {
            dye: slot[marker][0]
            for dye, slot in sorted(slots.items())
            if len(slot[marker]) == 1 and not slot[MARKERS[1 - i]]
        }
        for i, marker in enumerate(MARKERS)
    }
    for dye, (post, post_parts) in lonely["post"].items():
        for other, (pre, pre_parts) in lonely["pre"].items():
            if other in respelled or not _same_dye(dye, post_parts, other, pre_parts):
                continue
            respelled |= {dye, other}
            # The longer spelling wins (an underscore cut the other short), at a tie that of post.
            if len(other) > len(dye):
                wrong, parts, right = post, post_parts, other
            else:
                wrong, parts, right = pre, pre_parts, dye
            cut = len(dye) != len(other) and "_" in parts.body
            start = _cut_dye(parts, right) if cut else parts.body
            folder.problem(
                "dye-case" if dye.casefold() == other.casefold() else "dye-spelling",
                f"{folder.path}: {pre.name} (dye {other}) and {post.name} (dye {dye}) spell their "
                f"dyes differently, so neither has a partner; if they belong together, rename "
                f"{wrong.name} to '{start}_{right}{parts.suffix}'"
                + (" (a dye must not hold an underscore)." if cut else "."),
                pre,
                post,
                dye=right,
            )
            break
    return respelled


def _same_dye(dye: str, parts: FileName, other: str, its: FileName) -> bool:
    """Return whether two dyes may be one, spelled otherwise or cut by an underscore."""
    if dye.casefold() == other.casefold():
        return True
    if re.findall(r"\d+", dye) != re.findall(r"\d+", other):
        return False  # Alexa488 and Alexa405 are not a slip of the pen
    a, b = _letters(dye), _letters(other)
    if a == b or difflib.SequenceMatcher(None, a, b).ratio() > 0.8:
        return True
    return _letters(parts.body + dye).endswith(b) or _letters(its.body + other).endswith(a)


def _cut_dye(parts: FileName, dye: str) -> str:
    """Return what is left of a name before a dye that an underscore had cut in two."""
    words = parts.body.split("_")
    while len(words) > 1 and _letters(dye).find(_letters(words[-1])) >= 0:
        words.pop()
    return "_".join(words)


def _letters(text: str) -> str:
    return re.sub(r"[\W_]+", "", text).casefold()


def _missing(
    folder: _Folder, dye: str, missing: str, slot: dict[str, list[tuple[Path, FileName]]]
) -> None:
    have = MARKERS[1 - MARKERS.index(missing)]
    file, parts = slot[have][0]
    folder.problem(
        "missing-partner",
        f"Sample {folder.sample}, dye {dye} has a {have}-stain image ({file.name}) but no "
        f"{missing}-stain image in {folder.path}; add it, or rename it, as "
        f"'{_partner_name(parts)}', or move {file.name} away.",
        file,
        dye=dye,
    )


def _partner_name(parts: FileName) -> str:
    """Return the name that the partner of a file would have."""
    word = parts.words[0]
    other = COUNTERPARTS[word]
    if parts.folder is not None:
        return f"{replace_word(parts.folder, word, other)}/{parts.name}"
    return f"{replace_word(parts.body, word, other)}_{parts.dye}{parts.suffix}"


def _one_spelling(pairs: list[Pair]) -> tuple[list[Pair], list[Problem]]:
    """Leave out pairs whose results would share a folder: names equal but for composed accents."""
    seen: dict[tuple[str, str], list[Pair]] = {}
    for pair in pairs:
        seen.setdefault(pair.key, []).append(pair)
    problems = [
        Problem(
            f"{same[0].pre.parent} and {same[1].pre.parent} both hold sample {key[0]}, dye "
            f"{key[1]}; rename one of them.",
            "same-name",
            *key,
            tuple(p.pre.parent for p in same),
        )
        for key, same in seen.items()
        if len(same) > 1
    ]
    return [same[0] for same in seen.values() if len(same) == 1], problems
