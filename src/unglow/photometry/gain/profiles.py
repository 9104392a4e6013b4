"""Moffat profiles fitted to many histograms at once, by bounded least squares.

Levenberg's and Marquardt's method on mu, log(alpha) and log(beta); the amplitude is always the one
that fits best (variable projection, Kaufman 1975, BIT 15, 49). On logarithmic axes the valley of
profiles that differ little, beta ~ alpha^2, is straight: a fit takes some 12 steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Bools = NDArray[np.bool_]

# At most so many steps; some 12 are usual.
_STEPS = 300
# Damping, relative to the diagonal: at first, and its range. A step that is better makes it ten
# times as small, another one ten times as large.
_DAMPING, _DAMPINGS = 1e-3, (1e-12, 1e12)
# The last step is shorter than this in log(alpha) and log(beta); in mu than this share of its range
_LAST = 1e-10
# Rounding leaves the sum of squared residuals uncertain by this share of the sum of squares.
_ROUNDING = 1e-15
# Keeps a diagonal above 0.
_TINY = 1e-300


@dataclass(frozen=True, eq=False, slots=True)
class Profiles:
    """Profiles A (1 + ((x - mu) / alpha)^2)^-beta of N histograms.

    Attributes
    ----------
    parameters
        (N, 4) float64: A, mu, alpha and beta.
    converged
        (N,) bool; the parameters of the others say nothing.
    """

    parameters: Floats
    converged: Bools


def profile(x: Floats, amplitude: float, mu: float, alpha: float, beta: float) -> Floats:
    """Moffat's profile A (1 + ((x - mu) / alpha)^2)^-beta (Moffat 1969, A&A 3, 455)."""
    return np.asarray(amplitude * (1.0 + ((x - mu) / alpha) ** 2) ** -beta)


def fit_profiles(x: Floats, y: Floats, start: Floats, lower: Floats, upper: Floats) -> Profiles:
    """Fit a profile to the points of each row; whatever the points hold, nothing is raised.

    Parameters
    ----------
    x, y
        (N, points) float64; where ``x`` is NaN there is no point.
    start
        (N, 3) float64: mu, alpha and beta to begin with.
    lower, upper
        (N, 3) float64: bounds of the same; those of alpha and beta are positive.
    """
    here = ~np.isnan(x)
    x, y = np.where(here, x, 0.0), np.where(here, y, 0.0)
    low, high = _logs(lower), _logs(upper)
    last = _LAST * np.stack([upper[:, 0] - lower[:, 0], *np.ones((2, len(x)))], axis=1)
    with np.errstate(all="ignore"):  # what is not finite is not converged
        rounding = _ROUNDING * (y * y).sum(axis=1)
        now = _Iterate.from_parameters(x, y, here, np.clip(_logs(start), low, high))
        damping, converged = np.full(len(x), _DAMPING), np.zeros(len(x), np.bool_)
        left = np.flatnonzero(np.isfinite(now.cost))
        for _ in range(_STEPS):
            if not len(left):
                break
            at = now.at[left]
            to = np.clip(at + now.step(left, damping, low, high), low[left], high[left])
            tried = _Iterate.from_parameters(x[left], y[left], here[left], to)
            better = tried.cost <= now.cost[left] + rounding[left]
            now.replace(left[better], tried, better)
            damping[left] = np.clip(damping[left] * np.where(better, 0.1, 10.0), *_DAMPINGS)
            done = (np.abs(to - at) <= last[left]).all(axis=1)
            converged[left[done]] = True
            left = left[~done]
    mu, *logs = now.at.T
    return Profiles(np.stack([now.amplitude, mu, *np.exp(logs)], axis=1), converged)


def _logs(parameters: Floats) -> Floats:
    """Return mu, log(alpha), log(beta) of mu, alpha, beta: (N, 3)."""
    return np.concatenate([parameters[:, :1], np.log(parameters[:, 1:])], axis=1)


@dataclass(frozen=True, eq=False, slots=True)
class _Iterate:
    """Parameters of N fits after some steps, and the derivatives there.

    Attributes
    ----------
    at
        (N, 3) mu, log(alpha) and log(beta).
    amplitude, cost
        (N,) the amplitude that fits best, and the sum of squared residuals with it.
    slope, normal
        (N, 3) and (N, 3, 3): J^T r and J^T J, with the derivatives J of what the amplitude leaves.
    """

    at: Floats
    amplitude: Floats
    cost: Floats
    slope: Floats
    normal: Floats

    @classmethod
    def from_parameters(cls, x: Floats, y: Floats, here: Bools, at: Floats) -> _Iterate:
        mu, alpha, beta = at[:, :1], np.exp(at[:, 1:2]), np.exp(at[:, 2:])
        z = (x - mu) / alpha
        q = 1.0 + z * z
        log = np.log(q)
        f = np.where(here, np.exp(-beta * log), 0.0)
        squares = (f * f).sum(axis=1)
        amplitude = (f * y).sum(axis=1) / squares
        left = y - amplitude[:, None] * f
        to_mu = 2.0 * beta * z / q
        along = np.stack([to_mu / alpha, to_mu * z, -beta * log], axis=1)
        along *= (amplitude[:, None] * f)[:, None]
        along -= (along @ f[:, :, None]) * (f / squares[:, None])[:, None]
        slope = (along @ left[:, :, None])[:, :, 0]
        return cls(at, amplitude, (left * left).sum(axis=1), slope, along @ along.mT)

    def step(self, some: NDArray[np.intp], damping: Floats, low: Floats, high: Floats) -> Floats:
        """Return the damped step of some fits, none in what would leave its bound, (n, 3)."""
        at, slope, normal = self.at[some], self.slope[some], self.normal[some]
        held = ((at <= low[some]) & (slope <= 0)) | ((at >= high[some]) & (slope >= 0))
        unit = np.sqrt(np.maximum(np.einsum("nii->ni", normal), _TINY))
        scaled = normal / (unit[:, :, None] * unit[:, None])
        scaled[held[:, :, None] | held[:, None]] = 0.0
        scaled += np.eye(3) * (held + damping[some, None])[:, :, None]
        right = np.where(held, 0.0, slope / unit)
        return np.asarray(np.linalg.solve(scaled, right[:, :, None])[:, :, 0] / unit)

    def replace(self, some: NDArray[np.intp], other: _Iterate, those: Bools) -> None:
        """Put some fits where ``those`` of another are."""
        for name in self.__slots__:
            getattr(self, name)[some] = getattr(other, name)[those]
