"""How often the map of random pairs is right, and whether a wrong one passes for a good one."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from subcommands import add_draws
from tables import number, save_json, table

from registration.draws import Draw, drawn, images, unrelated
from registration.judging import Errors, errors, section_points
from registration.pool import call, collect, registered, write_pair
from unglow.registration.register import RegisterSettings

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from unglow.transform import Transform

RIGHT_PX, WRONG_PX = 1.0, 2.0
LEAST_RIGHT = 0.99


@dataclass(frozen=True)
class Outcome:
    """What became of one draw; a kind for those that have to be refused."""

    seed: int
    status: str
    cpu_seconds: float
    reasons: tuple[str, ...] = ()
    model: str = ""
    said: tuple[float, float] = (float("nan"), float("nan"))
    coarse: tuple[str, float, float] = ("", float("nan"), float("nan"))
    errors: Errors | None = None
    draw: Draw | None = None
    kind: str = ""

    @property
    def right(self) -> bool:
        """Whether the map is right: to 1 px over 95 % of the section that both images show."""
        return self.errors is not None and self.errors.p95 < RIGHT_PX

    @property
    def silent(self) -> bool:
        """Whether a wrong map passes for a good one."""
        if self.errors is None:
            return self.status == "ok"
        return self.status == "ok" and not self.errors.p95 <= WRONG_PX


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    add_draws(parser, 300)
    parser.add_argument("--negatives", type=int, default=60, help="pairs to refuse (default: 60)")
    parser.add_argument("--write", type=Path, metavar="DIR", help="write images of these draws")


def run(args: argparse.Namespace) -> int:
    """Run the draws, print the tables; return 1 where an aim is missed."""
    data: Path | None = args.data
    seeds = range(args.first, args.first + args.draws)
    others = range(args.first, args.first + args.negatives)
    jobs = [partial(positive, seed, data, args.write) for seed in seeds]
    jobs += [partial(negative, seed, data, args.write) for seed in others]
    outcomes = collect(call, jobs, args.jobs, lambda o: _line(o) if is_bad(o) else "")
    outcomes.sort(key=lambda outcome: (outcome.kind != "", outcome.seed))
    save_json(args.json, outcomes)
    return report(outcomes)


def positive(seed: int, data: Path | None, folder: Path | None = None) -> Outcome:
    """Render, register and judge one draw; write its images into a folder, if one is given."""
    draw = drawn(seed, data)
    post, pre, base = images(draw, data)
    if folder is not None:
        truth = {"draw": draw, "truth": draw.warp.to_json()}
        write_pair(folder / f"seed-{seed}", post, pre, truth)
    found, cpu = registered(post, pre, RegisterSettings(mirror=draw.mirror))
    judged = errors(found.transform, draw.warp, section_points(base, draw.shape))
    return make_outcome(found.transform, seed, cpu, errors=judged, draw=draw)


def negative(seed: int, data: Path | None, folder: Path | None = None) -> Outcome:
    """Register a pair that has nothing in common."""
    kind, post, pre = unrelated(seed, data)
    if folder is not None:
        write_pair(folder / f"negative-{seed}", post, pre, {"kind": kind})
    found, cpu = registered(post, pre)
    return make_outcome(found.transform, seed, cpu, kind=kind)


def make_outcome(found: Transform, seed: int, cpu: float, **more: Any) -> Outcome:
    """Return an outcome with what the transform says."""
    return Outcome(
        seed,
        found.status,
        cpu,
        reasons=found.reasons,
        model=found.model_name,
        said=(found.error_px.median, found.error_px.p95),
        coarse=(found.coarse_method, found.significance, found.margin),
        **more,
    )


def report(outcomes: Sequence[Outcome]) -> int:
    """Print the tables; return 1 where an aim is missed."""
    positives = [o for o in outcomes if not o.kind]
    negatives = [o for o in outcomes if o.kind]
    missed = False
    if positives:
        missed |= _report_positives(positives)
    if negatives:
        missed |= _report_negatives(negatives)
    bad = [o for o in outcomes if is_bad(o)]
    if bad:
        print("\nbad draws (--first SEED --draws 1 --negatives 0 --write DIR shows one alone):")
        print("\n".join(_line(o) for o in bad))
    return int(missed)


def _report_positives(outcomes: Sequence[Outcome]) -> bool:
    count = Counter(o.status for o in outcomes)
    right = [o for o in outcomes if o.right]
    silent = [o for o in outcomes if o.silent]
    wrong = [o for o in outcomes if o.errors is not None and o.errors.p95 > WRONG_PX]
    rows = []
    for status in ("ok", "suspect", "failed"):
        good, bad = (sum(o.status == status for o in some) for some in (right, wrong))
        counts = (count[status], good, count[status] - good, bad)
        rows.append((status, *map(str, counts)))
    header = ("status", "draws", f"< {RIGHT_PX:g} px", "other", f"> {WRONG_PX:g} px")
    print(f"{len(outcomes)} draws, error at p95 over the section that both images show")
    print(table(header, rows))
    share = len(right) / len(outcomes)
    print(
        f"\nright: {100 * share:.2f} % (aim: {100 * LEAST_RIGHT:g} %)   "
        f"silent failures: {len(silent)} (aim: 0)"
    )
    p95, median, said = (
        np.array([of(o) for o in right])
        for of in (lambda o: o.errors.p95, lambda o: o.errors.median, lambda o: o.said[1])
    )
    if right:
        seconds = float(np.mean([o.cpu_seconds for o in outcomes]))
        print(
            f"right draws: median error {number(float(np.median(median)))} px, "
            f"p95 {number(float(np.median(p95)))} px (worst {number(float(p95.max()))}); "
            f"said/true p95 {np.nanmedian(said / p95):.2f}; {number(seconds)} CPU-s each"
        )
    return share < LEAST_RIGHT or bool(silent)


def _report_negatives(outcomes: Sequence[Outcome]) -> bool:
    rows = []
    for kind in dict.fromkeys(o.kind for o in outcomes):
        group = [o for o in outcomes if o.kind == kind]
        strongest = max((o.coarse[1] for o in group if np.isfinite(o.coarse[1])), default=np.nan)
        counts = Counter(o.status for o in group)
        states = (str(counts[s]) for s in ("failed", "suspect", "ok"))
        rows.append((kind, str(len(group)), *states, number(strongest)))
    header = ("to be refused", "pairs", "failed", "suspect", "ok", "most significant")
    print("\n" + table(header, rows))
    return any(is_bad(o) for o in outcomes)


def is_bad(o: Outcome) -> bool:
    """Whether a map is wrong, or there is one where there must be none."""
    return o.silent or (o.status != "failed" if o.kind else not o.right)


def _line(outcome: Outcome) -> str:
    o = outcome
    head = f"{o.kind or 'seed'} {o.seed}: {o.status}"
    if o.errors is not None:
        head += f", p95 {number(o.errors.p95)} px (said {number(o.said[1])})"
    if o.draw is not None:
        head += f", {o.draw}"
    return head + f", significance {number(o.coarse[1])}" + "".join("\n    " + r for r in o.reasons)
