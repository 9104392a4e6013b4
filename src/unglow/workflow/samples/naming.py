"""Names: what one of a raw file says (pre or post, which dye), and which may become folders.

`NAME_RULES` has an example of each way to write a name, and ``config/README.md`` shows them. Pre or
post is looked for in what stands before the dye, strictest rule first:

1. ``pre`` or ``post`` as a whole word, where words end at anything but a letter and at a change of
   letter case (``pre_run3``, ``post2``, ``PreStain``);
2. as the beginning of a word of staining (``prestain``, ``postwash``);
3. one of `SYNONYMS` as a whole word (``before``, ``Unstained``);
4. ``pre`` or ``post`` as the beginning or end of any other word (``samplepost``).

A rule that finds something ends the search, so that the letters in ``prepared`` or ``Presley`` do
not compete with a plain ``post``. The sample's own name is left out first, where the file name
holds it. If nothing is found there, the last word of the name may say it, or the folder.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from unglow.core.printable import compose
from unglow.io.raw_header import is_ome_zarr

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

#: Sample and dye names become folders and wildcards: a letter or digit of any script, then letters,
#: digits, underscore, plus and hyphen, with single spaces or dots only between them. So there are
#: no separators, wildcards, braces or control characters, no '..', and no '.' or '-' in front.
SAFE_NAME = re.compile(r"[^\W_](?:[ .]?[\w+-])*")
#: Longest sample or dye name, characters.
LONGEST = 80
_BYTES = 240  # file systems allow 255, some for temporaries
#: What a run itself writes next to the samples' folders.
RESERVED = frozenset(
    {"benchmarks", "logs", "report.html", "summary.tsv", "telemetry", "verdict.txt"}
    | {"details", "digests", "unglow_mqc.json", "README.txt"}
)
MARKERS = ("pre", "post")
_OPPOSITES = (
    ("pre", "post"), ("before", "after"), ("unstained", "stained"), ("blank", "signal"),
    ("vor", "nach"), ("vorher", "nachher"), ("ungefärbt", "gefärbt"), ("ungefaerbt", "gefaerbt"),
    ("avant", "après"), ("avant", "apres"), ("noncoloré", "coloré"), ("noncolore", "colore"),
)  # fmt: skip
SYNONYMS = {word: MARKERS[i] for pair in _OPPOSITES[1:] for i, word in enumerate(pair)}
"""Words that are read as pre or post."""
COUNTERPARTS = {word: pair[1 - i] for pair in reversed(_OPPOSITES) for i, word in enumerate(pair)}
"""The word for the other image of a pair."""
_NEGATED = {after: before for before, after in _OPPOSITES if before.endswith(after)}
"""Words that mean the opposite behind a "not"."""

# What Snakemake takes, anywhere in a path, for a placeholder; it knows no way to escape it.
_PLACEHOLDER = re.compile(r"\{\s*[.\w]+\s*(?:,.*)?\}|<[a-z][a-z0-9_]*>", re.DOTALL)
_ENDLESS = re.compile(r"(.+?)\1{19}$")
# TIFF by name, and what else is read: TIFF inside as scanners call it, and OME-Zarr.
_PLAIN = re.compile(r"(?:\.ome)?\.tiff?$", re.IGNORECASE)
_OTHER = re.compile(
    r"(?:\.ome)?\.(?:btf|tf2|tf8|svs|ndpi|scn|qptiff|zarr(?:\.zip)?|ozx)$", re.IGNORECASE
)
_EXTENSION = re.compile(f"{_PLAIN.pattern}|{_OTHER.pattern}", re.IGNORECASE)
_STAINING = (
    "stain", "dye", "run", "scan", "image", "img", "bleach", "hyb", "wash", "treat", "label",
    "fix", "incub", "acq", "expos", "round", "fluor",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class NameRule:
    """A way to write names: an example of both images, and what a page says about it."""

    pre: str
    post: str
    about: str


NAME_RULES = (
    NameRule(
        "Rock7/Rock7_pre_SYTO9.tif",
        "Rock7/Rock7_post_SYTO9.tif",
        "The dye is what follows the last underscore; pre or post is a word before it "
        "(`PreStain`, `post2`, `pre_run3` and `samplepost` too).",
    ),
    NameRule(
        "Rock7/before_SYTO9.tif",
        "Rock7/after_SYTO9.tif",
        "Other words for pre and post: before and after, unstained and stained, blank and signal, "
        "vor and nach, vorher and nachher, ungefärbt and gefärbt, avant and après, non coloré and "
        "coloré, as whole words.",
    ),
    NameRule(
        "Rock7/SYTO9_pre.tif",
        "Rock7/SYTO9_post.tif",
        "The word as the last one: the dye is the word before it.",
    ),
    NameRule(
        "Rock7/Rock7-pre-SYTO9.tif",
        "Rock7/Rock7-post-SYTO9.tif",
        "Hyphens or spaces where there is no underscore: the dye is what follows the word, or is "
        "left before it.",
    ),
    NameRule(
        "Rock7/pre/SYTO9.tif",
        "Rock7/post/SYTO9.tif",
        "The word as a folder, if no name next to it has one: the dye is what follows the last "
        "underscore, or the name.",
    ),
    NameRule(
        "day 1/Rock7_pre_SYTO9.tif",
        "day 2/Rock7_post_SYTO9.tif",
        "Images in two folders that are called the same but for the word: the sample is what is "
        "left of the name, or the folder inside these folders.",
    ),
    NameRule(
        "Rock7_pre_SYTO9.tif",
        "Rock7_post_SYTO9.tif",
        "Images directly in the raw directory, if it holds no other folders with images. They are "
        "of one sample, named like that directory (if that is `raw`, like the one above it), or of "
        "several if a dye is there more than once: what is left of the name is the sample.",
    ),
)
"""Ways to write names, each with the dye SYTO9."""


@dataclass(frozen=True, slots=True)
class FileName:
    """A file name taken apart.

    ``markers`` holds 'pre' or 'post', both, or none; ``words`` are the words that say so, and
    ``rule`` is how they were found. ``dye`` is None where the name has none; ``body`` and the dye
    make a name by the first of `NAME_RULES`. ``folder`` is the folder that says pre or post.
    """

    name: str
    suffix: str
    body: str
    dye: str | None
    markers: tuple[str, ...]
    rule: str
    words: tuple[str, ...] = ()
    folder: str | None = None


def images_of(entries: Iterable[Path]) -> list[Path]:
    """Return the images of a directory by their names; not those that are there as .tif as well."""
    named = [entry for entry in entries if _EXTENSION.search(entry.name)]
    files = [e for e in named if is_ome_zarr(e) or not os.path.isdir(e)]
    plain = {_PLAIN.sub("", e.name) for e in files if _PLAIN.search(e.name)}
    return [e for e in files if _PLAIN.search(e.name) or _OTHER.sub("", e.name) not in plain]


def stem_of(name: str) -> str:
    """Return the name of an image without its ending."""
    return _EXTENSION.sub("", name)


def explain_unsafe(name: str) -> str | None:
    """Return why a sample or dye name cannot be used, as the end of a sentence; None if it can."""
    if not name:
        return "is empty"
    if len(name) > LONGEST:
        return f"has {len(name)} characters, more than {LONGEST}"
    if SAFE_NAME.fullmatch(name) is None:
        return (
            "may hold only letters, digits, '-', '+', '_' and single spaces or dots between them, "
            "and has to start with a letter or digit"
        )
    if _ENDLESS.search(name):
        return "ends in 20 times the same, which Snakemake takes for a name without end"
    if len(name.encode()) > _BYTES:
        return f"is longer than the {_BYTES} bytes that the name of a folder may have"
    return None


def placeholder_in(path: str) -> str | None:
    """Return the part of a path that Snakemake would replace, such as ``{1}``; None if none is."""
    placeholder = _PLACEHOLDER.search(path)
    return placeholder.group() if placeholder else None


def one_of(names: Iterable[str]) -> str:
    """Return a regular expression of these names and no others, short where they share a beginning.

    Snakemake writes it into the pattern of every output and log, and reads all of that pattern for
    each file of each job: names one after the other would take a time that grows with the square of
    the number of pairs.
    """
    distinct = set(names)
    return _branches(distinct) if any(distinct) else "(?!)"


def _branches(names: Collection[str]) -> str:
    """Return what matches any of the names, with each beginning that some share written once."""
    endings: dict[str, list[str]] = {}
    for name in sorted(set(names)):
        endings.setdefault(name[:1], []).append(name[1:])
    if len(endings) > 1 and all(first and rest == [""] for first, rest in endings.items()):
        return f"[{''.join(map(re.escape, endings))}]"
    parts = [re.escape(first) + _branches(rest) if first else "" for first, rest in endings.items()]
    return parts[0] if len(parts) == 1 else f"(?:{'|'.join(parts)})"


def safe_version(name: str) -> str:
    """Return the nearest name that can be used; 'sample' where nothing is left of it."""
    cleaned = re.sub(r"[^\w .+-]+|(?<=\.)\.+", "-", compose(name))
    cleaned = re.sub(r"([ .])[ .]+", r"\1", cleaned)
    cleaned = re.sub(r"-{2,}", "-", cleaned)
    cleaned = cleaned.lstrip(" .+-_").rstrip(" .-")[:LONGEST].rstrip(" .-")
    return cleaned if explain_unsafe(cleaned) is None else "sample"


def take_apart(name: str, sample: str, folder: str | None = None) -> FileName:
    """Take the name of a raw file apart; that of its ``sample`` is no place for pre and post.

    ``folder`` is the folder that the file is in, if that says pre or post (`word_of`).
    """
    ending = _EXTENSION.search(name)
    suffix = ending.group() if ending else ""
    stem, sample = compose(name.removesuffix(suffix)), compose(sample)
    body, underscore, last = stem.rpartition("_")
    dye = last if underscore else None
    found = _search(body if underscore else stem, sample)
    if folder is not None and not found.words:
        word = find_word(folder) or ""
        rule = f"'{word}' as the name of the folder"
        dye = stem if dye is None else dye
        return FileName(name, suffix, body, dye, (marker_of(word),), rule, (word,), folder)
    if not underscore:
        split = _split_at_hyphens(stem, sample)
        body, dye = split if split is not None else (stem, None)
    elif not found.words and (at_end := word_of(last)) is not None:
        start, _, before = body.rpartition("_")
        is_dye = bool(_blank_sample(before, sample).strip("_"))
        found = _Found((marker_of(at_end),), f"'{at_end}' as the last word", (at_end,))
        body, dye = (f"{start}_{last}".lstrip("_"), before) if is_dye else (stem, None)
    return FileName(name, suffix, body, dye, found.markers, found.rule, found.words)


def word_of(text: str) -> str | None:
    """Return the word for pre or post that a folder, or one part of a name, consists of."""
    head, *rest = [word.lower() for word in _join_negations(_words(text))] or [""]
    if not all(word.startswith(_STAINING) for word in rest):
        return None
    if head in COUNTERPARTS:
        return head
    return next((marker for marker in MARKERS if _is_staining(head, marker)), None)


def find_word(folder: str) -> str | None:
    """Return the only word for pre or post in the name of a folder, such as ``day1_before``."""
    words = {w.lower() for w in _join_negations(_words(folder)) if w.lower() in COUNTERPARTS}
    return word_of(folder) or (words.pop() if len(words) == 1 else None)


def says_pre_or_post(name: str, sample: str) -> bool:
    """Return whether a name holds pre or post itself, and not only a word that may mean it."""
    return any(word in MARKERS for word in take_apart(name, sample).words)


def remove_marker(text: str) -> str:
    """Return ``text`` without its words for pre and post, for a suggested name."""
    words = [w for w in _words(text) if w.lower() in SYNONYMS]
    rest = re.sub("|".join(["pre", "post", *map(re.escape, words)]), "_", text, flags=re.IGNORECASE)
    return re.sub(r"[\W_]*_[\W_]*", "_", rest).strip("_ -.")


def find_sample(parts: FileName) -> str:
    """Return what is left of a name without dye and word for pre or post; it may be empty."""
    text = parts.body if parts.folder is None else parts.body.strip("_ -.") or parts.folder
    if parts.folder is not None and text != parts.folder:
        return text
    pieces = re.split(r"([-_ .]+)", text)
    kept = [piece for piece in pieces if word_of(piece) is None]
    if len(kept) == len(pieces):  # a part of a word says it
        return remove_marker(text)
    return re.sub(r"[-_ .]*([-_ .])[-_ .]*", r"\1", "".join(kept)).strip("_ -.")


def replace_word(text: str, word: str, other: str) -> str:
    """Return ``text`` with one word for pre or post replaced, in its letter case.

    Where the word is not there once, only the other is returned.
    """

    def swap(match: re.Match[str]) -> str:
        found = match.group()
        if found.isupper():
            return other.upper()
        return other.capitalize() if found[0].isupper() else other

    replaced, count = re.subn(word, swap, text, flags=re.IGNORECASE)
    return replaced if count == 1 else other  # which one it is is not worth guessing


def marker_of(word: str) -> str:
    """Return ``pre`` or ``post`` for a word that means it."""
    return SYNONYMS.get(word, word)


def _split_at_hyphens(stem: str, sample: str) -> tuple[str, str] | None:
    """Return what stands before the dye, and the dye, of a name without an underscore."""
    for text in (_blank_sample(stem, sample), stem):
        parts = re.split(r"([- ]+)", text)
        places = [i for i in range(0, len(parts), 2) if word_of(parts[i])]
        if len(places) != 1:
            continue
        at = places[0]
        dye = "".join(parts[at + 2 :]).strip("_- ")
        if dye:
            return "".join(parts[: at + 1]), dye
        before = "".join(parts[:at]).strip("_- ")
        if before and not re.search(r"[-_ ]", before):
            return parts[at], before
    return None


@dataclass(frozen=True, slots=True)
class _Found:
    """What a text says: see `FileName`."""

    markers: tuple[str, ...] = ()
    rule: str = ""
    words: tuple[str, ...] = ()


def _search(body: str, sample: str) -> _Found:
    """Look for the markers without the sample's name, and with it if that leaves nothing."""
    rest = _blank_sample(body, sample)
    found = _apply_rules(rest)
    return found if found.words or rest == body else _apply_rules(body)


