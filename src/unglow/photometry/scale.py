"""Gain and offset between pre and post by every method that is asked for, each with its evidence.

The difference of a method is post - (gain * pre + offset).
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.errors import ConfigError
from unglow.files import write_json
from unglow.photometry import linear, moffat, noise_fit
from unglow.photometry.archive import damaged
from unglow.photometry.cells import Cells
from unglow.photometry.doubts import doubts
from unglow.photometry.intervals import STUDENT
from unglow.photometry.statistics import ratio_edges

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from unglow.photometry.bins import BinSamples
    from unglow.photometry.statistics import JointStatistics
    from unglow.transform import Transform

_VERSION = 1
_LEAST_GROUPS = 4
_DRAWS = 100
_CI_SAYS = (
    "noise and differences over the section (bootstrap of interleaved tiles of 128 px); not a "
    "camera offset, which biases every pure ratio, nor stain so dense that it hides the peak"
)

_LINEAR_CI_SAYS = (
    "noise, differences over the section (between 16 regions of it), errors of the map, and the "
    "bias of the method as measured on pairs with known gain (0.4 %)"
)


@dataclass(frozen=True, slots=True)
class ScaleSettings:
    """What to estimate.

    Attributes
    ----------
    methods
        ``linear``, ``moffat``, ``percentile`` and ``manual``, in the order of the figures.
    percentile
        Percentile of log10(post / pre) that the percentile method takes, 0 to 100 exclusive.
    manual
        Gain of the manual method; giving one adds that method.
    default
        Method that stands for the pair where only one is used; None for the first one.
    """

    methods: tuple[str, ...] = ("linear", "moffat", "percentile")
    percentile: float = 50.0
    manual: float | None = None
    default: str | None = None

    def __post_init__(self) -> None:
        """Check values; a list of methods, as YAML gives it, becomes a tuple."""
        object.__setattr__(self, "methods", tuple(self.methods))
        if not self.names or len(set(self.methods)) != len(self.methods):
            raise ConfigError("'scale.methods' has to name at least one method, each once.")
        for name in (*self.methods, *filter(None, [self.default])):
            if name not in _METHODS:
                raise ConfigError(
                    f"'{name}' in 'scale' is not a scale method; use {', '.join(_METHODS)}."
                )
        if self.default is not None and self.default not in self.names:
            raise ConfigError(
                f"'scale.default' is '{self.default}' but only {', '.join(self.names)} would be "
                "estimated; add it to 'scale.methods' or choose another default."
            )
        if not 0 < self.percentile < 100:
            raise ConfigError(
                f"'scale.percentile' is {self.percentile:g} but has to lie between 0 and 100."
            )
        if self.manual is not None and not 0 < self.manual < math.inf:
            raise ConfigError(f"'scale.manual' is {self.manual:g} but a gain has to be positive.")

    @property
    def names(self) -> tuple[str, ...]:
        """Methods that are estimated: `methods`, and ``manual`` where a manual gain is given."""
        extra = self.manual is not None and "manual" not in self.methods
        return (*self.methods, "manual") if extra else self.methods

    @property
    def first(self) -> str:
        """The default method, if it gives a gain."""
        return self.default or self.names[0]

    @classmethod
    def of(cls, section: Mapping[str, Any]) -> ScaleSettings:
        """Return the settings of a config section; keys of no concern here are refused."""
        known = {f.name for f in fields(cls)}
        for key in section:
            if key not in known:
                raise ConfigError(f"'scale.{key}' is not known; use {', '.join(sorted(known))}.")
        return cls(**section)


@dataclass(frozen=True, slots=True)
class MethodResult:
    """Gain and offset of one method.

    Attributes
    ----------
    gain, offset
        Of post = gain * pre + offset, offset in grey levels; None where the method failed.
    gain_ci95
        95 % confidence interval of the gain, None where there is none.
    details
        What the method used, ready for JSON.
    reason
        Why the method gave no gain; None where it gave one.
    offset_ci95
        95 % confidence interval of the offset, grey levels; None where there is none.
    """

    gain: float | None
    offset: float | None
    gain_ci95: tuple[float, float] | None
    details: dict[str, Any] = field(default_factory=dict)
    reason: str | None = None
    offset_ci95: tuple[float, float] | None = None

    @property
    def ok(self) -> bool:
        """Whether there is a gain."""
        return self.reason is None

    @classmethod
    def failed(cls, reason: str, details: dict[str, Any] | None = None) -> MethodResult:
        """Return the result of a method that gives no gain."""
        return cls(None, None, None, details or {}, reason)

    def to_json(self) -> dict[str, Any]:
        """Return the entry of ``scale.json``."""
        if not self.ok:
            return {"status": "failed", "reason": self.reason, **self.details}
        return {
            "status": "ok",
            "gain": self.gain,
            "offset": self.offset,
            "gain_ci95": _listed(self.gain_ci95),
            "offset_ci95": _listed(self.offset_ci95),
            **self.details,
        }

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> MethodResult:
        """Read an entry of ``scale.json``."""
        rest = dict(entry)
        if rest.pop("status") != "ok":
            return cls.failed(str(rest.pop("reason")), rest)
        gain, offset = rest.pop("gain"), rest.pop("offset")
        of_gain, of_offset = (_interval_of(rest.pop(key)) for key in ("gain_ci95", "offset_ci95"))
        return cls(gain, offset, of_gain, rest, offset_ci95=of_offset)


def _listed(interval: tuple[float, float] | None) -> list[float] | None:
    return None if interval is None else list(interval)


def _interval_of(ends: list[float] | None) -> tuple[float, float] | None:
    return None if ends is None else (ends[0], ends[1])


@dataclass(frozen=True, slots=True)
class Scale:
    """Results of all methods; ``default`` names the one that stands for the pair.

    Attributes
    ----------
    status
        ``ok``, or ``failed`` where no method gave a gain or the pair was refused.
    reasons
        Sentences on what did not work, and on what makes the gains doubtful.
    """

    default: str
    methods: dict[str, MethodResult]
    status: str = "ok"
    reasons: tuple[str, ...] = ()

    @property
    def chosen(self) -> MethodResult:
        """Result of the default method."""
        return self.methods[self.default]

    @classmethod
    def failed(cls, reason: str, settings: ScaleSettings | None = None) -> Scale:
        """Return the scale of a pair that was refused: every method failed for ``reason``."""
        settings = settings or ScaleSettings()
        methods = {name: MethodResult.failed(reason) for name in settings.names}
        return cls(settings.first, methods, "failed", (reason,))

    def save(self, path: Path | str) -> None:
        """Write ``scale.json``, whole or not at all; equal results give equal bytes."""
        content = {
            "version": _VERSION,
            "status": self.status,
            "reasons": list(self.reasons),
            "default": self.default,
            "methods": {name: result.to_json() for name, result in self.methods.items()},
        }
        write_json(Path(path), content)

    @classmethod
    def load(cls, path: Path | str) -> Scale:
        """Read ``scale.json``.

        Raises
        ------
        StoreError
            If the file is damaged or from another version.
        """
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8"))
            if content["version"] != _VERSION:
                raise damaged(path)
            methods = {k: MethodResult.from_json(v) for k, v in content["methods"].items()}
            return cls(content["default"], methods, content["status"], tuple(content["reasons"]))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise damaged(path) from error


@dataclass(frozen=True, eq=False, slots=True)
class Evidence:
    """What methods rest on: histograms of a pair, and its cells and map (for ``linear`` alone)."""

    stats: JointStatistics
    bins: BinSamples | None = None
    transform: Transform | None = None


def estimate(evidence: Evidence, settings: ScaleSettings) -> Scale:
    """Estimate gain and offset by every method of ``settings``.

    Never raises for what the pixels hold: a method that finds nothing to work with is marked
    failed, with a sentence, and another one becomes the default.
    """
    methods = {name: _METHODS[name](evidence, settings) for name in settings.names}
    reasons = [f"{name}: {r.reason}" for name, r in methods.items() if r.reason is not None]
    good = [name for name, result in methods.items() if result.ok]
    if not good:
        return Scale(settings.first, methods, "failed", tuple(reasons))
    default = settings.first if settings.first in good else good[0]
    if default != settings.first:
        reasons.append(f"{settings.first} gave no gain, {default} is the default instead.")
    reasons += doubts(evidence.stats, methods[default].gain, default)
    reasons += _add_noise(evidence, methods[default])
    return Scale(default, methods, "ok", tuple(reasons))


def _add_noise(evidence: Evidence, result: MethodResult) -> list[str]:
    """Add the noise of the pair to a method's details; or return why it is not known."""
    bins, transform = evidence.bins, evidence.transform
    if bins is None or transform is None or result.gain is None or result.offset is None:
        return []
    integer = evidence.stats.grey_level == 1
    try:
        found = noise_fit.fit(bins, result.gain, result.offset, transform, integer=integer)
    except ValueError as error:
        return [f"The noise of the images is not known: {error}."]
    result.details["noise"] = found.to_json()
    return []


