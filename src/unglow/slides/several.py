"""Gains of a marker with several backgrounds, as the scale of the marker, and of one background.

The gain of a method is the sum of the gains, and the background that goes with it is the mean of
the backgrounds weighted by them: so a marker is subtracted as others are.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.progress import step
from unglow.core.reasons import explain, split_notes
from unglow.core.rounding import round_digits
from unglow.memory import CELL
from unglow.photometry.gain import several
from unglow.photometry.gain.estimate import make_interval
from unglow.photometry.gain.robust import find_outlying_cells
from unglow.photometry.gain.scale import MethodResult, Scale
from unglow.slides.slide import FIT, INTERPOLATE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from unglow.core.arrays import Floats, Floats32
    from unglow.photometry.cell_moments import CellMoments


_COVERS = (
    "differences between 16 regions of the section (each left out once), and what is unknown of "
    "the noise in the backgrounds; not stain all over the section"
)
_TOLERANCE = 0.05
_FAR = 1.5
# Of the details of `linear`, those of intervals and spread that are of its own line.
_OF_LINEAR = ("_statistical", "_systematic95", "spread")
_MOST_CELLS = 100_000
"""The line of one background rests on at most this many cells, so that it takes little memory."""


def uses_exposure(methods: Sequence[str], default: str | None, choice: str) -> bool:
    """Return whether exposure times and cycles give the gains that are subtracted."""
    return choice == INTERPOLATE or (default or methods[0]) == "exposure"


@step("estimate")
def estimate_several(
    moments: Mapping[str, CellMoments],
    noise: Mapping[str, float],
    expected: Sequence[float] | None,
    method: str,
) -> Scale:
    """Return gains and offset of a marker with several backgrounds.

    Parameters
    ----------
    moments
        Cells of the marker with each background, on one lattice in the frame, by background.
    noise
        Variance of the noise in a px of each background, grey levels^2.
    expected
        Gains by exposure times and cycles; None if they are not known.
    method
        `FIT` or `INTERPOLATE`: which one is subtracted, if it can be had.
    """
    names = list(moments)
    whole = np.logical_and.reduce([one.count == CELL**2 for one in moments.values()])
    there = np.flatnonzero(whole)
    backgrounds = _stack_px(there, [moments[name].pre for name in names])
    fitted = None
    try:
        fitted = _fit(there, backgrounds, moments[names[0]], [noise[name] for name in names])
        found = _make_result(names, fitted)
    except (ValueError, np.linalg.LinAlgError) as error:
        found = MethodResult.make_failed(f"{error}.")
    methods = {FIT: found}
    if expected is not None:
        methods[INTERPOLATE] = _result(names, expected, 0.0)
    elif method == INTERPOLATE:
        methods[INTERPOLATE] = MethodResult.make_failed(
            "exposure times are not known, or the backgrounds are of one cycle."
        )
    reasons = [f"{name}: {one.reason}" for name, one in methods.items() if one.reason is not None]
    good = [name for name in (method, *methods) if methods[name].ok]
    if not good:
        return Scale(method, methods, "failed", tuple(reasons))
    scale = Scale(good[0], methods, reasons=tuple(reasons))
    more = [] if fitted is None else _about_likeness(names, fitted)
    if fitted is not None and expected is not None:
        more += _disagreement(names, fitted, backgrounds, expected, good[0])
    doubts, notes = split_notes(more)
    return replace(scale, notes=tuple(notes), reasons=(*reasons, *doubts))


def refine(scale: Scale, moments: CellMoments, noise: float) -> Scale:
    """Return the scale of a marker with one background with a better line of the method `linear`.

    Cells with signal cover far more of a marker than microbes of a rock, and the faint flanks of
    signal pull the line of `linear` up. So it is fitted as those of several backgrounds are, but
    without places that depart from that line. A gain that changes over the section, and what cannot
    be fitted, stay as they are.

    Parameters
    ----------
    scale
        Of the marker.
    moments
        Cells of the marker with its background.
    noise
        Variance of the noise in a px of the background, grey levels^2.
    """
    linear = scale.methods.get("linear")
    if linear is None or not linear.ok or linear.gain_map is not None:
        return scale
    outlying = find_outlying_cells(moments, linear.gain or 0.0, linear.offset or 0.0)
    there = np.flatnonzero((moments.count == CELL**2) & ~outlying)
    if len(there) > _MOST_CELLS:
        there = there[np.arange(_MOST_CELLS) * len(there) // _MOST_CELLS]
    try:
        fit = _fit(there, _stack_px(there, [moments.pre]), moments, [noise])
    except (ValueError, np.linalg.LinAlgError):
        return scale
    if not fit.gains[0] > 0:
        return scale
    details = {k: v for k, v in linear.details.items() if not k.endswith(_OF_LINEAR)}
    details |= {
        "cells": len(there),
        "cells_outlying": int(np.count_nonzero(outlying)),
        "cells_used": fit.used,
        "gain_ci95_covers": _COVERS,
    }
    better = replace(
        linear,
        gain=round_digits(fit.gains[0], 9),
        offset=round_digits(fit.offset, 9),
        gain_ci95=make_interval(fit.gains[0], fit.gain_halves[0]),
        offset_ci95=make_interval(fit.offset, fit.offset_half),
        details=details,
    )
    return replace(scale, methods={**scale.methods, "linear": better})


def _stack_px(there: NDArray[np.intp], images: Sequence[Floats32]) -> Floats:
    return np.stack([image.ravel()[there] for image in images], axis=1).astype(np.float64)


def _fit(
    there: NDArray[np.intp], backgrounds: Floats, moments: CellMoments, noise: Sequence[float]
) -> several.SeveralFit:
    post = moments.post.ravel()[there].astype(np.float64)
    return several.fit(backgrounds, post, np.array(noise) / CELL**2, moments.centres_xy[there])


def _result(
    names: Sequence[str], gains: Sequence[float], offset: float, **details: Any
) -> MethodResult:
    each = {name: {"gain": round_digits(gain, 9)} for name, gain in zip(names, gains, strict=True)}
    total = sum(one["gain"] for one in each.values())
    return MethodResult(
        round_digits(total, 9), round_digits(offset, 9), None, {"gains": each, **details}
    )


def _make_result(names: Sequence[str], fit: several.SeveralFit) -> MethodResult:
    found = _result(
        names,
        fit.gains.tolist(),
        fit.offset,
        cells_used=fit.used,
        scatter=round_digits(fit.scatter, 9),
        condition=round_digits(fit.condition, 9),
        subtracted_mean=round_digits(fit.total, 9),
        subtracted_mean_ci95=list(make_interval(fit.total, fit.total_half)),
        gain_ci95_covers=_COVERS,
    )
    shares = zip(found.details["gains"].values(), fit.gain_halves, fit.noise_shares, strict=True)
    for one, half, share in shares:
        one["ci95"] = list(make_interval(one["gain"], half))
        one["noise_share"] = round_digits(share, 9)
    half = float(np.sqrt((fit.gain_halves**2).sum()))
    return replace(
        found,
        gain_ci95=make_interval(found.gain or 0.0, half),
        offset_ci95=make_interval(fit.offset, fit.offset_half),
    )


def _about_likeness(names: Sequence[str], fit: several.SeveralFit) -> list[str]:
    """Return a note if the backgrounds are too similar."""
    if not fit.are_similar:
        return []
    worst = float(fit.noise_shares.max())
    about = {"names": " and ".join(names), "noise": min(worst, 1), "total": fit.total}
    known = "is known" if fit.total_half <= 0.05 * abs(fit.total) else "is not known well either"
    return [explain("too_similar", half=fit.total_half, known=known, **about)]


def _disagreement(
    names: Sequence[str],
    fit: several.SeveralFit,
    backgrounds: Floats,
    expected: Sequence[float],
    used: str,
) -> list[str]:
    """Return a reason or note if fit and exposure times disagree.

    Of backgrounds that are similar, what they take together is compared.
    """
    wanted = np.array(expected)
    # differences of the backgrounds from their lowest values: offsets of cameras take no part
    level = np.mean(backgrounds, axis=0) - np.quantile(backgrounds, 0.01, axis=0)
    if fit.are_similar:
        values, halves = (np.array([v]) for v in (fit.gains @ level, fit.total_half))
        wanted = np.array([wanted @ level])
    else:
        values, halves = fit.gains, fit.gain_halves
    if (np.abs(values - wanted) <= halves + _TOLERANCE * wanted.sum()).all():
        return []
    shown, promised = (", ".join(f"{v:.3g}" for v in some) for some in (fit.gains, expected))
    ratio = float(fit.gains @ level) / max(float(np.array(expected) @ level), 1e-9)
    is_doubt = used != FIT or not 1 / _FAR < ratio < _FAR
    about = {"names": ", ".join(names), "used": "fitted" if used == FIT else "expected"}
    key = "gains_far" if is_doubt else "gains_differ"
    return [explain(key, fitted=shown, expected=promised, **about)]
