"""The search for candidates: one pass over the difference, tile by tile."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from unglow.core.progress import step
from unglow.core.windows import map_bounded
from unglow.detection.images import read_tiles
from unglow.detection.rates import Sides
from unglow.detection.sharp_sources import (
    LIMITS,
    choose_limit,
    classify,
    measure_median_share,
)
from unglow.detection.snr import EXCLUDED, UNUSABLE, significance
from unglow.detection.source_extraction import HALO, find
from unglow.detection.source_photometry import (
    LISTED,
    MEASURED,
    SHARP,
    UNCOUNTED,
    compute_aperture_margin,
    is_misregistered,
    measure,
)
from unglow.images.detection_results import (
    SearchCounts,
    count_per_square,
    make_empty_squares,
    square_px,
)
from unglow.memory import CANDIDATES, DETECT_TILE
from unglow.review.polygons import RegionCounts, density, mask_outside

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypeAlias

    from numpy.typing import NDArray

    from unglow.core.arrays import Array, Bools, Floats, Floats32, Ints
    from unglow.core.windows import Window
    from unglow.detection.images import Images
    from unglow.detection.rates import ControlRates, Controls
    from unglow.detection.section_mask import Section
    from unglow.detection.settings import DetectSettings
    from unglow.detection.snr import Scene
    from unglow.review.polygons import Regions

    Part: TypeAlias = Mapping[str, Array]
    """What a tile gives, by name."""

NEGATIVES = 20
"""Sources on the negated difference that are listed: they are chance, or errors of the map."""
_NUMBERS = (*UNUSABLE, "extended", "lacking", "dropped")
"""Other counts: unusable px by reason, px of structures too large, px of the section without data,
sources that were dropped."""


@dataclass(eq=False)
class SearchResult:
    """All sources of a pair above the lowest threshold, and how many of them are chance.

    Attributes
    ----------
    settings
        What was looked for.
    sides
        Counts of sources on the section, bright and dark, without those that are sharper than the
        optics; complete with `finish`.
    searched
        (rows, cols) int64: px of the section with a signal-to-noise ratio, in the squares of
        `unglow.images.detection_results`.
    side_px
        Side of these squares.
    controls
        Unstained controls of the pair's dye; None if it has none.
    found
        (N,) `MEASURED`, at most ``most`` of the most significant ones, any order until `finish`.
    negatives
        (n, 3) float64: x, y and signal-to-noise ratio of the `NEGATIVES` most significant sources
        on the negated difference, the most significant first; until `finish` with a column more,
        what a median leaves of them.
    by_sharpness
        (2, classes, bins) int64: counts of bright and dark sources by `classify`.
    sharp_limit
        What a median leaves of sources that are sharper than the optics is below this.
    numbers
        Counts of what `_NUMBERS` names.
    in_regions
        What is in the regions that were drawn; None if there are none.
    most
        Sources to keep at most.
    """

    settings: DetectSettings
    sides: Sides
    searched: Ints
    side_px: int
    controls: Controls | None = None
    found: NDArray[np.void] = field(default_factory=lambda: np.zeros(0, MEASURED))
    negatives: Floats = field(default_factory=lambda: np.zeros((0, 4)))
    by_sharpness: Ints = field(default_factory=lambda: np.zeros((2, 1, 1), np.int64))
    sharp_limit: float | None = None
    numbers: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_NUMBERS, 0))
    in_regions: RegionCounts | None = None
    most: int = CANDIDATES
    _waiting: list[NDArray[np.void]] = field(default_factory=list, init=False)

    @classmethod
    def empty(
        cls,
        settings: DetectSettings,
        shape: tuple[int, int],
        controls: Controls | None = None,
        regions: Regions | None = None,
        most: int = CANDIDATES,
    ) -> Self:
        """Return the result for a pair of ``shape`` (rows, columns) before its first part."""
        return cls(
            settings,
            Sides.create(settings.min_snr),
            make_empty_squares(shape),
            square_px(shape),
            controls,
            in_regions=RegionCounts(regions) if regions else None,
            most=most,
        )

    def add(self, part: Part) -> None:
        """Add what a tile gave; the result does not depend on their order."""
        self.by_sharpness = self.by_sharpness + part["by_sharpness"]
        self.negatives = sort_brightest(np.concatenate([self.negatives, part["negatives"]]))
        self.searched += part["searched"]
        for name, count in zip(_NUMBERS, part["numbers"].tolist(), strict=True):
            self.numbers[name] += count
        if self.in_regions is not None:
            self.in_regions.px += part["regions"]
        self._waiting.append(part["found"])
        if sum(len(found) for found in self._waiting) > self.most // 8:
            self.settle()

    def settle(self) -> None:
        """Join the sources of parts that wait, and keep the most significant ones."""
        if not self._waiting:
            return
        found = np.concatenate([self.found, *self._waiting])
        self._waiting, self.found = [], np.zeros(0, MEASURED)  # what they held is free again
        if len(found) > self.most:
            order = np.lexsort((found["col"], found["row"], -found["above"]))
            self.numbers["dropped"] += len(found) - self.most
            found = found[order[: self.most]]
        self.found = found

    def finish(self) -> None:
        """Leave out what is sharper than the optics, and sort by (y, x)."""
        self.settle()
        chosen = choose_limit(self.found["above"], self.found["median_share"])
        self.sharp_limit = round(float(LIMITS[chosen]), 2)
        self.sides.bright[:], self.sides.dark[:] = self.by_sharpness[:, chosen + 1 :].sum(axis=1)
        self.found["flags"][self.found["median_share"] < LIMITS[chosen]] |= SHARP
        self.negatives = self.negatives[self.negatives[:, 3] >= LIMITS[chosen], :3]
        order = np.lexsort((self.found["col"], self.found["row"], self.found["x"], self.found["y"]))
        self.found = self.found[order]

    @property
    def searched_px(self) -> int:
        """How many px of the section were searched."""
        return int(self.searched.sum())

    @property
    def search_counts(self) -> SearchCounts:
        """The counts, without the sources themselves."""
        counts = self.sides.lowest, self.sides.bright, self.sides.dark
        return SearchCounts(*counts, self.searched, self.side_px)

    @property
    def control_rates(self) -> ControlRates | None:
        """False-discovery rates by the controls; None if none of them was searched."""
        return None if self.controls is None else self.controls.rates(self.sides, self.searched_px)

    @property
    def thresholds(self) -> dict[str, float | None]:
        """The threshold that each estimate would choose; None where nothing can be believed."""
        wanted, by_controls = self.settings.fdr, self.control_rates
        thresholds = {"negative": self.sides.choose(wanted)}
        if by_controls is not None:
            thresholds["control"] = self.sides.choose(wanted, by_controls.fdr)
        return thresholds

    @property
    def threshold_from(self) -> str:
        """The estimate that the threshold rests on: ``negative`` or ``control``."""
        thresholds = self.thresholds
        if "control" not in thresholds:
            return "negative"
        if self.settings.threshold_from != "strictest":
            return self.settings.threshold_from
        endless = {name: math.inf if t is None else t for name, t in thresholds.items()}
        return max(endless, key=endless.__getitem__)

    @property
    def threshold(self) -> float | None:
        """The chosen signal-to-noise ratio; None if nothing can be believed."""
        chosen = self.thresholds[self.threshold_from]
        if chosen is None or not self.numbers["dropped"]:
            return chosen
        # some of the sources in the bin where the list ends were dropped
        last = int(self.sides.bins(self.found["above"].min()))
        above = self.sides.thresholds[last + 1 :]
        return max(chosen, float(above[0])) if len(above) else None

    def list_candidates(self) -> NDArray[np.void]:
        """Return the candidates above the threshold, (N,) `LISTED`."""
        chosen, bins = self._choose()
        listed = np.zeros(len(bins), LISTED)
        for name in MEASURED.names or ():
            listed[name] = self.found[name][chosen]
        listed["fdr"] = self.sides.rates()[bins]
        listed["fdr_control"] = listed["fdr_control_high95"] = np.nan
        by_controls = self.control_rates
        if by_controls is not None:
            listed["fdr_control"] = by_controls.fdr[bins]
            listed["fdr_control_high95"] = by_controls.high[bins]
        return listed

    def _choose(self) -> tuple[Bools, NDArray[np.intp]]:
        """Return which sources are above the threshold, and the bins of those that are."""
        threshold, bins = self.threshold, self.sides.bins(self.found["above"])
        if threshold is None:
            return np.zeros(len(bins), np.bool_), bins[:0]
        chosen = self.sides.thresholds[bins] >= threshold
        return chosen, bins[chosen]

    def report(self, pixel_size_um: tuple[float, float] | None) -> dict[str, Any]:
        """Return the content of detection.json."""
        chosen, regions = self._choose()[0], {}
        is_counted = (self.found["flags"][chosen] & UNCOUNTED) == 0
        counted = int(np.count_nonzero(is_counted))
        threshold, by_controls = self.threshold, self.control_rates
        # a little above the start of its bin, which is rounded
        first_bin = None if threshold is None else int(self.sides.bins(threshold + 1e-6))
        rate_by_controls: dict[str, Any] = {"fdr_control": None, "fdr_control_ci95": None}
        if by_controls is not None and first_bin is not None:
            rate_by_controls = by_controls.to_json(first_bin)
        masked_px = {name: self.numbers[name] for name in UNUSABLE}
        if self.in_regions is not None:
            masked_px["excluded"] = int(self.in_regions.px[0])
            points = np.stack([self.found[name][chosen][is_counted] for name in ("x", "y")], axis=1)
            regions["regions"] = self.in_regions.to_json(points, pixel_size_um)
        return {
            "candidates": counted,
            "not_counted": len(is_counted) - counted,
            "fdr": None if first_bin is None else float(self.sides.rates()[first_bin]),
            "fdr_ci95": None if first_bin is None else self.sides.interval(first_bin),
            **rate_by_controls,
            "threshold_snr": threshold,
            "threshold_from": self.threshold_from,
            "thresholds": self.thresholds,
            **density(counted, self.searched_px, pixel_size_um),
            "searched_px": self.searched_px,
            "masked_px": masked_px,
            "extended_px": self.numbers["extended"],
            "sharp_limit": self.sharp_limit,
            "dropped": self.numbers["dropped"],
            "controls": None if self.controls is None else self.controls.to_json(first_bin),
            "by_threshold": self.sides.table(by_controls, first_bin),
            "brightest_negatives": self.negatives.round(2).tolist(),
            **regions,
        }


def sort_brightest(negatives: Floats) -> Floats:
    """Return the most significant of sources (n, 3 or more) of x, y, ratio; the first of equals."""
    x, y, ratio = negatives.T[:3]
    return np.asarray(negatives[np.lexsort((x, y, -ratio))[:NEGATIVES]], np.float64)


@step("search")
def search(
    scene: Scene,
    section: Section,
    *,
    workers: int,
    controls: Controls | None = None,
    regions: Regions | None = None,
    tile: int = DETECT_TILE,
    most: int = CANDIDATES,
) -> SearchResult:
    """Search a pair.

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
    regions
        What was drawn on post; scene and section exclude what is to be excluded themselves.
    tile
        Side of the blocks that are read, px; it does not change the result.
    most
        Sources to keep at most.
    """
    settings = scene.settings
    result = SearchResult.empty(settings, scene.post.shape, controls, regions, most)
    around = HALO + max(compute_aperture_margin(scene), scene.margin)
    spare: list[Floats32] = []

    def search_tile(given: tuple[Window, Images]) -> Part:
        part = _search_tile(scene, section, result.in_regions, given)
        spare.append(given[1].room)  # nothing of the part is in it
        return part

    for part in map_bounded(search_tile, read_tiles(scene, tile, around, spare), workers):
        result.add(part)
    result.finish()
    return result


def _search_tile(
    scene: Scene, section: Section, in_regions: RegionCounts | None, tile: tuple[Window, Images]
) -> Part:
    core, images = tile
    window = core.grow(HALO).clip(scene.post.shape)
    around = max(compute_aperture_margin(scene), scene.margin)
    lowest = scene.settings.min_snr
    ratio = significance(scene, window, images.cut(window.grow(around)), lowest)
    inner = core.shift(-window.y0, -window.x0).slices
    bright, extended_px = find(ratio.snr, lowest, window, core)
    if in_regions is not None:
        bright = mask_outside(in_regions.regions, bright)
    found = measure(scene, ratio, bright, section)
    np.negative(ratio.snr, out=ratio.snr)
    dark, _ = find(ratio.snr, lowest, window, core)
    if in_regions is not None:
        dark = mask_outside(in_regions.regions, dark)
    sides = Sides.create(lowest)
    dark = dark[section.contains(dark["col"], dark["row"])]
    if scene.spoilt is not None:
        dark = dark[~scene.spoilt.is_near(dark["col"], dark["row"])]
    if scene.unclear is not None:  # around what is bright there it is dark, which is not chance
        dark = dark[~scene.unclear.is_near(dark["col"], dark["row"])]
    dark = dark[~is_misregistered(ratio, dark)]
    left = measure_median_share(ratio, dark, scene.settings.taps)
    on = (found["flags"] & UNCOUNTED) == 0
    by_sharpness = np.zeros((2, len(LIMITS) + 1, len(sides.dark)), np.int64)
    for counts, ratios, shares in (
        (by_sharpness[0], found["above"][on], found["median_share"][on]),
        (by_sharpness[1], dark["above"], left),
    ):
        np.add.at(counts, (classify(shares), sides.bins(ratios)), 1)
    lasting = left >= LIMITS[0]
    strongest = np.stack([*(dark[n] for n in ("col", "row", "above")), left], axis=1)
    reasons = ratio.reasons[inner]
    unusable = (np.count_nonzero(reasons == reason) for reason in range(1, EXCLUDED))
    on_section = section.mask_window(core)
    lacking_px = np.count_nonzero(on_section & (reasons == 1 + UNUSABLE.index("no_data")))
    searched = np.isfinite(ratio.snr[inner]) & on_section
    if scene.spoilt is not None:
        searched &= ~scene.spoilt.mask_near(core)
    part = {
        "found": found,
        "by_sharpness": by_sharpness,
        "negatives": sort_brightest(strongest[lasting]),
        "searched": count_per_square(searched, core, scene.post.shape),
        "numbers": np.array([*unusable, extended_px, lacking_px, 0], np.int64),
    }
    if in_regions is not None:
        part["regions"] = in_regions.from_tile(core, reasons == EXCLUDED, searched)
    return part
