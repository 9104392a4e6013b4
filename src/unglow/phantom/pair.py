"""Making one phantom pair in the layout of raw images."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from unglow.phantom.damage.image import describe_damage
from unglow.phantom.render import Image, Renderer
from unglow.phantom.spec import check_names
from unglow.phantom.tiff import Raster, check_layout, write_tiff
from unglow.phantom.truth import Truth

if TYPE_CHECKING:
    from pathlib import Path

    from unglow.phantom.spec import PhantomSpec

_log = logging.getLogger(__name__)
_IMAGES: tuple[Image, ...] = ("pre", "post")


def make_pair(
    spec: PhantomSpec,
    raw: Path,
    sample: str,
    dye: str,
    *,
    layout: str = "tiles",
    compression: str | None = "zlib",
    workers: int = 1,
) -> Truth:
    """Write a pair of images and its truth.

    Files are ``<raw>/<sample>/<sample>_pre_<dye>.tif``, ``..._post_<dye>.tif`` and
    ``<sample>_<dye>_truth.json`` next to them, in this order; each appears only when it is
    complete. The pixels follow from ``spec`` alone, the bytes of the files also from ``layout`` and
    ``compression``. With the damage ``swap`` each file holds the other image.

    Parameters
    ----------
    spec
        What to make.
    raw
        Directory of raw images; made if it does not exist.
    sample, dye
        Names; letters, digits, ``.``, ``-`` (and ``_`` in the sample).
    layout
        ``tiles``, ``strips``, ``single strip`` or ``jpeg tiles`` (lossy).
    compression
        ``zlib``, ``lzw``, ``zstd`` or None.
    workers
        Threads.

    Returns
    -------
    The truth, as written.

    Raises
    ------
    ConfigError
        If a name or the layout is not usable, or the damage does not fit on the section.
    """
    check_names(sample, dye)
    check_layout(layout, compression, np.dtype(spec.dtype))
    renderer = Renderer(spec)
    folder = raw / sample
    folder.mkdir(parents=True, exist_ok=True)
    swapped = any(one.kind == "swap" for one in spec.damages)
    for name, image in zip(_IMAGES, _IMAGES[::-1] if swapped else _IMAGES, strict=True):
        path = folder / f"{sample}_{name}_{dye}.tif"
        raster = Raster(
            renderer.shape(image),
            np.dtype(spec.dtype),
            spec.rgb,
            partial(renderer.pixels, image),
            spec.pixel_sizes_um[image],
        )
        write_tiff(path, raster, layout=layout, compression=compression, workers=workers)
        _log.info("wrote %s", path)
    truth = make_truth(renderer, sample, dye)
    truth.save(folder / f"{sample}_{dye}_truth.json")
    return truth


def make_truth(renderer: Renderer, sample: str, dye: str) -> Truth:
    """Return the truth of what a renderer renders."""
    scale = float(renderer.spec.counts_per_level)
    return Truth(
        sample=sample,
        dye=dye,
        spec=renderer.spec,
        geometry=renderer.map,
        microbes=renderer.microbes.scale(scale),
        grains=renderer.grains.scale(scale),
        shading={image: shading.to_json() for image, shading in renderer.shading.items()},
        damage=tuple(describe_damage(renderer.spec, renderer.places, renderer.map)),
    )
