"""What is left of the background under uneven light, with and without a gain map."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import chain, product
from time import process_time
from typing import TYPE_CHECKING, Any

import numpy as np
from registration.pool import collect
from subcommands import add_draws
from tables import save_json, table

from photometry.pairs import Pair, aligned, base_of, images, transform_of
from unglow.core.windows import Window
from unglow.photometry.difference import difference, subtract_evened
from unglow.photometry.difference_histogram import BackgroundMedians
from unglow.photometry.gain.estimate import Evidence, estimate
from unglow.photometry.gain.scale import ScaleSettings

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from photometry.pairs import Aligned
    from unglow.photometry.gain.scale import MethodResult

SHADINGS = (0.0, 0.15, 0.3)
"""Greatest relative difference of the light between the two images; the aim is for 0.15."""
AIMED = 0.15
CASES = ((1.3, 0.2, 0.5), (1.3, 3.0, 8.0), (2.0, 20.0, 5.0))
"""Gain and the offsets of pre and post, grey levels."""
MEDIAN_AIM, P95_AIM = 0.3, 1.0
"""Of the absolute medians of squares on the section, grey levels of 255."""
SETTINGS = {"map": "auto", "no map": "never"}


@dataclass(frozen=True)
class Outcome:
    """What is left of a pair with one setting: absolute medians of squares, levels of 255."""

    pair: Pair
    setting: str
    median: float
    p95: float
    worst: float
    mapped: bool
    cpu_seconds: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    add_draws(parser, 5, 1024)


def run(args: argparse.Namespace) -> int:
    """Run the draws, print the table; return 1 where an aim is missed."""
    bases = ("phantom",) if args.data is None else ("phantom", "fluorescence")
    scenes = list(product(bases, range(args.first, args.first + args.draws)))
    work = partial(measured, side=args.side, data=args.data)
    each = collect(work, scenes, args.jobs, lambda some: f"scene {some[0].pair.seed}")
    outcomes = list(chain(*each))
    save_json(args.json, outcomes)
    return report(outcomes)


def measured(scene: tuple[str, int], side: int, data: Path | None) -> list[Outcome]:
    """Render, align, scale and subtract the pairs of one scene."""
    outcomes = []
    for shading, (gain, *offsets) in product(SHADINGS, CASES):
        dtype = ("uint8", "uint16")[scene[1] % 2]
        pair = Pair(*scene, side, gain, offsets[0], offsets[1], dtype, shading=shading)
        post, pre = images(pair, data)
        found = aligned(post, pre, transform_of(pair, post, pre, true=True))
        section = _section(pair, found, data)
        for name, setting in SETTINGS.items():
            started = process_time()
            evidence = Evidence(found.statistics, found.bins, found.transform)
            result = estimate(evidence, ScaleSettings(("linear",), gain_map=setting)).default_result
            seconds = process_time() - started
            left = np.abs(_left(found, result, section)) / pair.counts
            figures = (np.median(left), np.quantile(left, 0.95), left.max())
            is_mapped = result.details["gain_map"] is not None
            outcomes.append(Outcome(pair, name, *map(float, figures), is_mapped, seconds))
    return outcomes


def _section(pair: Pair, found: Aligned, data: Path | None) -> NDArray[np.bool_]:
    """Say which pixels of post lie on the section and are not saturated in either image."""
    rows, cols = np.indices((pair.side, pair.side)).reshape(2, -1).astype(np.float64)
    inside = base_of(pair, data).inside(cols, rows).reshape(pair.side, pair.side) > 0.95
    post_top, pre_top = found.bins.tops
    return inside & (found.post < post_top) & (found.pre < pre_top)


def _left(found: Aligned, result: MethodResult, section: NDArray[np.bool_]) -> NDArray[Any]:
    """Medians of the difference in squares that are half section or more."""
    if result.gain is None or result.offset is None:
        return np.array([np.inf])
    window = Window.from_shape(section.shape)
    blocks = found.post, found.pre, result.gain, result.offset
    left = (
        difference(*blocks)
        if result.gain_map is None
        else subtract_evened(*blocks, result.gain_map, window)
    )
    medians = BackgroundMedians.create(section.shape)
    medians.add(np.where(section, left, np.float32(np.nan)), (0, 0))
    return medians.medians[~np.isnan(medians.medians)]


def report(outcomes: Sequence[Outcome]) -> int:
    """Print the table; return 1 where an aim is missed."""
    rows, missed = [], False
    bases = dict.fromkeys(o.pair.base for o in outcomes)
    for base, shading, setting in product(bases, SHADINGS, SETTINGS):
        key = (base, shading, setting)
        some = [o for o in outcomes if (o.pair.base, o.pair.shading, o.setting) == key]
        medians, p95 = (np.array([getattr(o, n) for o in some]) for n in ("median", "p95"))
        if setting == "map" and shading <= AIMED:
            missed |= bool(medians.max() > MEDIAN_AIM or p95.max() > P95_AIM)
        left = (np.median(medians), medians.max(), np.median(p95), p95.max())
        worst, maps = max(o.worst for o in some), sum(o.mapped for o in some)
        seconds = np.median([o.cpu_seconds for o in some])
        cells = (*(f"{v:.3f}" for v in left), f"{worst:.2f}", str(maps), f"{seconds:.2f}")
        rows.append((base, f"{shading:g}", setting, str(len(some)), *cells))
    print(
        "absolute medians of the difference in squares of 64 x 64 px on the section, levels of "
        "255, without saturated pixels: median over the squares, and 95th percentile; of the "
        "typical and of the worst pair\n"
    )
    header = ("pixels", "shading", "setting", "n", "median", "worst", "p95", "worst", "max", "maps")
    print(table((*header, "CPU-s"), rows, left=3))
    print(
        f"\naims, with auto up to a shading of {AIMED:g}: median of every pair at most "
        f"{MEDIAN_AIM:g}, p95 at most {P95_AIM:g}; missed: {'yes' if missed else 'no'}"
    )
    return int(missed)
