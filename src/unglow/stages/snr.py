"""The signal-to-noise ratio that is searched: its inputs as a scene, and the ratio as an image."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from unglow.core.archive import make_damage_error
from unglow.core.errors import InputError
from unglow.core.progress import step
from unglow.core.reasons import explain
from unglow.core.records import to_record
from unglow.core.windows import Window, grid, map_bounded
from unglow.detection.coarse_grid import estimate_background, estimate_error
from unglow.detection.snr import Scene, significance
from unglow.images.stored_values import ATTRIBUTE, MOST_SHARE, measure_step, quantise, value_range
from unglow.images.zarr import StoreWriter, open_store
from unglow.memory import SNR_TILE
from unglow.photometry.difference import open_method
from unglow.photometry.gain.bright_field import NOT_SEARCHED
from unglow.photometry.gain.scale import Scale
from unglow.photometry.imaging import ROUNDING, NoiseModel
from unglow.spoilt.block_scores import BlockScores
from unglow.spoilt.places import ON_SECTION, Places, SpoiltMask, find_places
from unglow.spoilt.seams import LineMeans, Seams, find_seams
from unglow.spoilt.stain import part_stain
from unglow.transform import load

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unglow.core.arrays import Floats32
    from unglow.detection.section_mask import Section
    from unglow.detection.settings import DetectSettings
    from unglow.images.zarr import StoreLayout
    from unglow.photometry.difference import Image
    from unglow.review.polygons import Regions
    from unglow.transform import Transform


_SATURATED = 1e-4
"""A note says so if more than this share of the px of pre are saturated."""
_LACKING, _EVERY = 0.02, 4
"""A note says so if more than this share of the section has no data, as found at every 4th px of
its mask."""
STEP = 1 / 256
"""The ratio is rounded to multiples of this: half of it is far below the noise, which is 1, and the
store takes less space."""


@dataclass(frozen=True)
class DetectInputs:
    """The images of a pair, what made the difference, and the map with its error.

    Attributes
    ----------
    post, pre, aligned
        Stores of the raw images and of pre in the frame of post.
    difference
        That of the default method: where another one is written, because the default gave no gain,
        it is computed when it is read.
    scale, transform
        Gain, offset and noise by method; the map from post to pre.
    regions
        What was drawn on post: to leave out, and to count in; None for nothing.
    blocks
        File of how far the difference departs from noise (`unglow.spoilt.block_scores`); None if
        spoilt places are not looked for.
    """

    post: Image
    pre: Image
    aligned: Image
    difference: Image
    scale: Scale
    transform: Transform
    regions: Regions | None = None
    blocks: Path | None = None

    @classmethod
    def open(cls, files: Mapping[str, Any]) -> Self:
        """Open the files that a rule names.

        ``files`` are paths of ``post``, ``pre``, ``aligned``, ``difference`` (root metadata of
        stores), ``transform``, ``scale`` and ``gain_map``; and ``regions``, one or none, where
        they count; and ``blocks`` where spoilt places do.
        """
        scale = Scale.load(Path(files["scale"]), Path(files["gain_map"]))
        post, pre, aligned = (
            open_store(Path(files[name]).parent) for name in ("post", "pre", "aligned")
        )
        difference = open_method(post, aligned, scale, Path(files["difference"]).parent)
        transform = load(Path(files["transform"]))
        regions = None
        if drawn := files.get("regions"):
            from unglow.review.regions import read_regions

            regions = read_regions(Path(drawn[0])) or None
        blocks = files.get("blocks")
        return cls(
            post, pre, aligned, difference, scale, transform, regions, blocks and Path(blocks)
        )

    def scene(self, settings: DetectSettings) -> Scene:
        """Put together what the search looks at.

        Raises
        ------
        InputError
            Nothing can be searched: the pair was refused, or its noise or the error of its map are
            not known.
        """
        if self.scale.bright_field:
            raise InputError(NOT_SEARCHED)
        chosen, empty = self.scale.default_result, self.difference.empty
        if empty is not None or chosen.gain is None:
            raise InputError(empty or chosen.reason or f"{self.scale.default} found no gain.")
        noise = chosen.details.get("noise")
        if noise is None:
            raise InputError(
                "the noise of the images is unknown, so chance cannot be distinguished from stain."
            )
        error = estimate_error(self.transform)
        if not error.has_values:
            raise InputError(
                "the error of the map is unknown, so edges cannot be distinguished from stain."
            )
        model = to_record(noise, NoiseModel)
        post_rounding, pre_rounding = (ROUNDING * step**2 for step in self.grey_steps)
        model = replace(
            model,
            post_read=model.post_read + post_rounding,
            pre_read=model.pre_read + pre_rounding,
        )
        post_max, pre_max = (value_range(s.attributes)[1] for s in (self.post, self.pre))
        return Scene(
            self.post,
            self.aligned,
            self.difference,
            chosen.gain,
            model,
            self.transform.resampling_map,
            error,
            (post_max, pre_max),
            settings,
            estimate_background(self.difference),
            chosen.gain_map,
            self.scale.blur,
            () if self.regions is None else self.regions.exclude,
        )

    def places(self, section: Section, settings: DetectSettings) -> tuple[Places, Places]:
        """Find spoilt places and seams, and those that are stain or dirt, which are searched.

        What was drawn as a region to count in is neither.
        """
        if self.blocks is None or settings.spoilt == "never":
            return Places.empty(), Places.empty()
        scores = BlockScores.load(self.blocks)
        if scores.shape != self.post.shape:
            raise make_damage_error(self.blocks)
        side = scores.side
        places = find_places(scores, section.compute_block_shares(scores.shape, side) >= ON_SECTION)
        places = replace(
            places, seams=self._find_seams(self.blocks, section, places.judged * side**2)
        )
        rows, cols = np.nonzero(places.mask)
        kept = np.zeros_like(places.mask)
        for region in () if self.regions is None else self.regions.analyse:
            held = region.holds(*(at * side + side // 2 for at in (cols, rows)))
            kept[rows[held], cols[held]] = True
        saturated = value_range(self.post.attributes)[1]
        return part_stain(places.exclude(kept), self.post, self.difference, saturated)

    @cached_property
    def grey_steps(self) -> tuple[float, float]:
        """Distance of the grey levels of post and of pre; 0 where there are none."""
        return measure_step(self.post), measure_step(self.pre)

    def _find_seams(self, path: Path, section: Section, section_px: int) -> Seams:
        """Find the seams; without those that touch a region to count in, as all else is not."""
        analyse = () if self.regions is None else self.regions.analyse
        lines = [
            seam
            for seam in find_seams(LineMeans.load(path, "lines"))
            if not any(region.holds(*seam.points).any() for region in analyse)
        ]
        found = sum(seam.area_px * float(section.contains(*seam.points).mean()) for seam in lines)
        return Seams(tuple(lines), min(1.0, found / max(section_px, 1)))

    def dark_levels(self, section: Section) -> tuple[float, float]:
        """Return what a quarter of the section is below, in post and in aligned pre."""
        return section.find_dark_level(self.post), section.find_dark_level(self.aligned)

    def explain_masked(self, section: Section, lacking_px: int) -> list[str]:
        """Return a note if saturated px of pre are masked, and a reason if much has no data.

        ``lacking_px`` of the section have none; those beyond the frame of pre do not count.
        """
        share = self.aligned.attributes.get("pre_saturated_px", 0) / math.prod(self.pre.shape)
        said = list[str]()
        if share > _SATURATED:
            said.append(explain("pre_saturated", percent=100 * share))
        is_said = bool(said or self.aligned.attributes.get("seams"))
        side = _EVERY << section.level
        rows, cols = np.nonzero(section.mask[::_EVERY, ::_EVERY])
        at = self.transform.map(side * np.stack([cols, rows], axis=1).astype(np.float64))
        inside = ((at >= 0) & (at < self.pre.shape[::-1])).all(axis=1)
        beyond_px, section_px = (side**2 * int(one.sum()) for one in (~inside, inside))
        lacking = (lacking_px - beyond_px) / max(1, section_px)
        is_said |= any(ATTRIBUTE in image.attributes for image in (self.post, self.pre))
        if lacking > (MOST_SHARE if is_said else _LACKING):
            key = "no_data" if lacking > MOST_SHARE else "some_data"
            said.append(explain(key, percent=100 * lacking))
        return said

    def mask_places(self, scene: Scene, section: Section, spoilt: Places, unclear: Places) -> Scene:
        """Return the scene without spoilt places, and with the background of what is left."""
        left_out = SpoiltMask(spoilt.mask, spoilt.side, spoilt.seams)
        background = estimate_background(self.difference, left_out, section)
        return replace(
            scene,
            spoilt=left_out if spoilt.mask.any() or spoilt.seams.lines else None,
            unclear=SpoiltMask(unclear.mask, unclear.side) if unclear.mask.any() else None,
            background=background,
        )


def write_snr(
    inputs: DetectInputs,
    settings: DetectSettings,
    layout: StoreLayout,
    target: Path,
    *,
    version: int,
    workers: int,
    same: Path | None = None,
) -> None:
    """Write the signal-to-noise ratio of a pair as a store; an empty one where there is none.

    Parameters
    ----------
    inputs, settings
        The pair; of the settings, the filter and the largest error of the map count.
    layout, target
        Layout (float32) and directory of the store.
    version
        Of the algorithm, as the rule has it.
    workers
        Shards in flight.
    same
        The store of another variant of the search, whose settings that count are the same.
    """
    writer = StoreWriter(
        target,
        layout,
        name="signal-to-noise ratio",
        pixel_size_um=inputs.post.pixel_size_um,
        attributes={
            "role": "snr",
            "version": version,
            "method": inputs.scale.default,
            "inputs": {
                "post": inputs.post.digest,
                "aligned_pre": inputs.aligned.digest,
                "difference": inputs.difference.digest,
            },
            "settings": settings.ratio_settings,
        },
        workers=workers,
    )
    with writer:
        if same is not None and writer.publish_same(same):
            return
        try:
            scene = inputs.scene(settings)
        except InputError as refusal:
            writer.publish_empty(str(refusal))
            return
        fill(scene, writer, workers=workers)
        writer.publish()


@step("ratio")
def fill(scene: Scene, writer: StoreWriter, *, workers: int, tile: int = SNR_TILE) -> None:
    """Write every shard, put together from tiles; ``tile``, px, does not change a px."""

    def work(shard: Window) -> None:
        writer.write(shard, ratio_over(scene, shard, tile))

    for _ in map_bounded(work, writer.windows(), workers):
        pass


def ratio_over(scene: Scene, window: Window, tile: int = SNR_TILE) -> Floats32:
    """Return the rounded ratio of a window inside the image, ``window.shape``; NaN for none."""
    out = np.empty(window.shape, np.float32)
    for part in grid(window.shape, (tile, tile)):
        ratio = significance(scene, part.shift(window.y0, window.x0))
        out[part.slices] = quantise(ratio.snr, STEP)
    return out
