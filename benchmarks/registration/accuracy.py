"""Errors to the truth on large pairs: undeformed, smoothly deformed, cut into strips that jump."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy import ndimage
from subcommands import add_draws
from tables import save_json, table

from registration.bases import (
    SCANNERS,
    PhantomBase,
    PictureBase,
    picture,
)
from registration.geometry import Pose, Warp, draw_strips, waves
from registration.judging import BORDER_PX, SEAM_PX, Errors, errors, inside, section_points
from registration.pool import collect, registered
from registration.recording import Camera, saturate, shade, spots, stain
from unglow.phantom.truth import PhantomMap
from unglow.registration.field_uncertainty import length_quantile, look_up_values
from unglow.registration.settings import RegisterSettings

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from registration.bases import Base
    from registration.geometry import Points
    from unglow.transform import Transform

CASES = ("affine", "smooth", "strips", "strips + smooth", "unequal focus", "new signal")
GROUPS = ("phantom", "scanner", "fluorescence")
HONEST_FACTOR, HONEST_PX, HONEST_SHARE = 1.5, 0.02, 0.9
RATIO = 1.3
_MICROBES_PER_MPX = 40.0
_SOFTER_PX = 0.8
_STAIN, _STRENGTH = 0.2, 1.0
_SHADING = 0.1
_PICTURE_MARGIN = 300


@dataclass(frozen=True)
class Aim:
    """One aim: a column of `Errors`, its limit in px, over the typical or over every draw."""

    column: str
    limit: float
    worst: bool = False

    def reached(self, outcomes: Sequence[Outcome]) -> float:
        """Return what was reached, px; infinite where a draw has no map."""
        values = [getattr(o.errors, self.column) for o in outcomes]
        if not np.isfinite(values).all():
            return float("inf")
        return float(np.max(values) if self.worst else np.median(values))


AIMS = {
    "affine": (Aim("median", 0.006), Aim("p95", 0.012)),
    "smooth": (Aim("median", 0.03), Aim("p95", 0.12), Aim("inside_most", 0.5, worst=True)),
    "strips": (Aim("seam_median", 0.1),),
    "strips + smooth": (Aim("seam_median", 0.1),),
    "unequal focus": (Aim("p95", 0.02),),
    "new signal": (Aim("p95", 0.02),),
}


@dataclass(frozen=True, kw_only=True)
class Pair(Pose):
    """One pair: what it shows, its truth and its camera."""

    case: str
    base: str
    seed: int
    deform_px: float
    wavelength_px: float
    gain: float
    dtype: str

    @property
    def warp(self) -> Warp:
        """The true map."""
        bends = waves(self.shape, self.deform_px, self.wavelength_px, self.seed)
        strips = draw_strips(self.pre_shape, self.seed) if "strips" in self.case else None
        return Warp(PhantomMap(self.matrix(), bends), strips)


@dataclass(frozen=True)
class Outcome:
    """What became of one pair."""

    pair: Pair
    status: str
    reasons: tuple[str, ...]
    model: str
    errors: Errors
    said: tuple[float, float]
    cpu_seconds: float

    @property
    def group(self) -> str:
        """The row of the table that it belongs to."""
        return "scanner" if self.pair.base in SCANNERS else self.pair.base

    @property
    def honest(self) -> bool:
        """Whether the error that was said is near the true one."""
        true, said = self.errors.p95, self.said[1]
        near = abs(said - true) <= HONEST_PX
        return bool(near or true / HONEST_FACTOR <= said <= true * HONEST_FACTOR)

    @property
    def ratio(self) -> float:
        """The 95th percentile that was said over the true one."""
        return self.said[1] / self.errors.p95


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    add_draws(parser, 20, 4096)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=CASES)
    parser.add_argument("--bases", nargs="+", choices=GROUPS, default=GROUPS)
    parser.add_argument(
        "--strips", choices=("auto", "never"), default="auto", help="setting register.strips"
    )


def run(args: argparse.Namespace) -> int:
    """Run the draws, print the tables; return 1 where an aim is missed."""
    data: Path | None = args.data
    groups = [g for g in args.bases if data is not None or g == "phantom"]
    seeds = range(args.first, args.first + args.draws)
    pairs = [
        drawn(case, group, seed, args.side, data)
        for group in groups
        for case in args.cases
        for seed in seeds
    ]
    work = partial(measured, data=data, strips=args.strips)
    outcomes = collect(work, pairs, args.jobs, _line)
    outcomes.sort(key=lambda o: (CASES.index(o.pair.case), GROUPS.index(o.group), o.pair.seed))
    save_json(args.json, {"outcomes": outcomes})
    return report(outcomes)


def drawn(case: str, group: str, seed: int, side: int, data: Path | None) -> Pair:
    """Draw one pair; a scanner's image takes turns with the others."""
    rng = np.random.default_rng([seed, 31, GROUPS.index(group)])
    base = list(SCANNERS)[seed % len(SCANNERS)] if group == "scanner" else group
    shape = (side, side)
    if group != "phantom" and data is not None:
        rows, cols = picture(base, data).shape
        shape = min(side, rows - _PICTURE_MARGIN), min(side, cols - _PICTURE_MARGIN)
    return Pair(
        case=case,
        base=base,
        seed=seed,
        shape=shape,
        pre_shape=(round(1.02 * shape[0]), round(1.03 * shape[1])),
        rotation_deg=rng.uniform(-10, 10),
        scale=rng.uniform(0.95, 1.05),
        shear=rng.uniform(-0.003, 0.003),
        shift=(rng.uniform(-120, 120), rng.uniform(-120, 120)),
        deform_px=rng.uniform(4, 8) if case.endswith("smooth") else 0.0,
        wavelength_px=rng.uniform(1000, 2000),
        gain=float(np.exp(rng.uniform(np.log(0.7), np.log(1.5)))),
        dtype=("uint8", "uint16")[seed % 2],
    )


