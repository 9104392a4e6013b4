"""The figures of a pair, put together from its stores and small result files.

Each function reads overviews and a few crops, never a whole image at full resolution; a pair that
was refused gets figures that say why.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from unglow.core.archive import make_damage_error
from unglow.core.rounding import uncertainty
from unglow.io.zarr.overviews import brightest, crop, overview, read_same_pixels, texture_near
from unglow.photometry.difference import open_method
from unglow.photometry.difference_histogram import DifferenceHistogram, load_methods
from unglow.photometry.gain.bright_field import NOT_SEARCHED
from unglow.reporting import figures
from unglow.reporting.difference_picture import spoilt_px
from unglow.reporting.figures import DETAIL_PX, SIDE_PX, ComparisonRow, Crop, Stamp, save_png
from unglow.reporting.figures.residuals import CELLS, gathered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from unglow.io.candidates_csv import Candidates
    from unglow.io.search_counts import SearchCounts
    from unglow.io.zarr import Store
    from unglow.io.zarr.overviews import Overview
    from unglow.photometry.difference import Image
    from unglow.photometry.gain.scale import Scale
    from unglow.photometry.joint_histogram import JointStatistics
    from unglow.spoilt.saved_places import SavedPlace
    from unglow.transform import Transform

DETAILS = 3
PLACES = 4
# Peaks of blocks that are not chance, as the search for torn places takes them.
_CLEAR = 2.0
STAMPS = 24
# The comparison shows many small pictures side by side.
_THUMB_PX = 512


def draw_registration(
    post: Store,
    pre: Store,
    aligned: Store,
    transform: Transform,
    blocks: NDArray[np.void],
    targets: Mapping[str, Path],
    title: str,
) -> None:
    """Write ``registration`` (overlays), ``residuals`` (vectors) and ``map_error``."""
    if aligned.empty is not None or post.empty is not None:
        refuse(targets.values(), title, aligned.empty or str(post.empty))
        return
    view = overview(post)
    after = overview(aligned, view.level).image
    details, worst = _details(blocks, view)
    crops = [
        Crop(x, y, crop(post, (x, y), DETAIL_PX), crop(aligned, (x, y), DETAIL_PX), note=note)
        for x, y, note in details
    ]
    figure = figures.draw_registration(
        view.image,
        read_same_pixels(pre, view.image.shape, view.level),
        after,
        transform,
        step=view.step,
        pixel_size_um=pixel_size(post),
        crops=crops,
        worst=worst,
        title=f"{title}: registration",
    )
    save_png(figure, targets["registration"])
    figure = figures.draw_residuals(
        view.image,
        blocks,
        transform,
        step=view.step,
        title=f"{title}: residuals of the registration",
    )
    save_png(figure, targets["residuals"])
    figure = figures.draw_map_error(
        view.image,
        np.isfinite(after),
        blocks,
        transform,
        step=view.step,
        title=f"{title}: the map and its error",
    )
    save_png(figure, targets["map_error"])


def draw_scale(
    statistics: JointStatistics, scale: Scale, targets: Mapping[str, Path], title: str
) -> None:
    """Write the histograms of the pair, with the gain of every method drawn in."""
    drawings: dict[str, tuple[str, Callable[[str], Figure]]] = {
        "joint_histogram": (
            "post against pre",
            lambda t: figures.draw_joint_histogram(statistics, scale, title=t),
        ),
        "excess_histogram": (
            "what post has and pre has not",
            lambda t: figures.draw_excess(statistics, scale, title=t),
        ),
        "histograms": ("grey levels", lambda t: figures.draw_histograms(statistics, title=t)),
        "ratio_histogram": (
            "ratio of post to pre",
            lambda t: figures.draw_ratio(statistics, scale, title=t),
        ),
    }
    if scale.status == "failed":
        refuse([targets[key] for key in drawings], title, " ".join(scale.reasons))
        return
    for key, (name, draw) in drawings.items():
        save_png(draw(f"{title}: {name}"), targets[key])


@dataclass(frozen=True, eq=False, slots=True)
class Differences:
    """The differences of a pair by all methods.

    Attributes
    ----------
    post, aligned
        What they are the difference of.
    images, histograms
        By method; a histogram without values where there is no difference.
    scale, transform
        What made them.
    """

    post: Store
    aligned: Store
    images: Mapping[str, Image]
    histograms: Mapping[str, DifferenceHistogram]
    scale: Scale
    transform: Transform

    @classmethod
    def of(
        cls,
        images: tuple[Store, Store],
        scale: Scale,
        transform: Transform,
        files: tuple[Path, Path],
    ) -> Differences:
        """Open them: of post and aligned pre, with the written store and the file of histograms.

        Raises
        ------
        StoreError
            The file has no histogram of a method.
        """
        written, path = files
        found = {m: open_method(*images, scale, written, m) for m in scale.methods}
        histograms = load_methods(path)
        if not histograms.keys() >= found.keys():
            raise make_damage_error(path)
        return cls(*images, found, {m: histograms[m] for m in found}, scale, transform)

    @property
    def chosen(self) -> tuple[Image, DifferenceHistogram]:
        """That of the default method, and its histogram."""
        return self.images[self.scale.default], self.histograms[self.scale.default]


def draw_differences(
    found: Differences,
    targets: Mapping[str, Path],
    title: str,
    spoilt: Sequence[SavedPlace] = (),
) -> None:
    """Write ``difference`` (overview, brightest places), ``difference_histogram``, ``methods``.

    ``spoilt`` are places of post that the search left out.
    """
    post, aligned, method = found.post, found.aligned, found.scale.default
    difference, histogram = found.chosen
    if difference.empty is not None:
        names = ("difference", "difference_histogram", "methods")
        refuse([targets[name] for name in names], title, difference.empty)
        return
    view = overview(difference)
    crops = [
        Crop(x, y, crop(post, (x, y)), crop(aligned, (x, y)), crop(difference, (x, y)))
        for x, y in brightest(_without(view, spoilt), PLACES)
    ]
    figure = figures.draw_difference(
        view.image,
        method,
        difference.attributes["gain"],
        histogram,
        background=overview(post, view.level).image - view.image,
        offset=difference.attributes["offset"],
        evened="gain_map" in difference.attributes,
        step=view.step,
        pixel_size_um=pixel_size(post),
        crops=crops,
        spoilt=spoilt,
        title=f"{title}: difference, {method}",
    )
    save_png(figure, targets["difference"])
    figure = figures.draw_difference_histogram(
        found.histograms, title=f"{title}: histogram of the difference"
    )
    save_png(figure, targets["difference_histogram"])
    rows = [_method_row(found, name) for name in found.images]
    figure = figures.draw_comparison(
        rows, title=f"{title}: scale methods side by side", of="scale method"
    )
    save_png(figure, targets["methods"])


def _without(view: Overview, spoilt: Sequence[SavedPlace]) -> Overview:
    """Return an overview without data in spoilt places, the brightest of which are no stain."""
    left_out = spoilt_px(spoilt, view.image.shape, view.step)
    return replace(view, image=np.where(left_out, np.float32(np.nan), view.image))


def _method_row(found: Differences, method: str) -> ComparisonRow:
    result, histogram = found.scale.methods[method], found.histograms[method]
    image, known = found.images[method], histogram.total > 0
    return ComparisonRow(
        name=f"{method} (default)" if method == found.scale.default else method,
        status="ok" if result.ok else "failed",
        gain=result.gain,
        gain_ci95=result.gain_ci95,
        residual_median=found.transform.residual_px.median,
        residual_p95=found.transform.residual_px.p95,
        median=histogram.median() if known else float("nan"),
        mad=histogram.mad() if known else float("nan"),
        thumb=thumb(image),
    )


def draw_candidates(
    found: Differences,
    candidates: Candidates,
    report: Mapping[str, Any],
    search_counts: SearchCounts,
    targets: Mapping[str, Path],
    title: str,
    spoilt: Sequence[SavedPlace] = (),
) -> None:
    """Write ``candidates`` (on the difference), ``purity``, and ``gallery`` (stamps).

    ``spoilt`` are places of post that the search left out.
    """
    if report["status"] == "failed":
        names = ("candidates", "purity", "gallery")
        reason = str(report["reason"])
        status = None if reason == NOT_SEARCHED else "failed"
        refuse([targets[name] for name in names], title, reason, status)
        return
    post = found.post
    difference, _ = found.chosen
    view = overview(difference)
    figure = figures.draw_candidates(
        view.image,
        candidates,
        report,
        search_counts,
        background=overview(post, view.level).image - view.image,
        step=view.step,
        pixel_size_um=pixel_size(post),
        spoilt=spoilt,
        title=title,
    )
    save_png(figure, targets["candidates"])
    figure = figures.draw_purity(report, title=f"{title}: purity against threshold")
    save_png(figure, targets["purity"])
    chosen = chosen_stamps(candidates)
    if not len(chosen[0]):
        reason = "There are no candidates: no threshold has so few false ones as is wanted."
        save_png(figures.draw_refusal(title, reason, None), targets["gallery"])
        return
    best, borderline = ([_stamp(post, difference, candidates, i) for i in part] for part in chosen)
    figure = figures.draw_gallery(
        best,
        borderline,
        total=int(np.count_nonzero(candidates.is_counted)),
        title=f"{title}: gallery of candidates",
    )
    save_png(figure, targets["gallery"])


def chosen_stamps(candidates: Candidates) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the rows of the best candidates and, of the others, of those nearest to the threshold.

    Up to `STAMPS` each: the highest signal-to-noise ratio first, and the lowest first.
    """
    counted = np.flatnonzero(candidates.is_counted)
    order = counted[np.argsort(-candidates.snr[counted], kind="stable")]
    return order[:STAMPS], order[STAMPS:][::-1][:STAMPS]


