"""``unglow export``: results in the formats of other tools."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from unglow.core.errors import ConfigError, InputError, StoreError
from unglow.core.printable import say, warn

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence


_MOST_WORKERS = 8
"""Threads that write a TIFF: each one holds a tile, and more of them wait for the disk."""
_FORMATS = {
    "spatialdata": (
        "OUT.zarr",
        "write stores as a SpatialData store (needs the package spatialdata)",
    ),
    "tiff": ("OUT.ome.tif", "write a store as a tiled, compressed OME-TIFF with its pyramid"),
    "fits": ("OUT.fits", "write level 0 of a store as a FITS image"),
    "itk": (
        "OUT.mha",
        "write a map as a displacement field for ITK, SimpleITK, ANTs and elastix",
    ),
}
"""Options that name the target: its placeholder in the help, and the help."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `unglow export` to a parser."""
    target = parser.add_mutually_exclusive_group()
    for name, (metavar, text) in _FORMATS.items():
        target.add_argument(f"--{name}", type=Path, metavar=metavar, help=text)
    parser.add_argument(
        "--spacing",
        type=int,
        metavar="PX",
        help="most px between samples of a displacement field. Default: 1 with scanner strips, "
        "else the most at which linear interpolation errs by at most 0.005 px",
    )
    parser.add_argument(
        "inputs",
        nargs="*",
        type=Path,
        metavar="INPUT",
        help="*.ome.zarr stores (and candidates.csv) for --spatialdata, one store for --tiff and "
        "--fits, one transform.json for --itk",
    )


def run(arguments: argparse.Namespace) -> int:
    """Export the stores, the store or the transform."""
    from unglow.export.images import refuse_existing

    target = next(filter(None, (getattr(arguments, name) for name in _FORMATS)), None)
    if target is None or not arguments.inputs:
        lacking = "the format" if arguments.inputs else "what to export"
        raise ConfigError(
            f"{lacking} is missing: stores go to --tiff, --fits or --spatialdata, a transform.json "
            "to --itk. For example: unglow export --tiff OUT.ome.tif STORE.ome.zarr"
        )
    refuse_existing(target)
    image = arguments.tiff or arguments.fits
    if arguments.spatialdata is None and image is None:
        _export_transform(arguments)
        return 0
    if arguments.spacing is not None:
        raise ConfigError("--spacing belongs to a transform; leave it out.")
    if image is not None:
        _export_image(arguments.inputs, image, tiff=arguments.tiff is not None)
        return 0
    from unglow.export.spatialdata import export_spatialdata

    names = image_names(arguments.inputs)
    tables = {name: path for name, path in names.items() if path.suffix == ".csv"}
    stores = {name: path for name, path in names.items() if name not in tables}
    export_spatialdata(stores, arguments.spatialdata, tables)
    return 0


def image_names(stores: Sequence[Path]) -> dict[str, Path]:
    """Name each store by as few of its last path parts as distinguish it from the others.

    Raises
    ------
    InputError
        A store is given twice.
    """
    parts = []
    for store in stores:
        *above, name = store.absolute().parts[1:]
        name = name.removesuffix(".zarr").removesuffix(".ome").removesuffix(".csv")
        parts.append([re.sub(r"[^\w.-]+", "-", part) for part in (*above, name)])
    for count in range(1, max(len(p) for p in parts) + 1):
        names = ["_".join(p[-count:]) for p in parts]
        if len(set(names)) == len(names):
            return dict(zip(names, stores, strict=True))
    twice = next(store for store, p in zip(stores, parts, strict=True) if parts.count(p) > 1)
    raise InputError(f"{twice} is given twice; name each store once.")


def _export_image(inputs: Sequence[Path], target: Path, *, tiff: bool) -> None:
    """Write one store as an image of another format."""
    endings = (".tif", ".tiff") if tiff else (".fits", ".fit")
    if target.suffix.lower() not in endings:
        raise ConfigError(f"{target} has to end in {' or '.join(endings)}.")
    if len(inputs) != 1:
        raise ConfigError("one store is exported at a time; name one.")
    if (inputs[0].parent / "slide.json").is_file():
        raise InputError(
            f"{inputs[0]} is the corrected image of a multiplexed slide, which other programs open "
            "as it is: multiplexed.output says whether it is an OME-TIFF, an OME-Zarr or both."
        )
    from unglow.core.machine import processors
    from unglow.export.images import names_at
    from unglow.photometry.difference import open_image

    store = open_image(inputs[0])
    if store.empty is not None:
        raise StoreError(f"{store.path} holds no pixels to export: {store.empty}")
    if tiff:
        from unglow.export.images import write_tiff

        write_tiff(store, target, names_at(store.path), workers=min(processors(), _MOST_WORKERS))
    else:
        from unglow.export.images import write_fits

        write_fits(store, target, names_at(store.path))
    rows, cols = store.shape
    say(f"{target}: {cols} x {rows} px, {store.dtype}, {target.stat().st_size / 1e6:.1f} MB")


def _export_transform(arguments: argparse.Namespace) -> None:
    if len(arguments.inputs) != 1:
        raise ConfigError("one transform.json is exported at a time; name one.")
    if arguments.itk.suffix != ".mha":
        raise ConfigError(f"{arguments.itk} has to end in .mha, a displacement field.")
    if arguments.spacing is not None and arguments.spacing < 1:
        raise ConfigError(f"--spacing is an integer, px, 1 or more, not {arguments.spacing}.")
    from unglow.export import itk

    (path,) = arguments.inputs
    found = itk.load(path)
    say(itk.write_field(found, path.parent, arguments.itk, arguments.spacing))
    if found.status == "suspect":
        warn(f"{path} is suspect: {' '.join(found.reasons)}")
