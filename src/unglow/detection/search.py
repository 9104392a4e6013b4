"""The search for candidates: one pass over the difference, tile by tile."""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.progress import step
from unglow.core.rounding import rounded
from unglow.core.windows import Window, bounded_map
from unglow.detection.candidate_table import UNCOUNTED
from unglow.detection.false_discovery import Sides
from unglow.detection.poisson import poisson_interval
from unglow.detection.sizes import CANDIDATES, DETECT_TILE
from unglow.detection.snr import Masked, around_px, significance_of
from unglow.detection.source_extraction import HALO, find
from unglow.detection.source_photometry import MEASURED, margin_of, measure
from unglow.detection.tiles import tiles
from unglow.io.search_counts import SearchCounts, no_squares, per_square, square_px

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from unglow.detection.false_discovery import ControlRates, Controls
    from unglow.detection.section_mask import Section
    from unglow.detection.settings import DetectSettings
    from unglow.detection.snr import Images, Scene
    from unglow.io.zarr.bands import Band


@dataclass(frozen=True, eq=False)
class Part:
    """What one tile gives."""

    sources: NDArray[np.void]
    bright: NDArray[np.float32]
    dark: NDArray[np.float32]
    masked: Masked
    searched: NDArray[np.int64]
    extended_px: int


@dataclass(eq=False)
class Candidates:
    """All sources of a pair above the lowest threshold, and how many of them are chance.

    Attributes
    ----------
    settings
        What was looked for.
    sides
        Counts of sources on the section, bright and dark.
    found
        (N,) `MEASURED`, at most ``most`` of the most significant ones, any order until `finish`.
    masked
        px of the image that could not be used.
    searched
        (rows, cols) int64: px of the section with a signal-to-noise ratio, in the squares of
        `unglow.io.search_counts`.
    side_px
        Side of these squares.
    controls
        Unstained controls of the pair's dye; None if it has none.
    extended_px
        px above every threshold that belong to structures too large to be candidates.
    lost
        Sources that were dropped because there are too many.
    """

    settings: DetectSettings
    sides: Sides
    searched: NDArray[np.int64]
    side_px: int
    controls: Controls | None = None
    found: NDArray[np.void] = field(default_factory=lambda: np.zeros(0, MEASURED))
    masked: Masked = field(default_factory=Masked)
    extended_px: int = 0
    lost: int = 0
    most: int = CANDIDATES

    def add(self, part: Part) -> None:
        """Take what a tile gave; the result does not depend on the order of tiles."""
        self.sides.add(part.bright, part.dark)
        self.masked += part.masked
        self.searched += part.searched
        self.extended_px += part.extended_px
        self._waiting.append(part.sources)
        if sum(len(w) for w in self._waiting) > self.most // 4:
            self._settle()

    @property
    def counts(self) -> dict[str, NDArray[Any]]:
        """What was found and counted so far, by name, for `merge_counts`."""
        self._settle()
        numbers = (*astuple(self.masked), self.extended_px, self.lost)
        return {
            "found": self.found,
            "bright": self.sides.bright,
            "dark": self.sides.dark,
            "searched": self.searched,
            "numbers": np.array(numbers, np.int64),
        }

    def merge_counts(self, counts: Mapping[str, NDArray[Any]]) -> None:
        """Take the `counts` of other tiles of the pair; their order does not matter."""
        *masked, extended, lost = (int(n) for n in counts["numbers"])
        for mine, more in ((self.sides.bright, "bright"), (self.sides.dark, "dark")):
            np.add(mine, counts[more], out=mine)
        self.masked += Masked(*masked)
        self.searched += counts["searched"]
        self.extended_px += extended
        self.lost += lost
        self._waiting.append(counts["found"])
        self._settle()

    def __post_init__(self) -> None:
        self._waiting: list[NDArray[np.void]] = []

    def _settle(self) -> None:
        """Join what waits, and keep the most significant sources."""
        found = np.concatenate([self.found, *self._waiting])
        self._waiting = []
        if len(found) > self.most:
            order = np.lexsort((found["col"], found["row"], -found["above"]))
            self.lost += len(found) - self.most
            found = found[order[: self.most]]
        self.found = found

    def finish(self) -> None:
        """Sort by (y, x)."""
        self._settle()
        order = np.lexsort((self.found["col"], self.found["row"], self.found["x"], self.found["y"]))
        self.found = self.found[order]

    @property
    def searched_px(self) -> int:
        """How many px of the section were searched."""
        return int(self.searched.sum())

    @property
    def tally(self) -> SearchCounts:
        """The counts, without the sources themselves."""
        sides = self.sides
        return SearchCounts(sides.lowest, sides.bright, sides.dark, self.searched, self.side_px)

    @property
    def by_controls(self) -> ControlRates | None:
        """False-discovery rates by the controls; None if none of them was searched."""
        if self.controls is None:
            return None
        return self.controls.rates(self.sides, self.searched_px)

    @property
    def thresholds(self) -> dict[str, float | None]:
        """The threshold that each estimate would choose; None where nothing can be believed."""
        wanted = self.settings.fdr
        found = {"negative": self.sides.choose(wanted)}
        if self.by_controls is not None:
            found["control"] = self.sides.lowest_with(self.by_controls.fdr, wanted)
        return found

    @property
    def threshold_from(self) -> str:
        """The estimate that the threshold rests on: ``negative`` or ``control``."""
        found = self.thresholds
        if "control" not in found or self.settings.threshold_from != "strictest":
            asked = self.settings.threshold_from
            return asked if asked in found else "negative"
        return max(found, key=lambda name: _or_endless(found[name]))

    @property
    def threshold(self) -> float | None:
        """The chosen signal-to-noise ratio; None if nothing can be believed."""
        chosen = self.thresholds[self.threshold_from]
        if chosen is None or not self.lost:
            return chosen
        # of the bin in which the list ends some are lost
        last = int(self.sides.bins(self.found["above"].min()))
        return max(chosen, float(self.sides.thresholds[last + 1]))

    def listed(self) -> tuple[NDArray[np.void], NDArray[np.float64]]:
        """Return the candidates above the threshold, and the false-discovery rate of each."""
        threshold = self.threshold
        if threshold is None:
            return self.found[:0], np.zeros(0)
        bins = self.sides.bins(self.found["above"])
        chosen = self.sides.thresholds[bins] >= threshold
        return self.found[chosen], self.sides.rates()[bins[chosen]]

    def listed_by_controls(self) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """Return the rate by the controls of each listed candidate, and its upper 95 % limit."""
        rates = self.by_controls
        if rates is None:
            return None
        bins = self.sides.bins(self.listed()[0]["above"])
        return rates.fdr[bins], rates.high[bins]

    def report(self, pixel_size_um: tuple[float, float] | None) -> dict[str, Any]:
        """Return the content of detection.json."""
        listed, _ = self.listed()
        threshold = self.threshold
        counted = int(np.count_nonzero((listed["flags"] & UNCOUNTED) == 0))
        place = None if threshold is None else int(self.sides.bins(threshold + 1e-6))
        return {
            "candidates": counted,
            "not_counted": len(listed) - counted,
            "fdr": None if place is None else float(self.sides.rates()[place]),
            **self._rate_by_controls(place),
            "threshold_snr": threshold,
            "threshold_from": self.threshold_from,
            "thresholds": self.thresholds,
            **density(counted, self.searched_px, pixel_size_um),
            "searched_px": self.searched_px,
            "masked_px": {
                "no_data": self.masked.no_data,
                "saturated": self.masked.saturated,
                "misregistered": self.masked.misregistered,
            },
            "extended_px": self.extended_px,
            "dropped": self.lost,
            "controls": None if self.controls is None else self.controls.told(place),
            "by_threshold": self.sides.table(self.controls, self.by_controls),
        }

    def _rate_by_controls(self, place: int | None) -> dict[str, Any]:
        """Return the rate by the controls from a bin on; None for what is not known."""
        rates = self.by_controls
        if rates is None or place is None:
            return {"fdr_control": None, "fdr_control_ci95": None}
        return rates.told(place)


