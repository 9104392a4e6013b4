"""Sources in a signal-to-noise image, by sep (SExtractor's detection), the same for any tiling.

sep gives a px on the slope between two sources to one of them by a throw of dice whose seed is the
same in each call (`rand_r` in its deblend.c), so what it throws depends on the sources before. A
family of sources that touch is therefore extracted in a call of its own.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np
import sep

from unglow.detection.connected_components import Components

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.core.windows import Window

    Floats = NDArray[np.float32]

HALO = 64
"""Sources are found whole that reach no further than this, px, and read so far around a tile."""
DEBLENDED, UNSPLIT, EXTENDED = 1, 2, 4
"""Flags: one of several that touch; too many touch to be deblended; on a larger structure."""
_CONTRAST = 0.005
"""A source is deblended if it has this share of the flux of what touches it: sep's own value."""
_LEVELS = 32
"""Levels at which sources are deblended: sep's own value. At a single one nothing is."""
_DOUBLINGS = 8
"""The threshold is doubled at most so often, less one: to 128 times the lowest."""
_ROWS = 16384
"""About so many rows of components are extracted at a time."""
_ROOM = 1000
"""Entries of sep's buffer besides those for px above the level and for a row."""
_AROUND = np.ones((3, 3), np.uint8)
_SEP_NAMES = {"x": "x", "y": "y", "col": "xcpeak", "row": "ycpeak", "area": "npix",
              "a": "a", "b": "b", "theta": "theta", "xx": "x2", "yy": "y2"}  # fmt: skip
# sep keeps the size of its buffer for the whole process, and the interpreter lock while it works.
_sep = threading.Lock()
_log = logging.getLogger(__name__)

SOURCE = np.dtype(
    [
        ("x", "f8"),
        ("y", "f8"),
        ("col", "i4"),
        ("row", "i4"),
        ("snr", "f4"),
        ("above", "f4"),
        ("area", "i4"),
        ("a", "f4"),
        ("b", "f4"),
        ("theta", "f4"),
        ("xx", "f8"),
        ("yy", "f8"),
        ("flags", "u2"),
    ]
)
"""A source: barycentre (x, y) and second moments of its signal-to-noise ratio, the px of its peak
and the ratio there, by how much it stands out, px above the threshold, ellipse (px, rad from x
towards y), flags. What lies on a larger structure stands out by what its peak is above the level
from which on it is apart from that; anything else by the whole ratio."""


def find(
    snr: Floats, threshold: float, window: Window, core: Window
) -> tuple[NDArray[np.void], int]:
    """Find the sources whose peak lies in the core of a tile.

    Components above the threshold with sides of at most `HALO` px are sources, deblended where
    several touch. In what is larger they are looked for above twice the threshold, and so on, and
    kept if they stand out from that by the threshold: a crowd, or a glow with microbes on it, hides
    nothing. All of this is the same for each tile that holds the component whole, and a tile whose
    core has a part of it does.

    Parameters
    ----------
    snr
        (rows, cols) float32 of ``window``; NaN where there is none.
    threshold
        Lowest signal-to-noise ratio.
    window
        The core with `HALO` px around it, as far as the image goes.
    core
        The part whose sources are wanted.

    Returns
    -------
    (N,) `SOURCE` in coordinates of the whole image, and the number of px of the core that are above
    the threshold and in no source: too large a structure.
    """
    inner = core.shift(-window.y0, -window.x0)
    image, corner, level = snr, (0, 0), np.float32(threshold)
    parts = []
    for step in range(_DOUBLINGS):
        components = Components.from_image(image, float(level))
        whole = components.longest <= HALO
        flags = EXTENDED if step else 0
        sources = _extract_each(components.take(whole), float(level), corner, flags)
        sources["above"] = sources["snr"] - (level if step else np.float32(0))
        parts.append(sources)
        larger = components.take(~whole)
        if not len(larger):
            break
        image, begin = larger.cut_out()
        corner = corner[0] + begin[0], corner[1] + begin[1]
        level = level * np.float32(2)
    sources = np.concatenate(parts)
    sources = sources[sources["above"] > threshold]
    in_core = (sources["row"] >= inner.y0) & (sources["row"] < inner.y1)
    in_core &= (sources["col"] >= inner.x0) & (sources["col"] < inner.x1)
    sources = sources[in_core]
    for name, first in (("x", window.x0), ("col", window.x0), ("y", window.y0), ("row", window.y0)):
        sources[name] += first
    for name in ("x", "y"):
        sources[name] = np.round(sources[name], 3)
    order = np.lexsort((sources["col"], sources["row"]))
    # what is left in the image is too large at every level
    part = inner.shift(-corner[0], -corner[1]).clip(image.shape).slices
    extended_px = int(np.count_nonzero(image[part])) if len(larger) else 0
    return sources[order], extended_px


