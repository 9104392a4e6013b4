"""Names: what one of a raw file says (pre or post, which dye), and which may become folders.

A raw file is named ``<anything with pre or post>_<dye>.tif``. The dye is what follows the last
underscore; pre or post is looked for in what stands before it, strictest rule first:

1. as a whole word, where words end at anything but a letter and at a change of letter case
   (``pre_run3``, ``post2``, ``PreStain``);
2. as the beginning of a word of staining (``prestain``, ``postwash``);
3. as the beginning or end of any other word (``samplepost``).

A rule that finds something ends the search, so that the letters in ``prepared`` or ``Presley`` do
not compete with a plain ``post``. The sample's own name is left out first, where the file name
holds it.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

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
    | {"digests", "groups.tsv", "multiqc"}
)
MARKERS = ("pre", "post")
SYNONYMS = {"before": "pre", "unstained": "pre", "after": "post", "stained": "post"}
"""Words that are not read as pre or post, with the marker to suggest for each."""

# What Snakemake takes, anywhere in a path, for a placeholder; it knows no way to escape it.
_PLACEHOLDER = re.compile(r"\{\s*[.\w]+\s*(?:,.*)?\}|<[a-z][a-z0-9_]*>", re.DOTALL)
_ENDLESS = re.compile(r"(.+?)\1{19}$")
# TIFF by name, and what else is read: TIFF inside as scanners call it, and OME-Zarr.
_PLAIN = re.compile(r"(?:\.ome)?\.tiff?$", re.IGNORECASE)
_OTHER = re.compile(r"(?:\.ome)?\.(?:btf|tf2|tf8|svs|ndpi|scn|qptiff|zarr)$", re.IGNORECASE)
_EXTENSION = re.compile(f"{_PLAIN.pattern}|{_OTHER.pattern}", re.IGNORECASE)
_STAINING = (
    "stain", "dye", "run", "scan", "image", "img", "bleach", "hyb", "wash", "treat", "label",
    "fix", "incub", "acq", "expos", "round", "fluor",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class FileName:
    """A file name taken apart.

    ``markers`` holds 'pre' or 'post', both, or none; ``word`` is the word that decided and ``rule``
    how. ``dye`` is None where there is no underscore; ``body`` is what stands before the dye.
    """

    name: str
    suffix: str
    body: str
    dye: str | None
    markers: tuple[str, ...]
    rule: str


def images_of(entries: Iterable[Path]) -> list[Path]:
    """Return the images of a directory by their names; not those that are there as .tif as well."""
    named = [entry for entry in entries if _EXTENSION.search(entry.name)]
    files = [e for e in named if is_ome_zarr(e) or not e.is_dir()]
    plain = {_PLAIN.sub("", e.name) for e in files if _PLAIN.search(e.name)}
    return [e for e in files if _PLAIN.search(e.name) or _OTHER.sub("", e.name) not in plain]


def stem_of(name: str) -> str:
    """Return the name of an image without its ending."""
    return _EXTENSION.sub("", name)


def composed(name: str) -> str:
    """Return a name with letters and accents composed (NFC), whatever the file system did."""
    return unicodedata.normalize("NFC", name)


def unsafe(name: str) -> str | None:
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
    cleaned = re.sub(r"[^\w .+-]+|(?<=\.)\.+", "-", composed(name))
    cleaned = re.sub(r"([ .])[ .]+", r"\1", cleaned)
    cleaned = re.sub(r"-{2,}", "-", cleaned)
    cleaned = cleaned.lstrip(" .+-_").rstrip(" .-")[:LONGEST].rstrip(" .-")
    return cleaned if unsafe(cleaned) is None else "sample"


def take_apart(name: str, sample: str) -> FileName:
    """Take the name of a raw file apart; that of its ``sample`` is no place for pre and post."""
    ending = _EXTENSION.search(name)
    suffix = ending.group() if ending else ""
    stem = composed(name.removesuffix(suffix))
    body, underscore, dye = stem.rpartition("_")
    if not underscore:
        body = stem
    markers, rule = _search(body, composed(sample))
    return FileName(name, suffix, body, dye if underscore else None, markers, rule)


def without_marker(text: str) -> str:
    """Return ``text`` without its words pre and post, for a suggested name."""
    rest = re.sub(r"pre|post", "_", text, flags=re.IGNORECASE)
    return re.sub(r"[\W_]*_[\W_]*", "_", rest).strip("_ -.")


def replace_synonym(text: str) -> str:
    """Write pre or post for a word that means it; where there are several, change nothing."""
    found = [word for word in _words(text) if word.lower() in SYNONYMS]
    return text.replace(found[0], SYNONYMS[found[0].lower()]) if len(found) == 1 else text


def _search(body: str, sample: str) -> tuple[tuple[str, ...], str]:
    """Look for the markers without the sample's name, and with it if that leaves nothing."""
    rest = _without_sample(body, sample)
    markers, rule = _by_rules(rest)
    if markers or rest == body:
        return markers, rule
    return _by_rules(body)


def _by_rules(text: str) -> tuple[tuple[str, ...], str]:
    """Apply the rules, strictest first, and stop at the first that finds a marker."""
    whole = _words(text)
    joined = re.findall(r"[^\W\d_]+", text)
    for words, test, how in (
        (whole, _is_marker, "as a whole word"),
        (whole + joined, _is_staining, "before a word of staining"),
        (joined, _touches, "as part of a word"),
    ):
        hits = {m: word for m in MARKERS for word in reversed(words) if test(word.lower(), m)}
        if hits:
            word = next(iter(hits.values()))
            shown = _around(text, word) if test is _is_marker else word
            where = "" if shown.lower() in MARKERS else f" in '{shown}'"
            return tuple(hits), f"'{next(iter(hits))}' {how}{where}"
    return (), ""


def _is_marker(word: str, marker: str) -> bool:
    return word == marker


def _is_staining(word: str, marker: str) -> bool:
    return word.startswith(marker) and word[len(marker) :].startswith(_STAINING)


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


def _without_sample(body: str, sample: str) -> str:
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
