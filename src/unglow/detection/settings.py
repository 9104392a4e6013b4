"""Settings of the search for candidates: the section ``detect`` of the configuration."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from unglow.core.settings import Checked, from_json, key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

_SIGMAS = 3.0
"""Standard deviations at which the filter is cut: 0.3 % of a Gaussian is beyond."""
_FWHM = math.sqrt(8 * math.log(2))
"""Full width at half maximum of a Gaussian, in standard deviations."""


@dataclass(frozen=True, slots=True)
class DetectSettings(Checked):
    """What counts as a candidate (config section ``detect``)."""

    SECTION: ClassVar[str] = "detect"

    fwhm_px: float = key(
        "Width of a stained microbe on the image, px - full width at half maximum of the "
        "search filter.",
        default=3,
        minimum=1,
        maximum=15,
    )
    fdr: float = key(
        "False-discovery rate that the threshold is chosen for, the share of false positives "
        "among the candidates, estimated by the same search on the negated difference, and on"
        " unstained control pairs where the sample sheet names some.",
        default=0.05,
        exclusiveMinimum=0,
        maximum=1,
    )
    min_snr: float = key(
        "Lowest signal-to-noise ratio that the threshold may have.",
        default=3.5,
        minimum=2.5,
        maximum=100,
    )
    max_error_px: float = key(
        "Places where the map is off by more than this, in px, are not searched.",
        default=3,
        exclusiveMinimum=0,
        maximum=100,
    )
    threshold_from: str = key(
        "Which estimate of the false-discovery rate has to be as low as fdr - that of the "
        "negated difference (negative), that of unstained control pairs of the dye (control; "
        "where there are none, the other one), or both (strictest).",
        default="strictest",
        enum=["strictest", "negative", "control"],
    )
    spoilt: str = key(
        "Whether spoilt places of post (torn off, dirty, out of focus, bleached, moved) are "
        "found and excluded from background, search and counts.",
        default="auto",
        enum=["auto", "never"],
    )
    max_spoilt: float = key(
        "If more than this share of the section is spoilt, the pair is suspect.",
        default=0.2,
        minimum=0,
        maximum=1,
    )

    @classmethod
    def from_config(cls, section: Mapping[str, Any]) -> DetectSettings:
        """Return the settings of a config section; `ConfigError` for a key that is not known."""
        return from_json(cls, section)

    @property
    def ratio_settings(self) -> dict[str, float]:
        """Keys and values that the signal-to-noise ratio depends on."""
        return {"fwhm_px": self.fwhm_px, "max_error_px": self.max_error_px}

    @property
    def sigma(self) -> float:
        """Standard deviation of the filter, px."""
        return self.fwhm_px / _FWHM

    @property
    def taps(self) -> NDArray[np.float64]:
        """Weights of the filter along one axis, (2 r + 1,), sum 1: a Gaussian cut at 3 sigma."""
        reach = max(1, round(_SIGMAS * self.sigma))
        weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) / self.sigma) ** 2)
        return np.asarray(weights / weights.sum(), dtype=np.float64)

    @property
    def reach(self) -> int:
        """How far the filter reaches from its centre, px."""
        return len(self.taps) // 2
