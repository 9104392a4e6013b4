"""What a search reads of a pair: opened from its files, and put together as a scene."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from unglow.core.errors import InputError
from unglow.core.grey_levels import value_range
from unglow.detection.background import Background
from unglow.detection.map_error import MapError
from unglow.detection.snr import Scene
from unglow.io.zarr import open_store
from unglow.photometry.difference import difference_of
from unglow.photometry.gain.scale import Scale
from unglow.photometry.noise.model import NoiseModel
from unglow.transform import load

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unglow.detection.settings import DetectSettings
    from unglow.photometry.difference import Image
    from unglow.transform import Transform


def open_inputs(files: Mapping[str, Any]) -> tuple[dict[str, Image], Scale, Transform]:
    """Open the files that a rule names.

    Parameters
    ----------
    files
        Paths of ``post``, ``pre``, ``aligned``, ``difference`` (root metadata of stores),
        ``transform``, ``scale`` and ``gain_map``.

    Returns
    -------
    The stores ``post``, ``pre``, ``aligned`` and ``difference``, what made the difference, and the
    map. The difference is that of the default method: where another one is written, because that
    gave no gain, it is computed when it is read.
    """
    scale = Scale.load(Path(files["scale"]), Path(files["gain_map"]))
    written = Path(files["difference"]).parent
    post, pre, aligned = (
        open_store(Path(files[name]).parent) for name in ("post", "pre", "aligned")
    )
    left = difference_of(post, aligned, scale, written)
    stores = {"post": post, "pre": pre, "aligned": aligned, "difference": left}
    return stores, scale, load(Path(files["transform"]))


def scene_of(
    stores: Mapping[str, Image],
    scale: Scale,
    transform: Transform,
    settings: DetectSettings,
) -> Scene:
    """Put together what the search looks at; parameters as for `detect`.

    Raises
    ------
    InputError
        Nothing can be searched: the pair was refused, or its noise or the error of its map are not
        known.
    """
    chosen = scale.chosen
    empty = stores["difference"].empty
    if empty is not None or chosen.gain is None:
        raise InputError(empty or chosen.reason or f"{scale.default} found no gain.")
    noise = chosen.details.get("noise")
    if noise is None:
        raise InputError(
            "the noise of the images is not known, so chance cannot be told from stain."
        )
    error = MapError.of(transform)
    if not error.known:
        raise InputError("the error of the map is not known, so edges cannot be told from stain.")
    return Scene(
        stores["post"],
        stores["aligned"],
        stores["difference"],
        chosen.gain,
        NoiseModel.from_json(noise),
        transform,
        error,
        (value_range(stores["post"].attributes)[1], value_range(stores["pre"].attributes)[1]),
        settings,
        Background.of(stores["difference"]),
        chosen.gain_map,
        scale.blur,
    )
