"""Completeness of the search: spots are put into the pair itself, and looked for.

A bounded sample of windows gets spots of the filter's width at random positions on the section,
with the shot noise that post would give them, and is searched like everything else, with the pair's
own threshold. The share that is found rises with brightness; where it passes 50 % and 90 % are the
limits. Positions next to a candidate are excluded: either of the two could be what is found.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.progress import step
from unglow.core.windows import Window, grid, map_bounded
from unglow.detection.images import Images
from unglow.detection.rates import Limit, Trials, find_limits
from unglow.detection.snr import compute_margin, significance
from unglow.detection.source_extraction import HALO, find
from unglow.detection.source_photometry import is_misregistered
from unglow.images.zarr.layout import CHUNK
from unglow.photometry.imaging import blur_image

if TYPE_CHECKING:
    from unglow.core.arrays import Bools, Floats
    from unglow.detection.section_mask import Section
    from unglow.detection.settings import DetectSettings
    from unglow.detection.snr import Scene


WINDOW_PX = 256
"""Side of a window that spots are put into, if the image is small."""
LARGE_CHUNKS = 64
"""Of an image with this many chunks, windows are within single chunks."""
REGIONS = 3
"""The section's box is divided into 3 x 3 regions."""
LEAST_TRIALS = 100
"""A region with fewer spots has no limits of its own: a share of 50 % is known to 5 % then."""
_SHARE = 0.2
"""Of the px of an image, at most this many are searched again, but for the fewest windows."""
_WINDOWS, _WITHIN_CHUNKS = (18, 90), (12, 60)
"""Fewest and most windows; those within chunks hold twice as many spots."""
_APART_FWHMS, _APART_PX = 8.0, 24.0
"""Distance of spots, in widths of the filter, and px at least."""
_FAINT, _BRIGHT = 0.4, 6.0
"""Peaks of spots, in units of the expected limit: structures of pre drown also bright ones."""
_MATCH_FWHMS, _MATCH_PX = 0.5, 0.5
"""A spot is found by a source that is no further away, in widths of the filter plus px."""
_NEAR_FWHMS = 2.0
"""No spot is put so near to a candidate, in widths of the filter."""
_CURVE = 12
"""Bins of the curve in detection.json."""
_SHARES = (50, 90)
"""Limits are those at which this many per cent of the spots are found."""
_REACH_SIGMAS = 4.5
"""Spots are drawn so far out: a peak of 1 ends at 0.00004."""


@dataclass(frozen=True, eq=False)
class Completeness:
    """Share of the spots that a search finds, by their brightness.

    Attributes
    ----------
    settings, threshold
        Filter, and the signal-to-noise ratio from which on a source counts as found.
    trials
        All spots that were put in.
    windows
        How many windows were searched.
    box
        The section's box, which regions divide.
    """

    settings: DetectSettings
    threshold: float
    trials: Trials
    windows: int
    box: Window

    def to_json(self) -> dict[str, Any]:
        """Return the entry "completeness" of detection.json."""
        return {
            "spot_fwhm_px": self.settings.fwhm_px,
            "threshold_snr": self.threshold,
            "windows": self.windows,
            "injected": len(self.trials),
            **self._describe_limits(self.trials),
            "curve": self.trials.curve(_CURVE),
            "regions": self._describe_regions(),
        }

    def _describe_limits(self, trials: Trials) -> dict[str, Any]:
        volume = spot_volume(self.settings)
        out: dict[str, Any] = {}
        for share, limit in zip(
            _SHARES, find_limits(trials, [s / 100 for s in _SHARES]), strict=True
        ):
            out[f"peak_{share}"] = _describe_limit(limit, 1.0)
            out[f"flux_{share}"] = _describe_limit(limit, volume)
        return out

    def _describe_regions(self) -> list[dict[str, Any]]:
        """Limits of the regions that have spots enough, from the top left on."""
        out = []
        for region in _divide_box(self.box):
            trials = self.trials.select(region)
            if len(trials) >= LEAST_TRIALS:
                ends = {"x": [region.x0, region.x1], "y": [region.y0, region.y1]}
                out.append({**ends, "injected": len(trials), **self._describe_limits(trials)})
        return out


def spot_volume(settings: DetectSettings) -> float:
    """Flux of a spot of peak 1: 2 pi sigma^2."""
    return float(2 * np.pi * settings.sigma**2)


