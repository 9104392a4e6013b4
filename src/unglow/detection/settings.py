"""Settings of the search for candidates: the section ``detect`` of the configuration."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


THRESHOLD_FROM = ("strictest", "negative", "control")
SPOILT = ("auto", "never")
_SIGMAS = 3.0
"""The filter is cut at this many standard deviations: 0.3 % of a Gaussian lie beyond."""
_FWHM = math.sqrt(8 * math.log(2))
"""Full width at half maximum of a Gaussian, in standard deviations."""
_RANGES = {
    "fwhm_px": (1.0, 15.0),
    "fdr": (0.0, 1.0),
    "min_snr": (2.5, 100.0),
    "max_error_px": (0.0, 100.0),
    "max_spoilt": (0.0, 1.0),
}


@dataclass(frozen=True, slots=True)
class DetectSettings:
    """What counts as a candidate.

    Attributes
    ----------
    fwhm_px
        Full width at half maximum of the filter, px of post: how wide a microbe is on the image.
    fdr
        False-discovery rate that the threshold is chosen for, 0 to 1.
    min_snr
        Lowest threshold of the signal-to-noise ratio.
    max_error_px
        Where the map is off by more than this, nothing is looked for.
    threshold_from
        Which estimate of the false-discovery rate the threshold is chosen by: ``negative`` (the
        negated difference), ``control`` (unstained controls of the dye, where there are some) or
        ``strictest`` (both).
    spoilt
        ``auto`` looks for spoilt places of post and leaves them out; or ``never``.
    max_spoilt
        Where more than this share of the section is spoilt, the pair is `suspect`.
    """

    fwhm_px: float = 3.0
    fdr: float = 0.05
    min_snr: float = 3.5
    max_error_px: float = 3.0
    threshold_from: str = "strictest"
    spoilt: str = "auto"
    max_spoilt: float = 0.2

    def __post_init__(self) -> None:
        for name, (low, high) in _RANGES.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise ConfigError(
                    f"'detect.{name}' is {value:g} but has to lie between {low:g} and {high:g}."
                )
        for name, known in (("threshold_from", THRESHOLD_FROM), ("spoilt", SPOILT)):
            value = getattr(self, name)
            if value not in known:
                raise ConfigError(f"'detect.{name}' is '{value}'; use {', '.join(known)}.")

    @classmethod
    def from_config(cls, section: Mapping[str, Any]) -> DetectSettings:
        """Return the settings of a config section; keys of no concern here are refused."""
        known = [f.name for f in fields(cls)]
        for key in section:
            if key not in known:
                raise ConfigError(f"'detect.{key}' is not known; use {', '.join(known)}.")
        return cls(**section)

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


DETECT_TILE, DETECT_AROUND = 1024, 90
"""Side of the blocks in which it reads, px, and how far it looks around each px."""
DETECT_PANEL = 8192
"""Rows above a tile are kept of a panel of the image, which is at most this many px wide."""
CANDIDATES = 1 << 18
"""At most this many sources are listed."""
SECTION_PX = 1 << 20
"""The section is found on a coarse image of at most this many px."""
SNR_TILE = 512
"""The image of the signal-to-noise ratio is put together from tiles of this side, px."""
