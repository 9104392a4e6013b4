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
from typing import TYPE_CHECKING, NamedTuple

from unglow.core.printable import compose
from unglow.images.raw_header import is_ome_zarr

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
    | {"details", "unglow_mqc.json", "README.txt"}
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
    "(?:stain|dye|run|scan|image|img|bleach|hyb|wash|treat|label|fix|incub|acq|expos|round|fluor)"
)
_TREATMENT = re.compile("stain|bleach|wash|treat|label", re.IGNORECASE)
_AS_WORD = re.compile("^(?:pre|post)$")
_BEFORE_STAINING = re.compile(f"^(?:pre|post)(?={_STAINING})")
_AS_SYNONYM = re.compile(f"^(?:{'|'.join(SYNONYMS)})$")
_AS_PART = re.compile("^(?:pre|post)|(?:pre|post)$")


class NameRule(NamedTuple):
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
        "as whole words. German: vor and nach, vorher and nachher, ungefärbt and gefärbt. French: "
        "avant and après, non coloré and coloré.",
    ),
    NameRule(
        "Rock7/SYTO9_pre.tif",
        "Rock7/SYTO9_post.tif",
        "The word as the last one: the dye is the word before it, or before the sample's name.",
    ),
    NameRule(
        "Rock7/Rock7-pre-SYTO9.tif",
        "Rock7/Rock7-post-SYTO9.tif",
        "Hyphens, spaces or dots where there is no underscore: the dye is what follows the word, "
        "or is the last part before it, if that is not a number.",
    ),
    NameRule(
        "Rock7/pre/SYTO9.tif",
        "Rock7/post/SYTO9.tif",
        "The word as a folder, if no name next to it has one: the dye is what follows the last "
        "underscore, or the name.",
    ),
    NameRule(
        "pre/Rock7/SYTO9.tif",
        "post/Rock7/SYTO9.tif",
        "The word as a folder that holds those of all samples.",
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
        "of one sample, named like that directory, or like the one above `raw`. If a dye is there "
        "more than once, what is left of the name is the sample.",
    ),
)
"""Ways to write names, each with the dye SYTO9."""


@dataclass(frozen=True, slots=True)
class FileName:
    """A file name taken apart.

    ``words`` are those that say pre or post, ``rule`` is how they were found. ``dye`` is None where
    the name has none; ``body`` and the dye make a name by the first of `NAME_RULES`. ``folder`` is
    the folder that says pre or post.
    """

    name: str
    suffix: str
    body: str
    dye: str | None
    words: tuple[str, ...]
    rule: str = ""
    folder: str | None = None

    @property
    def markers(self) -> tuple[str, ...]:
        """'pre' or 'post', both, or none."""
        return tuple(map(marker_of, self.words))

    @property
    def slot(self) -> tuple[str, str] | None:
        """Dye, and 'pre' or 'post', if the name says both."""
        return (self.dye, self.markers[0]) if self.dye and len(self.words) == 1 else None


def images_of(entries: Iterable[Path]) -> list[Path]:
    """Return the images of a directory by their names; not those that are there as .tif as well."""
    named = [entry for entry in entries if _EXTENSION.search(entry.name)]
    files = [e for e in named if is_ome_zarr(e) or not os.path.isdir(e)]
    plain = {_PLAIN.sub("", e.name) for e in files if _PLAIN.search(e.name)}
    return [e for e in files if _PLAIN.search(e.name) or _OTHER.sub("", e.name) not in plain]


def stem_of(name: str) -> str:
    """Return the name of an image without its ending."""
    return _EXTENSION.sub("", name)


def explain_unsafe(name: str, *, is_sample: bool = False) -> str | None:
    """Return why a sample or dye name cannot be used, as the end of a sentence; None if it can."""
    reasons = (
        (is_sample and name in RESERVED, "is the name of something that unglow itself writes"),
        (not name, "is empty"),
        (len(name) > LONGEST, f"has {len(name)} characters, more than {LONGEST}"),
        (
            not SAFE_NAME.fullmatch(name),
            (
                "may hold only letters, digits, '-', '+', '_' and single spaces or dots between "
                "them, and has to start with a letter or digit"
            ),
        ),
        (_ENDLESS.search(name[-LONGEST:]), "ends in 20 times the same, which Snakemake refuses"),
        (
            len(name.encode(errors="replace")) > _BYTES,
            f"is longer than the {_BYTES} bytes it may have",
        ),
    )
    return next((why for applies, why in reasons if applies), None)


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
    words, rule = _search(body if underscore else stem, sample)
    if not words and folder is not None and (word := find_word(folder)):
        rule = f"'{word}' as the name of the folder"
        return FileName(name, suffix, body, stem if dye is None else dye, (word,), rule, folder)
    if not underscore:
        body, dye = _split_at_hyphens(stem, sample) or (stem, None)
    elif not words and (at_end := word_of(last)):
        start, _, before = body.rpartition("_")
        if not _blank_sample(before, sample).strip("_"):  # the sample stands behind the dye
            start, before = before, _blank_sample(body, sample).strip("_- ")
            before = "" if "_" in before else before
        words, rule = (at_end,), f"'{at_end}' as the last word"
        body, dye = (f"{start}_{last}".lstrip("_"), before) if before else (stem, None)
    return FileName(name, suffix, body, dye, words, rule)


