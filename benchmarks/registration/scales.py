"""Pairs of all magnifications: right, refused, or wrong without a word."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np
import tifffile
from subcommands import add_draws
from tables import number, save_json, table

from registration.draws import images, magnified, unrelated
from registration.judging import errors, inside, section_points
from registration.pool import call, collect, registered
from registration.real import slide, tissue
from registration.robustness import RIGHT_PX, WRONG_PX
from unglow.registration.register import RegisterSettings

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from numpy.typing import NDArray

    from registration.draws import Draw
    from unglow.transform import Transform

    Image = NDArray[Any]

RANGE = 5.0
_EVERY = 5
"""One pair in so many has no map."""
_PIXEL_SIZES = ("true", "none", "none", "wrong")
_SCANNERS = (("A", "Z"), ("Z", "N2"), ("N2", "A"))
_FACTORS = ((1.0, 0.23), (1.0, 0.45), (1.0, 0.7), (0.7, 1.0), (0.4, 1.0), (0.23, 1.0))
_CROP = 1300
_NOISE_LEVELS = 6.0
"""Standard deviation of what a resampled slide gets, of the sum of three colours."""


@dataclass(frozen=True)
class Outcome:
    """What became of one pair; ``scale`` is NaN without a map, errors are px of the coarser image.

    ``sizes`` says what pixel sizes say about the scale: ``true``, ``wrong`` or ``none``.
    """

    seed: int
    name: str
    scale: float
    sizes: str
    status: str
    found: float
    significance: float
    p95_px: float
    cpu_seconds: float
    reasons: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """``right``, ``refused``, ``doubted`` (wrong, but suspect), or ``SILENTLY WRONG``."""
        if self.status == "failed":
            return "refused"
        if self.p95_px < (RIGHT_PX if self.status == "ok" else WRONG_PX):
            return "right"
        return "doubted" if self.status == "suspect" else "SILENTLY WRONG"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    add_draws(parser, 100)
    parser.add_argument(
        "--crossed", type=int, default=40, help="unrelated real pairs (default: 40)"
    )


def run(args: argparse.Namespace) -> int:
    """Run all parts, print the tables; return 1 where an aim is missed."""
    data: Path | None = args.data
    seeds = range(args.first, args.first + args.draws)
    jobs = [partial(random_pair, seed, data) for seed in seeds]
    if data is not None:
        jobs += [
            partial(crossed, seed, data) for seed in range(args.first, args.first + args.crossed)
        ]
        jobs += [partial(resampled, k, data) for k in range(len(_SCANNERS) * len(_FACTORS))]
    outcomes = collect(call, jobs, args.jobs, _progress)
    save_json(args.json, [asdict(outcome) | {"verdict": outcome.verdict} for outcome in outcomes])
    return int(_report(outcomes))


def _progress(o: Outcome) -> str:
    return _line(o) if o.verdict != "right" and not math.isnan(o.scale) else ""


def random_pair(seed: int, data: Path | None) -> Outcome:
    """Register one pair of any scale, or one that has no map."""
    rng = np.random.default_rng([seed, 31])
    sizes = str(rng.choice(_PIXEL_SIZES))
    ratio = float(np.exp(rng.uniform(-np.log(RANGE), np.log(RANGE))))
    if seed % _EVERY == 0:
        kind, post, pre = unrelated(seed // _EVERY, data)
        if rng.random() < 0.5:
            pre = _resized(pre, float(rng.uniform(0.4, 2.0)))
        return _outcome(seed, kind, (post, pre), None if sizes == "none" else ratio)
    draw = magnified(seed, data, ratio if sizes != "wrong" else 1 / ratio)
    post, pre, base = images(draw, data)
    expected = {"true": draw.scale, "none": None, "wrong": ratio}[sizes]
    found = _outcome(seed, draw.base, (post, pre), expected, draw=draw, base=base)
    return replace(found, sizes=sizes)


def crossed(seed: int, data: Path) -> Outcome:
    """Register two real images of different things, one of them turned and of another scale."""
    rng = np.random.default_rng([seed, 33])
    one, other = rng.choice(len(_REAL), 2, replace=False)
    post, pre = (_REAL[k](data, rng) for k in (one, other))
    pre = np.ascontiguousarray(
        np.rot90(_resized(pre, float(rng.uniform(0.5, 1.6))), rng.integers(4))
    )
    return _outcome(seed, "real images crossed", (post, pre), None)


def _place(at: float, data: Path, rng: np.random.Generator) -> Image:
    """Return a part of a scanner's image; parts at 0.15 and 0.5 never show the same."""
    image = slide(data, str(rng.choice(["A", "Z", "N1", "N2"])))
    y, x = (int(at * n) for n in image.shape)
    return image[y : y + _CROP, x : x + _CROP]


def _read(name: str, data: Path, _: np.random.Generator) -> Image:
    image = tifffile.imread(data / name) if name.endswith("tif") else cv2.imread(str(data / name))
    return image if image.ndim == 2 else image.sum(axis=2, dtype=np.uint16)


_HISTOLOGY = "histology_landmarks/lesions_/scale-5pc/Izd2-29-041-w35_"
_REAL = (
    lambda data, rng: _place(0.15, data, rng),
    lambda data, rng: _place(0.5, data, rng),
    partial(_read, "two_round_fluorescence/round_fix_mip.tif"),
    partial(_read, "signal_autofluorescence/signal/signal_ch000013.tif"),
    partial(_read, _HISTOLOGY + "HE.jpg"),
    partial(_read, "tiff_variety/grey10kx5k.tif"),
)
"""Real images, no two of the same thing."""


