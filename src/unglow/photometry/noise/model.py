"""The noise of a pair: which variance a px of post and of pre has at its grey level."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

ROUNDING = 1 / 12
"""Variance of rounding to integer grey levels."""


@dataclass(frozen=True, slots=True)
class NoiseModel:
    """Variance of single raw px, grey levels squared, before anything is resampled.

    The variance is read + shot * level. A camera offset, which has no shot noise, makes ``read``
    smaller than the read-out noise, or negative; so it is never taken below ``least``.

    Attributes
    ----------
    post_read, post_shot
        Of post.
    pre_read, pre_shot
        Of pre.
    least
        The least variance a px can have: 1/12 for integer grey levels.
    spread
        Standard deviation of the difference averaged over a few px, over what the variances of
        single px and the error of the map give: 1 if nothing else is left, more where neighbouring
        px share their noise (JPEG, smoothing) and where the backgrounds differ.
    """

    post_read: float
    post_shot: float
    pre_read: float
    pre_shot: float
    least: float = ROUNDING
    spread: float = 1.0

    def variance_post(self, post: NDArray[Any]) -> NDArray[np.float32]:
        """Variance of px of post by their levels (any shape, any real dtype); NaN stays NaN."""
        return self._variance(post, self.post_read, self.post_shot)

    def variance_pre(self, pre: NDArray[Any]) -> NDArray[np.float32]:
        """Variance of raw px of pre by their levels (any shape); aligned pre says them as well."""
        return self._variance(pre, self.pre_read, self.pre_shot)

    def _variance(self, level: NDArray[Any], read: float, shot: float) -> NDArray[np.float32]:
        variance = np.asarray(level).astype(np.float32)
        variance *= np.float32(shot)
        variance += np.float32(read)
        return np.maximum(variance, np.float32(self.least), out=variance)

    def to_json(self) -> dict[str, float]:
        """Return plain JSON types."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> NoiseModel:
        """Build from what `to_json` gave; other keys are left alone."""
        names = cls.__slots__
        return cls(**{name: float(values[name]) for name in names})
