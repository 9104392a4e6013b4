"""The gain that exposure times promise, beside the one that was measured."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from unglow.photometry.gain.estimate import ESTIMATORS
from unglow.photometry.gain.scale import METHODS, ScaleSettings

if TYPE_CHECKING:
    from unglow.photometry.gain.estimate import Evidence
    from unglow.photometry.gain.scale import MethodResult, Scale

TOLERANCE = 0.05
"""Exposure times are believed to such a part of the gain: shutters, lamps and bleaching."""


def disagreement(scale: Scale, evidence: Evidence) -> str | None:
    """Return a sentence if a measured gain does not agree with the exposure times; else None.

    None also where no gain was found, so that nothing is subtracted.
    The interval of 95 % is widened by `TOLERANCE`. Where only given gains were asked for, the
    linear method is tried for this alone.
    """
    if not scale.chosen.ok:
        return None
    expected, measured = evidence.expected_gain, _measured(scale, evidence)
    if expected is None or measured is None or measured.gain_ci95 is None:
        return None
    low, high = measured.gain_ci95
    if low - TOLERANCE * expected <= expected <= high + TOLERANCE * expected:
        return None
    return (
        f"The exposure times promise a gain of {expected:.3g}, but {measured.gain:.3g} "
        f"({low:.3g} to {high:.3g}) was measured: lamp, filters or bleaching differ between the "
        f"two images, or an exposure time is wrong; {_what_to_do(scale)}."
    )


def _what_to_do(scale: Scale) -> str:
    """Return what is subtracted, and what follows from that, as the end of a sentence."""
    if METHODS[scale.default].is_given:
        return (
            f"{scale.chosen.gain:.3g} is subtracted (method {scale.default}), but the measured "
            "gain is the one to believe: to subtract that, put linear first in scale.methods"
        )
    return (
        f"the measured gain is subtracted (method {scale.default}), and the one to believe unless "
        "the marker's figure shows otherwise; if an exposure time is wrong, correct it"
    )


def _measured(scale: Scale, evidence: Evidence) -> MethodResult | None:
    """Return the default method if it measures a gain, or another one that does."""
    names = (scale.default, *scale.methods, None)
    for name in names:
        if name is None:
            alone = replace(ScaleSettings(), methods=("linear",), gain_map="never")
            return ESTIMATORS["linear"](evidence, alone)
        if not METHODS[name].is_given and scale.methods[name].ok:
            return scale.methods[name]
    return None
