"""The gain that exposure times promise, beside the one that was measured."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from unglow.photometry.gain.estimate import ESTIMATORS
from unglow.photometry.gain.scale import METHODS, ScaleSettings

if TYPE_CHECKING:
    from unglow.photometry.gain.estimate import Evidence
    from unglow.photometry.gain.scale import MethodResult, Scale

TOLERANCE = 0.05
"""Exposure times are believed to such a part of the gain: shutters, lamps and bleaching."""
FAR = 1.5
"""A gain that is more than so many times the expected one, or less than one part of so many, is
more than lamps, filters and bleaching explain: an exposure time or the background is wrong, or
stain all over the section is in the gain."""


class Disagreement(NamedTuple):
    """A sentence about a gain that exposure times do not promise, and whether it is a doubt.

    It is none where the measured gain is subtracted, and less than `FAR` from the expected one.
    """

    sentence: str
    is_doubt: bool


def disagreement(scale: Scale, evidence: Evidence) -> Disagreement | None:
    """Return what to say if a measured gain does not agree with the exposure times; else None.

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
    value, interval = f"{measured.gain:.3g}", f"{low:.3g} to {high:.3g}"
    if METHODS[scale.default].is_given:
        sentence = (
            f"The exposure times promise a gain of {expected:.3g}, but {value} ({interval}) was "
            "measured: lamp, filters or bleaching differ between the two images, or an exposure "
            f"time is wrong; {scale.chosen.gain:.3g} is subtracted (method {scale.default}), but "
            "the measured gain is the one to believe: to subtract that, put linear first in "
            "scale.methods."
        )
        return Disagreement(sentence, is_doubt=True)
    if low >= FAR * expected or high <= expected / FAR:
        sentence = (
            f"Measured gain {value} ({interval}) is far from the {expected:.3g} expected from "
            "exposure times: an exposure time or the background channel is wrong, or stain all "
            "over the section is in the gain. The measured gain was used: look at the marker's "
            "figure."
        )
        return Disagreement(sentence, is_doubt=True)
    sentence = (
        f"Measured gain {value} ({interval}) differs from the {expected:.3g} expected from "
        "exposure times. The measured gain was used."
    )
    return Disagreement(sentence, is_doubt=False)


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
