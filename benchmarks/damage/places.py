"""Lists of pairs with one spoilt place each, against those of the undamaged pairs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from phantom_damage.kinds import DamagedPair
from phantom_damage.pair import DamagedRenderer
from running import say
from subcommands import add_draws
from tables import table

from damage.batches import SIZES, UNDAMAGED, Batch, Case
from damage.judging import judge_batches
from damage.pools import Pool, Promise, as_text, at_least, at_most, print_promises, print_reasons
from unglow.core.errors import ConfigError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

    from damage.judging import Outcome

LIKE_STAIN = ("debris", "film", "fold")
"""Small ones are kept and large ones excluded, with a question: such pairs may be suspect."""
SIZE_NAMES = ("small", "middle", "large")
CLAIMED = 0.05
"""Share of false ones that a list may have in any case: `detect.fdr` as shipped."""
RECALL, FALSE, FALSE_CHANGE, GAIN, STAY_OK, SMALL_DAMAGE = 0.95, 0.06, 0.01, 0.001, 0.8, 0.05


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    add_draws(parser, 5, 2048)
    parser.add_argument("--kinds", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--sizes", nargs="+", choices=SIZE_NAMES, default=list(SIZE_NAMES))
    parser.add_argument(
        "--quick", action="store_true", help="one scene, the middle size (a minute or two per core)"
    )


def run(args: argparse.Namespace) -> int:
    """Run all scenes, print the tables; return 1 where a promise is missed."""
    if args.quick:
        args.draws, args.sizes = 1, ["middle"]
    seeds = range(args.first, args.first + args.draws)
    batches = (scene_batch(seed, args.side, args.kinds, args.sizes) for seed in seeds)
    return report(judge_batches(batches, args.directory, args.jobs, args.json))


def scene_batch(seed: int, side: int, kinds: Iterable[str], sizes: Iterable[str]) -> Batch:
    """Return a scene without damage, and with one place of each kind and size that fits."""
    cases = [Case(UNDAMAGED, _spec(seed, side))]
    for row, kind in enumerate(SIZES):
        for column, name in enumerate(SIZE_NAMES):
            if kind in kinds and name in sizes:
                size = SIZES[kind][column]
                spec = _spec(seed, side, f"{kind}:{size}", 10 * row + column)
                if _fits(spec):
                    cases.append(Case(f"{kind}-{size}", spec, kind, size))
                else:
                    say(f"scene {seed}: {kind}:{size} does not fit and is left out")
    return Batch(f"scene-{seed}", tuple(cases))


def _spec(seed: int, side: int, damage: str = "", damage_seed: int = 0) -> DamagedPair:
    shape = (side, side)
    return DamagedPair(shape=shape, rgb=False, seed=seed, damage=damage, damage_seed=damage_seed)


def _fits(spec: DamagedPair) -> bool:
    try:
        DamagedRenderer(spec)
    except ConfigError:
        return False
    return True


def report(outcomes: Sequence[Outcome]) -> int:
    """Print the tables; return 1 where a promise is missed."""
    undamaged = Pool.of(o for o in outcomes if o.kind == UNDAMAGED)
    damaged = Pool.of(o for o in outcomes if o.kind != UNDAMAGED)
    rows = {
        (kind, size): Pool.of(o for o in damaged.outcomes if (o.kind, o.size) == (kind, size))
        for kind, size in dict.fromkeys((o.kind, o.size) for o in damaged.outcomes)
    }
    print(_table(undamaged, rows))
    print(LEGEND)
    print_reasons(outcomes)
    return print_promises(promises(undamaged, damaged, rows))


def promises(undamaged: Pool, damaged: Pool, rows: dict[tuple[str, int], Pool]) -> list[Promise]:
    """Return what is promised of all pairs, of each kind and size, and of each pair."""
    ratios = [pool.ok.recall_ratio for pool in rows.values()]
    lowest = min((r for r in ratios if not math.isnan(r)), default=math.nan)
    small = [
        o for o in damaged.outcomes if o.place_share < SMALL_DAMAGE and o.kind not in LIKE_STAIN
    ]
    ok = len(Pool.of(small).ok.outcomes) / len(small) if small else math.nan
    right = damaged.ok
    change = abs(right.false_share - undamaged.false_share)
    text = f"damage below {SMALL_DAMAGE:.0%} of the section, unlike stain: share of ok pairs"
    return [
        at_least("recall over undamaged, ok pairs", right.recall_ratio, RECALL),
        at_least("recall over undamaged, ok pairs of the worst row", lowest, RECALL),
        at_most("share of false ones, ok pairs", right.false_share, FALSE),
        at_most("share of false ones, ok pairs: change", change, FALSE_CHANGE),
        at_least(text, ok, STAY_OK, "{:.0%}"),
        at_most("gain error of the worst ok pair", abs(right.worst_gain), GAIN, "{:.2%}"),
    ]


LEGEND = """\
ok/suspect/other  pairs of each status.
damage       area of the place, % of the section (mean); the section is where both images show it.
recall       microbes outside of the place that are found, over those found in the undamaged pair.
counted      candidates that are counted. false: share of false ones.
covered      part of the place that was found; wrong: called spoilt and is not, % of the section.
gain         error of the gain of the worst pair, %."""


def _table(undamaged: Pool, rows: dict[tuple[str, int], Pool]) -> str:
    header = ["kind", "size px", "pairs", "ok/suspect/other", "damage", "recall", "counted"]
    header += ["false", "covered", "wrong", "gain"]
    everything = Pool.of(o for pool in rows.values() for o in pool.outcomes)
    every = {(UNDAMAGED, 0): undamaged, **rows, ("all damaged", 0): everything}
    return table(header, [_line(*key, pool) for key, pool in every.items()])


def _line(kind: str, size: int, pool: Pool) -> list[str]:
    count = len(pool.outcomes)
    share = sum(o.place_share for o in pool.outcomes) / max(count, 1)
    return [
        kind,
        str(size or ""),
        str(count),
        pool.statuses,
        f"{100 * share:.2f}",
        as_text(pool.recall_ratio, "{:.3f}"),
        str(sum(o.counted for o in pool.outcomes)),
        as_text(100 * pool.false_share, "{:.1f}"),
        as_text(100 * pool.covered, "{:.0f}"),
        f"{100 * pool.wrong_share:.2f}",
        as_text(100 * pool.worst_gain, "{:+.2f}"),
    ]