def resampled(k: int, data: Path) -> Outcome:
    """Register a slide in two scanners, one of them made coarser; truth is the map of the whole."""
    names, (f, g) = _SCANNERS[k // len(_FACTORS)], _FACTORS[k % len(_FACTORS)]
    rng = np.random.default_rng([k, 34])
    post, pre = slide(data, names[0]), slide(data, names[1])
    truth, points = _whole_map(names, data), tissue(post)
    post, pre = _recorded(post, f, rng), _recorded(pre, g, rng)
    registration, seconds = registered(post, pre)
    found = registration.transform
    points = points[inside(truth.map(points), truth.pre_shape)]
    off = found.map((points + 0.5) * f - 0.5) - ((truth.map(points) + 0.5) * g - 0.5)
    scale = truth.scale * g / f
    outcome = _make_outcome(k, f"slide {'-'.join(names)}", found, seconds, "none")
    lengths = np.hypot(*off.T)
    p95 = float(np.quantile(lengths, 0.95)) if np.isfinite(lengths).all() else math.nan
    return replace(outcome, scale=scale, p95_px=p95 / max(1.0, scale))


@lru_cache(maxsize=1)
def _whole_map(names: tuple[str, str], data: Path) -> Transform:
    return registered(slide(data, names[0]), slide(data, names[1]))[0].transform


def _recorded(image: Image, factor: float, rng: np.random.Generator) -> Image:
    """Resample an image; a coarser one gets noise, which its own averaging has taken away."""
    resized = _resized(image, factor)
    if factor == 1:
        return resized
    noisy = resized + rng.normal(0, _NOISE_LEVELS, resized.shape)
    return np.clip(np.rint(noisy), 0, np.iinfo(image.dtype).max).astype(image.dtype)


def _resized(image: Image, factor: float) -> Image:
    if factor == 1:
        return image
    rows, cols = (round(n * factor) for n in image.shape)
    kind = cv2.INTER_AREA if factor < 1 else cv2.INTER_CUBIC
    resized = cv2.resize(image.astype(np.float32), (cols, rows), interpolation=kind)
    top = np.iinfo(image.dtype).max if image.dtype.kind == "u" else np.inf
    return np.clip(np.rint(resized), 0, top).astype(image.dtype)


def _outcome(
    seed: int,
    name: str,
    pair: tuple[Image, Image],
    expected: float | None,
    draw: Draw | None = None,
    base: Any = None,
) -> Outcome:
    settings = RegisterSettings(mirror=draw is not None and draw.mirror)
    registration, seconds = registered(*pair, settings, expected)
    found, sizes = registration.transform, "none" if expected is None else "wrong"
    outcome = _make_outcome(seed, name, found, seconds, sizes)
    if draw is None:
        return outcome
    off = errors(found, draw.warp, section_points(base, draw.shape))
    return replace(outcome, scale=draw.scale, p95_px=off.p95 / max(1.0, draw.scale))


def _make_outcome(seed: int, name: str, found: Transform, seconds: float, sizes: str) -> Outcome:
    return Outcome(
        seed, name, math.nan, sizes, found.status, found.scale, found.significance,
        math.nan, seconds, found.reasons,
    )  # fmt: skip


def _report(outcomes: list[Outcome]) -> bool:
    groups: dict[str, list[Outcome]] = {}
    for o in outcomes:
        if math.isnan(o.scale):
            groups.setdefault("no map: " + o.name, []).append(o)
            continue
        octave = f"{2.0 ** round(math.log2(o.scale)):g}"
        kind = "slides resampled" if o.name.startswith("slide ") else "draws"
        groups.setdefault(f"{kind}, scale about {octave:>4}", []).append(o)
        if kind == "draws":
            groups.setdefault(f"draws, pixel sizes {o.sizes}", []).append(o)
    verdicts = "right", "refused", "doubted", "SILENTLY WRONG"
    rows = []
    for name, group in sorted(groups.items()):
        counts = Counter(o.verdict for o in group)
        p95 = [o.p95_px for o in group if o.verdict == "right"]
        most = max((o.significance for o in group if np.isfinite(o.significance)), default=math.nan)
        cells = [str(counts[verdict]) for verdict in verdicts]
        typical = number(float(np.median(p95))) if p95 else ""
        seconds = number(float(np.mean([o.cpu_seconds for o in group])))
        rows.append((name, str(len(group)), *cells, typical, number(most), seconds))
    print(table(("pairs", "", *verdicts, "p95 px", "most significant", "CPU-s"), rows))
    wrong = [o for o in outcomes if o.verdict == "SILENTLY WRONG"]
    accepted = [o for o in outcomes if math.isnan(o.scale) and o.status != "failed"]
    print("\n".join(_line(o) for o in (*wrong, *accepted)))
    print(
        f"silently wrong: {len(wrong)} (aim: 0)   unrelated but accepted: {len(accepted)} (aim: 0)"
    )
    return bool(wrong or accepted)


def _line(o: Outcome) -> str:
    return (
        f"{o.verdict}: seed {o.seed}, {o.name}, scale {o.scale:.3f} (sizes {o.sizes}), {o.status} "
        f"{o.found:.3f}, p95 {o.p95_px:.2f} px, significance {o.significance:.1f}: "
        + " ".join(o.reasons)
    )
