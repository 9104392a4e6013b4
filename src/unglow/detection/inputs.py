"""What a search reads of a pair: opened from its files, and put together as a scene."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from unglow.detection.background import Background
from unglow.detection.map_error import MapError
from unglow.detection.snr import Scene
from unglow.errors import InputError
from unglow.grey import value_range
from unglow.photometry import Scale
from unglow.photometry.noise import NoiseModel
from unglow.store import open_store
from unglow.transform import load

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unglow.detection.settings import DetectSettings
    from unglow.store import Store
    from unglow.transform import Transform


def open_inputs(files: Mapping[str, Any]) -> tuple[dict[str, Store], Scale, Transform]:
    """Open the files that a rule names.

    Parameters
    ----------
    files
        Paths of ``post``, ``pre``, ``aligned`` (root metadata of stores), ``transform``, ``scale``
        and ``gain_map``; ``differences`` lists the stores of all methods.

    Returns
    -------
    The stores ``post``, ``pre``, ``aligned`` and ``difference`` (of the default method), what made
    the difference, and the map.
    """
    scale = Scale.load(Path(files["scale"]), Path(files["gain_map"]))
    places = {name: Path(files[name]).parent for name in ("post", "pre", "aligned")}
    differences = {Path(path).parent.name: Path(path).parent for path in files["differences"]}
    places["difference"] = differences[f"{scale.default}.ome.zarr"]
    stores = {name: open_store(place) for name, place in places.items()}
    return stores, scale, load(Path(files["transform"]))


def scene_of(
    stores: Mapping[str, Store],
    scale: Scale,
    transform: Transform,
    settings: DetectSettings,
) -> Scene:
    """Put together what the search looks at; parameters as for `unglow.detection.detect`.

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
        (value_range(stores["post"])[1], value_range(stores["pre"])[1]),
        settings,
        Background.of(stores["difference"]),
        chosen.gain_map,
        scale.blur,
    )
