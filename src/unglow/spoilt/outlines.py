"""Spoilt places as polygons: GeoJSON that QuPath opens, one annotation for each place."""

from __future__ import annotations

import json
from itertools import chain
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np

from unglow.core.files import replace_file
from unglow.spoilt.places import REASONS, Places
from unglow.spoilt.seams import SEAM

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from unglow.core.arrays import Bools, Ints

    Traced = tuple[str, list[list[list[list[int]]]], float, int]

LARGEST = 20
"""This many places are listed in detection.json."""
_TURNS = ((0, 1), (1, 0), (0, -1), (-1, 0))
"""Steps along the sides of a block, (rows, cols), each to the right of the one before."""


def write_places(path: Path, places: Places | Mapping[int, Places], shape: tuple[int, int]) -> None:
    """Write places as a collection of features (RFC 7946, with px for degrees), complete or not.

    Coordinates count from the corner of the first px of post, as QuPath's do.

    Parameters
    ----------
    path
        File to write or replace.
    places
        Of a pair, or of each cycle of a slide.
    shape
        (rows, columns) of post or of the slide's frame, px: blocks at its end are cut by it.
    """
    found = (
        make_features(places, shape)
        if isinstance(places, Places)
        else (one for cycle, own in places.items() for one in make_features(own, shape, cycle))
    )
    _write(path, found)


def write_trusted(path: Path, mask: Bools, side: int, shape: tuple[int, int]) -> None:
    """Write blocks (ny, nx) of ``side`` px that are on the section and not spoilt, one annotation.

    Coordinates are those of `write_places`; no feature if there is no such block.
    """
    area = int(_count_block_px(mask.shape, side, shape)[mask].sum())
    rings = [
        [_convert_ring(ring, (0, 0), side, shape) for ring in one] for one in trace_outlines(mask)
    ]
    feature = {
        "type": "Feature",
        "geometry": {"type": "MultiPolygon", "coordinates": rings},
        "properties": {
            "objectType": "annotation",
            "name": "not spoilt in any cycle",
            "classification": {"name": "Trusted"},
            "area_px": area,
        },
    }
    _write(path, [feature] if rings else [])


def _write(path: Path, collection: Iterable[dict[str, Any]]) -> None:
    with replace_file(path) as temporary, temporary.open("w", encoding="utf-8") as stream:
        stream.write('{"type": "FeatureCollection", "features": [')
        for number, feature in enumerate(collection):
            stream.write((",\n" if number else "\n") + json.dumps(feature, allow_nan=False))
        stream.write("\n]}\n")


