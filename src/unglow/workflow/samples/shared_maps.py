"""Shared maps: pairs that take the map of another dye of their sample."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unglow.workflow.samples.pair import Pair, Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    Key = tuple[str, str]


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
        source = _wanted(pair, dye)
        if source is None:
            continue
        why = _problem(pair, source, pairs, shapes, dye)
        if why is None:
            sources[key] = source
        else:
            sentence = f"Sample {pair.sample}, dye {pair.dye} {why}."
            problems.append(Problem(sentence, "source", *key, (pair.pre, pair.post)))
    return sources, problems


def _wanted(pair: Pair, dye: str | None) -> str | None:
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
    further = _wanted(other, dye)
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