def _apply_rules(text: str) -> _Found:
    """Apply the rules, strictest first, and stop at the first that finds a marker."""
    whole = _words(text)
    joined = re.findall(r"[^\W\d_]+", text)
    for words, test, how in (
        (whole, _is_marker, "as a whole word"),
        (whole + joined, _is_staining, "before a word of staining"),
        (_join_negations(whole), _means, "as a whole word"),
        (joined, _touches, "as part of a word"),
    ):
        hits = {m: word for m in MARKERS for word in reversed(words) if test(word.lower(), m)}
        if hits:
            names = tuple(w.lower() if test is _means else m for m, w in hits.items())
            word = next(iter(hits.values()))
            shown = _around(text, word) if test in (_is_marker, _means) else word
            where = "" if shown.lower() in COUNTERPARTS else f" in '{shown}'"
            return _Found(tuple(hits), f"'{names[0]}' {how}{where}", names)
    return _Found()


def _is_marker(word: str, marker: str) -> bool:
    return word == marker


def _is_staining(word: str, marker: str) -> bool:
    return word.startswith(marker) and word[len(marker) :].startswith(_STAINING)


def _means(word: str, marker: str) -> bool:
    return SYNONYMS.get(word) == marker


def _join_negations(words: list[str]) -> list[str]:
    """Return words with un, non or not and a word behind it that would mean the opposite joined."""
    made: list[str] = []
    for word in words:
        if made and made[-1].lower() in ("un", "non", "not", "nicht") and word.lower() in _NEGATED:
            made[-1] = _NEGATED[word.lower()]
        else:
            made.append(word)
    return made


