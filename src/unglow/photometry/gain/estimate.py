"""Gain and offset between pre and post by every method that is asked for, each with its evidence.

The difference of a method is post - (gain * pre + offset); with a gain map see there.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.progress import step
from unglow.core.reasons import explain, split_notes
from unglow.core.rounding import round_digits
from unglow.photometry.cells import Cells, find_aligned_cells
from unglow.photometry.gain import bright_field, linear, moffat, shading
from unglow.photometry.gain.robust import Limits, find_outlying_cells
from unglow.photometry.gain.scale import MethodResult, Scale
from unglow.photometry.gain.warnings import (
    background_warnings,
    copy_warnings,
    pixel_warnings,
)
from unglow.photometry.joint_histogram import ratio_edges
from unglow.photometry.noise_fit import fit_noise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import ArrayLike

    from unglow.core.arrays import Array, Floats
    from unglow.photometry.cell_moments import CellMoments
    from unglow.photometry.gain.scale import ScaleSettings
    from unglow.photometry.gain.shading import Shaded
    from unglow.photometry.imaging import Blur
    from unglow.photometry.joint_histogram import JointStatistics
    from unglow.transform import Transform

    _Draws = Iterable[tuple[Floats, float]]

# The bootstrap draws this many times from the spatial groups of pixels; it needs this many of them.
_DRAWS, _LEAST_GROUPS = 100, 4
# The range of pre that a line rests on excludes the outermost cells.
_PRE_RANGE = 0.005, 0.995
_RATIO_CI_COVERS = (
    "noise and differences over the section (bootstrap of interleaved tiles of 128 px); not a "
    "camera offset, which biases every pure ratio, nor stain so dense that it hides the peak"
)
_LINEAR_CI_COVERS = (
    "chance (noise, and differences between regions of the section: gain_ci95_statistical has it "
    "alone) and, added in squares, gain_systematic95, as this pair shows it: faint "
    "stain, and errors of the map"
)


@dataclass(frozen=True, eq=False, slots=True)
class Evidence:
    """What methods rest on: histograms of a pair, and its cells and map.

    Where ``blur`` made the images match, the cells are those of the images that match.
    ``expected_gain`` is the ratio of the exposure times, post to pre, where both are known.
    ``post_transform`` is the map that post was resampled by, if it was. ``controls`` are the
    results of unstained controls of the dye.
    """

    stats: JointStatistics
    bins: CellMoments | None = None
    transform: Transform | None = None
    blur: Blur | None = None
    expected_gain: float | None = None
    post_transform: Transform | None = None
    controls: tuple[MethodResult, ...] = ()

    @property
    def integer(self) -> bool:
        """Whether the images hold integer grey levels."""
        return self.stats.grey_level == 1


@step("estimate")
def estimate(evidence: Evidence, settings: ScaleSettings, known: Scale | None = None) -> Scale:
    """Estimate gain and offset by every method of ``settings``.

    Never raises for what the pixels hold: a method that finds nothing to work with is marked
    failed, with a sentence, and another one becomes the default. ``known`` is an estimate from
    other cells of the same pair: what methods take from histograms alone is taken from there.
    """
    methods = {
        name: ESTIMATORS[name](evidence, settings)
        if known is None or name == "linear"
        else _remove_noise(known.methods[name])
        for name in settings.names
    }
    if evidence.bins is not None and (line := methods.get("linear")) is not None and line.ok:
        outlying = find_outlying_cells(evidence.bins, *_line_at_cells(evidence.bins, line))
        rest = replace(evidence, bins=evidence.bins.exclude(outlying))
        if outlying.any() and (again := _linear(rest, settings, int(outlying.sum()))).ok:
            evidence, methods["linear"] = rest, again
    failed = {name: r.reason for name, r in methods.items() if r.reason is not None}
    reasons = [f"{name}: {reason}" for name, reason in failed.items()]
    good = [name for name, result in methods.items() if result.ok]
    roles = settings.bright_field
    if not good:
        return Scale(settings.first, methods, "failed", tuple(reasons), bright_field=roles)
    default = settings.first if settings.first in good else good[0]
    if default == settings.first:
        unused = [explain("unused_method", name=name, why=why) for name, why in failed.items()]
        reasons = []
    else:
        why, unused = " ".join(reasons), []
        reasons = [explain("other_method", first=settings.first, default=default, why=why)]
    about_light = pixel_warnings(evidence.stats, methods[default].gain, default)
    if evidence.bins is not None:
        reasons += copy_warnings(evidence.bins, integer=evidence.integer)
    about_light += _add_noise(evidence, methods[default])
    notes = _write_notes(methods[default])
    if roles:
        about_light, notes = (
            bright_field.check_roles(roles),
            bright_field.describe_roles(roles, evidence.stats),
        )
    notes += unused
    doubts, scattered = split_notes((*reasons, *about_light))
    return Scale(
        default,
        methods,
        "ok",
        tuple(doubts),
        notes=(*scattered, *notes),
        bright_field=roles,
    )


def _remove_noise(result: MethodResult) -> MethodResult:
    """Return a result as its method gives it, before the noise of the pair is added."""
    return replace(result, details={k: v for k, v in result.details.items() if k != "noise"})


def _write_notes(result: MethodResult) -> list[str]:
    """Return a sentence for a gain map that was rejected."""
    rejected = result.details.get("gain_map_refused")
    if rejected is None:
        return []
    low, high = rejected["range"]
    return [explain("light_kept", low=low, high=high)]


def _add_noise(evidence: Evidence, result: MethodResult) -> list[str]:
    """Add the noise of the pair to a method's details; return warnings about it."""
    bins, transform = evidence.bins, evidence.transform
    if bins is None or transform is None or result.gain is None or result.offset is None:
        return []
    gain, offset = _line_at_cells(bins, result)
    try:
        noise = fit_noise(
            bins, gain, offset, transform, integer=evidence.integer, blur=evidence.blur
        )
    except ValueError as error:
        return [explain("noise_unknown", why=error)]
    result.details["noise"] = noise.to_json()
    return background_warnings(noise.model.spread)


