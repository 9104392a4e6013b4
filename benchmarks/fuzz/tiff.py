"""TIFF files: see `fuzz.tiff_seeds` and `fuzz.tiff_mutations`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tifffile

from fuzz.images import read_image
from fuzz.tiff_mutations import DAMAGES, mutated
from fuzz.tiff_seeds import make_seeds, real_seeds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fuzz.trial import Outcome
    from unglow.io.tiff import TiffHeader

__all__ = ["DAMAGES", "HARMLESS", "damage", "lay_out", "read"]
HARMLESS = ("bytes appended",)
"""Damage that is none."""
REAL = Path(__file__).resolve().parents[3] / "shared" / "data"
# Largest image, px, that is compared with what tifffile reads.
_COMPARED_PX = 50_000_000


def lay_out(folder: Path, *, made: bool) -> list[tuple[str, Path]]:
    """Write undamaged files and their pixels into a folder; return names and files.

    ``made``: whether the real files in ../shared/data are left out.
    """
    seeds = make_seeds()
    if REAL.is_dir() and not made:
        seeds += real_seeds(REAL)
    found = []
    for number, one in enumerate(seeds):
        path = folder / f"{number}{one.suffix}"
        path.write_bytes(one.data)
        if one.pixels is not None:
            np.save(_pixels(path), one.pixels)
        found.append((one.name, path))
    return found


def damage(whole: Path, how: str, rng: np.random.Generator, room: Path) -> Path:
    """Write a damaged copy of a file into a folder, and return it."""
    path = room / f"case{''.join(whole.suffixes)}"
    path.write_bytes(mutated(whole.read_bytes(), how, rng))
    return path


def read(path: Path, whole: Path, how: str, room: Path) -> Outcome:  # noqa: ARG001 - as all kinds
    """Read a damaged file and judge what came of it."""
    pixels = _pixels(whole)
    return read_image(path, room, pixels if pixels.exists() else None, _as_tifffile)


def is_known(whole: Path) -> bool:
    """Return whether the pixels of a whole file are known."""
    return _pixels(whole).exists()


def _pixels(whole: Path) -> Path:
    return whole.with_name(f"{whole.name}.npy")


def _as_tifffile(path: Path, header: TiffHeader) -> NDArray[Any] | None:
    """(channels, rows, cols) as tifffile reads them; None where unglow means to differ."""
    if header.shape[0] * header.shape[1] * len(header.channels) > _COMPARED_PX:
        return None
    with tifffile.TiffFile(path) as tif:
        series = tif.series[int(header.plane["series"] or 0)]
        page: Any = series.keyframe
        # It puts the tiles behind one that is not stored in wrong places, and undoes a predictor
        # without a codec across samples.
        plain = page.photometric not in (0, 3) and 0 not in page.databytecounts
        plain &= page.predictor == 1 or page.compression != 1
        if len(series) > 1 or header.axes or not plain:
            return None
        array = np.asarray(page.asarray())
    if page.samplesperpixel == 1 or page.planarconfig == 2:
        array = array.reshape(-1, *header.shape)
    else:
        array = np.moveaxis(array.reshape(*header.shape, page.samplesperpixel), -1, 0)
    return array.astype(header.dtype, copy=False)
