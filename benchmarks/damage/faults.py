"""Pairs with a fault of the whole image, whose list has to be right or the pair suspect."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from registration.pool import save_json
from tables import table

from damage.cases import UNDAMAGED, Batch, Case
from damage.judging import judge_pair
from damage.pools import Pool, as_text, at_most, print_promises, reasons_text
from damage.runs import FOUND, run_batch
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
    parser.add_argument("--draws", type=int, default=2, help="scenes (default: 2)")
    parser.add_argument("--faults", nargs="+", default=list(FAULTS), metavar="KIND:NUMBER")


def run(args: argparse.Namespace) -> int:
    """Run all pairs, print the table; return 1 where a wrong list is ok."""
    outcomes: list[Outcome] = []
    for seed in range(args.first, args.first + args.draws):
        batch = fault_batch(seed, args.side, args.faults)
        found = run_batch(batch, args.directory, args.jobs) / FOUND
        for case in batch.cases:
            reference = None if case.kind == UNDAMAGED else found / UNDAMAGED
            outcomes.append(judge_pair(case, found, reference))
    save_json(args.json, {"outcomes": [asdict(o) for o in outcomes]})
    return report(outcomes)


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
    reasons = reasons_text(outcomes)
    print(f"\n{reasons}" if reasons else "\nall pairs are ok")
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