def _line_at_cells(bins: CellMoments, result: MethodResult) -> tuple[ArrayLike, ArrayLike]:
    """Return gain and offset of a method at the cells, with all that is smooth in them."""
    gain, offset = result.gain or 0.0, result.offset or 0.0
    if result.gain_map is not None:
        light = result.gain_map.evaluate(bins.centres_xy).reshape(bins.post.shape)
        return result.gain_map.line(light, gain, offset)
    if result.details.get("gain_map_refused") is not None:
        # what is smooth is known to be left, and candidates are looked for above it
        return gain, offset + shading.local_level(bins, gain, offset)
    return gain, offset


def _linear(evidence: Evidence, settings: ScaleSettings, outlying: int = 0) -> MethodResult:
    """Fit the line; ``outlying`` cells were excluded before."""
    stats, bins, transform = evidence.stats, evidence.bins, evidence.transform
    if stats.n["overlap"] == 0:
        return MethodResult.make_failed(_explain_failure(stats, ""))
    if bins is None or transform is None:
        return MethodResult.make_failed("no cells of pixels and no map of this pair are given.")
    chosen, moved = find_aligned_cells(bins, transform), evidence.post_transform
    if moved is not None:
        chosen &= find_aligned_cells(bins, moved)
    cells = Cells.from_moments(bins, chosen, transform, evidence.blur, moved)
    details: dict[str, Any] = {
        "pixels_overlap": stats.n["overlap"],
        "cells": len(cells),
        "cells_outlying": outlying,
    }
    limits = Limits(stats.lowest, *bins.tops, stats.grey_level)
    try:
        fit = linear.fit(cells, limits)
    except ValueError as error:
        return MethodResult.make_failed(f"{error}.", details)
    used = rejected = None
    if settings.gain_map == "auto":
        with suppress(ValueError):  # too few cells are left for a map
            used = shading.find(cells, limits, fit, bins.shape)
    if used is not None and not used.believable:
        used, rejected = None, used
    fit = fit if used is None else used.line
    low, high = np.quantile(cells.pre[fit.used], _PRE_RANGE)
    half = fit.half
    details |= {
        "cells_used": int(fit.used.sum()),
        "pre_range": [round_digits(low, 9), round_digits(high, 9)],
        "spread": round_digits(fit.spread, 9),
        "unexplained_px": round_digits(math.sqrt(fit.registration), 9),
        "gain_map": _describe_map(used),
        "gain_map_refused": _describe_map(rejected),
        "gain_ci95_covers": _LINEAR_CI_COVERS,
        "gain_ci95_statistical": list(make_interval(fit.gain, half.gain)),
        "offset_ci95_statistical": list(make_interval(fit.offset, half.offset)),
        "gain_systematic95": round_digits(half.gain_systematic, 9),
        "offset_systematic95": round_digits(half.offset_systematic, 9),
    }
    return MethodResult(
        round_digits(fit.gain, 9),
        round_digits(fit.offset, 9),
        make_interval(fit.gain, half.whole_gain),
        details,
        offset_ci95=make_interval(fit.offset, half.whole_offset),
        gain_map=None if used is None else used.map,
    )


