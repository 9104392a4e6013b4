"""Figures of a pair: the results that they are drawn from, each read once, when a figure needs it.

Overviews and a few crops are read, never an image at full resolution; a pair that was refused gets
figures that say why.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from unglow import transform
from unglow.core.archive import make_damage_error
from unglow.figures.difference_picture import paint
from unglow.figures.style import SOFT, apply_style, label, sheet
from unglow.images.artefacts import read_places
from unglow.images.detection_results import SHOWN, SearchCounts, read_candidates, read_report
from unglow.images.zarr import open_store
from unglow.images.zarr.reader import overview
from unglow.photometry.difference import open_method
from unglow.photometry.difference_histogram import DifferenceHistogram, load_methods
from unglow.photometry.gain.bright_field import NOT_SEARCHED
from unglow.photometry.gain.scale import Scale
from unglow.photometry.joint_histogram import JointStatistics
from unglow.registration.block_table import read_blocks
from unglow.results.figure_table import CANDIDATES, DIFFERENCE, REGISTRATION, SCALE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from unglow.core.arrays import Floats32
    from unglow.figures.difference_picture import Painted
    from unglow.images.artefacts import SavedPlace
    from unglow.images.detection_results import Candidates
    from unglow.images.zarr import Store
    from unglow.images.zarr.reader import Overview
    from unglow.photometry.difference import Image
    from unglow.transform import Transform


@dataclass(frozen=True, eq=False, slots=True)
class Differences:
    """The differences of a pair by all methods.

    Attributes
    ----------
    images, histograms
        By method; a histogram without values where there is no difference.
    default
        The default method.
    """

    images: Mapping[str, Image]
    histograms: Mapping[str, DifferenceHistogram]
    default: str

    @classmethod
    def load(
        cls, images: tuple[Store, Store], scale: Scale, store: Path, path: Path
    ) -> Differences:
        """Load those of post and aligned pre, with the written store and the file of histograms.

        Raises
        ------
        StoreError
            The file has no histogram of a method.
        """
        found = {m: open_method(*images, scale, store, m) for m in scale.methods}
        histograms = load_methods(path, scale.default)
        if not histograms.keys() >= found.keys():
            raise make_damage_error(path)
        return cls(found, {m: histograms[m] for m in found}, scale.default)


class FigureInputs:
    """The results that the rules of figures read, each loaded once, when it is asked for.

    Parameters
    ----------
    paths
        Inputs of the rule by their names in it.
    known
        Results that are known already, by the names of the properties.
    """

    def __init__(self, paths: Mapping[str, Path], **known: Any) -> None:
        self._paths = paths
        vars(self).update(known)

    @cached_property
    def post(self) -> Store:
        """The image after staining."""
        return open_store(self._paths["post"].parent)

    @cached_property
    def pre(self) -> Store:
        """The image before staining, where it was."""
        return open_store(self._paths["pre"].parent)

    @cached_property
    def aligned(self) -> Store:
        """The image before staining, in the frame of post."""
        return open_store(self._paths["aligned"].parent)

    @cached_property
    def transform(self) -> Transform:
        """The map."""
        return transform.load(self._paths["transform"])

    @cached_property
    def blocks(self) -> NDArray[np.void]:
        """The blocks that the map was found with."""
        return read_blocks(self._paths["blocks"])

    @cached_property
    def statistics(self) -> JointStatistics:
        """Joint histogram of post and aligned pre."""
        return JointStatistics.load(self._paths["statistics"])

    @cached_property
    def scale(self) -> Scale:
        """Gain and offset by each method."""
        return Scale.load(self._paths["scale"], self._paths["gain_map"])

    @cached_property
    def differences(self) -> Differences:
        """The differences by all methods."""
        written = self._paths["difference"].parent, self._paths["histogram"]
        return Differences.load((self.post, self.aligned), self.scale, *written)

    @cached_property
    def candidates(self) -> Candidates:
        """The list of candidates."""
        return read_candidates(self._paths["table"], SHOWN)

    @cached_property
    def detection(self) -> Mapping[str, Any]:
        """Content of detection.json."""
        return read_report(self._paths["detection"])

    @cached_property
    def search_counts(self) -> SearchCounts:
        """Where was searched."""
        return SearchCounts.load(self._paths["search_counts"])

    @cached_property
    def spoilt(self) -> tuple[SavedPlace, ...]:
        """Places of post that the search excluded."""
        return tuple(read_places(self._paths["artefacts"]))

    @property
    def difference(self) -> Image:
        """The difference by the default method."""
        return self.differences.images[self.differences.default]

    @property
    def histogram(self) -> DifferenceHistogram:
        """The histogram of the difference by the default method."""
        return self.differences.histograms[self.differences.default]

    @cached_property
    def post_view(self) -> Overview:
        """Overview of post."""
        return overview(self.post)

    @cached_property
    def aligned_view(self) -> Floats32:
        """Overview of aligned pre on the grid of post's."""
        return overview(self.aligned, self.post_view.level).image

    @cached_property
    def difference_view(self) -> Overview:
        """Overview of the difference."""
        return overview(self.difference)

    @cached_property
    def background(self) -> Floats32:
        """Overview of what was subtracted from post."""
        view = self.difference_view
        return overview(self.post, view.level).image - view.image

    @cached_property
    def painted(self) -> Painted:
        """That overview in the colours of its noise."""
        view = self.difference_view
        return paint(view.image, self.background, self.spoilt, view.step)

    @property
    def pixel_size_um(self) -> float | None:
        """Mean of the two sides of a px of post, micrometres; None if they are unknown."""
        sides = self.post.pixel_size_um
        return None if sides is None else float(np.mean(sides))

    def refusal(self, category: str) -> tuple[str, str | None] | None:
        """Return why there is nothing to draw of a category, and a status; None if there is."""
        reason: str | None = None
        if category == REGISTRATION:
            reason = self.aligned.empty or self.post.empty
        elif category == SCALE and self.scale.status == "failed":
            reason = " ".join(self.scale.reasons)
        elif category == DIFFERENCE:
            reason = self.difference.empty
        elif category == CANDIDATES and self.detection["status"] == "failed":
            reason = str(self.detection["reason"])
        if reason is None:
            return None
        return reason, None if reason == NOT_SEARCHED else "failed"


@apply_style
def draw_refusal(
    title: str, reason: str, status: str | None = "failed", *, of: str = "pair"
) -> Figure:
    """Draw the figure of a pair (or marker) that has none: its name, the reason in a sentence."""
    lines = textwrap.wrap(" ".join(reason.split()), 86) or ["No reason was given."]
    figure = sheet(10.0, 1.75 + 0.27 * len(lines), title, status=status)
    label(figure, 0.32, 0.85, f"There is nothing to draw for this {of}, because:", color=SOFT)
    label(figure, 0.32, 1.2, "\n".join(lines), size=12, linespacing=1.35)
    return figure