def _linear(evidence: Evidence, _: ScaleSettings) -> MethodResult:
    stats, bins, transform = evidence.stats, evidence.bins, evidence.transform
    if stats.n["overlap"] == 0:
        return MethodResult.failed(_sentence(stats, ""))
    if bins is None or transform is None:
        return MethodResult.failed("no cells of pixels and no map of this pair are given.")
    cells = Cells.of(bins, transform)
    details: dict[str, Any] = {"pixels_overlap": stats.n["overlap"], "cells": len(cells)}
    try:
        fit = linear.fit(cells, linear.Limits(stats.lowest, *bins.tops, stats.grey_level))
    except ValueError as error:
        return MethodResult.failed(f"{error}.", details)
    low, high = np.quantile(cells.pre[fit.used], (0.005, 0.995))
    details |= {
        "cells_used": int(fit.used.sum()),
        "pre_range": [_digits(low), _digits(high)],
        "spread": _digits(fit.spread),
        "unexplained_px": _digits(math.sqrt(fit.rough)),
        "gain_ci95_covers": _LINEAR_CI_SAYS,
    }
    intervals = (
        (_digits(value - half), _digits(value + half))
        for value, half in ((fit.gain, fit.gain_half), (fit.offset, fit.offset_half))
    )
    of_gain, of_offset = intervals
    gain, offset = _digits(fit.gain), _digits(fit.offset)
    return MethodResult(gain, offset, of_gain, details, offset_ci95=of_offset)