def make_interval(value: float, half: float) -> tuple[float, float]:
    """Return the ends of an interval, rounded."""
    return round_digits(value - half, 9), round_digits(value + half, 9)


def _describe_map(shaded: Shaded | None) -> dict[str, Any] | None:
    """Return the entry of ``scale.json`` about a gain map."""
    if shaded is None:
        return None
    return {
        "degree": len(shaded.map.coefficients) - 1,
        "range": [round_digits(value, 9) for value in shaded.map.limits],
        "dark": round_digits(shaded.map.dark, 9),
        "held_out": round_digits(shaded.held_out, 9),
        "sha256": shaded.map.digest,
    }


def _moffat(evidence: Evidence, _: ScaleSettings) -> MethodResult:
    stats = evidence.stats
    edges, span = ratio_edges(), stats.ratio_range
    if stats.n["ratio"] >= moffat.LEAST and span[0] == span[1]:
        # one image twice, for example: the histogram is a single line, which needs no fit
        return MethodResult(round_digits(10 ** span[0], 9), 0.0, None, _count_pixels(stats))
    try:
        fit = moffat.fit(stats.ratio_counts, edges, span)
    except ValueError as error:
        return MethodResult.make_failed(_explain_failure(stats, str(error)), _count_pixels(stats))
    details = {
        **_count_pixels(stats),
        "converged": fit.converged,
        "mu0": round_digits(fit.mu0, 9),
        "mu": round_digits(fit.mu, 9),
        "alpha": round_digits(fit.alpha, 9) if fit.converged else None,
        "beta": round_digits(fit.beta, 9) if fit.converged else None,
        "bins": len(fit.centres),
        "bins_fitted": int(fit.fitted.sum()),
        "bin_width_dex": round_digits(fit.bin_width, 9),
        "range_dex": [round_digits(fit.centres[0], 9), round_digits(fit.centres[-1], 9)],
        "gain_ci95_covers": _RATIO_CI_COVERS,
    }
    interval = _bootstrap_interval(
        stats, fit.mu, lambda draws, edges: moffat.peaks(draws, edges, span)
    )
    return MethodResult(round_digits(fit.gain, 9), 0.0, interval, details)


def _percentile(evidence: Evidence, settings: ScaleSettings) -> MethodResult:
    stats = evidence.stats

    def quantile(ratios: Array, edges: Floats) -> float:
        below = np.concatenate([[0.0], np.cumsum(ratios[1:-1], dtype=np.float64)])
        if below[-1] == 0:
            raise ValueError("no pixel has a ratio")
        return float(np.interp(settings.percentile / 100 * below[-1], below, edges))

    details = {**_count_pixels(stats), "percentile": settings.percentile}
    try:
        x = quantile(stats.ratio_counts, ratio_edges())
    except ValueError as error:
        return MethodResult.make_failed(_explain_failure(stats, str(error)), details)
    details["gain_ci95_covers"] = _RATIO_CI_COVERS
    interval = _bootstrap_interval(
        stats, x, lambda draws, edges: np.array([quantile(d, edges) for d, _ in draws])
    )
    return MethodResult(round_digits(10**x, 9), 0.0, interval, details)


