"""``unglow export``: results in the formats of other tools."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from unglow.errors import InputError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `unglow export` to a parser."""
    parser.add_argument(
        "--spatialdata",
        type=Path,
        required=True,
        metavar="OUT.zarr",
        help="write a SpatialData store (needs the package spatialdata)",
    )
    parser.add_argument("stores", nargs="+", type=Path, metavar="STORE", help="*.ome.zarr")


def run(arguments: argparse.Namespace) -> int:
    """Export the stores."""
    from unglow.export.spatialdata import export_spatialdata  # noqa: PLC0415 - heavy

    export_spatialdata(image_names(arguments.stores), arguments.spatialdata)
    return 0


def image_names(stores: Sequence[Path]) -> dict[str, Path]:
    """Name each store by as few of its last path parts as tell it from the others.

    Raises
    ------
    InputError
        A store is given twice.
    """
    parts = [_plain_parts(store) for store in stores]
    for count in range(1, max(len(p) for p in parts) + 1):
        names = ["_".join(p[-count:]) for p in parts]
        if len(set(names)) == len(names):
            return dict(zip(names, stores, strict=True))
    twice = next(store for store, p in zip(stores, parts, strict=True) if parts.count(p) > 1)
    raise InputError(f"{twice} is given twice; name each store once.")


def _plain_parts(store: Path) -> list[str]:
    parts = list(store.absolute().parts[1:])
    parts[-1] = parts[-1].removesuffix(".zarr").removesuffix(".ome")
    return [re.sub(r"[^\w.-]+", "-", part) for part in parts]