@step("completeness")
def measure_completeness(
    scene: Scene,
    section: Section,
    candidates_xy: Floats,
    threshold: float,
    key: str,
    *,
    workers: int,
) -> Completeness | None:
    """Put spots into a pair and look for them.

    Parameters
    ----------
    scene, section
        As for `unglow.detection.search.search`.
    candidates_xy
        (N, 2) positions (x, y) of the candidates of the pair.
    threshold
        Signal-to-noise ratio from which on a source is a candidate.
    key
        Any text; equal texts give equal spots.
    workers
        Windows in flight.

    Returns
    -------
    None if the section has no window to put spots into.
    """
    seed = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "little")
    box = _find_box(section, scene.post.shape)
    windows = _sample_windows(scene, section, box, np.random.default_rng(seed))
    sigmas = [s for s in (_estimate_sigma(scene, section, window) for window in windows) if s > 0]
    if not sigmas:
        return None
    settings = scene.settings
    steps = np.arange(-settings.reach, settings.reach + 1)
    spot = np.exp(-0.5 * (steps / settings.sigma) ** 2)
    filtered_peak = float((settings.taps * spot).sum() ** 2)  # of a spot of peak 1
    low, high = np.quantile(sigmas, (0.05, 0.95)) * threshold / filtered_peak
    in_window = partial(
        _search_window,
        scene,
        section,
        candidates_xy,
        threshold,
        (_FAINT * low, _BRIGHT * high),
        seed,
    )
    trials = Trials.join(list(map_bounded(in_window, windows, workers)))
    return Completeness(scene.settings, threshold, trials, len(windows), box)


def _search_window(
    scene: Scene,
    section: Section,
    candidates_xy: Floats,
    threshold: float,
    peaks: tuple[float, float],
    seed: int,
    core: Window,
) -> Trials:
    """Put spots into one window, and look for them there."""
    random = np.random.default_rng([seed, core.y0, core.x0])
    settings = scene.settings
    x, y = _draw_positions(core, settings, random)
    low, high = (math.log(v) for v in peaks)
    peak = np.exp(random.uniform(low, high, len(x)))
    px = np.rint(x).astype(np.int64), np.rint(y).astype(np.int64)
    free = section.contains(*px) & ~_find_near(x, y, candidates_xy, _NEAR_FWHMS * settings.fwhm_px)
    x, y, peak, px = x[free], y[free], peak[free], (px[0][free], px[1][free])
    # what pre is blurred with comes off the halo: no more is read around a window
    halo = HALO - (scene.margin - compute_margin(settings))
    window = core.grow(halo).clip(scene.post.shape)
    images = Images.read(scene, window.grow(scene.margin))
    add_spots(images, core, (x, y, peak), scene, random)
    ratio = significance(scene, window, images, settings.min_snr)
    snr = ratio.snr
    sources, _ = find(snr, settings.min_snr, window, core)
    sources = sources[(sources["above"] >= threshold) & ~is_misregistered(ratio, sources)]
    at = np.stack([sources["x"], sources["y"]], axis=1)
    found = _find_near(x, y, at, _MATCH_FWHMS * settings.fwhm_px + _MATCH_PX)
    searched = np.isfinite(snr[px[1] - window.y0, px[0] - window.x0])
    return Trials(x[searched], y[searched], peak[searched], found[searched])


def add_spots(
    images: Images,
    core: Window,
    spots: tuple[Floats, Floats, Floats],
    scene: Scene,
    random: np.random.Generator,
) -> None:
    """Add Gaussian spots with their shot noise to post and to the difference, in place.

    Post goes up to the camera's maximum. Where post was blurred before the subtraction, so is what
    is added to the difference. ``spots`` are x, y (px, inside of ``core``) and peak (grey levels),
    (N,) each.
    """
    blur = scene.blur if scene.blur is not None and scene.blur.image == "post" else None
    margin = 0 if blur is None else blur.reach
    window, light = _draw_spots(core, spots, scene.settings.sigma)
    shot = scene.noise.post_shot
    if shot > 0:
        lit = light > 0  # nothing is drawn for the others
        light[lit] = random.poisson(light[lit] / shot) * shot
    window = window.grow(margin)
    shared = window.common(images.window)
    light32 = np.pad(light.astype(np.float32), margin)
    post, _, difference = images.cut(shared).pixels
    brighter = post + light32[shared.shift(-window.y0, -window.x0).slices]
    added = np.minimum(brighter, np.float32(scene.saturation[0]))
    difference += added - post if blur is None else blur_image(added - post, blur.taps)
    post[:] = added


def _draw_spots(
    core: Window, spots: tuple[Floats, Floats, Floats], sigma: float
) -> tuple[Window, Floats]:
    """Return a window around ``core``, and the sum of all spots over it, ``window.shape``."""
    x, y, peak = spots
    reach = int(np.ceil(_REACH_SIGMAS * sigma))
    window = core.grow(reach + 1)
    light: Floats = np.zeros(window.shape)
    steps = np.arange(-reach, reach + 1)
    cols, rows = (np.rint(v).astype(np.int64) for v in (x, y))
    across, down = (
        np.exp(-0.5 * ((px - v)[:, None] + steps) ** 2 / sigma**2)
        for px, v in ((cols, x), (rows, y))
    )
    down *= peak[:, None]
    corners = zip(rows - reach - window.y0, cols - reach - window.x0, strict=True)
    for n, (top, left) in enumerate(corners):
        stamp = light[top : top + len(steps), left : left + len(steps)]
        stamp += down[n, :, None] * across[n]
    return window, light


def _find_box(section: Section, shape: tuple[int, int]) -> Window:
    """Return the smallest window that holds the section."""
    scale = 2**section.level
    rows, cols = (np.flatnonzero(section.mask.any(axis=axis)) for axis in (1, 0))
    if not len(rows):
        return Window(0, 0, 0, 0)
    ends = (rows[0], rows[-1] + 1, cols[0], cols[-1] + 1)
    return Window(*(int(end) * scale for end in ends)).clip(shape)