def word_of(text: str) -> str | None:
    """Return the word for pre or post that a folder, or one part of a name, consists of."""
    head, *rest = [word.lower() for word in _join_negations(_words(text))] or [""]
    if not all(re.match(_STAINING, word) for word in rest):
        return None
    found = _AS_SYNONYM.findall(head) or _AS_WORD.findall(head) or _BEFORE_STAINING.findall(head)
    return found[0] if found else None


def find_word(folder: str) -> str | None:
    """Return the only word for pre or post in the name of a folder, such as ``day1_before``."""
    words = {w.lower() for w in _join_negations(_words(folder))} & COUNTERPARTS.keys()
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
    own = parts.body.strip("_ -.")
    if parts.folder is not None and own:
        return own
    text = parts.folder or parts.body
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
        as_written = str.upper if found.isupper() else str.capitalize
        return as_written(other) if found[0].isupper() else other

    replaced, count = re.subn(word, swap, text, flags=re.IGNORECASE)
    return replaced if count == 1 else other  # which one it is is not worth guessing


def marker_of(word: str) -> str:
    """Return ``pre`` or ``post`` for a word that means it."""
    return SYNONYMS.get(word, word)


def _split_at_hyphens(stem: str, sample: str) -> tuple[str, str] | None:
    """Return what stands before the dye, and the dye, of a name without an underscore."""
    for text in (_blank_sample(stem, sample), stem):
        parts = re.split(r"([-. ]+)", text)
        places = [i for i in range(0, len(parts), 2) if word_of(parts[i])]
        if len(places) != 1:
            continue
        at = places[0]
        rest = parts[at + 2 :]
        rest = rest[2:] if len(rest) > 2 and _TREATMENT.match(rest[0]) else rest
        dye = "".join(rest).strip("_- ")
        if dye:
            return "".join(parts[: at + 1]), dye
        before = re.fullmatch(r"(.*?)([^-_. ]+)", "".join(parts[:at]).strip("_-. "))
        if before and not before[2].isdecimal():
            return f"{before[1]}{parts[at]}".lstrip("_-. "), before[2]
    return None


def _search(body: str, sample: str) -> tuple[tuple[str, ...], str]:
    """Return words for pre and post, and how they were found: without the sample's name, if so."""
    rest = _blank_sample(body, sample)
    found = _apply_rules(rest)
    return found if found[0] or rest == body else _apply_rules(body)


def _apply_rules(text: str) -> tuple[tuple[str, ...], str]:
    """Apply the rules, strictest first, and stop at the first that finds a word."""
    whole = _words(text)
    joined = re.findall(r"[^\W\d_]+", text)
    for words, pattern, how in (
        (whole, _AS_WORD, "as a whole word"),
        (whole + joined, _BEFORE_STAINING, "before a word of staining"),
        (_join_negations(whole), _AS_SYNONYM, "as a whole word"),
        (joined, _AS_PART, "as part of a word"),
    ):
        said = [(found, word) for word in words for found in pattern.findall(word.lower())]
        hits = {marker_of(found): (found, word) for found, word in reversed(said)}
        if hits:
            first, word = min(hits.items(), key=lambda hit: MARKERS.index(hit[0]))[1]
            around = (part for part in re.split(r"[\W_]+", text) if word in part)
            shown = next(around, word)
            where = "" if shown.lower() in COUNTERPARTS else f" in '{shown}'"
            return tuple(hits[m][0] for m in MARKERS if m in hits), f"'{first}' {how}{where}"
    return (), ""


def _join_negations(words: list[str]) -> list[str]:
    """Return words with un, non or not and a word behind it that would mean the opposite joined."""
    made: list[str] = []
    for word in words:
        if made and made[-1].lower() in ("un", "non", "not", "nicht") and word.lower() in _NEGATED:
            made[-1] = _NEGATED[word.lower()]
        else:
            made.append(word)
    return made


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
