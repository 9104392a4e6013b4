"""Sources in a signal-to-noise image, by sep (SExtractor's detection), the same for any tiling.

sep gives a px on the slope between two sources to one of them by a throw of dice whose seed is the
same in each call (`rand_r` in its deblend.c), so what it throws depends on the sources before. A
family of sources that touch is therefore extracted in a call of its own.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import sep
from scipy import ndimage

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.blocks import Window

    Floats = NDArray[np.float32]

HALO = 64
"""Sources are found whole that reach no further than this, px, and read so far around a tile."""
DEBLENDED, UNSPLIT, EXTENDED = 1, 2, 4
"""Flags: one of several that touch; too many touch to be told apart; on a larger structure."""
_CONTRAST = 0.005
"""A source is told apart if it has this share of what touches it."""
_LEVELS = 32
"""Levels at which families are looked for; at a single one nothing is told apart."""
_DOUBLINGS = 8
_TOUCHING = np.ones((3, 3), dtype=np.int8)
_ROOM = 1000
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
and the ratio there, px above the threshold, ellipse (px, rad from x towards y), flags."""


@dataclass(frozen=True, eq=False)
class Found:
    """Sources whose peak lies in the core of a tile.

    Attributes
    ----------
    sources
        (N,) `SOURCE`, in coordinates of the whole image.
    extended_px
        px of the core that are above the threshold and in no source: too large a structure.
    """

    sources: NDArray[np.void]
    extended_px: int


def find(snr: Floats, threshold: float, window: Window, core: Window) -> Found:
    """Find the sources of a tile.

    Components above the threshold with sides of at most `HALO` px are sources, told apart where
    several touch. In what is larger they are looked for above twice the threshold, and so on: a
    crowd, or a glow with microbes on it, hides nothing. All of this is the same for each tile that
    holds the component whole, and a tile whose core has a part of it does.

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
    """
    image = np.where(np.isnan(snr), np.float32(0), snr)
    among: NDArray[np.bool_] | None = None
    parts = []
    level = np.float32(threshold)
    inner = core.shift(-window.y0, -window.x0).slices
    for step in range(_DOUBLINGS):
        above = image > level
        if among is not None:
            above &= among
        labels = np.zeros(above.shape, dtype=np.int32)
        count = int(ndimage.label(above, structure=_TOUCHING, output=labels))
        whole = np.zeros(count + 1, dtype=np.bool_)
        boxes = ndimage.find_objects(labels)
        whole[1:] = [max(s.stop - s.start for s in box) <= HALO for box in boxes]
        if whole.any():
            flags = EXTENDED if step else 0
            parts.append(_extracted(image, labels, whole, boxes, float(level), flags))
        whole[0] = True
        if whole.all():
            among = None
            break
        among = ~whole[labels]
        level = level * np.float32(2)
    sources = np.concatenate(parts) if parts else np.zeros(0, SOURCE)
    mine = (sources["row"] >= inner[0].start) & (sources["row"] < inner[0].stop)
    mine &= (sources["col"] >= inner[1].start) & (sources["col"] < inner[1].stop)
    sources = sources[mine]
    for name, first in (("x", window.x0), ("col", window.x0), ("y", window.y0), ("row", window.y0)):
        sources[name] += first
    for name in ("x", "y"):
        sources[name] = np.round(sources[name], 3)
    order = np.lexsort((sources["col"], sources["row"]))
    left = 0 if among is None else int(np.count_nonzero(among[inner]))
    return Found(sources[order], left)


def _extracted(
    image: Floats,
    labels: NDArray[np.int32],
    whole: NDArray[np.bool_],
    boxes: list[tuple[slice, ...]],
    level: float,
    flags: int,
) -> NDArray[np.void]:
    """Extract the components that are whole, families of several sources one by one."""
    wanted = whole[labels]
    only = np.where(wanted, image, np.float32(0))
    try:
        found = _sep_extract(only, level, int(np.count_nonzero(wanted)), _LEVELS)
    except _TooCrowdedError:
        found = _sep_extract(only, level, int(np.count_nonzero(wanted)), 1)
        families = np.flatnonzero(whole[1:]) + 1
        alone = np.zeros(len(found), dtype=np.bool_)
    else:
        alone = (found["flag"] & sep.OBJ_MERGED) == 0
        families = np.unique(labels[found["ycpeak"][~alone], found["xcpeak"][~alone]])
    parts = [_table(found[alone], image, flags)]
    for family in families:
        box = boxes[family - 1]
        stamp = np.where(labels[box] == family, image[box], np.float32(0))
        part = _family(stamp, level, flags)
        for name, first in (("x", box[1]), ("col", box[1]), ("y", box[0]), ("row", box[0])):
            part[name] += first.start
        parts.append(part)
    return np.concatenate(parts)


def _family(stamp: Floats, level: float, flags: int) -> NDArray[np.void]:
    """Extract one component, told apart if that is possible."""
    size = int(np.count_nonzero(stamp))
    try:
        found = _sep_extract(stamp, level, size, _LEVELS)
        flags |= DEBLENDED if len(found) > 1 else 0
    except _TooCrowdedError:
        found = _sep_extract(stamp, level, size, 1)
        flags |= UNSPLIT
    return _table(found, stamp, flags)


class _TooCrowdedError(Exception):
    """More sources touch than sep can tell apart."""


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
    """Return what is wanted of sep's table, in coordinates of the image that it saw."""
    out = np.zeros(len(found), SOURCE)
    names = {"x": "x", "y": "y", "col": "xcpeak", "row": "ycpeak", "area": "npix",
             "a": "a", "b": "b", "theta": "theta", "xx": "x2", "yy": "y2"}  # fmt: skip
    for name, theirs in names.items():
        out[name] = found[theirs]
    out["snr"] = image[found["ycpeak"], found["xcpeak"]]
    out["flags"] = flags
    return out
