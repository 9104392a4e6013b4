"""Whether the share of false ones is what lists claim, and how much of good pairs is excluded."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from phantom_damage.kinds import DamagedPair
from subcommands import add_draws
from tables import save_json, table

from damage.batches import FOUND, FOUND_WITHOUT, SIZES, UNDAMAGED, Batch, Case, run_batch
from damage.judging import judge_pair
from damage.places import CLAIMED
from damage.pools import Pool, as_text, at_least, at_most, print_promises, print_reasons

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from damage.judging import Outcome

LIMITS = 0.04, 0.06
"""The share of false ones where 5 % are claimed."""
AREA = 0.005
"""At most this part of an undamaged section may be called spoilt."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    add_draws(parser, 60, 2048, "pairs")


def run(args: argparse.Namespace) -> int:
    """Run all pairs, print the tables; return 1 where a promise is missed."""
    seeds = range(args.first, args.first + args.pairs)
    batch = Batch("pairs", tuple(drawn_case(seed, args.side) for seed in seeds))
    place = run_batch(batch, args.directory, args.jobs, without=True)
    outcomes, without = (
        [judge_pair(case, place / found) for case in batch.cases]
        for found in (FOUND, FOUND_WITHOUT)
    )
    save_json(args.json, {"outcomes": outcomes, "without": without})
    return report(outcomes, without)


def drawn_case(seed: int, side: int) -> Case:
    """Return a pair; odd seeds have one spoilt place of any kind and size, even ones any form."""
    rng = np.random.default_rng([seed, 2])
    kind = str(rng.choice(list(SIZES)))
    size = int(rng.choice(SIZES[kind]))
    density = float(rng.choice([20.0, 40.0, 80.0]))
    damage = f"{kind}:{size}" if seed % 2 else ""
    spec = DamagedPair(
        shape=(side, side), rgb=False, seed=seed, microbes_per_mpx=density, damage=damage
    )
    if not damage:
        spec = replace(
            spec,
            deform_px=float(rng.choice([0.0, 4.0, 8.0])),
            shading=float(rng.choice([0.0, 0.1, 0.25])),
            blur_pre_px=float(rng.choice([0.0, 0.0, 0.8])),
            dtype=str(rng.choice(["uint8", "uint16"])),
        )
    return Case(f"seed-{seed}", spec, *((kind, size) if damage else (UNDAMAGED, 0)))


def report(outcomes: Sequence[Outcome], without: Sequence[Outcome]) -> int:
    """Print the table; return 1 where a promise is missed.

    Parameters
    ----------
    outcomes, without
        Of the same pairs with and without the finder of spoilt places.
    """
    good = [o for o in outcomes if o.kind == UNDAMAGED]
    parts = {
        "undamaged": good,
        "damaged": [o for o in outcomes if o.kind != UNDAMAGED],
        "all": list(outcomes),
        "all that are ok": [o for o in outcomes if o.is_ok],
    }
    header = ("pairs", "", "ok/suspect/other", "true or false", "claimed", "false", "spoilt")
    print(table(header, [_line(name, Pool.of(some)) for name, some in parts.items()]))
    print("Shares in %. spoilt: share of the section that is called so and is not, on average.")
    print_reasons(outcomes)
    share = Pool.of(outcomes).ok.false_share
    text = f"false ones where {CLAIMED:.0%} are claimed, ok pairs"
    doubted = sum(
        o.kind == UNDAMAGED and other.is_ok and not o.is_ok
        for o, other in zip(outcomes, without, strict=True)
    )
    worst = max((o.wrong_share for o in good), default=0.0)
    return print_promises(
        [
            at_least(text, share, LIMITS[0], "{:.1%}"),
            at_most(text, share, LIMITS[1], "{:.1%}"),
            at_most("called spoilt, the worst undamaged pair", worst, AREA, "{:.2%}"),
            at_most("undamaged pairs that are not ok for it", float(doubted), 0.0, "{:.0f}"),
        ]
    )


def _line(name: str, pool: Pool) -> list[str]:
    shares = (100 * pool.said, 100 * pool.false_share, 100 * pool.wrong_share)
    texts = (as_text(share, "{:.1f}") for share in shares)
    return [name, str(len(pool.outcomes)), pool.statuses, str(pool.judged), *texts]
