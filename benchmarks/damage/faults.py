"""Pairs with a fault of the whole image, whose list has to be right or the pair suspect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from subcommands import add_draws
from tables import table

from damage.batches import UNDAMAGED, Batch, Case
from damage.judging import judge_batches
from damage.pools import Pool, as_text, at_most, print_promises, print_reasons
from unglow.phantom.spec import PhantomSpec

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from damage.judging import Outcome

FAULTS = ("dark_clip:20", "coarse:8", "gamma:0.7", "swap", "half_moved:40", "dust:12")
FALSE = 0.08
"""Share of false ones in the list of a pair that is ok."""
RECALL = 0.25
"""A list with less than this part of the microbes of the undamaged pair is as good as empty."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    add_draws(parser, 2, 2048)
    parser.add_argument("--faults", nargs="+", default=list(FAULTS), metavar="KIND:NUMBER")


def run(args: argparse.Namespace) -> int:
    """Run all pairs, print the table; return 1 where a wrong list is ok."""
    seeds = range(args.first, args.first + args.draws)
    batches = (fault_batch(seed, args.side, args.faults) for seed in seeds)
    return report(judge_batches(batches, args.directory, args.jobs, args.json))


def fault_batch(seed: int, side: int, faults: Sequence[str]) -> Batch:
    """Return a scene without damage, and with each fault."""
    cases = [Case(UNDAMAGED, PhantomSpec(shape=(side, side), rgb=False, seed=seed))]
    for fault in faults:
        spec = PhantomSpec(shape=(side, side), rgb=False, seed=seed, damage=fault)
        cases.append(Case(fault.replace(":", "-"), spec, fault))
    return Batch(f"scene-{seed}", tuple(cases))


def is_wrong(o: Outcome) -> bool:
    """Whether a pair with a fault is ok and lists false ones, or hardly any microbes."""
    if o.kind == UNDAMAGED or not o.is_ok:
        return False
    few = o.found <= RECALL * o.found_undamaged
    return few or o.false > FALSE * (o.true + o.false)


def report(outcomes: Sequence[Outcome]) -> int:
    """Print the table; return 1 where a wrong list is ok."""
    header = ["fault", "status", "counted", "true", "false", "false %", "recall", ""]
    print(table(header, [_line(o) for o in outcomes]))
    print("recall: microbes that are found, over those found in the undamaged pair")
    print_reasons(outcomes)
    wrong = sum(map(is_wrong, outcomes))
    text = f"ok pairs with few microbes ({RECALL:.0%}) or many false ones ({FALSE:.0%})"
    return print_promises([at_most(text, float(wrong), 0.0, "{:.0f}")])


def _line(o: Outcome) -> list[str]:
    pool = Pool.of([o])
    return [
        o.kind,
        o.status,
        str(o.counted),
        str(o.true),
        str(o.false),
        as_text(100 * pool.false_share, "{:.1f}"),
        as_text(pool.recall_ratio, "{:.3f}"),
        "WRONG" if is_wrong(o) else "",
    ]
