"""Clusters of labelled cells: whether they are listed as without the finder of spoilt places."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from phantom_damage.kinds import DamagedPair
from phantom_damage.pair import DamagedTruth
from phantom_damage.shapes import find_inside
from subcommands import add_draws
from tables import save_json, table

from damage.batches import FOUND, FOUND_WITHOUT, Batch, Case, run_batch, truth_path
from damage.judging import judge_list, judge_pair
from damage.pools import as_text, at_least, print_promises, print_reasons

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path

    from damage.judging import Outcome

RADII, WIDTHS = (40, 80, 160), (4, 8, 14, 20)
PX_PER_CELL = (100, 200, 500, 1000, 3000)
RECALL = 0.95


@dataclass(frozen=True)
class Cluster:
    """Cells of one width and density in a disc; found with and without the finder."""

    is_ok: bool
    width: int
    px_per_cell: int
    radius: int
    cells: int
    found: int
    found_without: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    add_draws(parser, 1, 1400)


def run(args: argparse.Namespace) -> int:
    """Run all pairs, print the table; return 1 where a promise is missed."""
    clusters: list[Cluster] = []
    outcomes: list[Outcome] = []
    for seed in range(args.first, args.first + args.draws):
        batch = cells_batch(seed, args.side)
        place = run_batch(batch, args.directory, args.jobs, without=True)
        for case in batch.cases:
            outcomes.append(judge_pair(case, place / FOUND))
            clusters += judge_clusters(case, place, is_ok=outcomes[-1].is_ok)
    save_json(args.json, {"clusters": clusters, "outcomes": outcomes})
    return report(clusters, outcomes)


def cells_batch(seed: int, side: int) -> Batch:
    """Return a pair for each width and density, with a cluster of each radius."""
    cases = []
    for width in WIDTHS:
        for px in PX_PER_CELL:
            damage = ",".join(f"cells:{radius}:{px}:{width}" for radius in reversed(RADII))
            spec = DamagedPair(shape=(side, side), rgb=False, seed=seed, damage=damage)
            cases.append(Case(f"{width}px-{px}", spec, f"{width} px", px))
    return Batch(f"cells-{seed}", tuple(cases))


def judge_clusters(case: Case, place: Path, *, is_ok: bool) -> list[Cluster]:
    """Count the cells of each cluster of a pair that both lists have."""
    truth = DamagedTruth.load(truth_path(place / FOUND / case.name))
    width, with_finder, without = int(case.kind.split()[0]), *(
        judge_list(truth, place / name / case.name / "candidates.csv").microbes
        for name in (FOUND, FOUND_WITHOUT)
    )  # fmt: skip
    found = []
    for one in truth.damage:
        inside = find_inside(truth.microbes.xy, np.array(one["polygon_xy"]))
        counts = (int(np.count_nonzero(inside & some)) for some in (inside, with_finder, without))
        found.append(Cluster(is_ok, width, case.size, round(one["size_px"]), *counts))
    return found


def report(clusters: Sequence[Cluster], outcomes: Sequence[Outcome]) -> int:
    """Print the table; return 1 where a promise is missed."""
    rows = [("all", clusters)]
    rows += [(f"{width} px wide", [c for c in clusters if c.width == width]) for width in WIDTHS]
    rows += [
        (f"one in {px} px", [c for c in clusters if c.px_per_cell == px]) for px in PX_PER_CELL
    ]
    rows += [(f"radius {r} px", [c for c in clusters if c.radius == r]) for r in RADII]
    print(
        table(["clusters", "", "cells", "listed", "never", "ratio"], [_line(*row) for row in rows])
    )
    print("listed, never: cells in the list as shipped, and with spoilt: never")
    print_reasons(outcomes)
    lowest = min(_ratio([c for c in some if c.is_ok]) for _, some in rows)
    return print_promises([
        at_least("cells listed over those with spoilt: never", _ratio(clusters), RECALL),
        at_least("ok pairs of the worst row", lowest, RECALL),
    ])  # fmt: skip


def _ratio(some: Sequence[Cluster]) -> float:
    without = sum(c.found_without for c in some)
    return sum(c.found for c in some) / without if without else math.nan


def _line(name: str, some: Sequence[Cluster]) -> list[str]:
    sums = [sum(getattr(c, k) for c in some) for k in ("cells", "found", "found_without")]
    return [name, str(len(some)), *map(str, sums), as_text(_ratio(some), "{:.3f}")]
