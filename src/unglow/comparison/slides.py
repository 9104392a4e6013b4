"""Multiplexed slides of two results side by side: maps of cycles, gains of markers, pixels."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from unglow.comparison.directories import SLIDE
from unglow.comparison.finding import Finding, lacking, of_file, read_json
from unglow.comparison.gains import gain_differences
from unglow.comparison.maps import compare_maps
from unglow.comparison.pixels import compare_slides
from unglow.core.errors import UnglowError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from unglow.comparison.directories import Entry

_SCALE = "scale.json"
_IMAGES = ("corrected.ome.tif", "corrected.ome.zarr/zarr.json")


def slide_findings(a: Entry, b: Entry, *, everything: bool = False) -> Iterator[Finding]:
    """Yield what a slide has alike on both sides, and what not."""
    yield of_file("input", SLIDE, a, b, _inputs)
    yield of_file("status", _SCALE, a, b, _statuses)
    maps = [
        path.relative_to(entry.directory).as_posix()
        for entry in (a, b)
        for path in sorted(entry.directory.glob("registration/*/transform.json"))
    ]
    for name in dict.fromkeys(maps):
        yield of_file("map", name, a, b, compare_maps)
    yield of_file("gain", _SCALE, a, b, _gains)
    found = [_pixels(name, a, b, everything=everything) for name in _IMAGES]
    shared = [finding for finding in found if finding is not None]
    yield from shared
    if not shared:
        yield Finding("pixels", "unknown", "no corrected image is on both sides")


def _pixels(name: str, a: Entry, b: Entry, *, everything: bool) -> Finding | None:
    """Compare a corrected image; None where a side has neither it nor its digest."""
    published, paths = (a.published(name), b.published(name)), (a.find(name), b.find(name))
    image = name.split("/", maxsplit=1)[0]
    if published[0] is not None and published[0] == published[1]:
        return Finding("pixels", "identical", f"{image} identical")
    one, other = (path and (path if path.name == image else path.parent) for path in paths)
    if one is None or other is None:
        known = all(any(side) for side in zip(published, paths, strict=True))
        told = f"{image} has other bytes, and is not on both sides to be read"
        return Finding("pixels", "unknown", told) if known else None
    try:
        return compare_slides(one, other, everything=everything)
    except (UnglowError, OSError) as error:
        return Finding("pixels", "unknown", f"pixels: {error}")


def _inputs(one: Path, other: Path) -> Finding:
    a, b = read_json(one), read_json(other)
    try:
        images = [[image["fingerprint"] for image in content["images"]] for content in (a, b)]
        other_channels = a["channels"] != b["channels"]
    except (KeyError, TypeError) as error:
        raise lacking(one.name, error) from error
    differing = ["other images"] * (images[0] != images[1]) + ["other channels"] * other_channels
    if differing:
        return Finding("input", "different", ", ".join(differing))
    return Finding("input", "identical", "same images and channels")


def _markers(one: Path, other: Path) -> Iterator[tuple[str, Any, Any]]:
    """Yield the markers of two ``scale.json``; None where one side has it not."""
    try:
        a, b = (dict(read_json(path)["markers"]) for path in (one, other))
    except (KeyError, TypeError, ValueError) as error:
        raise lacking(one.name, error) from error
    for name in {**a, **b}:
        yield name, a.get(name), b.get(name)


def _statuses(one: Path, other: Path) -> Finding:
    told = {
        name: [None if side is None else side.get("status") for side in sides]
        for name, *sides in _markers(one, other)
    }
    changed = [
        f"{name} {after or 'absent'} in place of {before or 'absent'}"
        for name, (before, after) in told.items()
        if before != after
    ]
    if changed:
        return Finding("status", "different", ", ".join(changed), math.inf)
    return Finding("status", "identical", f"same status of {len(told)} markers")


def _gains(one: Path, other: Path) -> Finding:
    found: dict[str, float] = {}
    for name, a, b in _markers(one, other):
        try:
            differences = gain_differences(a, b) if a and b else {}
        except (KeyError, TypeError, ValueError) as error:
            raise lacking(one.name, error) from error
        found |= {f"{name}: {text}": excess for text, excess in differences.items()}
    beyond = {text: excess for text, excess in found.items() if excess > 1}
    if beyond:
        return Finding("gain", "different", ", ".join(beyond), max(beyond.values()))
    most = max(found.values(), default=0.0)
    return Finding("gain", "equal", "gains of all markers within their intervals", most)