def base_of(pair: Pair, data: Path | None) -> Base:
    """Return the scene of a pair; a picture is cut out around its middle."""
    if pair.base == "phantom" or data is None:
        return PhantomBase(pair.shape, pair.seed)
    shown = picture(pair.base, data)
    row, col = ((n - m) // 2 for n, m in zip(shown.shape, pair.shape, strict=True))
    return PictureBase(shown, pair.shape, (row, col))


def images(pair: Pair, base: Base) -> tuple[NDArray[Any], NDArray[Any]]:
    """Render post and pre as the camera records them."""
    rng = np.random.default_rng([pair.seed, 32])
    camera = Camera(dtype=pair.dtype)
    pre = base.pre(pair.warp, pair.pre_shape)
    shade(pre, -_SHADING / 2, rng)
    if pair.case == "unequal focus":
        pre = ndimage.gaussian_filter(pre, _SOFTER_PX)
    pre = camera.exposed(pre, rng)
    post = base.post()
    shade(post, _SHADING / 2, rng)
    if pair.case == "new signal":
        stain(post, base, _STAIN, _STRENGTH, pair.seed)
    saturate(post, 0.0, pair.gain)
    spots(post, base, _MICROBES_PER_MPX, pair.seed)
    return camera.exposed(post, rng), pre


def measured(pair: Pair, data: Path | None, strips: Literal["auto", "never"] = "auto") -> Outcome:
    """Render, register and judge one pair."""
    base = base_of(pair, data)
    post, pre = images(pair, base)
    found, cpu = registered(post, pre, RegisterSettings(strips=strips))
    points = section_points(base, pair.shape)
    return Outcome(
        pair=pair,
        status=found.transform.status,
        reasons=found.transform.reasons,
        model=found.transform.model_name,
        errors=errors(found.transform, pair.warp, points),
        said=said(found.transform, points),
        cpu_seconds=cpu,
    )


def said(found: Transform, points: Points) -> tuple[float, float]:
    """Median and 95th percentile of the error that a map says it has at points (N, 2) of post, px.

    By its error map: the error in transform.json is over the section as unglow sees it, which goes
    on where there is little texture.
    """
    field = found.displacement
    if field is None:
        return found.error_px.median, found.error_px.p95
    seen = points[inside(found.map(points), found.pre_shape)]
    errors = look_up_values(field, field.error_px, seen)
    return length_quantile(errors, 0.5), length_quantile(errors, 0.95)


def report(outcomes: Sequence[Outcome]) -> int:
    """Print the aims; return 1 where one is missed."""
    rows: list[tuple[str, ...]] = []
    missed = False
    for case, group in product(CASES, GROUPS):
        some = [o for o in outcomes if o.pair.case == case and o.group == group]
        for name, reached, limit in list_aims(case, some) if some else ():
            good = reached <= limit
            missed |= not good
            ratio = f"{reached / limit:.2f}" + " !"[not good]
            rows.append((case, group, str(len(some)), name, f"{reached:.4f}", f"{limit:g}", ratio))
    print(
        f"errors in px; inside: more than {BORDER_PX:g} px from any border; off seams: more than "
        f"{SEAM_PX:g} px from a seam\nnot honest: the p95 that is said is not within a factor of "
        f"{HONEST_FACTOR:g} or {HONEST_PX:g} px of the true one\n"
    )
    print(table(("case", "pixels", "draws", "at most", "reached", "limit", "ratio"), rows, left=4))
    return int(missed)


def list_aims(case: str, some: Sequence[Outcome]) -> Iterator[tuple[str, float, float]]:
    """Yield the name of each aim, what was reached, and its limit."""
    for aim in AIMS[case]:
        name = aim.column.replace("_", " ").replace("seam", "off seams")
        over = "every draw" if aim.worst else "typical draw"
        yield f"{name}, {over}, px", aim.reached(some), aim.limit
    ratio = float(np.median([o.ratio for o in some]))
    off = max(ratio, 1 / ratio) if ratio > 0 else float("inf")  # NaN where there is no map
    yield "said p95 off by, typical draw", off, RATIO
    yield "not honest", float(np.mean([not o.honest for o in some])), 1 - HONEST_SHARE


def _line(o: Outcome) -> str:
    e, p = o.errors, o.pair
    text = (
        f"{p.case}, {p.base}, seed {p.seed}: {o.status} {o.model}, median {e.median:.4f}, "
        f"p95 {e.p95:.4f}, inside max {e.inside_most:.3f}, off seams {e.seam_median:.4f}, "
        f"said p95 {o.said[1]:.4f} ({o.ratio:.2f}{'' if o.honest else ', not honest'}), "
        f"{o.cpu_seconds:.1f} CPU-s"
    )
    return text + "".join("\n    " + reason for reason in o.reasons)
