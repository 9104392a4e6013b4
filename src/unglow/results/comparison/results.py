"""Comparison of two runs, pairs, variants or slides."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from unglow.core.errors import InputError, UnglowError
from unglow.core.levels import RESULT_OF
from unglow.images.pair_plan import Plan
from unglow.results.comparison.difference import compare_candidates, compare_pixels, compare_slides
from unglow.results.comparison.measures import (
    WORDS,
    Finding,
    Verdict,
    compare_file,
    compare_gains,
    compare_maps,
    gain_differences,
)
from unglow.results.pair import SLIDE
from unglow.results.slide_files import SlideRecord, load_scales

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from unglow.results.directory import Results
    from unglow.results.pair import PairResults
    from unglow.results.slide_files import MarkerScale


_SCALE = "scale.json"
_IMAGES = ("corrected.ome.tif", "corrected.ome.zarr/zarr.json")


def slide_findings(
    a: PairResults, b: PairResults, *, everything: bool = False
) -> Iterator[Finding]:
    """Yield the findings of a slide."""
    yield compare_file("input", SLIDE, a, b, _slide_inputs)
    yield compare_file("status", _SCALE, a, b, _marker_states)
    maps = [
        path.relative_to(entry.directory).as_posix()
        for entry in (a, b)
        for path in sorted(entry.directory.glob("registration/*/transform.json"))
    ]
    for name in dict.fromkeys(maps):
        yield compare_file("map", name, a, b, compare_maps)
    yield compare_file("gain", _SCALE, a, b, _marker_gains)
    found = [_pixels(name, a, b, everything=everything) for name in _IMAGES]
    shared = [finding for finding in found if finding is not None]
    yield from shared
    if not shared:
        yield Finding("pixels", "unknown", "no corrected image is on both sides")


def _pixels(name: str, a: PairResults, b: PairResults, *, everything: bool) -> Finding | None:
    """Compare a corrected image; None where a side has neither it nor its digest."""
    published, paths = (a.published(name), b.published(name)), (a.find(name), b.find(name))
    image = name.split("/", maxsplit=1)[0]
    if published[0] is not None and published[0] == published[1]:
        return Finding("pixels", "identical", f"{image} identical")
    one, other = (path and (path if path.name == image else path.parent) for path in paths)
    if one is None or other is None:
        known = all(any(side) for side in zip(published, paths, strict=True))
        sentence = f"{image} has other bytes, and is not on both sides to be read"
        return Finding("pixels", "unknown", sentence) if known else None
    try:
        return compare_slides(one, other, everything=everything)
    except (UnglowError, OSError) as error:
        return Finding("pixels", "unknown", f"pixels: {error}")


def _slide_inputs(one: Path, other: Path) -> Finding:
    a, b = SlideRecord.load(one), SlideRecord.load(other)
    differing = ["other images"] * (a.fingerprints != b.fingerprints)
    return _judge_inputs(differing, a.slide.channels != b.slide.channels)


def _judge_inputs(differing: list[str], channels_differ: bool) -> Finding:  # noqa: FBT001
    differing += ["other channels"] * channels_differ
    if differing:
        return Finding("input", "different", ", ".join(differing))
    return Finding("input", "identical", "same images and channels")


def _markers(
    one: Path, other: Path
) -> Iterator[tuple[str, MarkerScale | None, MarkerScale | None]]:
    """Yield the markers of two ``scale.json``; None for a side without the marker."""
    a, b = load_scales(one), load_scales(other)
    for name in {**a, **b}:
        yield name, a.get(name), b.get(name)


def _marker_states(one: Path, other: Path) -> Finding:
    states = {
        name: [None if side is None else side.scale.status for side in sides]
        for name, *sides in _markers(one, other)
    }
    changed = [
        f"{name} {after or 'absent'} in place of {before or 'absent'}"
        for name, (before, after) in states.items()
        if before != after
    ]
    if changed:
        return Finding("status", "different", ", ".join(changed), math.inf)
    return Finding("status", "identical", f"same status of {len(states)} markers")


def _marker_gains(one: Path, other: Path) -> Finding:
    found: dict[str, float] = {}
    for name, a, b in _markers(one, other):
        differences = gain_differences(a.scale, b.scale) if a and b else {}
        found |= {f"{name}: {text}": excess for text, excess in differences.items()}
    beyond = {text: excess for text, excess in found.items() if excess > 1}
    if beyond:
        return Finding("gain", "different", ", ".join(beyond), max(beyond.values()))
    most = max(found.values(), default=0.0)
    return Finding("gain", "equal", "gains of all markers within their intervals", most)


_RESULTS = ("status", "map", "gain", "candidates", "pixels")
"""What makes a result another one; other inputs may still lead to the same."""
_WORST = tuple(WORDS)
_NAMED = 3
"""Pairs that the verdict names."""


@dataclass(frozen=True, slots=True)
class PairComparison:
    """Comparison of a pair or variant on both sides.

    Attributes
    ----------
    name
        For people.
    findings
        Of input, status, map, gain, candidates and pixels.
    edited
        Sentences on files that are not as they were published.
    """

    name: str
    findings: tuple[Finding, ...]
    edited: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """The worst of what could be compared."""
        if any((f.what, f.verdict) == ("status", "different") for f in self.findings):
            return "different"
        known = {f.verdict for f in self.findings if f.what in _RESULTS} - {"unknown"}
        return min(known, key=_WORST.index, default="unknown")

    @property
    def word(self) -> str:
        """The verdict as people read it."""
        return WORDS[self.verdict] + " as far as compared" * self.partly

    @property
    def partly(self) -> bool:
        """Whether nothing differs, but not all could be compared."""
        unknown = any(f.verdict == "unknown" for f in self.findings if f.what in _RESULTS)
        return unknown and self.is_reproduced

    @property
    def is_reproduced(self) -> bool:
        """Whether B has what A has, within errors."""
        return self.verdict in ("identical", "equal")

    @property
    def excess(self) -> float:
        """How many times what errors allow, of what differs most."""
        return max((f.excess for f in self.findings), default=0.0)

    @property
    def differing(self) -> list[str]:
        """What differs by more than errors allow, other inputs first."""
        return [f.sentence for f in self.findings if f.verdict == "different"]

    @property
    def sentences(self) -> list[str]:
        """The worst findings, and what was not compared."""
        equal = [f.sentence for f in self.findings if f.verdict == self.verdict == "equal"]
        away = [f.sentence for f in self.findings if f.verdict == "unknown"]
        return [
            *self.differing,
            *equal,
            *(["not compared: " + "; ".join(away)] if away else []),
            *self.edited,
        ]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Comparison of everything that two sides have in common, worst first.

    Attributes
    ----------
    a, b
        Names of the sides.
    pairs
        Pairs and variants that both have.
    only_a, only_b
        Names that one side has alone, each with why the other skipped it, if that is known.
    origins
        Sentences on possible causes: settings, versions, machines.
    """

    a: str
    b: str
    pairs: tuple[PairComparison, ...]
    only_a: dict[str, str] = field(default_factory=dict)
    only_b: dict[str, str] = field(default_factory=dict)
    origins: tuple[str, ...] = ()

    @property
    def counts(self) -> list[str]:
        """Number of pairs by verdict, the worst first."""
        counts = Counter(pair.word for pair in self.pairs)
        return [f"{count} {word}" for word, count in counts.items()]

    @property
    def summary(self) -> str:
        """Number of pairs by verdict, in one line."""
        alone = [f"{len(names)} in {side} alone"
                 for side, names in (("A", self.only_a), ("B", self.only_b)) if names]  # fmt: skip
        pairs = f"{len(self.pairs)} pair{'s' * (len(self.pairs) != 1)}"
        return f"{pairs}: {', '.join([*self.counts, *alone])}."

    @property
    def alone(self) -> list[str]:
        """Sentences on those that one side has alone."""
        return [
            f"{name} is in {side} alone" + (f"; {other} skipped it: {why}" if why else "")
            for side, other, names in (("A", "B", self.only_a), ("B", "A", self.only_b))
            for name, why in names.items()
        ]

    @property
    def is_reproduced(self) -> bool:
        """Whether B has all that A has, within errors."""
        return not self.only_a and all(pair.is_reproduced for pair in self.pairs)

    @property
    def verdict(self) -> str:
        """Whether B reproduces A, in one sentence, and where not."""
        missing = dict.fromkeys(self.only_a, "it is in A alone")
        wrong = {
            p.name: ", ".join(p.differing) or p.word for p in self.pairs if not p.is_reproduced
        }
        total, bad = len(self.pairs) + len(missing), [*(wrong | missing).items()]
        count = f"reproduced: {total - len(bad)} of {total} pairs"
        if not bad:
            return f"{count} ({', '.join(self.counts)})"
        more = [f"and {len(bad) - _NAMED} more"] * (len(bad) > _NAMED)
        return "; ".join([count, *(f"{name}: {text}" for name, text in bad[:_NAMED]), *more])


