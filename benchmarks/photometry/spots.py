"""Candidates on phantoms: the search in memory, and its list against the microbes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from array_pixels import ArrayPixels
from damage.judging import is_seen, match_microbes

from unglow.core.windows import Window
from unglow.detection.coarse_grid import estimate_background, estimate_error
from unglow.detection.search import search
from unglow.detection.section_mask import Section
from unglow.detection.settings import DetectSettings
from unglow.detection.snr import Scene
from unglow.detection.source_photometry import UNCOUNTED
from unglow.images.stored_values import quantise
from unglow.phantom.render import Renderer
from unglow.photometry.cell_moments import CellMoments
from unglow.photometry.difference import difference
from unglow.photometry.noise_fit import fit_noise
from unglow.transform import Quantiles, Transform
from unglow.transform.resample import warp_window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from unglow.detection.coarse_grid import CoarseGrid
    from unglow.detection.search import SearchResult
    from unglow.phantom.spec import PhantomSpec


@dataclass(frozen=True, eq=False)
class Phantom:
    """Images of one phantom, and what is true of it."""

    renderer: Renderer
    post: NDArray[Any]
    pre: NDArray[Any]

    @classmethod
    def of(cls, spec: PhantomSpec) -> Phantom:
        """Render both images."""
        renderer = Renderer(spec)
        post = renderer.pixels("post", Window.from_shape(spec.shape))
        return cls(renderer, post, renderer.pixels("pre", Window.from_shape(spec.pre_frame)))

    @property
    def scale(self) -> tuple[float, float]:
        """The true gain and offset."""
        spec = self.renderer.spec
        offset = spec.offset_post - spec.gain * spec.offset_pre
        return spec.gain, offset * spec.counts_per_level

    def true_map(self, off: tuple[float, float] = (0.0, 0.0), error_px: float = 0.0) -> Transform:
        """Return the true map, moved by (x, y) px, with the error that it is said to have."""
        spec = self.renderer.spec
        moved = np.eye(3)
        moved[:2, 2] = off
        matrix = moved @ self.renderer.map.matrix
        said = Quantiles(error_px, error_px)
        return Transform("ok", spec.shape, spec.pre_frame, matrix=matrix, error_px=said)

    def aligned(self, transform: Transform) -> NDArray[np.float32]:
        """Return pre in the frame of post, as the store holds it."""
        window = Window.from_shape(self.post.shape)
        read = warp_window(lambda w: self.pre[w.slices], self.pre.shape, transform, window)
        return quantise(read)

    @property
    def tops(self) -> tuple[float, float]:
        """The largest values of post and of pre."""
        return float(self.post.max()), float(self.pre.max())

    def bins(self, aligned: NDArray[np.float32]) -> CellMoments:
        """Return the moments of cells of post and aligned pre."""
        made = CellMoments.create(self.post.shape, self.tops)
        made.add(self.post, aligned, (0, 0))
        return made

    def microbes(self) -> NDArray[np.float64]:
        """Positions of the microbes that pre has data for, (N, 2)."""
        xy = self.renderer.microbes.xy
        return np.asarray(xy[is_seen(xy, self.renderer.map, self.renderer.spec.pre_frame)])


@dataclass(frozen=True)
class Score:
    """Candidates, those of them that are microbes, and microbes."""

    candidates: int
    true: int
    microbes: int

    def __add__(self, other: Score) -> Score:
        return Score(
            self.candidates + other.candidates,
            self.true + other.true,
            self.microbes + other.microbes,
        )

    @property
    def precision(self) -> float:
        """Share of candidates that are microbes; 1 without candidates."""
        return self.true / self.candidates if self.candidates else 1.0

    @property
    def recall(self) -> float:
        """Share of microbes that are candidates."""
        return self.true / max(1, self.microbes)

    @property
    def f1(self) -> float:
        """Harmonic mean of the two."""
        return 2 * self.true / max(1, self.candidates + self.microbes)


def pooled(scores: Sequence[Score]) -> Score:
    """Add up scores."""
    total = Score(0, 0, 0)
    for score in scores:
        total = total + score
    return total


def searched(
    phantom: Phantom,
    transform: Transform,
    scale: tuple[float, float],
    settings: DetectSettings | None = None,
    said: CoarseGrid | None = None,
) -> SearchResult:
    """Align, subtract, fit the noise and search, as the stages do.

    Parameters
    ----------
    phantom
        The pair.
    transform, scale
        The map, and gain and offset.
    settings
        What to look for.
    said
        Error of the map that is counted with; that of ``transform`` if None.
    """
    post = phantom.post
    aligned = phantom.aligned(transform)
    left = quantise(difference(post, aligned, *scale))
    left_over, pre = (ArrayPixels(image, levels=4) for image in (left, aligned))
    scene = Scene(
        ArrayPixels(post),
        pre,
        left_over,
        scale[0],
        fit_noise(phantom.bins(aligned), *scale, transform).model,
        transform,
        said or estimate_error(transform),
        phantom.tops,
        settings or DetectSettings(),
        estimate_background(left_over),
    )
    return search(scene, Section.from_pixels(pre), workers=1)


def judged(found: SearchResult, microbes: NDArray[np.float64]) -> Score:
    """Compare a list with the truth: brightest first, each microbe is found once."""
    listed = found.list_candidates()
    listed = listed[(listed["flags"] & UNCOUNTED) == 0]
    listed = listed[np.argsort(-listed["snr"], kind="stable")]
    return match(np.column_stack([listed["x"], listed["y"]]), microbes)


def match(places: NDArray[np.float64], microbes: NDArray[np.float64]) -> Score:
    """Compare places (N, 2), of which the first come first, with microbes (M, 2), px."""
    found = match_microbes(places, -np.arange(len(places), dtype=np.float64), microbes)
    return Score(len(places), int((found >= 0).sum()), len(microbes))