def _stamp(post: Store, difference: Image, candidates: Candidates, row: int) -> Stamp:
    x, y = (float(v) for v in candidates.xy[row])
    seen, left = (crop(store, (x, y), SIDE_PX) for store in (post, difference))
    # what was subtracted, whatever the scale method and a gain map made of it
    return Stamp(x, y, float(candidates.snr[row]), seen, seen - left)


def thumb(image: Image | None) -> NDArray[np.float32] | None:
    """Return a small overview of a difference; None if there is none."""
    if image is None or image.empty is not None:
        return None
    return overview(image, _level_below(image, _THUMB_PX)).image


def refuse(targets: Iterable[Path], title: str, reason: str, status: str | None = "failed") -> None:
    """Write the reason of a refusal in the place of each figure."""
    for path in targets:
        save_png(figures.draw_refusal(title, reason, status), path)


def pixel_size(store: Store) -> float | None:
    """Return the mean of the two sides of a px, micrometres, if they are known."""
    return None if store.pixel_size_um is None else float(np.mean(store.pixel_size_um))


def _details(
    blocks: NDArray[np.void], view: Overview
) -> tuple[list[tuple[float, float, str]], tuple[float, float, float] | None]:
    """Return the places (x, y) of the three details, far apart, and where the map is off most.

    Details are of the half of the blocks where there is more to see, and have clear matches if
    enough of them do. The second one is where the longest of their arrows is. The longest residual
    of any block may be where there is nothing but noise: (x, y, length), px; None without blocks.
    """
    good = blocks[blocks["used"]]
    if len(good) == 0:
        return [], None
    points, off = (np.column_stack([good[x], good[y]]) for x, y in (("x", "y"), ("dx", "dy")))
    texture = texture_near(view, points, DETAIL_PX)
    seen = texture >= np.median(texture)
    clear = seen & (good["quality"] >= _CLEAR)
    if np.count_nonzero(clear) >= DETAILS:
        seen = clear
    arrows = gathered(points[seen], off[seen], view.step * max(view.image.shape) / CELLS)
    longest = _nearest(points, arrows.points[np.argmax(arrows.lengths)])
    rich = np.argsort(np.where(seen, texture, -np.inf), kind="stable")[::-1]
    rich = rich[: min(max(DETAILS, len(good) // 8), int(np.count_nonzero(seen)))]
    chosen = [*[int(i) for i in rich if i != longest][:1], longest]
    while len(chosen) < min(DETAILS, len(rich)):
        away = [np.hypot(*(points[rich] - points[i]).T) for i in chosen]
        chosen.append(int(rich[np.argmax(np.min(away, axis=0))]))
    details = []
    for i in chosen:
        length = uncertainty(float(arrows.lengths[_nearest(arrows.points, points[i])]), "px")
        told = "longest residual in texture" if i == longest else "residual"
        details.append((*points[i].tolist(), f"{told} {length}"))
    lengths = np.hypot(*off.T)
    worst = int(np.argmax(lengths))
    return details, (*points[worst].tolist(), float(lengths[worst]))


def _nearest(points: NDArray[np.float64], point: Sequence[float]) -> int:
    """Return which of (N, 2) points is nearest to another one."""
    return int(np.argmin(np.hypot(*(points - np.asarray(point)).T)))


def _level_below(store: Image, longest_px: int) -> int:
    levels = range(store.levels)
    return next((k for k in levels if max(store.level_shape(k)) <= longest_px), levels[-1])
