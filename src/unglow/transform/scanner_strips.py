"""Scanner strips: an image that was scanned in strips, each displaced as a whole.

Strips lie along the rows or the columns of post or of pre. Seams of post are straight in post;
those of pre are straight in pre, and are found from where the rest of the map puts a point.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.transform.matrix import apply_matrix, convert_levels

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

IMAGES = ("post", "pre")
ALONG = ("rows", "columns")
_ARRAYS = ("strips_frame", "strips_kind", "strips_seams", "strips_offsets")


@dataclass(frozen=True, eq=False)
class Strips:
    """Displacements (px of pre) of K + 1 strips, added to those of a smooth field.

    Attributes
    ----------
    image
        ``post`` or ``pre``: the image that was scanned in strips.
    along
        ``rows`` (seams are horizontal) or ``columns``.
    frame
        (3, 3) float64 map from post to the frame in which seams are straight: the identity, or
        the matrix of the transform.
    seams
        (K,) increasing positions: a strip starts at its seam. px of that image; those of pre are
        where a point is put before its strip is displaced.
    offsets
        (K + 1, 2) displacements (x, y) of the strips, px of pre; zero if there is no seam.

    Raises
    ------
    ValueError
        Anything of this does not hold.
    """

    image: str
    along: str
    frame: Floats
    seams: Floats
    offsets: Floats

    def __post_init__(self) -> None:
        if self.image not in IMAGES or self.along not in ALONG:
            raise ValueError(f"strips are along rows or columns of post or pre, not {self.name}")
        for name, shape in (
            ("frame", (3, 3)),
            ("seams", (len(self.seams),)),
            ("offsets", (len(self.seams) + 1, 2)),
        ):
            values = np.array(getattr(self, name), dtype=np.float64, order="C")
            if values.shape != shape or not np.isfinite(values).all():
                raise ValueError(f"strips need finite {name} of shape {shape}")
            values.setflags(write=False)
            object.__setattr__(self, name, values)
        if (np.diff(self.seams) <= 0).any():
            raise ValueError("seams of strips have to increase")
        # resampling knows neither a frame of post nor a strip that is all there is
        if self.image == "post" and not np.array_equal(self.frame, np.eye(3)):
            raise ValueError("strips of post have the identity as their frame")
        if not len(self.seams) and self.offsets.any():
            raise ValueError("without a seam there is nothing to displace")

    @property
    def name(self) -> str:
        """As people read it: ``rows of pre``."""
        return f"{self.along} of {self.image}"

    @property
    def axis(self) -> int:
        """The coordinate across the strips: 0 for x, 1 for y."""
        return 1 if self.along == "rows" else 0

    @property
    def jumps(self) -> Floats:
        """(K, 2) differences of neighbouring strips, px."""
        return np.diff(self.offsets, axis=0)

    def project(self, points: Floats, displaced: Floats) -> Floats:
        """Positions (N,) across the strips of points of post that a field displaces, (N, 2)."""
        at = apply_matrix(self.frame, points)[:, self.axis]
        return at + displaced[:, self.axis] if self.image == "pre" else at

    def evaluate(self, points: Floats, displaced: Floats) -> Floats:
        """Displacements (N, 2), px, of points of post that a field displaces, (N, 2)."""
        return np.asarray(self.offsets[self.index(self.project(points, displaced))])

    def index(self, across: Floats) -> NDArray[np.intp]:
        """Which strip positions across the strips are in, 0 to K, any shape."""
        return np.searchsorted(self.seams, across, side="right")

    def gap(self, across: Floats) -> Floats:
        """Distances (N,) of positions across the strips to the nearest seam, px."""
        if not len(self.seams):
            return np.full(len(across), np.inf)
        after = np.searchsorted(self.seams, across)
        last = len(self.seams) - 1
        sides = [np.abs(across - self.seams[np.clip(after - k, 0, last)]) for k in (0, 1)]
        return np.asarray(np.minimum(*sides), dtype=np.float64)

    def convert_levels(self, post: int, pre: int) -> Strips:
        """Return the strips in px of a pyramid level of ``post`` and one of ``pre``."""
        level = post if self.image == "post" else pre
        frame = self.frame
        if self.image == "pre":
            frame = convert_levels(frame, post, pre)
        seams = (self.seams - (2.0**level - 1) / 2) * 2.0**-level
        return replace(self, frame=frame, seams=seams, offsets=self.offsets * 2.0**-pre)

    def to_dict(self) -> dict[str, Any]:
        """Return what ``transform.json`` says of them."""
        return {
            "image": self.image,
            "along": self.along,
            "seams_px": [float(v) for v in self.seams],
            "offsets_px": [[float(v) for v in row] for row in self.offsets],
        }

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return arrays that `from_arrays` takes."""
        kind = np.array([IMAGES.index(self.image), ALONG.index(self.along)], dtype=np.int64)
        values = (self.frame, kind, self.seams, self.offsets)
        return dict(zip(_ARRAYS, values, strict=True))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Strips | None:
        """Build from what `arrays` gave; None if there is nothing of it."""
        if _ARRAYS[0] not in arrays:
            return None
        frame, kind, seams, offsets = (arrays[name] for name in _ARRAYS)
        return cls(IMAGES[int(kind[0])], ALONG[int(kind[1])], frame, seams, offsets)