def _divide_box(box: Window) -> list[Window]:
    """Divide a box into `REGIONS` x `REGIONS` parts, in row order."""
    ys, xs = (
        [begin + (end - begin) * k // REGIONS for k in range(REGIONS + 1)]
        for begin, end in ((box.y0, box.y1), (box.x0, box.x1))
    )
    return [
        Window(ys[i], ys[i + 1], xs[j], xs[j + 1]) for i in range(REGIONS) for j in range(REGIONS)
    ]


def _sample_windows(
    scene: Scene, section: Section, box: Window, random: np.random.Generator
) -> list[Window]:
    """Choose windows that lie mostly on the section, about as many in each region."""
    shape = scene.post.shape
    cores, fewest, most = _list_cores(shape, scene.settings)
    cost = (cores[0].shape[0] + 2 * HALO) ** 2
    wanted = int(np.clip(_SHARE * shape[0] * shape[1] / cost, fewest, most))
    groups: list[list[Window]] = [[] for _ in range(REGIONS * REGIONS)]
    regions = _divide_box(box)
    for window in cores:
        x, y = (window.x0 + window.x1) // 2, (window.y0 + window.y1) // 2
        for group, region in zip(groups, regions, strict=True):
            if region.y0 <= y < region.y1 and region.x0 <= x < region.x1:
                group.append(window)
    chosen: list[Window] = []
    queues = [[group[k] for k in random.permutation(len(group))] for group in groups]
    while len(chosen) < wanted and any(queues):
        for queue in queues:
            while queue and len(chosen) < wanted:
                window = queue.pop()
                if section.mask_window(window).mean() >= 0.5:
                    chosen.append(window)
                    break
    return sorted(chosen)


def _list_cores(shape: tuple[int, int], settings: DetectSettings) -> tuple[list[Window], int, int]:
    """Return the windows that spots may be put into, and the fewest and most that are wanted.

    Of a large image what is searched around a window is in the same chunk: no other is read.
    """
    chunks = [w for w in grid(shape, (CHUNK, CHUNK)) if w.shape == (CHUNK, CHUNK)]
    if len(chunks) < LARGE_CHUNKS:
        return list(grid(shape, (WINDOW_PX, WINDOW_PX))), *_WINDOWS
    inside = HALO + compute_margin(settings)
    return [chunk.grow(-inside) for chunk in chunks], *_WITHIN_CHUNKS


def _estimate_sigma(scene: Scene, section: Section, window: Window) -> float:
    """Return what noise makes of the filtered difference at the median levels of a window."""
    on = section.mask_window(window)
    post, pre = (np.asarray(image.read(window))[on] for image in (scene.post, scene.pre))
    usable = np.isfinite(pre)
    if not usable.any():
        return 0.0
    of_post, of_pre = (np.array([np.median(v[usable])], dtype=np.float32) for v in (post, pre))
    gain = np.median(scene.gain_over(window))
    variance = scene.noise.variance_post(of_post) + gain**2 * scene.noise.variance_pre(of_pre)
    squares = float((scene.settings.taps**2).sum()) ** 2
    return float(np.sqrt(variance[0] * squares)) * scene.noise.spread


def _draw_positions(
    core: Window, settings: DetectSettings, random: np.random.Generator
) -> tuple[Floats, Floats]:
    """Draw positions, x and y, one in the middle half of each cell of a grid."""
    apart = max(_APART_PX, _APART_FWHMS * settings.fwhm_px)
    rows, cols = (max(1, int(n // apart)) for n in core.shape)
    y, x = np.meshgrid(np.arange(rows) + 0.5, np.arange(cols) + 0.5, indexing="ij")
    jitter = random.uniform(-0.25, 0.25, (2, rows * cols))
    return (
        core.x0 + (x.ravel() + jitter[0]) * core.shape[1] / cols - 0.5,
        core.y0 + (y.ravel() + jitter[1]) * core.shape[0] / rows - 0.5,
    )


def _find_near(x: Floats, y: Floats, others: Floats, radius: float) -> Bools:
    """Return which points have one of ``others``, (N, 2), within a radius, px."""
    out = np.zeros(len(x), dtype=np.bool_)
    if not len(others) or not len(x):
        return out
    close = (np.abs(others[:, 0] - np.mean([x.min(), x.max()])) <= np.ptp(x) / 2 + radius) & (
        np.abs(others[:, 1] - np.mean([y.min(), y.max()])) <= np.ptp(y) / 2 + radius
    )
    for other_x, other_y in others[close]:
        out |= (x - other_x) ** 2 + (y - other_y) ** 2 <= radius**2
    return out


def _describe_limit(limit: Limit | None, factor: float) -> dict[str, float] | None:
    """Return a limit and its standard error, times a factor, in 4 digits; None if not reached."""
    if limit is None:
        return None
    value, error = limit.value * factor, limit.error * factor
    return {"value": float(f"{value:.4g}"), "error": float(f"{error:.2g}")}