def _manual(evidence: Evidence, settings: ScaleSettings) -> MethodResult:
    details = _count_pixels(evidence.stats)
    if settings.manual is None:
        return MethodResult.make_failed("no manual gain is given for this pair.", details)
    return MethodResult(settings.manual, 0.0, None, details)


def _exposure(evidence: Evidence, _: ScaleSettings) -> MethodResult:
    details = _count_pixels(evidence.stats)
    if evidence.expected_gain is None:
        return MethodResult.make_failed("the exposure times of both images are not known.", details)
    return MethodResult(evidence.expected_gain, 0.0, None, details)


def _control(evidence: Evidence, _: ScaleSettings) -> MethodResult:
    details = _count_pixels(evidence.stats)
    lines = [(r.gain, r.offset) for r in evidence.controls if r.ok and r.offset is not None]
    if not lines:
        return MethodResult.make_failed("no unstained control of this dye has a gain.", details)
    values = np.array(lines, dtype=np.float64)
    gain, offset = (round_digits(value, 9) for value in values.mean(axis=0))
    details["controls"] = n = len(values)
    if n == 1:
        one = next(r for r in evidence.controls if r.ok)
        return MethodResult(gain, offset, one.gain_ci95, details, offset_ci95=one.offset_ci95)
    # a pair scatters as one more control would, around a mean that is known as well as n allow
    scatter = values.std(axis=0, ddof=1) * math.sqrt(1 + 1 / n)
    of_gain, of_offset = linear.STUDENT[min(n, len(linear.STUDENT) + 1) - 2] * scatter
    interval, of_offset = make_interval(gain, of_gain), make_interval(offset, of_offset)
    return MethodResult(gain, offset, interval, details, offset_ci95=of_offset)


ESTIMATORS: dict[str, Callable[[Evidence, ScaleSettings], MethodResult]] = {
    "linear": _linear,
    "moffat": _moffat,
    "percentile": _percentile,
    "manual": _manual,
    "exposure": _exposure,
    "control": _control,
}
"""The functions of `unglow.photometry.gain.scale.METHODS`."""


def _bootstrap_interval(
    stats: JointStatistics,
    x: float,
    estimator: Callable[[_Draws, Floats], Floats],
) -> tuple[float, float] | None:
    """95 % interval of the gain 10^x: bootstrap over the spatial groups of pixels.

    Groups are interleaved tiles, so correlation within a tile and differences over the section are
    in the interval, which drawing single pixels would exclude. The bins of each draw have a
    random phase, because where they lie is arbitrary. ``estimator`` takes the fine histogram of
    each draw and that phase, as part of a bin, and the edges of the bins, and gives log10 of the
    gains.
    """
    # bins that no group has anything in would only take time; sums of counts are exact as float64
    filled = np.flatnonzero(stats.ratios[:, 1:-1].any(axis=0))
    first, last = (int(filled[0]), int(filled[-1])) if len(filled) else (0, 0)
    edges = ratio_edges()[first : last + 2]
    groups = stats.ratios[stats.ratios.any(axis=1), first : last + 3].astype(np.float64)
    n = len(groups)
    if n < _LEAST_GROUPS:
        return None
    random = np.random.default_rng(0)
    draws = random.multinomial(n, [1 / n] * n, size=_DRAWS)
    phases = random.uniform(-0.5, 0.5, size=_DRAWS)
    try:
        drawn = estimator(
            ((w @ groups, phase) for w, phase in zip(draws, phases, strict=True)), edges
        )
    except ValueError:
        return None
    # The spread of the draws has n - 1 of n degrees of freedom.
    half = linear.STUDENT[n - 2] * float(np.std(drawn, ddof=1)) * math.sqrt(n / (n - 1))
    return round_digits(10 ** (x - half), 9), round_digits(10 ** (x + half), 9)


def _count_pixels(stats: JointStatistics) -> dict[str, Any]:
    """Return the counts that every method rests on."""
    n = stats.n
    return {"pixels": n["ratio"], "pixels_overlap": n["overlap"]}


def _explain_failure(stats: JointStatistics, reason: str) -> str:
    if stats.n["overlap"] == 0:
        return "pre and post have no pixel in common."
    if stats.n["ratio"] == 0:
        return "no pixel has signal in both images (post above 0, pre at least one grey level)."
    return f"{reason}."
