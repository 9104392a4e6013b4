"""The list of one pair against its truth, and places that were found against those that are."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np
from phantom_damage.pair import DamagedRenderer, DamagedTruth
from phantom_damage.shapes import find_inside
from tables import save_json

from damage.batches import FOUND, ROW, UNDAMAGED, run_batch, truth_path
from unglow.images.detection_results import read_candidates

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray
    from phantom_damage.kinds import DamagedPair

    from damage.batches import Batch, Case
    from unglow.phantom.truth import PhantomMap

    Points = NDArray[np.float64]
    Mask = NDArray[np.bool_]

MATCH_PX = 3.0
"""A candidate within this distance of a microbe is that microbe."""
RIM_PX = 16.0
"""Microbes further from a place than this, and than half of its rim, count as outside."""
WRONG_PX = 48.0
"""What is called spoilt further from a place than this, and than half of its rim, is not spoilt."""
STEP_PX = 4
"""Areas are counted on every so many px of either direction."""


@dataclass(frozen=True)
class Outcome:
    """One pair.

    Attributes
    ----------
    name, kind, size
        Of its case.
    status, reason
        Of the pair, as the summary has them.
    counted
        Candidates that are counted.
    true, false
        Those of them that are microbes outside of the damage, and those that are no microbes;
        those that are microbes inside are neither.
    outside, found
        Microbes outside of the damage, and those of them that are counted candidates.
    found_undamaged
        Those of them that are candidates of the undamaged pair of the scene.
    said
        False-discovery rate that the list claims; NaN if none.
    gain_error
        Gain over the true one, minus 1; NaN if none was found.
    place_share
        Area of the places, part of the section that both images show.
    covered
        Part of that area that was found.
    wrong_share
        What was called spoilt and is not, part of the section that both images show.
    """

    name: str
    kind: str
    size: int
    status: str
    reason: str
    counted: int
    true: int
    false: int
    outside: int
    found: int
    found_undamaged: int
    said: float
    gain_error: float
    place_share: float
    covered: float
    wrong_share: float

    @property
    def is_ok(self) -> bool:
        """Whether the pair came out without a reason to doubt it."""
        return self.status == "ok"


@dataclass(frozen=True, eq=False)
class Found:
    """What is known of a list: which microbes it has, (N,), and the figures of its pair."""

    microbes: Mask
    outside: Mask
    counted: int
    false: int


def judge_batches(
    batches: Iterable[Batch], directory: Path, jobs: int, save: Path | None = None
) -> list[Outcome]:
    """Run and judge all pairs, next to the undamaged one of their scene if there is one.

    Parameters
    ----------
    batches
        Pairs.
    directory
        For all batches.
    jobs
        Cores of the workflow.
    save
        JSON file for all outcomes.
    """
    outcomes = []
    for batch in batches:
        found = run_batch(batch, directory, jobs) / FOUND
        undamaged = found / UNDAMAGED if (found / UNDAMAGED).is_dir() else None
        for case in batch.cases:
            reference = None if case.kind == UNDAMAGED else undamaged
            outcomes.append(judge_pair(case, found, reference))
    save_json(save, {"outcomes": outcomes})
    return outcomes


def judge_pair(case: Case, found: Path, undamaged: Path | None = None) -> Outcome:
    """Judge the small results of a pair.

    Parameters
    ----------
    case
        The pair.
    found
        Directory of the small results of its batch.
    undamaged
        The folder of the undamaged pair of its scene; None if it is that itself.
    """
    folder = found / case.name
    truth = DamagedTruth.load(truth_path(folder))
    here = judge_list(truth, folder / "candidates.csv")
    reference = here if undamaged is None else _reference(undamaged)
    row = json.loads((folder / ROW).read_text(encoding="utf-8"))
    place, covered, wrong = compare_areas(truth, read_polygons(folder / "artefacts.geojson"))
    return Outcome(
        name=case.name,
        kind=case.kind,
        size=case.size,
        status=row["status"],
        reason=row["reasons"],
        counted=here.counted,
        true=int((here.microbes & here.outside).sum()),
        false=here.false,
        outside=int(here.outside.sum()),
        found=int((here.microbes & here.outside).sum()),
        found_undamaged=int((reference.microbes & here.outside).sum()),
        said=_number(_json(folder / "details/detection.json").get("fdr")),
        gain_error=_gain(_json(folder / "scale.json")) / truth.gain - 1.0,
        place_share=place,
        covered=covered,
        wrong_share=wrong,
    )


@lru_cache(maxsize=64)
def _reference(folder: Path) -> Found:
    return judge_list(DamagedTruth.load(truth_path(folder)), folder / "candidates.csv")


def judge_list(truth: DamagedTruth, table: Path) -> Found:
    """Compare counted candidates with the microbes where post shows them; no table is no list.

    A moved half and labelled cells are no place: they are as good as any, where post shows them.
    """
    places = [one for one in truth.damage if one["kind"] not in ("half_moved", "cells")]
    outside = is_clear(truth.microbes.xy, places, RIM_PX)
    outside &= is_seen(truth.microbes.xy, truth.geometry, truth.spec.pre_frame)
    if any(one["kind"] == "swap" for one in truth.damage):
        outside[:] = False
    if not table.is_file():
        return Found(np.zeros_like(outside), outside, 0, 0)
    candidates = read_candidates(table, ("x", "y", "snr"))
    xy, snr = candidates.xy[candidates.is_counted], candidates.snr[candidates.is_counted]
    there = shown_microbes(truth)
    matched = match_microbes(xy, snr, there)
    microbes = np.zeros_like(outside)
    microbes[matched[matched >= 0]] = True
    return Found(microbes, outside, len(xy), int((matched < 0).sum()))


def match_microbes(xy: Points, snr: Points, microbes: Points) -> NDArray[np.int64]:
    """Return which microbe, (M, 2), each candidate, (N, 2), is; -1 for none.

    The brightest first, each takes the nearest microbe within `MATCH_PX` that is left.
    """
    found = np.full(len(xy), -1, dtype=np.int64)
    left = np.ones(len(microbes), dtype=np.bool_)
    for n in np.argsort(-snr, kind="stable"):
        away = np.where(left, np.hypot(*(microbes - xy[n]).T), np.inf)
        nearest = int(away.argmin()) if len(away) else -1
        if nearest >= 0 and away[nearest] <= MATCH_PX:
            found[n] = nearest
            left[nearest] = False
    return found


def shown_microbes(truth: DamagedTruth) -> Points:
    """Return where post shows the microbes, (N, 2): not at their places where tissue is moved.

    In a file that holds the other image no place has one; such are far outside of it.
    """
    xy = truth.microbes.xy.copy()
    kinds = {one["kind"] for one in truth.damage}
    if "swap" in kinds:
        return np.full_like(xy, -1e6)
    for one in truth.damage:
        if one["kind"] == "half_moved":
            xy[xy[:, 1] >= truth.spec.shape[0] // 2, 0] += one["strength"]
    if "moved" in kinds:
        for place in DamagedRenderer(truth.spec).places:
            if place.kind == "moved":
                start, moved = xy.copy(), xy.copy()
                for _ in range(50):  # tissue of a point is where it was, plus the movement there
                    moved = start + np.outer(place.weight(*moved.T), place.move)
                xy = moved
    return xy


def is_clear(points: Points, damage: Iterable[dict[str, Any]], margin: float) -> Mask:
    """Return which points, (N, 2), are further than rim / 2 + margin px from all places, (N,)."""
    clear = np.ones(len(points), dtype=np.bool_)
    for one in damage:
        if one["polygon_xy"] is None:
            continue
        outline = np.array(one["polygon_xy"], dtype=np.float32)
        least = (one["rim_px"] or 0.0) / 2.0 + margin
        low, high = outline.min(axis=0) - least, outline.max(axis=0) + least
        for n in np.flatnonzero(((points >= low) & (points <= high)).all(axis=1)):
            x, y = (float(v) for v in points[n])
            clear[n] &= cv2.pointPolygonTest(outline, (x, y), measureDist=True) < -least
    return clear


def is_seen(points: Points, geometry: PhantomMap, pre_frame: tuple[int, int]) -> Mask:
    """Return which points of post, (N, 2), pre (rows, columns) has data for, (N,)."""
    seen = geometry.to_pre(points)
    rows, cols = pre_frame
    return np.asarray((seen > 0).all(axis=1) & (seen < [cols - 1, rows - 1]).all(axis=1))


def compare_areas(
    truth: DamagedTruth, polygons: Sequence[list[Points]]
) -> tuple[float, float, float]:
    """Compare polygons that were found with the places of a truth.

    Parameters
    ----------
    truth
        Of the pair.
    polygons
        Each a list of rings, (N, 2) px: the outline, then holes.

    Returns
    -------
    Share of the section that is spoilt, share of that that was found (NaN without places), and
    share of the section that was found and is not spoilt.
    """
    points = _section(_scene(truth.spec))
    spoilt = truth.is_damaged(points)
    called = np.zeros(len(points), dtype=np.bool_)
    for rings in polygons:
        odd = np.zeros(len(points), dtype=np.bool_)
        for ring in rings:
            odd ^= find_inside(points, ring)
        called |= odd
    wrong = points[called & ~spoilt]
    count = int(is_clear(wrong, truth.damage, WRONG_PX).sum())
    covered = (called & spoilt).sum() / spoilt.sum() if spoilt.any() else math.nan
    return float(spoilt.mean()), float(covered), count / len(points)


def _scene(spec: DamagedPair) -> DamagedPair:
    return replace(spec, damage="", damage_seed=0)


@lru_cache(maxsize=2)
def _section(spec: DamagedPair) -> Points:
    """Return every `STEP_PX`-th pixel of the section that pre has data for, (N, 2)."""
    renderer = DamagedRenderer(spec)
    rows, cols = spec.shape
    y, x = np.mgrid[0:rows:STEP_PX, 0:cols:STEP_PX].reshape(2, -1).astype(np.float64)
    points = np.column_stack([x, y])[renderer.scene.coverage(x, y) > 0.5]
    return np.asarray(points[is_seen(points, renderer.map, spec.pre_frame)])


def read_polygons(path: Path) -> list[list[Points]]:
    """Return the polygons of a GeoJSON file as rings, px of post; none if there is no file.

    As all GeoJSON of unglow, it counts from the corner of the first px.
    """
    found = []
    for feature in _json(path).get("features", ()):
        geometry = feature["geometry"]
        parts = geometry["coordinates"]
        for rings in [parts] if geometry["type"] == "Polygon" else parts:
            found += [[np.array(ring, dtype=np.float64)[:, :2] - 0.5 for ring in rings]]
    return found


def _json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return values


def _gain(scale: dict[str, Any]) -> float:
    return _number(scale.get("methods", {}).get(scale.get("default"), {}).get("gain"))


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)
