"""Inputs of a search: results of a pair, opened and put together as a scene."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from unglow.core.errors import InputError
from unglow.core.grey_levels import value_range
from unglow.detection.background import background_of
from unglow.detection.map_error import error_of
from unglow.detection.snr import Scene
from unglow.io.zarr import open_store
from unglow.photometry.difference import difference_of
from unglow.photometry.gain.bright_field import NOT_SEARCHED
from unglow.photometry.gain.scale import Scale
from unglow.photometry.noise.model import NoiseModel
from unglow.transform import load

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unglow.detection.settings import DetectSettings
    from unglow.photometry.difference import Image
    from unglow.review.polygons import Regions
    from unglow.transform import Transform


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
    """

    post: Image
    pre: Image
    aligned: Image
    difference: Image
    scale: Scale
    transform: Transform
    regions: Regions | None = None

    @classmethod
    def open(cls, files: Mapping[str, Any]) -> Self:
        """Open the files that a rule names.

        ``files`` are paths of ``post``, ``pre``, ``aligned``, ``difference`` (root metadata of
        stores), ``transform``, ``scale`` and ``gain_map``; and ``regions``, one or none, where
        they count.
        """
        scale = Scale.load(Path(files["scale"]), Path(files["gain_map"]))
        post, pre, aligned = (
            open_store(Path(files[name]).parent) for name in ("post", "pre", "aligned")
        )
        difference = difference_of(post, aligned, scale, Path(files["difference"]).parent)
        transform = load(Path(files["transform"]))
        regions = _read_regions([Path(path) for path in files.get("regions", ())])
        return cls(post, pre, aligned, difference, scale, transform, regions)

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
        chosen, empty = self.scale.chosen, self.difference.empty
        if empty is not None or chosen.gain is None:
            raise InputError(empty or chosen.reason or f"{self.scale.default} found no gain.")
        noise = chosen.details.get("noise")
        if noise is None:
            raise InputError(
                "the noise of the images is not known, so chance cannot be told from stain."
            )
        error = error_of(self.transform)
        if not error.has_values:
            raise InputError(
                "the error of the map is not known, so edges cannot be told from stain."
            )
        post_max, pre_max = (value_range(s.attributes)[1] for s in (self.post, self.pre))
        return Scene(
            self.post,
            self.aligned,
            self.difference,
            chosen.gain,
            NoiseModel.from_json(noise),
            self.transform.resampled,
            error,
            (post_max, pre_max),
            settings,
            background_of(self.difference),
            chosen.gain_map,
            self.scale.blur,
            () if self.regions is None else self.regions.exclude,
        )


def _read_regions(files: list[Path]) -> Regions | None:
    """Read the file of regions; None if there is none, or no region of a class that counts."""
    if not files:
        return None
    from unglow.review.regions import read_regions  # noqa: PLC0415 - most pairs have none

    return read_regions(files[0]) or None