def compare_results(a: Results, b: Results, *, everything: bool = False) -> Comparison:
    """Compare what two results have in common, by names of pairs and variants.

    Two single pairs or variants are compared whatever their names are. ``everything``: whether all
    pixels of large images are read, and not a sample. InputError if only one of them is a run.
    """
    if a.is_part != b.is_part:
        part, run = (a, b) if a.is_part else (b, a)
        raise InputError(
            f"{part.given} is a pair or variant and {run.given} a run: give two runs, or two "
            "pairs or variants."
        )
    if a.is_part and len(a.entries) == len(b.entries) == 1:
        (entry,), (other,) = a.entries.values(), b.entries.values()
        pair = compare_entries(_title(entry, other), entry, other, everything=everything)
        return Comparison(str(a.given), str(b.given), (pair,))
    pairs = [
        compare_entries(" ".join(names), entry, b.entries[names], everything=everything)
        for names, entry in a.entries.items()
        if names in b.entries
    ]
    return Comparison(str(a.given), str(b.given), _sort_pairs(pairs), _alone(a, b), _alone(b, a))


def compare_variants(results: Results, *, everything: bool = False) -> Comparison | None:
    """Compare the variants of each pair with its first one; None if there are no variants."""
    groups: dict[Path, list[PairResults]] = {}
    for entry in results.entries.values():
        groups.setdefault(entry.pair, []).append(entry)
    pairs = [
        compare_entries(_title(first, other), first, other, everything=everything)
        for first, *others in groups.values()
        for other in others
    ]
    if not pairs:
        return None
    return Comparison("the first variant", "each other variant", _sort_pairs(pairs))


