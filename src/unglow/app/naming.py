"""Names that users give: a pattern that reads the paths of images, and the sheet that follows."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from unglow.core.errors import InputError
from unglow.workflow.samples import Pair, unsafe
from unglow.workflow.samples.naming import (
    RESERVED,
    composed,
    safe_version,
    take_apart,
    without_marker,
    word_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

ROLES = ("pre", "post")
_FIELDS = ("sample", "dye", "prepost")
_LONGEST, _MOST_STARS = 200, 6


@dataclass(frozen=True, slots=True)
class NamedImage:
    """An image, what it is (pre or post), and the sample and dye that it is of."""

    path: Path
    role: str
    sample: str
    dye: str


def guess(path: Path, raw: Path) -> NamedImage:
    """Return what name and folders of an image say; empty where they do not.

    Unlike the workflow, which refuses a name that is not complete, this is a beginning for users,
    who see each image and correct it.
    """
    folders = path.parent.relative_to(raw).parts
    said = folders[-1] if folders and word_of(folders[-1]) else None
    sample = next((f for f in reversed(folders) if f != said), "")
    name = take_apart(path.name, sample, said)
    role = name.markers[0] if len(name.markers) == 1 else ""
    dye = name.dye or "" if role else ""
    return NamedImage(path, role, sample or (without_marker(name.body) if role else ""), dye)


class NamePattern:
    """A pattern of paths, such as ``{sample}/{dye}_{prepost}*``.

    ``*`` stands for any letters in the name of a file or folder. Letter case does not count, and
    neither does the ending of the file.

    Parameters
    ----------
    text
        The pattern.
    pre, post
        Words that ``{prepost}`` stands for, separated by commas.

    Raises
    ------
    InputError
        It is no pattern; the message is a sentence.
    """

    def __init__(self, text: str, pre: str, post: str) -> None:
        self._roles = {
            word.strip().casefold(): role
            for role, words in zip(ROLES, (pre, post), strict=True)
            for word in words.split(",")
            if word.strip()
        }
        if len(set(self._roles.values())) < len(ROLES):
            raise InputError("Give a word for pre, and another one for post.")
        if "{prepost}" not in text:
            raise InputError("The pattern needs {prepost}, where the word for pre or post is.")
        fields = re.findall(r"\{(.*?)\}", text)
        wrong = next((f for f in fields if f not in _FIELDS or fields.count(f) > 1), None)
        if wrong is not None:
            raise InputError(f"{{{wrong}}} cannot be in a pattern, or not twice; use {_words()}.")
        if len(text) > _LONGEST or text.count("*") > _MOST_STARS:
            raise InputError(
                f"A pattern has at most {_LONGEST} characters and {_MOST_STARS} stars: shorten it."
            )
        parts = re.split(r"(\{sample\}|\{dye\}|\{prepost\}|\*)", composed(text.strip()))
        self._parts = [part for part in parts if part]

    def read(self, name: str, sample: str = "", dye: str = "") -> tuple[str, str, str] | None:
        """Return (role, sample, dye) of a path without its ending; None if it does not fit.

        ``sample`` and ``dye`` are those of all images where the pattern has none.
        """
        name = composed(name)
        found = self._match(name, 0, 0, set())
        if found is None:
            return None
        fields = {"{sample}": sample, "{dye}": dye} | found
        return self._roles[fields["{prepost}"].casefold()], fields["{sample}"], fields["{dye}"]

    def _match(
        self, text: str, n: int, start: int, failed: set[tuple[int, int]]
    ) -> dict[str, str] | None:
        """Return what the parts from the n-th on stand for; None if they do not fit.

        A regular expression would take very long for some patterns; here each part is tried at
        each place once.
        """
        if n == len(self._parts):
            return {} if start == len(text) else None
        if (n, start) in failed:
            return None
        part = self._parts[n]
        for end in self._ends(text, part, start):
            found = self._match(text, n + 1, end, failed)
            if found is not None:
                return {part: text[start:end]} | found
        failed.add((n, start))
        return None

    def _ends(self, text: str, part: str, start: int) -> Iterable[int]:
        """Return where a part may end that starts at a place, the nearest first."""
        if part == "{prepost}":
            words = sorted(self._roles, key=len, reverse=True)
        elif part in ("*", "{sample}", "{dye}"):
            slash = text.find("/", start)
            return range(start + (part != "*"), (slash if slash >= 0 else len(text)) + 1)
        else:
            words = [part.casefold()]
        ends = (start + len(word) for word in words)
        return [end for end in ends if text[start:end].casefold() in words]


def make_pairs(
    images: Sequence[NamedImage], known: Mapping[tuple[str, str], Pair]
) -> tuple[list[Pair], list[str]]:
    """Return the pairs that named images make, and a sentence for each that is not clear.

    ``known`` are pairs of the sheet as it is: what else it says of them is kept.
    """
    slots: dict[tuple[str, str], dict[str, list[Path]]] = {}
    problems = []
    for image in images:
        problems += [why for why in (_check(image),) if why]
        key = composed(image.sample.strip()), composed(image.dye.strip())
        slots.setdefault(key, {role: [] for role in ROLES}).get(image.role, []).append(image.path)
    pairs = []
    for key, slot in sorted(slots.items()):
        counts = {role: len(slot[role]) for role in ROLES}
        if set(counts.values()) == {1}:
            (pre,), (post,) = slot["pre"], slot["post"]
            old = known.get(key, Pair(*key, pre, post))
            pairs.append(replace(old, pre=pre, post=post))
        else:
            problems.append(
                f"Sample {key[0]}, dye {key[1]} has {counts['pre']} pre and {counts['post']} post "
                "images, but needs one of each: change their names, or leave some out."
            )
    return pairs, list(dict.fromkeys(problems))


def _check(image: NamedImage) -> str:
    if image.role not in ROLES:
        return f"{image.path.name} is neither pre nor post."
    for what, name in (("Sample", image.sample), ("Dye", image.dye)):
        name = composed(name.strip())  # noqa: PLW2901 (as it will be)
        why = unsafe(name)
        if what == "Sample" and name in RESERVED:
            why = "is the name of something that unglow itself writes"
        if why:
            version = safe_version(name)
            hint = f", for example {version}" if name and version not in RESERVED else ""
            return f"{what} '{name}' of {image.path.name} {why}; write another name{hint}."
    return ""


def _words() -> str:
    return " ".join(f"{{{name}}}" for name in _FIELDS)


def unique_images(images: Iterable[NamedImage]) -> list[NamedImage]:
    """Return images with each file once; InputError if one is there twice."""
    found: dict[Path, NamedImage] = {}
    for image in images:
        if image.path in found:
            raise InputError(f"{image.path.name} is there twice.")
        found[image.path] = image
    return list(found.values())
