"""Candidates on phantoms: recall, precision and false ones, against those with the true map."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from time import process_time
from typing import TYPE_CHECKING

from registration.pool import collect, registered
from subcommands import add_draws
from tables import save_json, table

from photometry.spots import Phantom, Score, judged, pooled, searched
from unglow.phantom.spec import PhantomSpec
from unglow.photometry.gain.estimate import Evidence, estimate
from unglow.photometry.gain.scale import ScaleSettings
from unglow.photometry.joint_histogram import JointStatistics

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from unglow.transform import Transform

LOSS = 0.02
"""Recall and precision may be lower by this than with the true map and gain."""
RATES = 0.03, 0.07
"""The true rate of false ones at ``fdr: 0.05``."""


@dataclass(frozen=True)
class Outcome:
    """One pair: the list with what was found of map and gain, and the list with the truth."""

    seed: int
    dtype: str
    found: Score
    ideal: Score
    said: float | None
    threshold: float | None
    cpu_seconds: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    add_draws(parser, 20, 1536)
    parser.add_argument("--dtypes", nargs="+", choices=("uint8", "uint16"), default=["uint8"])


def run(args: argparse.Namespace) -> int:
    """Run the draws, print the tables; return 1 where an aim is missed."""
    seeds = range(args.first, args.first + args.draws)
    pairs = [(seed, dtype) for dtype in args.dtypes for seed in seeds]
    outcomes = collect(partial(measured, side=args.side), pairs, args.jobs, _line)
    outcomes.sort(key=lambda o: (o.dtype, o.seed))
    save_json(args.json, {"outcomes": outcomes})
    return report(outcomes)


def measured(pair: tuple[int, str], side: int) -> Outcome:
    """Render one pair, and search it with what is found and with what is true."""
    seed, dtype = pair
    phantom = Phantom.of(PhantomSpec(shape=(side, side), rgb=False, seed=seed, dtype=dtype))
    microbes = phantom.microbes()
    map_found = registered(phantom.post, phantom.pre)[0].transform
    started = process_time()
    found = searched(phantom, map_found, scale_found(phantom, map_found))
    seconds = process_time() - started
    ideal = searched(phantom, phantom.true_map(), phantom.scale)
    report = found.report(None)
    return Outcome(
        seed=seed,
        dtype=dtype,
        found=judged(found, microbes),
        ideal=judged(ideal, microbes),
        said=report["fdr"],
        threshold=report["threshold_snr"],
        cpu_seconds=seconds,
    )


def report(outcomes: Sequence[Outcome]) -> int:
    """Print the tables; return 1 where an aim is missed."""
    rows, aims, missed = [], [], False
    for dtype in sorted({o.dtype for o in outcomes}):
        some = [o for o in outcomes if o.dtype == dtype]
        found, ideal = (pooled([getattr(o, n) for o in some]) for n in ("found", "ideal"))
        for name, score in (("found", found), ("true", ideal)):
            rows.append((dtype, name, str(len(some)), *_cells(score)))
        losses = {n: getattr(ideal, n) - getattr(found, n) for n in ("recall", "precision")}
        for name, loss in losses.items():
            missed |= loss > LOSS
            aims.append((dtype, f"loss of {name}", f"{loss:.3f}", f"at most {LOSS:g}"))
        rate = 1 - found.precision
        missed |= not RATES[0] <= rate <= RATES[1]
        aims.append((dtype, "rate of false ones", f"{rate:.3f}", f"{RATES[0]:g} to {RATES[1]:g}"))
    header = ("pixels", "map and gain", "pairs", "candidates", "recall", "precision", "F1")
    print(table(header, rows, left=2))
    print("\n" + table(("pixels", "aim", "reached", "limit"), aims, left=2))
    return int(missed)


def scale_found(phantom: Phantom, transform: Transform) -> tuple[float, float]:
    """Return gain and offset of the default method."""
    aligned = phantom.aligned(transform)
    statistics = JointStatistics.create(
        post_range=(float(phantom.post.min()), float(phantom.post.max())),
        pre_range=(float(phantom.pre.min()), float(phantom.pre.max())),
        grey_level=1.0,
        integer=True,
    )
    statistics.add(phantom.post, aligned, origin=(0, 0))
    evidence = Evidence(statistics, phantom.bins(aligned), transform)
    chosen = estimate(evidence, ScaleSettings()).default_result
    if chosen.gain is None or chosen.offset is None:
        raise ValueError(f"no gain was found: {chosen.reason}")
    return chosen.gain, chosen.offset


def _cells(score: Score) -> tuple[str, ...]:
    shares = (f"{v:.3f}" for v in (score.recall, score.precision, score.f1))
    return (str(score.candidates), *shares)


def _line(o: Outcome) -> str:
    return (
        f"{o.dtype}, seed {o.seed}: {o.found.candidates} candidates of at least "
        f"{o.threshold or float('nan'):.2f}, false ones said {o.said or float('nan'):.3f}, true "
        f"{1 - o.found.precision:.3f}; recall {o.found.recall:.3f} (with the truth "
        f"{o.ideal.recall:.3f}), {o.cpu_seconds:.1f} CPU-s"
    )
