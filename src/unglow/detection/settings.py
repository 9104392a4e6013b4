"""Settings of the search for candidates: the section ``detect`` of the configuration."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np

from unglow.core.settings import Auto, Section, about

if TYPE_CHECKING:
    from unglow.core.arrays import Floats

_SIGMAS = 3.0
"""Standard deviations at which the filter is cut: 0.3 % of a Gaussian is beyond."""
_FWHM = math.sqrt(8 * math.log(2))
"""Full width at half maximum of a Gaussian, in standard deviations."""


class DetectSettings(Section, frozen=True):
    """What counts as a candidate (config section ``detect``)."""

    fwhm_px: Annotated[
        float,
        about(
            "Width of a stained microbe on the image, px - full width at half maximum of the "
            "search filter.",
            ge=1,
            le=15,
        ),
    ] = 3
    fdr: Annotated[
        float,
        about(
            "Share of the candidates that may be false - 0.05 is 5 of 100. It is estimated on the "
            "negated difference, and on unstained control pairs where the sample sheet names some.",
            gt=0,
            le=1,
        ),
    ] = 0.05
    min_snr: Annotated[
        float, about("Lowest signal-to-noise ratio that the threshold may have.", ge=2.5, le=100)
    ] = 3.5
    max_error_px: Annotated[
        float,
        about(
            "Places where the map is off by more than this, in px, are not searched.", gt=0, le=100
        ),
    ] = 3
    threshold_from: Annotated[
        Literal["strictest", "negative", "control"],
        about(
            "Which estimate has to be as low as fdr - of the negated difference (negative), of "
            "unstained control pairs (control), or both (strictest). Without controls it is that "
            "of the difference."
        ),
    ] = "strictest"
    spoilt: Annotated[
        Auto,
        about(
            "Whether spoilt places of post (torn off, dirty, out of focus, bleached, moved) are "
            "found and excluded from background, search and counts."
        ),
    ] = "auto"
    max_spoilt: Annotated[
        float,
        about("If more than this share of the section is spoilt, the pair is suspect.", ge=0, le=1),
    ] = 0.2

    @property
    def ratio_settings(self) -> dict[str, float]:
        """Keys and values that the signal-to-noise ratio depends on."""
        return {"fwhm_px": self.fwhm_px, "max_error_px": self.max_error_px}

    @property
    def sigma(self) -> float:
        """Standard deviation of the filter, px."""
        return self.fwhm_px / _FWHM

    @property
    def taps(self) -> Floats:
        """Weights of the filter along one axis, (2 r + 1,), sum 1: a Gaussian cut at 3 sigma."""
        reach = max(1, round(_SIGMAS * self.sigma))
        weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) / self.sigma) ** 2)
        return np.asarray(weights / weights.sum(), dtype=np.float64)

    @property
    def reach(self) -> int:
        """How far the filter reaches from its centre, px."""
        return len(self.taps) // 2