def _or_endless(threshold: float | None) -> float:
    return math.inf if threshold is None else threshold


@step("search")
def search(
    scene: Scene,
    section: Section,
    *,
    workers: int,
    controls: Controls | None = None,
    tile: int = DETECT_TILE,
    most: int = CANDIDATES,
    band: Band | None = None,
) -> Candidates:
    """Search all of a pair, or a band of it.

    Parameters
    ----------
    scene
        Images and what is known about them.
    section
        Where the section is.
    workers
        Tiles in flight.
    controls
        Unstained controls of the pair's dye, if it has some.
    tile
        Side of the blocks that are read, px; it does not change the result.
    most
        Sources to keep at most.
    band
        Which rows of tiles to look at, of all; None for all.
    """
    settings = scene.settings
    total = nothing_yet(settings, scene.post.shape, controls, most)
    work = partial(_search_tile, scene, section)
    around = HALO + max(margin_of(scene), around_px(settings))
    for part in bounded_map(work, tiles(scene, tile, around, band), workers):
        total.add(part)
    total.finish()
    return total


def nothing_yet(
    settings: DetectSettings,
    shape: tuple[int, int],
    controls: Controls | None,
    most: int = CANDIDATES,
) -> Candidates:
    """Return what is known of a pair of ``shape`` before the first tile."""
    sides = Sides.create(settings.min_snr)
    return Candidates(settings, sides, no_squares(shape), square_px(shape), controls, most=most)


def _search_tile(scene: Scene, section: Section, tile: tuple[Window, Images]) -> Part:
    core, images = tile
    window = core.grow(HALO).clip(scene.post.shape)
    around = max(margin_of(scene), around_px(scene.settings))
    seen = significance_of(scene, window, images.cut(window.grow(around)))
    inner = core.shift(-window.y0, -window.x0).slices
    lowest = scene.settings.min_snr
    bright = find(seen.snr, lowest, window, core)
    found = measure(scene, seen, bright.sources, section)
    np.negative(seen.snr, out=seen.snr)
    dark = find(seen.snr, lowest, window, core)
    on = section.inside(dark.sources["col"], dark.sources["row"])
    reasons = seen.reasons[inner]
    searched = np.isfinite(seen.snr[inner]) & section.over(core)
    return Part(
        sources=found,
        bright=found["above"][(found["flags"] & UNCOUNTED) == 0],
        dark=dark.sources["above"][on],
        masked=Masked(*(int(np.count_nonzero(reasons == reason)) for reason in (1, 2, 3))),
        searched=per_square(searched, core, scene.post.shape),
        extended_px=bright.extended_px,
    )


def density(
    count: int, searched_px: int, pixel_size_um: tuple[float, float] | None
) -> dict[str, Any]:
    """Return area and density with its 95 % Poisson interval; None for what is not known."""
    if pixel_size_um is None or not searched_px:
        return {"area_mm2": None, "density_per_mm2": None, "density_ci95_per_mm2": None}
    area = searched_px * pixel_size_um[0] * pixel_size_um[1] / 1e6
    low, high = poisson_interval(count)
    return {
        "area_mm2": rounded(area),
        "density_per_mm2": rounded(count / area),
        "density_ci95_per_mm2": [rounded(low / area), rounded(high / area)],
    }
