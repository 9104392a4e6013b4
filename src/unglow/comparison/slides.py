"""Multiplexed slides of two results side by side: maps of cycles, gains of markers, pixels."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from unglow.comparison.finding import Finding, compare_file
from unglow.comparison.gains import gain_differences
from unglow.comparison.maps import compare_maps
from unglow.comparison.pixels import compare_slides
from unglow.core.errors import UnglowError
from unglow.multiplexed.results import SlideRecord, load_scales
from unglow.results.pair import SLIDE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from unglow.multiplexed.results import MarkerScale
    from unglow.results.pair import PairResults

_SCALE = "scale.json"
_IMAGES = ("corrected.ome.tif", "corrected.ome.zarr/zarr.json")


def slide_findings(
    a: PairResults, b: PairResults, *, everything: bool = False
) -> Iterator[Finding]:
    """Yield the findings of a slide."""
    yield compare_file("input", SLIDE, a, b, _inputs)
    yield compare_file("status", _SCALE, a, b, _states)
    maps = [
        path.relative_to(entry.directory).as_posix()
        for entry in (a, b)
        for path in sorted(entry.directory.glob("registration/*/transform.json"))
    ]
    for name in dict.fromkeys(maps):
        yield compare_file("map", name, a, b, compare_maps)
    yield compare_file("gain", _SCALE, a, b, _gains)
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


def _inputs(one: Path, other: Path) -> Finding:
    a, b = SlideRecord.load(one), SlideRecord.load(other)
    differing = ["other images"] * (a.fingerprints != b.fingerprints)
    differing += ["other channels"] * (a.slide.channels != b.slide.channels)
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


def _states(one: Path, other: Path) -> Finding:
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


def _gains(one: Path, other: Path) -> Finding:
    found: dict[str, float] = {}
    for name, a, b in _markers(one, other):
        differences = gain_differences(a.scale, b.scale) if a and b else {}
        found |= {f"{name}: {text}": excess for text, excess in differences.items()}
    beyond = {text: excess for text, excess in found.items() if excess > 1}
    if beyond:
        return Finding("gain", "different", ", ".join(beyond), max(beyond.values()))
    most = max(found.values(), default=0.0)
    return Finding("gain", "equal", "gains of all markers within their intervals", most)