def _moffat(evidence: Evidence, _: ScaleSettings) -> MethodResult:
    stats = evidence.stats
    edges, span = ratio_edges(), stats.ratio_range
    if stats.n["ratio"] >= moffat.LEAST and span[0] == span[1]:
        # one image twice, for example: the histogram is a single line, which needs no fit
        return MethodResult(_digits(10 ** span[0]), 0.0, None, _population(stats))
    try:
        fit = moffat.fit(stats.ratio_counts, edges, span)
    except ValueError as error:
        return MethodResult.failed(_sentence(stats, str(error)), _population(stats))
    details = {
        **_population(stats),
        "converged": fit.converged,
        "mu0": _digits(fit.mu0),
        "mu": _digits(fit.mu),
        "alpha": _digits(fit.alpha) if fit.converged else None,
        "beta": _digits(fit.beta) if fit.converged else None,
        "bins": len(fit.centres),
        "bins_fitted": int(fit.fitted.sum()),
        "bin_width_dex": _digits(fit.bin_width),
        "range_dex": [_digits(fit.centres[0]), _digits(fit.centres[-1])],
        "gain_ci95_covers": _CI_SAYS,
    }
    interval = _interval(
        stats, fit.mu, lambda ratios, place: moffat.fit(ratios, edges, span, place).mu
    )
    return MethodResult(_digits(fit.gain), 0.0, interval, details)


def _percentile(evidence: Evidence, settings: ScaleSettings) -> MethodResult:
    edges, stats = ratio_edges(), evidence.stats

    def quantile(ratios: NDArray[np.int64], _: float = 0.0) -> float:
        below = np.concatenate([[0.0], np.cumsum(ratios[1:-1], dtype=np.float64)])
        if below[-1] == 0:
            raise ValueError("no pixel has a ratio")
        return float(np.interp(settings.percentile / 100 * below[-1], below, edges))

    details = {**_population(stats), "percentile": settings.percentile}
    try:
        x = quantile(stats.ratio_counts)
    except ValueError as error:
        return MethodResult.failed(_sentence(stats, str(error)), details)
    details["gain_ci95_covers"] = _CI_SAYS
    return MethodResult(_digits(10**x), 0.0, _interval(stats, x, quantile), details)


def _manual(evidence: Evidence, settings: ScaleSettings) -> MethodResult:
    used = _population(evidence.stats)
    if settings.manual is None:
        return MethodResult.failed("no manual gain is given for this pair.", used)
    return MethodResult(settings.manual, 0.0, None, used)


_METHODS: dict[str, Callable[[Evidence, ScaleSettings], MethodResult]] = {
    "linear": _linear,
    "moffat": _moffat,
    "percentile": _percentile,
    "manual": _manual,
}


def _interval(
    stats: JointStatistics, x: float, estimator: Callable[[NDArray[np.int64], float], float]
) -> tuple[float, float] | None:
    """95 % interval of the gain 10^x: bootstrap over the spatial groups of pixels.

    Groups are interleaved tiles, so correlation within a tile and differences over the section are
    in the interval, which drawing single pixels would leave out. The bins of each draw lie at a
    random place, because where they lie is arbitrary. ``estimator`` takes a fine histogram and
    that place, as part of a bin, and gives log10 of the gain.
    """
    groups = stats.ratios[stats.ratios.any(axis=1)]
    n = len(groups)
    if n < _LEAST_GROUPS:
        return None
    random = np.random.default_rng(0)
    draws = random.multinomial(n, [1 / n] * n, size=_DRAWS)
    places = random.uniform(-0.5, 0.5, size=_DRAWS)
    try:
        found = [estimator(w @ groups, at) for w, at in zip(draws, places, strict=True)]
    except ValueError:
        return None
    # The spread of the draws has n - 1 of n degrees of freedom.
    half = STUDENT[n - 2] * float(np.std(found, ddof=1)) * math.sqrt(n / (n - 1))
    return _digits(10 ** (x - half)), _digits(10 ** (x + half))


def _population(stats: JointStatistics) -> dict[str, Any]:
    """Return the counts that every method rests on."""
    n = stats.n
    return {"pixels": n["ratio"], "pixels_overlap": n["overlap"]}


def _sentence(stats: JointStatistics, reason: str) -> str:
    if stats.n["overlap"] == 0:
        return "pre and post have no pixel in common."
    if stats.n["ratio"] == 0:
        return "no pixel has signal in both images (post above 0, pre at least one grey level)."
    return f"{reason}."


def _digits(value: float) -> float:
    """Round to 9 significant digits, beyond which only the processor speaks."""
    return float(f"{value:.9g}")
