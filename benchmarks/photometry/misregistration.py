"""Candidates on phantoms whose map is off by known amounts, with and without counting with it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
from registration.pool import collect
from subcommands import add_draws
from tables import save_json, table

from photometry.spots import Phantom, Score, judged, pooled, searched
from unglow.detection.coarse_grid import CoarseGrid
from unglow.detection.settings import DetectSettings
from unglow.phantom.spec import PhantomSpec

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

AIMS = {0.1: 0.97, 0.3: 0.93, 1.0: 0.8, 3.0: 0.6}
"""Least F1 over that of the true map, by the error of the map, px."""
_KNOWN_PX = 0.01
"""Error that is counted with where the map is right."""


@dataclass(frozen=True)
class Outcome:
    """One pair with a map that is off: scores with and without the error in the noise."""

    seed: int
    off_px: float
    counted: Score
    ignored: Score


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    add_draws(parser, 10, 1536)


def run(args: argparse.Namespace) -> int:
    """Run the draws, print the table; return 1 where an aim is missed."""
    seeds = range(args.first, args.first + args.draws)
    each = collect(partial(measured, side=args.side), seeds, args.jobs, _line)
    outcomes = sorted(chain(*each), key=lambda o: (o.off_px, o.seed))
    save_json(args.json, {"outcomes": outcomes})
    return report(outcomes)


def measured(seed: int, side: int) -> list[Outcome]:
    """Search one pair with the true map moved by each distance, in a direction of its own."""
    phantom = Phantom.of(PhantomSpec(shape=(side, side), rgb=False, seed=seed))
    microbes = phantom.microbes()
    angle = np.random.default_rng([seed, 41]).uniform(0, 2 * math.pi)
    settings = DetectSettings()
    outcomes = []
    for off in (0.0, *AIMS):
        # the noise is fitted knowing the error in both cases: only the search ignores it
        known = max(off, _KNOWN_PX)
        moved = phantom.true_map((off * math.cos(angle), off * math.sin(angle)), known)
        scores = [
            judged(searched(phantom, moved, phantom.scale, settings, said), microbes)
            for said in (CoarseGrid.constant(known), CoarseGrid.constant(0.0))
        ]
        outcomes.append(Outcome(seed, off, *scores))
    return outcomes


def report(outcomes: Sequence[Outcome]) -> int:
    """Print the table; return 1 where an aim is missed."""
    groups = {off: [o for o in outcomes if o.off_px == off] for off in (0.0, *AIMS)}
    right = pooled([o.counted for o in groups[0.0]]).f1
    rows, missed = [], False
    for off, some in groups.items():
        counted, ignored = (pooled([getattr(o, n) for o in some]) for n in ("counted", "ignored"))
        ratio, aim = counted.f1 / right, AIMS.get(off, 1.0)
        bad = ratio < aim or (off > 0 and counted.f1 <= ignored.f1)
        missed |= bad
        verdict = (f"{ratio:.2f}" + " !"[bad], f"{aim:g}")
        rows.append((f"{off:g}", *_cells(counted), *verdict, *_cells(ignored)))
    print(f"{len(groups[0.0])} phantoms, true gain; last three columns: the error not counted with")
    header = ("off, px", "recall", "precision", "F1", "/ 0 px", "aim", "recall", "precision", "F1")
    print(table(header, rows))
    return int(missed)


def _cells(score: Score) -> tuple[str, ...]:
    return tuple(f"{v:.3f}" for v in (score.recall, score.precision, score.f1))


def _line(some: Sequence[Outcome]) -> str:
    texts = (f"{o.off_px:g} px {o.counted.f1:.3f} ({o.ignored.f1:.3f} without)" for o in some)
    return f"seed {some[0].seed}: F1 at " + ", ".join(texts)
