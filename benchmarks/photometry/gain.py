"""Errors of gain and offset of every scale method, on pairs made with known ones."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from time import process_time
from typing import TYPE_CHECKING, cast

import numpy as np
from registration.pool import collect
from tables import save_json, table

from photometry.pairs import Pair, aligned, images, transform_of
from unglow.photometry.gain.estimate import Evidence, estimate
from unglow.photometry.gain.scale import METHODS, ScaleSettings

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from unglow.photometry.gain.scale import MethodName

ESTIMATED = tuple(name for name, method in METHODS.items() if not method.is_given)
GAINS = (0.8, 1.0, 1.1, 1.3, 2.0, 3.0)
OFFSETS = ((0.0, 0.0), (1.0, 2.0), (3.0, 8.0), (20.0, 5.0))
DTYPES = ("uint8", "uint16")
STAINED = 0.33
GROUPS = ("grid", "stained")
GAIN_AIM, OFFSET_AIM, COVERAGE_AIM, HALF_AIM = 0.5, 0.5, 0.9, 0.5
"""Percent, grey levels of 255, share of the pairs, percent."""


@dataclass(frozen=True)
class Outcome:
    """What one method made of one pair.

    Gain errors and half-widths are in percent of the true gain, offsets in grey levels of 255; NaN
    where there is none.
    """

    group: str
    pair: Pair
    method: str
    cpu_seconds: float
    gain_error: float = float("nan")
    gain_half: float = float("nan")
    gain_covered: bool = False
    offset_error: float = float("nan")
    offset_half: float = float("nan")
    offset_covered: bool = False
    reason: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument("--draws", type=int, default=5, help="seeds of each kind (default: 5)")
    parser.add_argument("--side", type=int, default=1024, help="of post, px (default: 1024)")
    parser.add_argument("--groups", nargs="+", choices=GROUPS, default=GROUPS)


def run(args: argparse.Namespace) -> int:
    """Run the draws, print the tables; return 1 where an aim is missed."""
    pairs = [(g, p) for g in args.groups for p in drawn(g, args.draws, args.side)]
    # the pairs of one scene follow each other, so that a process renders it once
    found = collect(measured, _batches(pairs), args.jobs, lambda batch: batch[0].group)
    outcomes = [outcome for batch in found for outcome in batch]
    save_json(args.json, outcomes)
    print(f"post of {args.side} x {args.side} px; the map is the true one\n")
    return report(outcomes)


def drawn(group: str, draws: int, side: int) -> list[Pair]:
    """Return the pairs of a group."""
    if group == "grid":
        grid = product(range(draws), GAINS, OFFSETS, DTYPES)
        return [Pair(seed, side, g, *o, dtype) for seed, g, o, dtype in grid]
    few = product(range(draws), (0.8, 1.3, 3.0), ((0.0, 0.0), (3.0, 8.0)))
    return [Pair(seed, side, g, *o, DTYPES[seed % 2], STAINED) for seed, g, o in few]


def _batches(pairs: Sequence[tuple[str, Pair]]) -> list[list[tuple[str, Pair]]]:
    """Put the pairs of one scene together."""
    scenes: dict[int, list[tuple[str, Pair]]] = {}
    for group, pair in pairs:
        scenes.setdefault(pair.seed, []).append((group, pair))
    return list(scenes.values())


def measured(batch: Sequence[tuple[str, Pair]]) -> list[Outcome]:
    """Render, align and scale the pairs of one scene."""
    outcomes = []
    for group, pair in batch:
        post, pre = images(pair)
        found = aligned(post, pre, transform_of(pair, post, pre, true=True))
        evidence = Evidence(found.statistics, found.bins, found.transform)
        outcomes += [_judged(group, pair, method, evidence) for method in ESTIMATED]
    return outcomes


def _judged(group: str, pair: Pair, method: str, evidence: Evidence) -> Outcome:
    started = process_time()
    result = estimate(evidence, ScaleSettings((cast("MethodName", method),))).methods[method]
    seconds = process_time() - started
    if result.gain is None or result.offset is None:
        return Outcome(group, pair, method, seconds, reason=result.reason or "")
    gain_half, gain_covered = _interval(result.gain_ci95, pair.gain)
    offset_half, offset_covered = _interval(result.offset_ci95, pair.offset * pair.counts)
    return Outcome(
        group,
        pair,
        method,
        seconds,
        100 * (result.gain / pair.gain - 1),
        100 * gain_half / pair.gain,
        gain_covered,
        result.offset / pair.counts - pair.offset,
        offset_half / pair.counts,
        offset_covered,
    )


def _interval(interval: tuple[float, float] | None, truth: float) -> tuple[float, bool]:
    """Return half of the width of an interval, and whether it covers the truth."""
    if interval is None:
        return float("nan"), False
    return (interval[1] - interval[0]) / 2, interval[0] <= truth <= interval[1]


def report(outcomes: Sequence[Outcome]) -> int:
    """Print the tables; return 1 where an aim of the linear method is missed."""
    rows, missed = [], False
    for group, method in product(GROUPS, ESTIMATED):
        some = [o for o in outcomes if (o.group, o.method) == (group, method)]
        if some:
            rows.append(_row(group, method, some))
            missed |= method == "linear" and not _reached(some)
    header = (
        "pairs", "method", "n", "failed", "gain %", "p95", "worst", "offset", "p95", "worst",
        "half %", "worst", "covered", "offset half", "covered", "CPU-s",
    )  # fmt: skip
    print(
        "errors: median of the absolute errors, 95th percentile and worst; gain in percent, offset "
        "in grey levels of 255\nhalf: half-width of the 95 % interval, and how many of them cover "
        "the truth; methods of ratios have no interval of the offset, which they take as 0\n"
    )
    print(table(header, rows, left=2))
    print(
        f"\naims, linear on the grid: every gain within {GAIN_AIM:g} %, every offset within "
        f"{OFFSET_AIM:g}, {100 * COVERAGE_AIM:.0f} % covered at a half-width of {HALF_AIM:g} % or "
        f"less; missed: {'yes' if missed else 'no'}"
    )
    return int(missed)


def _reached(some: Sequence[Outcome]) -> bool:
    gain, offset, half = (
        np.array([getattr(o, name) for o in some])
        for name in ("gain_error", "offset_error", "gain_half")
    )
    covered = np.mean([o.gain_covered for o in some])
    return bool(
        (np.abs(gain) <= GAIN_AIM).all()
        and (np.abs(offset) <= OFFSET_AIM).all()
        and covered >= COVERAGE_AIM
        and np.median(half) <= HALF_AIM
    )


def _row(group: str, method: str, some: Sequence[Outcome]) -> tuple[str, ...]:
    good = [o for o in some if not o.reason]
    if not good:
        return (group, method, str(len(some)), str(len(some)), *["-"] * 12)

    def three(name: str, digits: int) -> tuple[str, str, str]:
        values = np.abs([getattr(o, name) for o in good])
        found = np.median(values), np.quantile(values, 0.95), values.max()
        return tuple(f"{v:.{digits}f}" for v in found)  # type: ignore[return-value]

    halves = np.array([o.gain_half for o in good])
    offsets = np.array([o.offset_half for o in good])
    offset = ("-", "-")
    if not np.isnan(offsets).all():
        share = np.mean([o.offset_covered for o in good])
        offset = (f"{np.nanmedian(offsets):.3f}", f"{100 * share:.0f} %")
    return (
        group,
        method,
        str(len(some)),
        str(len(some) - len(good)),
        *three("gain_error", 3),
        *three("offset_error", 3),
        f"{np.nanmedian(halves):.3f}",
        f"{np.nanmax(halves):.3f}",
        f"{100 * np.mean([o.gain_covered for o in good]):.0f} %",
        *offset,
        f"{np.median([o.cpu_seconds for o in good]):.2f}",
    )