def _touches(word: str, marker: str) -> bool:
    return word.startswith(marker) or word.endswith(marker)


def _words(text: str) -> list[str]:
    """Split at everything but letters, and at changes of letter case.

    A run of capitals before small letters is split both ways, since PREstain and DAPIPost are both
    written: PRE + stain, and DAPI + Post.
    """
    words = []
    for run in re.findall(r"[^\W\d_]+", text):
        cuts = [i for i in range(1, len(run)) if run[i - 1].islower() and run[i].isupper()]
        cuts += [
            i if run[:i].lower().endswith(MARKERS) else i - 1
            for i in range(2, len(run))
            if run[i - 2].isupper() and run[i - 1].isupper() and run[i].islower()
        ]
        edges = [0, *sorted(set(cuts)), len(run)]
        words += [run[a:b] for a, b in pairwise(edges)]
    return words


def _around(text: str, word: str) -> str:
    """Return the part between separators that ``word`` stands in."""
    return next((part for part in re.split(r"[\W_]+", text) if word in part), word)


def _blank_sample(body: str, sample: str) -> str:
    """Blank out the sample's name, however its separators are written, where it stands alone."""
    parts = re.findall(r"[^\W_]+", sample)
    if not parts:
        return body
    pattern = re.compile(r"[\W_]*".join(map(re.escape, parts)), re.IGNORECASE)

    def blank(match: re.Match[str]) -> str:
        start, end = match.span()
        alone = _edge(body[:start][-1:], body[start]) and _edge(body[end - 1], body[end : end + 1])
        return "_" if alone else match.group()

    return pattern.sub(blank, body)


def _edge(left: str, right: str) -> bool:
    """Return whether a word ends between two characters; either may be missing."""
    if not (left.isalnum() and right.isalnum()):
        return True
    return left.isalpha() != right.isalpha() or (left.islower() and right.isupper())