def compare_entries(
    name: str, a: PairResults, b: PairResults, *, everything: bool = False
) -> PairComparison:
    """Compare the results of a pair, variant or slide on two sides."""
    slides = a.is_slide and b.is_slide
    findings = (
        [*slide_findings(a, b, everything=everything)]
        if slides
        else [
            compare_file("input", RESULT_OF["ingestion"], a, b, _inputs),
            _states(a, b),
            compare_file("map", "transform.json", a, b, compare_maps),
            compare_file("gain", "scale.json", a, b, compare_gains),
            compare_file("candidates", "candidates.csv", a, b, compare_candidates),
            *_differences(a, b, everything=everything),
        ]
    )
    edited = [
        f"{', '.join(names)} of {side}: not as published (other digests)"
        for side, entry in (("A", a), ("B", b))
        if (names := entry.edited())
    ]
    return PairComparison(name, tuple(findings), tuple(edited))


def _sort_pairs(pairs: list[PairComparison]) -> tuple[PairComparison, ...]:
    """Return pairs by verdict, the worst first, then by how much they differ."""
    return tuple(
        sorted(pairs, key=lambda p: (_WORST.index(p.verdict), -p.excess, -len(p.differing)))
    )


def _title(a: PairResults, b: PairResults) -> str:
    names = [[e.pair.parent.name, e.pair.name, *e.directory.relative_to(e.pair).parts]
             for e in (a, b)]  # fmt: skip
    if names[0] == names[1]:
        return " ".join(names[0])
    if names[0][:2] == names[1][:2]:
        variants = ("/".join(n[2:]) or "itself" for n in names)
        return f"{' '.join(names[0][:2])}: {' against '.join(variants)}"
    return " against ".join(" ".join(n) for n in names)


def _alone(a: Results, b: Results) -> dict[str, str]:
    """Return the names that only the first place has, with why the other skipped it."""
    names = [n for n in a.entries if n not in b.entries]
    names += [n for n in a.left_out if n not in b.entries and n not in b.left_out]
    return {" ".join(n): b.left_out.get(n, "") for n in names}


def _inputs(one: Path, other: Path) -> Finding:
    """Compare images and channels of two ``plan.json``."""
    a, b = Plan.load(one), Plan.load(other)
    differing = [
        f"another {role} image"
        for role in ("post", "pre")
        if a.fingerprints.get(role) != b.fingerprints.get(role)
    ]
    return _judge_inputs(differing, a.channels != b.channels)


def _states(a: PairResults, b: PairResults) -> Finding:
    try:
        of_a, of_b = _state(a), _state(b)
    except UnglowError as error:
        return Finding("status", "unknown", f"status: {error}")
    if of_a is None or of_b is None:
        return Finding("status", "unknown", "status is not known")
    if of_a == of_b:
        return Finding("status", "identical", of_a)
    return Finding("status", "different", f"status {of_b} in place of {of_a}", float("inf"))


def _state(entry: PairResults) -> str | None:
    """Return the state of a pair of which files may be missing; None if it is not known."""
    state, _, _ = entry.judge_available()
    known = all(entry.find(name) for name in ("transform.json", "scale.json"))
    return state if known or state == "failed" else None


def _differences(a: PairResults, b: PairResults, *, everything: bool) -> Iterator[Finding]:
    """Compare the difference images that both sides have."""
    names = [e.differences() for e in (a, b)]
    shared = [name for name in names[0] if name in names[1]]
    for name in shared:
        yield compare_file("pixels", name, a, b, partial(compare_pixels, everything=everything))
    if not shared:
        away = [side for side, n in zip("AB", names, strict=True) if not n]
        about = f"{' and '.join(away)} has none" if away else "of other methods"
        yield Finding("pixels", "unknown", f"difference images: {about}")