def _extract_each(
    components: Components, level: float, corner: tuple[int, int], flags: int
) -> NDArray[np.void]:
    """Extract components of an image that begins at ``corner``, [row, col]."""
    tables = [np.zeros(0, SOURCE)]
    for part in components.parts(_ROWS):
        single = _single(part)
        # in what falls off from one peak nothing is found at any level
        for chosen, levels in ((single, 1), (~single, _LEVELS)):
            taken = part.take(chosen)
            if not len(taken):
                continue
            table, owner = _column_sources(taken, level, flags, levels)
            for name, axis in (("x", 1), ("col", 1), ("y", 0), ("row", 0)):
                table[name] += taken.boxes[owner, axis] + corner[axis]
            tables.append(table)
    return np.concatenate(tables)


def _single(part: Components) -> NDArray[np.bool_]:
    """Return which components have one px that is as bright as all around it, (N,)."""
    column, tops = part.column()
    peaks = (column > 0) & (column == cv2.dilate(column, _AROUND))
    owner = np.searchsorted(tops, np.nonzero(peaks)[0], side="right") - 1
    return np.asarray(np.bincount(owner, minlength=len(part)) == 1)


def _column_sources(
    part: Components, level: float, flags: int, levels: int
) -> tuple[NDArray[np.void], NDArray[np.intp]]:
    """Extract components, families of several sources one by one.

    Returns
    -------
    Sources in coordinates that begin with the box of their component, and which that is.
    """
    column, tops = part.column()
    try:
        found = _sep_extract(column, level, part.px, levels)
    except _TooCrowdedError:
        found = _sep_extract(column, level, part.px, 1)
        alone = np.zeros(len(found), dtype=np.bool_)
    else:
        alone = (found["flag"] & sep.OBJ_MERGED) == 0
    owner = np.searchsorted(tops, found["ycpeak"], side="right") - 1
    tables, owners = [_table(found[alone], column, flags)], [owner[alone]]
    for name in ("y", "row"):
        tables[0][name] -= tops[owners[0]]
    for family in np.unique(owner[~alone]):
        rows, cols = part.boxes[family, 2:] - part.boxes[family, :2]
        stamp = column[tops[family] : tops[family] + rows, :cols]
        tables.append(_family(stamp, level, flags))
        owners.append(np.full(len(tables[-1]), family))
    return np.concatenate(tables), np.concatenate(owners)


def _family(stamp: Floats, level: float, flags: int) -> NDArray[np.void]:
    """Extract one component, deblended if that is possible."""
    size = int(np.count_nonzero(stamp))
    try:
        found = _sep_extract(stamp, level, size, _LEVELS)
        flags |= DEBLENDED if len(found) > 1 else 0
    except _TooCrowdedError:
        found = _sep_extract(stamp, level, size, 1)
        flags |= UNSPLIT
    return _table(found, stamp, flags)


class _TooCrowdedError(Exception):
    """More sources touch than sep can deblend."""


def _sep_extract(image: Floats, level: float, above: int, levels: int) -> NDArray[np.void]:
    """Call sep on an image that holds ``above`` px above the level, without filter and cleaning."""
    with _sep:
        sep.set_extract_pixstack(above + image.shape[1] + _ROOM)
        try:
            found: NDArray[np.void] = sep.extract(
                np.ascontiguousarray(image),
                level,
                minarea=1,
                filter_kernel=None,
                deblend_nthresh=levels,
                deblend_cont=_CONTRAST,
                clean=False,
            )
        except MemoryError:
            raise
        except Exception as error:  # sep knows no other class
            if "deblend" not in str(error):
                raise
            _log.info("sep: %s", error)
            raise _TooCrowdedError from error
    return found


def _table(found: NDArray[Any], image: Floats, flags: int) -> NDArray[np.void]:
    """Return sep's table as `SOURCE`, in coordinates of the image that it was given."""
    out = np.zeros(len(found), SOURCE)
    for name, of_sep in _SEP_NAMES.items():
        out[name] = found[of_sep]
    out["snr"] = image[found["ycpeak"], found["xcpeak"]]
    out["flags"] = flags
    return out
