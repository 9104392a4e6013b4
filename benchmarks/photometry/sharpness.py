"""Pairs of differing focus: the width that is found, and what matching them is worth."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from registration.pool import collect
from subcommands import add_draws
from tables import save_json, table

from photometry.pairs import Pair, aligned, images, transform_of
from unglow.core.records import to_record
from unglow.core.windows import ArrayPixels, Window
from unglow.detection.coarse_grid import estimate_background, estimate_error
from unglow.detection.search import search
from unglow.detection.section_mask import Section
from unglow.detection.settings import DetectSettings
from unglow.detection.snr import Scene
from unglow.io.stored_values import quantise
from unglow.photometry.difference import difference
from unglow.photometry.gain.estimate import Evidence
from unglow.photometry.gain.scale import ScaleSettings
from unglow.photometry.imaging import NoiseModel, blur_image
from unglow.photometry.sharpness import estimate_matched

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from photometry.pairs import Aligned
    from unglow.photometry.gain.scale import Scale

BLURS = (0.0, 0.5, 0.8, 1.2)
"""Standard deviations, px, of the image that is out of focus; the other one is in focus."""
KINDS = (("phantom", 0.0), ("phantom", 0.2), ("scanner-A", 0.0), ("fluorescence", 0.0))
"""Scene, and share of the section under patches of stain."""
GAINS = 1.3, 2.0
SNR = 5.0
WIDTH_AIM = 0.15
"""Error of the width, px, from 0.5 px on."""
SETTINGS = "auto", "never"


@dataclass(frozen=True)
class Outcome:
    """One pair; lists are of the settings auto and never.

    Attributes
    ----------
    width, error, blurred
        As `unglow.photometry.imaging.Sharpness` has them.
    rms
        Residual below the background on the section, over the noise of the camera.
    spread, gain
        Of the noise model, and of linear over the true one.
    negatives, candidates
        Sources on the negated difference and on the difference with S/N of at least `SNR`.
    """

    pair: Pair
    width: float
    error: float
    blurred: str | None
    rms: tuple[float, ...]
    spread: tuple[float, ...]
    gain: tuple[float, ...]
    negatives: tuple[int, ...]
    candidates: tuple[int, ...]

    @property
    def true(self) -> float:
        """The width that there is, with its sign."""
        return self.pair.blur_post - self.pair.blur_pre


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    add_draws(parser, 2, 1024)


def run(args: argparse.Namespace) -> int:
    """Run the draws, print the table; return 1 where an aim is missed."""
    kinds = [k for k in KINDS if args.data is not None or k[0] == "phantom"]
    signed = sorted({s * b for b in BLURS for s in (-1, 1)})
    pairs = [
        Pair(
            *(base, seed, args.side, GAINS[seed % 2], 1.0, 2.0, ("uint8", "uint16")[seed % 2]),
            stained=share,
            blur_post=max(width, 0.0),
            blur_pre=max(-width, 0.0),
        )
        for base, share in kinds
        for seed in range(args.first, args.first + args.draws)
        for width in signed
    ]
    outcomes = collect(partial(measured, data=args.data), pairs, args.jobs, _line)
    save_json(args.json, outcomes)
    return report(outcomes)


def measured(pair: Pair, data: Path | None) -> Outcome:
    """Render, align, scale, subtract and search one pair, with and without matching."""
    post, pre = images(pair, data)
    found = aligned(post, pre, transform_of(pair, post, pre, true=True))
    shown = ArrayPixels(post), ArrayPixels(found.pre)
    evidence = Evidence(found.statistics, found.bins, found.transform)
    rows, width, error, image = [], math.nan, math.nan, None
    for setting in SETTINGS:
        scale = estimate_matched(evidence, shown, ScaleSettings(("linear",), match_blur=setting))
        if scale.sharpness is not None:
            sharpness = scale.sharpness
            width, error, image = sharpness.width_px, sharpness.error_px, sharpness.blurred
        rows.append(_judged(pair, found, scale))
    rms, spread, gain, negatives, candidates = zip(*rows, strict=True)
    return Outcome(pair, width, error, image, rms, spread, gain, negatives, candidates)


def _judged(pair: Pair, found: Aligned, scale: Scale) -> tuple[float, float, float, int, int]:
    """Subtract and search; return what `Outcome` lists."""
    chosen = scale.default_result
    if chosen.gain is None or chosen.offset is None:
        raise ValueError(f"no gain was found: {chosen.reason}")
    blur, post, pre = scale.blur, found.post, found.pre
    if blur is not None:
        post = blur_image(post, blur.taps) if blur.image == "post" else post
        pre = blur_image(pre, blur.taps) if blur.image == "pre" else pre
    left = ArrayPixels(quantise(difference(post, pre, chosen.gain, chosen.offset)), levels=4)
    noise = to_record(chosen.details["noise"], NoiseModel)
    scene = Scene(
        ArrayPixels(found.post),
        ArrayPixels(found.pre, levels=4),
        left,
        chosen.gain,
        noise,
        found.transform,
        estimate_error(found.transform),
        found.bins.tops,
        DetectSettings(),
        estimate_background(left),
        blur=blur,
    )
    section = Section.from_pixels(scene.pre)
    counts = search(scene, section, workers=1).report(None)["by_threshold"]
    at = next(row for row in counts if row["snr"] >= SNR)
    rms = _residual(pair, found, left, section)
    return rms, noise.spread, chosen.gain / pair.gain, at["negative"], at["candidates"]


def _residual(pair: Pair, found: Aligned, left: ArrayPixels, section: Section) -> float:
    """Root mean square of what is below the background, over the noise of the camera there.

    The camera of the pairs has 8 electrons per level and a read noise of half a level.
    """
    whole = Window.from_shape(found.post.shape)
    values = left.read(whole)
    on = section.mask_window(whole) & np.isfinite(values)
    middle = float(np.median(values[on]))
    below = on & (values < middle)
    levels: NDArray[np.float64] = np.maximum(found.pre[below].astype(np.float64), 0)
    per = pair.counts
    of_pre = per * levels / 8 + per**2 / 4
    of_post = per * pair.gain * levels / 8 + per**2 / 4
    noise = of_post + pair.gain**2 * of_pre
    return float(np.sqrt(np.mean((values[below] - middle) ** 2 / noise)))


def report(outcomes: Sequence[Outcome]) -> int:
    """Print the table; return 1 where an aim is missed."""
    rows, missed = [], False
    keys = sorted({(o.pair.base, o.pair.stained, o.true) for o in outcomes})
    for base, share, true in keys:
        some = [o for o in outcomes if (o.pair.base, o.pair.stained, o.true) == (base, share, true)]
        widths = [o.width for o in some]
        used = sum(o.blurred is not None for o in some)
        right = sum(o.blurred == ("pre" if true > 0 else "post") for o in some)
        off = max(abs(w - true) for w in widths)
        bad = used > 0 if true == 0 else used > right or off > WIDTH_AIM
        fewer = [sum(o.negatives[k] for o in some) for k in range(2)]
        bad |= fewer[0] > fewer[1] + 3 * math.sqrt(fewer[1] + 1)
        missed |= bad
        pairs = [
            "/".join(f"{np.mean([getattr(o, n)[k] for o in some]):.2f}" for k in range(2))
            for n in ("rms", "spread", "gain")
        ]
        totals = [
            "/".join(str(sum(getattr(o, n)[k] for o in some)) for k in range(2))
            for n in ("negatives", "candidates")
        ]
        name = base if share == 0 else f"{base}, {100 * share:.0f} % stained"
        error = np.mean([o.error for o in some])
        cells = (f"{true:+.1f}", f"{np.mean(widths):+.2f}", f"{error:.2f}")
        rows.append((name, str(len(some)), *cells, f"{used}" + " !"[bad], *pairs, *totals))
    header = (
        "pairs", "n", "width", "found", "error", "used", "residual", "spread", "gain",
        f"negative, S/N {SNR:g}", "positive",
    )  # fmt: skip
    print(
        "width: how far post is out of focus against pre, px; pairs of numbers: with / without "
        "matching; gain over the true one\n"
    )
    print(table(header, rows, left=1))
    return int(missed)


def _line(o: Outcome) -> str:
    return (
        f"{o.pair.base} {o.pair.seed}, {o.true:+.1f}: {o.width:+.3f} +- {o.error:.3f}, "
        f"{o.blurred} blurred, negatives {o.negatives}"
    )
