"""How much of the section is not stored in the images of a pair, and what follows from it.

Writers leave out tiles and chunks outside of the section on purpose, which is no fault. So only
what lies on the section counts, and each image shows where it is in the gaps of the other one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from unglow.core import shapes
from unglow.core.rounding import percent
from unglow.core.windows import Window, coarse_level
from unglow.detection.section_mask import section_mask
from unglow.io.stored_values import LEAST_SHARE, MOST_SHARE, NotStored, mask_not_stored
from unglow.transform import apply_matrix, to_level0

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.io.zarr import Store
    from unglow.transform import Transform

    Bools = NDArray[np.bool_]
    Floats = NDArray[np.float64]

_AROUND = 2
"""Where nothing is stored, an image is taken to be as bright as so near to it, px of a small image:
writers leave some glass around the section."""
_SIDE = 512
"""Side of the small images that the section is found on, px."""
_RIM = 3
"""The outline is closed and blurred by about this many px of a small image."""


@dataclass(frozen=True, eq=False)
class _Seen:
    """Where an image of a pair shows the section, and where it stores nothing.

    Attributes
    ----------
    shape
        (rows, columns) of level 0, px.
    level
        Pyramid level of the masks.
    section, missing
        (rows, cols) bool.
    """

    shape: tuple[int, int]
    level: int
    section: Bools
    missing: Bools

    @classmethod
    def of(cls, store: Store) -> _Seen:
        level = min(coarse_level((store.shape,), _SIDE), store.levels - 1)
        window = Window.from_shape(store.level_shape(level))
        image = mask_not_stored(store, store.attributes).read(window, level).astype(np.float32)
        missing = _centres(store, level) | np.isnan(image)
        around = image[shapes.grow(missing, _AROUND) & ~missing]
        # glass, where writers leave out what is around the section; else as even as glass
        image[missing] = np.median(around) if around.size else 0
        section = shapes.shrink(section_mask(image), _RIM)
        return cls(store.shape, level, section, _centres(store, level))

    def at(self, mask: Bools, points: Floats) -> Bools:
        """Look a mask up at points (N, 2) (x, y), level-0 px; False outside of the image."""
        col, row = np.floor(np.nan_to_num(points.T + 0.5, nan=-1.0)).astype(np.int64)
        inside = (col >= 0) & (row >= 0) & (row < self.shape[0]) & (col < self.shape[1])
        rows, cols = mask.shape
        row = np.clip(row >> self.level, 0, rows - 1)
        col = np.clip(col >> self.level, 0, cols - 1)
        return np.asarray(inside & mask[row, col])


def _centres(store: Store, level: int) -> Bools:
    """Return which px of a level have centres where nothing is stored."""
    out = np.zeros(store.level_shape(level), np.bool_)
    lacking = NotStored.from_attributes(store.attributes)
    half = 2**level // 2
    for w in () if lacking is None else lacking.rectangles:
        y0, y1, x0, x1 = ((n + half) >> level for n in (w.y0, w.y1, w.x0, w.x1))
        out[y0:y1, x0:x1] = True
    return out


def judge(post: Store, pre: Store, found: Transform) -> tuple[list[str], bool]:
    """Say what share of the section each image of a registered pair does not store.

    Returns
    -------
    A sentence for each image of which that is more than a thousandth; and whether it is too much
    (`MOST_SHARE`) for the pair to be used.
    """
    seen = _Seen.of(post), _Seen.of(pre)
    rows, cols = np.indices(seen[0].section.shape)
    small = np.column_stack([cols.ravel(), rows.ravel()]).astype(np.float64)
    points = apply_matrix(to_level0(seen[0].level), small)
    mapped = found.map(points)
    missing = seen[0].missing.ravel(), seen[1].at(seen[1].missing, mapped)
    shown = seen[0].section.ravel(), seen[1].at(seen[1].section, mapped)
    # the outline of an image with large gaps may take glass for section: the other one knows
    section = np.where(missing[0] | missing[1], shown[0] | shown[1], shown[0] & shown[1])
    total = max(1, int(np.count_nonzero(section)))
    shares = [float(np.count_nonzero(section & one)) / total for one in missing]
    either = float(np.count_nonzero(section & (missing[0] | missing[1]))) / total
    too_much = either > MOST_SHARE
    sentences = [
        _sentence(store, share, too_much=too_much)
        for store, share in zip((post, pre), shares, strict=True)
        if share > LEAST_SHARE
    ]
    return sentences, too_much


def _sentence(store: Store, share: float, *, too_much: bool) -> str:
    """Say how much of the section an image does not store."""
    lacking = NotStored.from_attributes(store.attributes)
    if lacking is None:  # its share is 0
        return ""
    on_section = f"{percent(share)} of the section lies there"
    if too_much:
        remedy = "copy the file again from its source, or write it again"
        return f"{lacking.description}, and {on_section}: {remedy}."
    return (
        f"{lacking.description}. {on_section} and is left out: "
        "copy the file again if it was cut off."
    )
