"""How often the intervals of the gain hold the true one, on pairs that differ in every way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from registration.pool import collect
from registration.recording import shade
from tables import save_json, table

from photometry.pairs import Pair, aligned, images, transform_of
from unglow.photometry.gain.estimate import Evidence, estimate
from unglow.photometry.gain.scale import ScaleSettings

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from photometry.pairs import Aligned
    from unglow.photometry.gain.scale import MethodResult

KINDS = ("plain", "shaded", "deformed")
"""Even light and a map that moves all equally; uneven light; a section that is bent."""
SHADING, BEND_PX = 0.15, 5.0
AIM = 0.91, 0.985
"""Share of the pairs whose true gain is to lie in the reported interval, at least and at most.

Of 200 intervals that hold the truth with 95 %, 182 to 197 do in 99 of 100 draws.
"""
_LIT = 0.2
_Z95 = 1.96


@dataclass(frozen=True)
class Outcome:
    """One pair: error of its gain, and half of its intervals, in percent of the true gain."""

    kind: str
    pair: Pair
    error: float
    statistical: float
    whole: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument("--draws", type=int, default=70, help="of each kind (default: 70)")
    parser.add_argument("--first", type=int, default=0, help="seed of the first draw (default: 0)")
    parser.add_argument("--side", type=int, default=1024, help="of post, px (default: 1024)")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)


def run(args: argparse.Namespace) -> int:
    """Run the draws, print the table; return 1 where the aim is missed."""
    seeds = range(args.first, args.first + args.draws)
    pairs = [(kind, drawn(kind, seed, args.side)) for kind in args.kinds for seed in seeds]
    outcomes = collect(measured, pairs, args.jobs, lambda o: o.kind)
    save_json(args.json, outcomes)
    return report(outcomes)


def drawn(kind: str, seed: int, side: int) -> Pair:
    """Draw one pair; every seed has a scene of its own."""
    rng = np.random.default_rng([seed, 51, KINDS.index(kind)])
    return Pair(
        seed + 10_000 * KINDS.index(kind),
        side,
        gain=float(np.exp(rng.uniform(np.log(0.8), np.log(2.5)))),
        offset_pre=rng.uniform(0, 5),
        offset_post=rng.uniform(0, 10),
        dtype=("uint8", "uint16")[seed % 2],
        shading=SHADING if kind == "shaded" else 0.0,
        bend_px=BEND_PX if kind == "deformed" else 0.0,
    )


def measured(job: tuple[str, Pair]) -> Outcome:
    """Render, align and scale one pair; what is bent is registered, all else has its true map."""
    kind, pair = job
    post, pre = images(pair)
    found = aligned(post, pre, transform_of(pair, post, pre, true=kind != "deformed"))
    evidence = Evidence(found.statistics, found.bins, found.transform)
    result = estimate(evidence, ScaleSettings(("linear",))).default_result
    if result.gain is None or result.gain_ci95 is None:
        return Outcome(kind, pair, float("inf"), 0.0, 0.0)
    true, made = _gains(pair, found, result)
    halves = (result.gain_ci95, result.details["gain_ci95_statistical"])
    whole, statistical = (50 * (high - low) / result.gain for low, high in halves)
    return Outcome(kind, pair, 100 * (made / true - 1), statistical, whole)


def _gains(pair: Pair, found: Aligned, result: MethodResult) -> tuple[float, float]:
    """Return the true gain and the found one, averaged over places that show light."""
    bins, gain = found.bins, result.gain or 0.0
    if pair.shading == 0 and result.gain_map is None:
        return pair.gain, gain
    dark, bright = np.nanquantile(bins.pre, (0.01, 0.95))
    at = bins.centres_xy[(bins.pre > dark + _LIT * (bright - dark)).ravel()]
    relative = np.ones(len(at)) if result.gain_map is None else result.gain_map.evaluate(at)
    of_pre, of_post = _lights(pair)
    in_pre = found.transform.map(at)
    true = _nearest(of_post, at) / _nearest(of_pre, in_pre)
    return pair.gain * float(true.mean()), gain * float(relative.mean())


def _lights(pair: Pair) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the light of pre and of post as `photometry.pairs.images` draws it."""
    rng = np.random.default_rng([pair.seed, 43])
    lights = np.ones(pair.pre_shape, np.float32), np.ones((pair.side, pair.side), np.float32)
    if pair.shading > 0:
        shade(lights[0], -pair.shading / 2, rng)
        shade(lights[1], pair.shading / 2, rng)
    return lights


def _nearest(image: NDArray[np.float32], points: NDArray[np.float64]) -> NDArray[np.float32]:
    cols, rows = np.rint(points).astype(np.intp).T
    return image[np.clip(rows, 0, image.shape[0] - 1), np.clip(cols, 0, image.shape[1] - 1)]


def report(outcomes: Sequence[Outcome]) -> int:
    """Print the table; return 1 where the aim is missed."""
    rows = [_row(kind, [o for o in outcomes if o.kind == kind]) for kind in KINDS]
    rows.append(_row("all", outcomes))
    print(
        "error and halves of the 95 % intervals in percent of the gain; scatter: root mean square "
        "of error over standard error, 1 where the statistical interval is right\n"
    )
    header = ("pairs", "n", "error", "p95", "bias", "statistical", "covered", "scatter", "whole")
    print(table((*header, "covered"), [row for row in rows if row], left=1))
    low, high = AIM
    reached = low <= _covered(outcomes, "whole") <= high
    print(
        f"\naim: {100 * low:g} to {100 * high:g} % in the whole interval, all kinds together; "
        f"missed: {'no' if reached else 'yes'}"
    )
    return int(not reached)


def _covered(some: Sequence[Outcome], name: str) -> float:
    return float(np.mean([abs(o.error) <= getattr(o, name) for o in some]))


def _row(kind: str, some: Sequence[Outcome]) -> tuple[str, ...]:
    if not some:
        return ()
    error, half, whole = (
        np.array([getattr(o, name) for o in some]) for name in ("error", "statistical", "whole")
    )
    ratio = error / np.maximum(half / _Z95, 1e-12)
    scatter = float(np.sqrt(np.mean(ratio**2)))
    return (
        kind,
        str(len(some)),
        f"{np.median(np.abs(error)):.4f}",
        f"{np.quantile(np.abs(error), 0.95):.4f}",
        f"{error.mean():+.4f}",
        f"{np.median(half):.4f}",
        f"{100 * _covered(some, 'statistical'):.1f} %",
        f"{scatter:.2f}",
        f"{np.median(whole):.4f}",
        f"{100 * _covered(some, 'whole'):.1f} %",
    )
