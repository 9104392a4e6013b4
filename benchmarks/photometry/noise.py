"""Whether the noise that unglow predicts is there: in single px, and in what detection looks at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from registration.pool import collect, registered
from scipy import ndimage
from tables import save_json, table

from photometry.spots import Phantom
from unglow.core.windows import ArrayPixels, Window
from unglow.detection.coarse_grid import estimate_error
from unglow.detection.settings import DetectSettings
from unglow.detection.snr import Scene, significance
from unglow.io.stored_values import quantise
from unglow.phantom import PhantomSpec
from unglow.photometry.noise_fit import fit_noise

if TYPE_CHECKING:
    import argparse

    from numpy.typing import NDArray

    from unglow.phantom.render import Renderer
    from unglow.photometry.cell_moments import CellMoments
    from unglow.photometry.noise_fit import NoiseFit

SIDE = 1024
PRE_SIDE = 1300
TOLERANCE = 0.03
"""How far the standard deviation of the signal-to-noise ratio may be from 1."""
LEAST_PX = 60_000
"""Quarters of the phase with fewer px say nothing: as 20 px share their noise in the filtered
difference, so many give a standard deviation to 0.013."""
_RIM_PX = 12
_STRAIGHT = {"scale": 1.0, "shear": 0.0}
_TURNS: dict[str, dict[str, Any]] = {
    "same px": {"rotation_deg": 0.0, **_STRAIGHT, "shift_px": (5.0, 3.0)},
    "half a px": {"rotation_deg": 0.0, **_STRAIGHT, "shift_px": (5.5, 3.5)},
    "a third of a px": {"rotation_deg": 0.0, **_STRAIGHT, "shift_px": (5.3, 3.0)},
    "0.5 deg": {"rotation_deg": 0.5, **_STRAIGHT},
    "45 deg": {"rotation_deg": 45.0, **_STRAIGHT},
    "90 deg": {"rotation_deg": 90.0, **_STRAIGHT},
    "scale 1.2": {"rotation_deg": 0.5, "scale": 1.2},
    "scale 0.85": {"rotation_deg": 0.5, "scale": 0.85},
}


@dataclass(frozen=True)
class Case:
    """A phantom, whose map is the true one or the one that registration finds."""

    name: str
    spec: PhantomSpec
    true_map: bool = True


@dataclass(frozen=True)
class Outcome:
    """Figures of one case.

    Attributes
    ----------
    post, pre
        Fitted over true variance at the 5, 50 and 95 % quantile of the levels.
    sd, robust
        Standard deviation of the signal-to-noise ratio on px without stain, and 1.48 times the
        median of its absolute values about its median.
    quarters
        Standard deviations where x in pre has a fraction in each quarter of a px, then y; NaN where
        fewer than `LEAST_PX` px have.
    """

    name: str
    post: tuple[float, ...]
    pre: tuple[float, ...]
    sd: float
    robust: float
    quarters: tuple[float, ...]

    @property
    def good(self) -> bool:
        """Whether the ratio is what it says everywhere."""
        known = [v for v in (self.sd, *self.quarters) if np.isfinite(v)]
        return all(abs(v - 1) <= TOLERANCE for v in known)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument("--seeds", type=int, default=1, help="phantoms of each case (default: 1)")
    parser.add_argument("--only", default="", help="cases whose name holds this")


def cases(seeds: int) -> list[Case]:
    """Return all cases: dtypes, gains, phases, stain, cameras, and maps that were found."""
    out = []
    for seed in range(seeds):
        for dtype in ("uint8", "uint16"):
            out += [
                _case(f"{dtype}, gain {gain:g}, 3 deg", seed, dtype=dtype, gain=gain)
                for gain in (1.0, 1.3, 3.0)
            ]
            out += [
                _case(f"{dtype}, {name}", seed, dtype=dtype, **turn)
                for name, turn in _TURNS.items()
            ]
        for name, extra in {
            "a microbe per 20 x 20 px": {"microbes_per_mpx": 2500.0},
            "read noise alone": {"electrons_per_level": 0.0, "read_noise": 2.0},
            "little light": {"electrons_per_level": 1.0, "read_noise": 1.0},
            "offsets 20 and 5": {"offset_pre": 20.0, "offset_post": 5.0},
        }.items():
            out.append(_case(name, seed, dtype="uint16", **extra))
        bent = {"deform_px": 10.0}
        out.append(_case("found map, 3 deg", seed, true_map=False))
        out.append(_case("found map, bent by 10 px", seed, true_map=False, **bent))
    return out


def _case(name: str, seed: int, *, true_map: bool = True, **settings: Any) -> Case:
    spec = PhantomSpec(
        shape=(SIDE, SIDE), pre_shape=(PRE_SIDE, PRE_SIDE), rgb=False, seed=seed, **settings
    )
    return Case(name, spec, true_map)


def outcome(case: Case) -> Outcome:
    """Render, align and fit one case, and look at its signal-to-noise ratio."""
    phantom = Phantom.of(case.spec)
    renderer, post, pre = phantom.renderer, phantom.post, phantom.pre
    transform = phantom.true_map() if case.true_map else registered(post, pre)[0].transform
    aligned = phantom.aligned(transform)
    bins, (gain, offset) = phantom.bins(aligned), phantom.scale
    found = fit_noise(bins, gain, offset, transform)
    left = quantise((post - (gain * aligned + offset)).astype(np.float32))
    scene = Scene(
        *(ArrayPixels(a) for a in (post, aligned, left)),
        gain=gain,
        noise=found.model,
        transform=transform,
        error=estimate_error(transform),
        saturation=phantom.tops,
        settings=DetectSettings(),
    )
    snr = significance(scene, Window.from_shape(post.shape)).snr
    clean = np.isfinite(snr) & _inside(renderer) & ~_stained(renderer, scene.settings.reach)
    y, x = np.indices(post.shape).reshape(2, -1)
    quarters = [
        np.std(part) if part.size >= LEAST_PX else float("nan")
        for along in transform.map(np.stack([x, y], axis=1)).T.reshape(2, *post.shape)
        for part in (snr[clean & (np.floor(along % 1 * 4) == n)] for n in range(4))
    ]
    values = snr[clean]
    middle = float(np.median(values))
    return Outcome(
        case.name,
        *_ratios(case.spec, found, bins),
        float(np.std(values)),
        1.4826 * float(np.median(np.abs(values - middle))),
        tuple(float(v) for v in quarters),
    )


def _inside(renderer: Renderer) -> NDArray[np.bool_]:
    """Mark the px that lie on the section, clear of its outline."""
    y, x = np.indices(renderer.spec.shape, dtype=np.float64)
    on = renderer.scene.coverage(x.ravel(), y.ravel()).reshape(x.shape) > 0.95
    return np.asarray(ndimage.binary_erosion(on, iterations=_RIM_PX))


def _stained(renderer: Renderer, reach: int) -> NDArray[np.bool_]:
    """Mark the px that feel a microbe through the filter."""
    out = np.zeros(renderer.spec.shape, dtype=np.bool_)
    spots = renderer.microbes
    for x, y, sigma in zip(spots.x, spots.y, spots.sigma_long, strict=True):
        radius = 4.5 * sigma + reach
        box = Window(*(round(v) for v in (y - radius, y + radius + 1, x - radius, x + radius + 1)))
        box = box.clip(out.shape)
        rows, cols = np.ogrid[box.y0 : box.y1, box.x0 : box.x1]
        out[box.slices] |= (rows - y) ** 2 + (cols - x) ** 2 <= radius**2
    return out


def _ratios(
    spec: PhantomSpec, found: NoiseFit, bins: CellMoments
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Fitted over true variance of post and of pre, at levels of the section."""
    counts = spec.counts_per_level
    shot = counts / spec.electrons_per_level if spec.electrons_per_level else 0.0
    lit = (bins.count > 0) & (bins.post > (spec.offset_post + 4) * counts)
    out = []
    for levels, offset, variance in (
        (bins.post[lit], spec.offset_post, found.model.variance_post),
        (bins.pre[lit], spec.offset_pre, found.model.variance_pre),
    ):
        at = np.quantile(levels, (0.05, 0.5, 0.95))
        true = (counts * spec.read_noise) ** 2 + shot * (at - offset * counts) + 1 / 12
        out.append(tuple(float(v) for v in variance(at) / true))
    return out[0], out[1]


def run(args: argparse.Namespace) -> int:
    """Print a line per case; return 1 where a ratio is not what it says."""
    chosen = [case for case in cases(args.seeds) if args.only in case.name]
    done = collect(outcome, chosen, args.jobs, lambda found: found.name)
    names = [case.name for case in chosen]
    done.sort(key=lambda o: names.index(o.name))
    print("Fitted over true variance at the 5, 50, 95 % level; standard deviation of the")
    print("signal-to-noise ratio without stain, in all and by quarter of the phase of x and of y.")
    print(table(_HEADER, [_line(o) for o in done]))
    bad = sum(not o.good for o in done)
    print(f"{len(done) - bad} of {len(done)} within 1.00 +- {TOLERANCE:g}")
    save_json(args.json, done)
    return int(bad > 0)


_HEADER = ["case", *["post"] * 3, *["pre"] * 3, "S/N", "robust", *["x"] * 4, *["y"] * 4]


def _line(found: Outcome) -> list[str]:
    values = (*found.post, *found.pre, found.sd, found.robust, *found.quarters)
    return [found.name, *("-" if np.isnan(v) else f"{v:.3f}" for v in values)]
