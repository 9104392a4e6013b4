"""Undamaged pairs of many forms: what is called spoilt, and what that does to their lists."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from subcommands import add_draws
from tables import save_json, table

from damage.batches import FOUND, FOUND_WITHOUT, Batch, Case, finder_is_off, run_batch
from damage.judging import judge_pair
from damage.pools import Pool, as_text, at_most, print_promises, print_reasons
from unglow.phantom.spec import PhantomSpec

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from damage.judging import Outcome

AREA = 0.005
"""At most this part of an undamaged section may be called spoilt."""
CHANGE = 0.01
"""Recall and false ones of undamaged pairs may change by this by looking for spoilt places."""
_DENSITIES = 10.0, 1500.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    add_draws(parser, 20, 2048, "pairs")


def run(args: argparse.Namespace) -> int:
    """Run all pairs, print the tables; return 1 where a promise is missed."""
    seeds = range(args.first, args.first + args.pairs)
    batch = Batch("pairs", tuple(varied_case(seed, args.side) for seed in seeds))
    place = run_batch(batch, args.directory, args.jobs, without=True)
    outcomes = [judge_pair(case, place / FOUND) for case in batch.cases]
    others = None
    if finder_is_off() is not None:
        others = [judge_pair(case, place / FOUND_WITHOUT) for case in batch.cases]
    save_json(args.json, {"outcomes": outcomes, "without": others or []})
    return report(batch, outcomes, others)


def varied_case(seed: int, side: int) -> Case:
    """Return an undamaged pair; deformation, density, light, type and focus follow from its seed.

    Density goes in even steps (of its logarithm) through 12 pairs, the type changes with each, and
    the others are drawn.
    """
    rng = np.random.default_rng([seed, 1])
    low, high = _DENSITIES
    spec = PhantomSpec(
        shape=(side, side),
        rgb=False,
        seed=seed,
        microbes_per_mpx=round(low * (high / low) ** (seed * 5 % 12 / 11), 1),
        deform_px=float(rng.choice([0.0, 4.0, 8.0])),
        shading=float(rng.choice([0.0, 0.1, 0.25])),
        blur_pre_px=float(rng.choice([0.0, 0.0, 0.8])),
        dtype=("uint8", "uint16")[seed % 2],
    )
    return Case(f"seed-{seed}", spec)


def report(batch: Batch, outcomes: Sequence[Outcome], others: Sequence[Outcome] | None) -> int:
    """Print the tables; return 1 where a promise is missed.

    Parameters
    ----------
    batch, outcomes
        Pairs, and how they came out.
    others
        The same without the finder of spoilt places; None if it cannot be switched off.
    """
    header = ["pair", "type", "microbes/Mpx", "deform", "shading", "blur", "status"]
    header += ["called spoilt", "recall", "false"]
    print(table(header, [_line(c, o) for c, o in zip(batch.cases, outcomes, strict=True)], left=2))
    print_reasons(outcomes)
    pool = Pool.of(outcomes)
    print(f"\ncalled spoilt, all pairs: {100 * pool.wrong_share:.3f} % of the section")
    worst = max(o.wrong_share for o in outcomes)
    promises = [at_most("called spoilt, the worst pair", worst, AREA, "{:.2%}")]
    if others is None:
        print("the finder cannot be switched off: every pair that is not ok counts against it")
        doubted = len(outcomes) - len(pool.ok.outcomes)
    else:
        before = Pool.of(others)
        both = zip(outcomes, others, strict=True)
        doubted = sum(other.is_ok and not o.is_ok for o, other in both)
        lost = _recall(before) - _recall(pool)
        more = pool.false_share - before.false_share
        promises += [
            at_most("recall that the finder costs", lost, CHANGE),
            at_most("share of false ones that the finder adds", more, CHANGE),
        ]
    promises.insert(1, at_most("pairs that are not ok for it", float(doubted), 0.0, "{:.0f}"))
    return print_promises(promises)


def _recall(pool: Pool) -> float:
    microbes = sum(o.outside for o in pool.outcomes)
    return sum(o.found for o in pool.outcomes) / microbes if microbes else math.nan


def _line(case: Case, o: Outcome) -> list[str]:
    spec, pool = case.spec, Pool.of([o])
    return [
        o.name,
        spec.dtype,
        f"{spec.microbes_per_mpx:g}",
        f"{spec.deform_px:g}",
        f"{spec.shading:g}",
        f"{spec.blur_pre_px:g}",
        o.status,
        f"{100 * o.wrong_share:.2f}",
        as_text(_recall(pool), "{:.3f}"),
        as_text(100 * pool.false_share, "{:.1f}"),
    ]