def make_features(
    places: Places, shape: tuple[int, int], cycle: int | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the GeoJSON feature of each place, the largest first, then those of seams.

    With the cycle, if they have one.
    """
    where, own = ("", {}) if cycle is None else (f" in cycle {cycle}", {"cycle": cycle})
    seams = (
        (SEAM, [[_box_ring(*box)] for box in seam.boxes.tolist()], seam.strength, seam.area_px)
        for seam in places.seams.lines
    )
    traced = chain(_trace_places(places, shape), seams)
    for rank, (reason, polygons, strength, area) in enumerate(traced, start=1):
        single = len(polygons) == 1
        yield {
            "type": "Feature",
            "geometry": {
                "type": "Polygon" if single else "MultiPolygon",
                "coordinates": polygons[0] if single else polygons,
            },
            "properties": {
                "objectType": "annotation",
                "name": f"{reason}{where} {rank}",
                "classification": {"name": f"Spoilt{where}: {reason}"},
                **own,
                "reason": reason,
                "strength": round(strength, 1),
                "area_px": area,
                "measurements": {"Area px": area, "Strength": round(strength, 1)},
            },
        }


def _trace_places(places: Places, shape: tuple[int, int]) -> Iterator[Traced]:
    """Yield reason, polygons, strength and area of each place, the largest first."""
    boxes = find_boxes(places.labels, len(places.reasons))
    areas = measure_areas_px(places, shape)
    for number in np.argsort(-areas, kind="stable").tolist():
        y0, y1, x0, x1 = boxes[number]
        mask = places.labels[y0:y1, x0:x1] == number + 1
        polygons = [
            [_convert_ring(ring, (y0, x0), places.side, shape) for ring in rings]
            for rings in trace_outlines(mask)
        ]
        reason = REASONS[places.reasons[number]]
        yield reason, polygons, float(places.strengths[number]), int(areas[number])


def _box_ring(y0: int, y1: int, x0: int, x1: int) -> list[list[int]]:
    return [[x0, y0], [x1, y0], [x1, y1], [x0, y1], [x0, y0]]


def report(places: Places, shape: tuple[int, int]) -> dict[str, Any]:
    """Return the entry "spoilt" of detection.json.

    Shares are of the blocks on the section; ``shape`` is that of post, (rows, columns) px.
    """
    areas, blocks = measure_areas_px(places, shape), np.bincount(places.labels.ravel())[1:]
    found = {name: areas[places.reasons == k].tolist() for k, name in enumerate(REASONS)}
    found[SEAM] = [seam.area_px for seam in places.seams.lines]
    by_reason = {
        name: {"places": len(px), "area_px": sum(px), "share": round(places.shares[name], 6)}
        for name, px in found.items()
        if px
    }
    rows, cols = np.nonzero(places.labels)
    owner = places.labels[rows, cols] - 1
    centres = [
        (np.bincount(owner, weights=at, minlength=len(areas)) / np.maximum(blocks, 1) + 0.5)
        * places.side
        for at in (cols, rows)
    ]
    return {
        "share": round(places.share, 6),
        "places": len(areas) + len(places.seams.lines),
        "by_reason": by_reason,
        "largest": [
            {
                "reason": REASONS[places.reasons[k]],
                "x": round(float(centres[0][k]), 1),
                "y": round(float(centres[1][k]), 1),
                "area_px": int(areas[k]),
                "strength": round(float(places.strengths[k]), 1),
            }
            for k in np.argsort(-areas, kind="stable")[:LARGEST]
        ],
        "widths": {name: round(width, 3) for name, width in places.widths.items()},
        "below_share": round(places.below, 6),
    }


def measure_areas_px(places: Places, shape: tuple[int, int]) -> Ints:
    """Return how many px of an image of ``shape`` each place has, (places,)."""
    px = _count_block_px(places.labels.shape, places.side, shape)
    counted = np.bincount(
        places.labels.ravel(), weights=px.ravel(), minlength=len(places.reasons) + 1
    )
    return counted[1:].astype(np.int64)


def _count_block_px(grid: tuple[int, ...], side: int, shape: tuple[int, int]) -> Ints:
    """Count the px of each block of a grid, (ny, nx); the image cuts the last ones."""
    rows, cols = (
        np.minimum(np.arange(1, n + 1) * side, end) - np.arange(n) * side
        for n, end in zip(grid, shape, strict=True)
    )
    return np.asarray(rows[:, None] * cols[None, :], np.int64)


def trace_outlines(mask: Bools) -> list[list[list[tuple[int, int]]]]:
    """Return the polygons of a mask (rows, cols): of each the outer ring, then its holes.

    Rings are corners [row, col] between px, counted from the corner of the first px, the first one
    repeated at the end; px that touch at a corner alone belong to different polygons.
    """
    _, labels = cv2.connectedComponents(mask.view(np.uint8), connectivity=4)
    polygons = []
    for number in range(1, int(labels.max()) + 1):
        rings = _trace_rings(labels == number)
        # the outer ring starts above all holes
        rings.sort(key=min)
        polygons.append(rings)
    return polygons


def _trace_rings(mask: Bools) -> list[list[tuple[int, int]]]:
    """Follow the border of a mask with it on the right hand: clockwise, holes the other way."""
    padded = np.pad(mask, 1)
    inside = padded[1:, 1:], padded[:-1, 1:], padded[:-1, :-1], padded[1:, :-1]
    # a side leads from corner to corner with a px of the mask on its right and none on its left
    leaving: dict[tuple[int, int], list[int]] = {}
    for turn, (right, left) in enumerate(((0, 1), (3, 0), (2, 3), (1, 2))):
        for row, col in np.argwhere(inside[right] & ~inside[left]).tolist():
            leaving.setdefault((row, col), []).append(turn)
    rings = []
    while leaving:
        start = min(leaving)
        turn = leaving[start][0]
        ring: list[tuple[tuple[int, int], int]] = []
        at = start
        while True:
            ways = leaving[at]
            # at a corner where two px touch, the way round the same px continues
            turn = next(t for t in ((turn + 1) % 4, turn, (turn - 1) % 4) if t in ways)
            ways.remove(turn)
            if not ways:
                del leaving[at]
            if len(ring) == 0 or turn != ring[-1][1]:
                ring.append((at, turn))
            at = at[0] + _TURNS[turn][0], at[1] + _TURNS[turn][1]
            if at == start:
                break
        corners = [corner for corner, _ in ring]
        rings.append([*corners, corners[0]])
    return rings


def _convert_ring(
    ring: list[tuple[int, int]], first: tuple[int, int], side: int, shape: tuple[int, int]
) -> list[list[int]]:
    """Return a ring as GeoJSON has it: x and y of post, cut by the image."""
    return [
        [min((col + first[1]) * side, shape[1]), min((row + first[0]) * side, shape[0])]
        for row, col in ring
    ]


def find_boxes(labels: NDArray[np.int32], count: int) -> list[tuple[int, int, int, int]]:
    """Return first and last + 1 row and column of each place."""
    rows, cols = np.nonzero(labels)
    number = labels[rows, cols] - 1
    ends = []
    for at in (rows, cols):
        low = np.full(count, np.iinfo(np.int64).max)
        high = np.zeros(count, np.int64)
        np.minimum.at(low, number, at)
        np.maximum.at(high, number, at + 1)
        ends += [low, high]
    return list(zip(*(end.tolist() for end in ends), strict=True))
