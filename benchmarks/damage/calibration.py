"""Whether the share of false ones is what lists claim, half of the pairs with damage."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from subcommands import add_draws
from tables import table

from damage.batches import SIZES, UNDAMAGED, Batch, Case
from damage.judging import judge_batches
from damage.places import CLAIMED
from damage.pools import Pool, Promise, as_text, interval_over_pairs, print_promises, print_reasons
from unglow.phantom.spec import PhantomSpec

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from damage.judging import Outcome

LIMITS = 0.04, 0.06
"""The share of false ones where 5 % are claimed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    add_draws(parser, 60, 2048, "pairs")


def run(args: argparse.Namespace) -> int:
    """Run all pairs, print the tables; return 1 where the share is not as claimed."""
    seeds = range(args.first, args.first + args.pairs)
    batch = Batch("pairs", tuple(drawn_case(seed, args.side) for seed in seeds))
    return report(judge_batches([batch], args.directory, args.jobs, args.json))


def drawn_case(seed: int, side: int) -> Case:
    """Return a pair by its seed; one with an odd seed has one place, of any kind and size."""
    rng = np.random.default_rng([seed, 2])
    kind = str(rng.choice(list(SIZES)))
    size = int(rng.choice(SIZES[kind]))
    density = float(rng.choice([20.0, 40.0, 80.0]))
    damage = f"{kind}:{size}" if seed % 2 else ""
    spec = PhantomSpec(
        shape=(side, side), rgb=False, seed=seed, microbes_per_mpx=density, damage=damage
    )
    return Case(f"seed-{seed}", spec, *((kind, size) if damage else (UNDAMAGED, 0)))


def report(outcomes: Sequence[Outcome]) -> int:
    """Print the table; return 1 where the share is not as claimed."""
    parts = {
        "undamaged": [o for o in outcomes if o.kind == UNDAMAGED],
        "damaged": [o for o in outcomes if o.kind != UNDAMAGED],
        "all": list(outcomes),
        "all that are ok": [o for o in outcomes if o.is_ok],
    }
    header = ("pairs", "", "ok/suspect/other", "true or false", "claimed", "false", "95 % interval")
    print(table(header, [_line(name, Pool.of(some)) for name, some in parts.items()]))
    print("Shares in %. Intervals by drawing pairs again: those of one pair belong together.")
    print_reasons(outcomes)
    share = Pool.of(outcomes).ok.false_share
    low, high = LIMITS
    kept = low <= share <= high
    text = f"false ones where {CLAIMED:.0%} are claimed, ok pairs"
    limit = f"{low:.0%} to {high:.0%}"
    return print_promises([Promise(text, as_text(share, "{:.1%}"), limit, kept)])


def _line(name: str, pool: Pool) -> list[str]:
    some = pool.outcomes
    low, high = interval_over_pairs([o.false for o in some], [o.true + o.false for o in some])
    return [
        name,
        str(len(some)),
        pool.statuses,
        str(pool.judged),
        as_text(100 * pool.said, "{:.1f}"),
        as_text(100 * pool.false_share, "{:.1f}"),
        f"{as_text(100 * low, '{:.1f}')} to {as_text(100 * high, '{:.1f}')}",
    ]
